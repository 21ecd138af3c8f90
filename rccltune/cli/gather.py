"""``rccltune gather``: what can be sent to us, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import Console, common, table, talk
from rccltune.cli.help import verb
from rccltune.cli.options import FOLDER
from rccltune.model import CommandLineError, lay

if TYPE_CHECKING:
    from rccltune.session import Archive


_KINDS = ("host", "user", "address", "identity", "secret", "value")
_MOST = 20


@verb("gather")
@click.argument("paths", nargs=-1, type=FOLDER, metavar="[SESSION|LOG]...")
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    default=Path("rccltune-gathered.tar.gz"),
    show_default=True,
    help="The archive.",
)
@click.option("--machine", is_flag=True, help="Describe this machine beside the sessions.")
@click.option("-y", "--yes", is_flag=True, help="Write without asking.")
@click.option("--force", is_flag=True, help="Replace an archive that is there.")
@common
def gather(
    *,
    console: Console,
    paths: tuple[Path, ...],
    output: Path,
    machine: bool,
    yes: bool,
    force: bool,
) -> None:
    """Make one archive to send: sessions, logs, or a description of this machine.

    Without SESSION it holds this machine as detect and doctor see it. Names of hosts and users,
    addresses, serial numbers, keys and passwords are replaced, equal ones by equal ones, so that
    fit, report and emit-config still work on it. Only listed files and variables are taken.

    It shows what is in it and asks before it writes. Nothing is sent. -v shows which name became
    which. Nothing of a session is started.

    \b
    Example:
      rccltune gather
      rccltune gather rccltune-session -o for-them.tar.gz
      rccltune gather job.log --yes

    Exit codes: 0 done, also when the answer is no; 2 no terminal to ask on (--yes), or the file is
    there (--force); 7 no session, or a full disk.
    """
    from rccltune import session

    if output.exists() and not force:
        raise session.taken(output)
    wanted = _this_machine if machine or not paths else None
    with session.gathered(paths, this_machine=wanted, text_of=_text) as archive:
        console.result(archive.as_plain(), _text(archive))
        for name, alias in archive.names:
            console.detail(f"{alias}: {name}")
        if yes or _agreed(output):
            nbytes = session.write(archive, output, force=force)
            console.say(f"{output}: {nbytes / 1e3:.0f} kB. Nothing was sent.")
            console.say("Next: look into it, then attach it to an issue.")


def _agreed(output: Path) -> bool:
    """Whether it may be written.

    Raises:
        CommandLineError: nobody is there to say so.
    """
    if not sys.stdin.isatty():
        raise CommandLineError(
            "nothing was written: there is no terminal to ask on",
            hint="read the list above, then give --yes.",
        )
    if click.confirm(f"Write this to {output}?", err=True):
        return True
    talk("Nothing was written.")
    return False


def _this_machine() -> Mapping[str, object]:
    """What detect and doctor say here."""
    import os

    from rccltune.machine import (
        as_plain,
        circumstances,
        doctor,
        finding_as_plain,
        here,
        situations,
    )

    system = here(None, None)
    findings = doctor(circumstances(system, live=True))
    return {
        "detect.json": as_plain(system, situations(system, os.environ)),
        "doctor.json": {"format": 1, "findings": [finding_as_plain(one) for one in findings]},
    }


def _text(archive: Archive) -> str:
    """What it holds, what was replaced, what is missing."""
    rows = [
        (row.what, str(row.n_files), f"{row.nbytes:,}", *_counts(row.replaced))
        for row in archive.rows.values()
    ]
    rows.append(("in all", "", "", *_counts(archive.replaced)))
    columns = ("what", "files", "bytes", "hosts", "users", "addresses", "ids", "secrets", "values")
    lines: list[str] = [table(columns, rows, range(1, 9))]
    lines.append(f"Variables: {', '.join(sorted(archive.kept)) or 'none'}")
    lines.append(f"Variables left out, names and values: {len(archive.dropped)}")
    lines += _left_out(archive)
    return lay(lines)


def _counts(replaced: Mapping[str, int]) -> list[str]:
    return [str(replaced.get(kind, 0) or "–") for kind in _KINDS]


def _left_out(archive: Archive) -> list[str]:
    """Each by name but those that only a run itself needs, which no reader misses."""
    from rccltune.gather.contents import PASSED

    if not archive.left_out:
        return ["Files left out: none"]
    named = [(name, why) for name, why in archive.left_out if why != PASSED]
    lines = [f"Files left out: {len(archive.left_out)}"]
    lines += [f"  {name}: {why}" for name, why in named[:_MOST]]
    if len(named) > _MOST:
        lines.append(f"  and {len(named) - _MOST} more")
    if len(archive.left_out) > len(named):
        lines.append(f"  {len(archive.left_out) - len(named)} {PASSED} (run-id, clock …)")
    return lines
