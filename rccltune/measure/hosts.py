"""Several hosts, asked what they are before anything is measured: they are alike, or none.

Each runs under the launcher, the host file, the environment and the number of ranks of the sweep:
a shell first, which finds out what every host can see at all, so that no host is waited for that
has no rccltune; then ranks that meet through mpi4py. Where they cannot, each rank prints its own
answer.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import rccltune
from rccltune import plugin
from rccltune.launch import launch_processes, process
from rccltune.launch.variables import launch_environment, module
from rccltune.machine import software
from rccltune.machine.hosts import (
    Host,
    RankReport,
    as_asked,
    differences,
    merged,
    named_hosts,
    read_lines,
    table_of,
)
from rccltune.measure.site import Site
from rccltune.model import schema
from rccltune.model.errors import MachineError
from rccltune.model.reporter import Reporter
from rccltune.model.schema import Whole
from rccltune.model.vocabulary import join_lines
from rccltune.session import store
from rccltune.session.files import write_atomically

# Ranks that cannot meet wait for each other; a host file's worth of them must not take an hour.
_LEAST_S: Final = 60.0
_EACH_S: Final = 0.1
_MOST_S: Final = 300.0
_PROGRAM: Final = "rccltune.measure.host_report"
_NO_MPI: Final = re.compile(r"RCCLTUNE-NO-MPI (.*)")
_ERROR: Final = re.compile(r"^\w*(?:Error|Exception)\b.*$", re.MULTILINE)
_REACH: Final = "RCCLTUNE-REACH"
_SEEN: Final = re.compile(rf"{_REACH} (\S+)((?: \d+)*) end")
# Says which of its arguments are not there, in one write, and lives for half a second.
_LOOKS: Final = (
    'i=0; m=; for f do i=$((i+1)); [ -e "$f" ] || m="$m $i"; done; sleep 0.5; '
    f'echo "{_REACH} $(uname -n)$m end"'
)
_OWN_JOBS: Final = {
    # Any folder may be the working directory there, with modules of any name.
    "PYTHONSAFEPATH": "1",
    # Open MPI's ranks otherwise burn the cores that those need which still start.
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
_LIBMPI: Final = ("libmpi.so.40", "libmpi.so.12", "libmpi.so")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank0Report:
    """What rank 0 says for all."""

    n_ranks: Whole
    hosts: tuple[Host, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _NeededFile:
    """A file that hosts must see.

    Attributes:
        lacking: what it means where it is not there.
        hint: what to do then; None where the sweep can do without.
    """

    path: Path
    lacking: str
    hint: str | None


def ask_hosts(
    site: Site, where: Path, *, reporter: Reporter, rules: Path | None
) -> tuple[tuple[Host, ...], str | None]:
    """What every host is, and why that was not said through mpi4py; None where it was.

    Args:
        site: where launches run.
        where: a folder that all hosts must share.
        reporter: told why mpi4py was not used.
        rules: a rule file that ranks will read.

    Raises:
        MachineError: hosts do not see the folder, lack something, or do not answer.
    """
    # Of a folder with the same name on another disk it is not known that it is this one.
    token = where / f"seen-{uuid.uuid4().hex}"
    write_atomically(token, "")
    try:
        reason = _look(site, where, token, rules)
    finally:
        token.unlink(missing_ok=True)
    question = where / "question.json"
    write_atomically(question, store.dump_json(_question(site, rules)))
    if reason is None:
        found, reason = _met(site, where, question)
        if found is not None:
            return found, None
    reporter.say(
        f"The ranks did not meet through mpi4py: {reason}. Hosts are compared by what each rank "
        f"prints; for mpi4py install rccltune[mpi] on every host, for {_mpi(site)}"
    )
    return _printed(site, where, question), reason


def _question(site: Site, rules: Path | None) -> dict[str, Any]:
    seen = launch_environment(os.environ, site.environment, clear=site.cleared)
    # Where the loader tells of it here, it is to tell on every host.
    told = software.library_of(site.files[0], seen.variables)
    return {
        "programs": [str(path) for path in site.files],
        "librccl": str(site.library_file) if site.library_file and told is None else None,
        "files": {
            "plugin": str(plugin.library()),
            **({"rules": str(rules.resolve())} if rules is not None else {}),
        },
    }


def _look(site: Site, where: Path, token: Path, rules: Path | None) -> str | None:
    """Let a shell on every host look for what is needed.

    Returns:
        Why mpi4py cannot be used, None where nothing is known against it.

    Raises:
        MachineError: a host lacks what it cannot do without.
    """
    spec = importlib.util.find_spec("mpi4py")
    needed = _needed(site, token, rules)
    if spec is not None and spec.origin is not None:
        needed.append(_NeededFile(path=Path(spec.origin), lacking="no mpi4py", hint=None))
    program = ("/bin/sh", "-c", _LOOKS, "rccltune", *(str(one.path) for one in needed))
    ran = _run(site, where / "look", program)
    said = _SEEN.findall(ran.text)
    started = site.seating.n_started
    if len(said) != started:
        command = site.launcher.argv(started, ("hostname",), hostfile=site.hostfile)
        raise MachineError(
            f"{len(said)} of {started} ranks on {len(site.hosts)} hosts answered: {ran.reason}",
            where=str(where / "look" / "stderr.log"),
            hint=f"mend this until it works: {shlex.join(command)}",
        )
    for number, one in enumerate(needed, start=1):
        lacking = [host for host, numbers in said if str(number) in numbers.split()]
        if not lacking:
            continue
        told = f"{named_hosts(lacking)}: {one.lacking}"
        if one.hint is None:
            return told
        raise MachineError(told, where=str(one.path), hint=one.hint)
    return "it is not installed here" if spec is None else None


def _needed(site: Site, token: Path, rules: Path | None) -> list[_NeededFile]:
    here = "install it at the same path on every host, or on a file system that all share."
    files = [
        _NeededFile(
            path=token,
            lacking="the session folder is not seen there, or another one of the same name",
            hint="put it on a file system that all hosts share with -o SESSION; /tmp is mostly "
            "each host's own.",
        ),
        _NeededFile(path=Path(sys.executable), lacking="no Python to ask with", hint=here),
        _NeededFile(path=Path(rccltune.__file__), lacking="no rccltune", hint=here),
        _NeededFile(path=plugin.library(), lacking="no plugin of rccltune", hint=here),
        *(_NeededFile(path=path, lacking=f"no {path.name}", hint=here) for path in site.files),
    ]
    if rules is not None:
        files.append(_NeededFile(path=rules.resolve(), lacking="no rule file", hint=here))
    return files


def _met(site: Site, where: Path, question: Path) -> tuple[tuple[Host, ...] | None, str | None]:
    """What rank 0 printed for all, or why there is no such thing."""
    ran = _run(site, where / "mpi", _command("mpi", question))
    answers = _read(ran.text, _Rank0Report, where)
    if len(answers) == 1 and answers[0].n_ranks == site.seating.n_started:
        return answers[0].hosts, None
    if answers:
        return None, (
            f"{sum(one.n_ranks for one in answers)} ranks made {len(answers)} jobs: mpi4py "
            "there is built for another MPI than this launcher's, or srun needs SLURM_MPI_TYPE"
        )
    refused = _NO_MPI.search(ran.errors)
    return None, refused[1] if refused is not None else ran.reason


def _read(text: str, kind: type[T], where: Path) -> list[T]:
    """What ranks said.

    Raises:
        MachineError: it is not what they are asked for.
    """
    hint = "the rccltune of every host must be this one."
    answers = read_lines(text)
    return [schema.read_json(kind, one, str(where), hint, fails=MachineError) for one in answers]


def _printed(site: Site, where: Path, question: Path) -> tuple[Host, ...]:
    """What every rank printed for itself.

    Raises:
        MachineError: a rank is missing.
    """
    ran = _run(site, where / "lines", _command("lines", question))
    answers = _read(ran.text, RankReport, where)
    if len(answers) != site.seating.n_started:
        raise MachineError(
            f"{len(answers)} of {site.seating.n_started} ranks said what their host is: "
            f"{ran.reason}",
            where=str(where / "lines" / "stderr.log"),
            hint="the Python of this rccltune must start on every host, with what it imports.",
        )
    return merged(answers)


def _command(how: str, question: Path) -> tuple[str, ...]:
    return (*module(sys.executable, _PROGRAM), how, str(question))


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobOutput:
    """What a job printed."""

    text: str
    errors: str
    limit_s: float
    timed_out: bool

    @property
    def reason(self) -> str:
        """Why it did not do what it was to do: the first words that say something."""
        if self.timed_out:
            return f"they were not done in {self.limit_s:.0f} s"
        # Of a traceback the end says it.
        ends = _ERROR.findall(self.errors)
        paragraphs = re.split(r"-{20,}|\n\s*\n", ends[-1] if ends else self.errors)
        words = (" ".join(part.split()) for part in paragraphs)
        return next((text[:300] for text in words if text), "nothing was said")


def _run(site: Site, where: Path, program: tuple[str, ...]) -> _JobOutput:
    """Start a program as launches are started, on every rank."""
    where.mkdir(exist_ok=True)
    own = {**_OWN_JOBS, **_libmpi(site.launcher.program)}
    # The site's own goes first, and other hosts must have it too.
    added = [(name, os.environ.get(name, value)) for name, value in own.items()]
    seen = launch_environment(os.environ, [*added, *site.environment], clear=site.cleared)
    names = {name for name, _ in (*seen.added, *seen.passed)}
    options, variables = site.launcher.carry(
        {*names, launch_processes.TAG}, {**seen.variables, launch_processes.TAG: ""}
    )
    started = site.seating.n_started
    argv = site.launcher.argv(started, program, bind=site.binding, hostfile=site.hostfile)
    limit_s = min(_MOST_S, _LEAST_S + _EACH_S * started)
    ending = process.run(
        process.LaunchCommand(
            argv=(argv[0], *options, *argv[1:]),
            variables=variables,
            folder=where,
            timeout_s=limit_s,
            is_complete=lambda _: False,
        )
    )
    text, errors = (
        (where / name).read_text(errors="replace") for name in ("stdout.log", "stderr.log")
    )
    return _JobOutput(text=text, errors=errors, limit_s=limit_s, timed_out=ending.timed_out)


def _mpi(site: Site) -> str:
    """The MPI that ranks are to meet through: the benchmark's, else the launcher's first."""
    linked = software.linked_mpi(site.files[0])
    families = sorted(site.launcher.families)
    return linked if linked in families else families[-1]


def _libmpi(program: Path | None) -> dict[str, str]:
    """Lets mpi4py, whose wheels fit several MPIs, load that of the launcher; srun brings none."""
    folders = [program.resolve().parents[1] / name for name in ("lib", "lib64")] if program else []
    files = [folder / name for folder in folders for name in _LIBMPI]
    found = next((path for path in files if path.exists()), None)
    return {"MPI4PY_LIBMPI": str(found)} if found is not None else {}


HOSTS_FILE: Final = "hosts.json"
_FOLDER: Final = "hosts"
# The launcher puts folders of its own before these.
_OWN: Final = ("PATH", "LD_LIBRARY_PATH")


def same_hosts(
    site: Site, folder: Path, *, reporter: Reporter, rules: Path | None = None, force: bool = False
) -> tuple[Host, ...]:
    """Ask all hosts that ranks are put on what they are, and stop where they differ.

    Args:
        site: where launches run; with one host, or none named, nothing is started.
        folder: the session, which must be on a file system that all hosts share.
        reporter: told how they were asked.
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
    found, reason = ask_hosts(site, where, reporter=reporter, rules=rules)
    _keep(folder, found, reason)
    _judge(site, folder, found, reporter=reporter, force=force)
    return found


