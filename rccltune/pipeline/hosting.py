"""Several hosts before anything is measured: a sweep is of alike hosts, or of none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rccltune import hosts, session
from rccltune.errors import MachineError
from rccltune.hosts import Host
from rccltune.pipeline.asking import ask
from rccltune.pipeline.site import Site
from rccltune.reporter import Note
from rccltune.showing import lay

HOSTS_FILE: Final = "hosts.json"
_FOLDER: Final = "hosts"
# The launcher puts folders of its own before these.
_OWN: Final = ("PATH", "LD_LIBRARY_PATH")


def same_hosts(
    site: Site, folder: Path, *, note: Note, rules: Path | None = None, force: bool = False
) -> tuple[Host, ...]:
    """Ask all hosts that ranks are put on what they are, and stop where they differ.

    Args:
        site: where launches run; with one host, or none named, nothing is started.
        folder: the session, which must be on a file system that all hosts share.
        note: told how they were asked.
        rules: a rule file that ranks will read.
        force: go on though hosts differ, which is then told.

    Raises:
        MachineError: hosts do not see the session, have no rccltune, do not answer, are not as
            many as were named, or differ; the table names them.
    """
    if len(site.hosts) < 2:
        return ()
    where = folder.resolve() / _FOLDER
    where.mkdir(exist_ok=True)
    found, reason = ask(site, where, note=note, rules=rules)
    _keep(folder, found, reason)
    _judge(site, folder, found, note=note, force=force)
    return found


def _keep(folder: Path, found: Sequence[Host], reason: str | None) -> None:
    session.write_derived(
        folder,
        HOSTS_FILE,
        {
            "format": 1,
            "met_through": "mpi4py" if reason is None else "the launcher's output",
            "why_not_mpi4py": reason,
            "hosts": session.to_plain(tuple(found)),
        },
    )


def _judge(site: Site, folder: Path, found: Sequence[Host], *, note: Note, force: bool) -> None:
    if len(found) != len(site.hosts):
        raise MachineError(
            f"the host file names {len(site.hosts)} hosts ({hosts.named(site.hosts)}), and ranks "
            f"run on {len(found)} ({hosts.named(_names(found))})",
            where=str(site.hostfile),
            hint="name each host once: the library counts hosts by their own names, and rules are "
            "for the number that it counts.",
        )
    differing = hosts.differences(found)
    wanted = {name: value for name, value in site.environment if name not in _OWN}
    but = [one.what for one in differing]
    differing = (*differing, *hosts.as_asked(found, wanted, but))
    if not differing:
        note(f"{len(found)} hosts are alike: {hosts.named(_names(found))}")
        return
    text = lay(["the hosts are not alike:", hosts.table_of(differing)])
    if force:
        note(lay(["Measured all the same: ", text], gap=""))
        return
    raise MachineError(
        text,
        where=str(folder / HOSTS_FILE),
        hint="make them alike, or leave the odd hosts out of the host file; --force measures all "
        "the same, and nothing then says which host a time is of.",
    )


def _names(found: Iterable[Host]) -> list[str]:
    return [host.name for host in found]