def _keep(folder: Path, found: Sequence[Host], reason: str | None) -> None:
    store.write_derived(
        folder,
        HOSTS_FILE,
        {
            "format": 1,
            "met_through": "mpi4py" if reason is None else "the launcher's output",
            "why_not_mpi4py": reason,
            "hosts": schema.to_plain(tuple(found)),
        },
    )


def _judge(
    site: Site, folder: Path, found: Sequence[Host], *, reporter: Reporter, force: bool
) -> None:
    if len(found) != len(site.hosts):
        raise MachineError(
            f"the host file names {len(site.hosts)} hosts "
            f"({named_hosts(site.hosts)}), and ranks "
            f"run on {len(found)} ({named_hosts(_names(found))})",
            where=str(site.hostfile),
            hint="name each host once: the library counts hosts by their own names, and rules are "
            "for the number that it counts.",
        )
    differing = differences(found)
    wanted = {name: value for name, value in site.environment if name not in _OWN}
    but = [one.what for one in differing]
    differing = (*differing, *as_asked(found, wanted, but))
    if not differing:
        reporter.say(f"{len(found)} hosts are alike: {named_hosts(_names(found))}")
        return
    text = join_lines(["the hosts are not alike:", table_of(differing)])
    if force:
        reporter.say(join_lines(["Measured all the same: ", text], gap=""))
        return
    raise MachineError(
        text,
        where=str(folder / HOSTS_FILE),
        hint="make them alike, or leave the odd hosts out of the host file; --force measures all "
        "the same, and nothing then says which host a time is of.",
    )


def _names(found: Iterable[Host]) -> list[str]:
    return [host.name for host in found]
