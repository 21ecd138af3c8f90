"""One run of the rank program: started on every rank, watched, and certainly ended.

On one node the program starts its ranks itself; over several a launcher does. Its folder holds
what was started (run.json), the plan, a file of rows for each rank, what all said (log.txt), and
last how it ended (ending.json): a folder without one is of a run that was interrupted.
"""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from rccltune import plugin
from rccltune.launch import launch_processes, process
from rccltune.launch.launchers import Launcher
from rccltune.launch.variables import CHANNELS, CLEARED, LaunchEnvironment, launch_environment
from rccltune.model import schema, vocabulary
from rccltune.model.errors import MachineError, SessionError, reason_of
from rccltune.model.settings import RankLocation
from rccltune.perf import failures, plan, runs
from rccltune.perf.plan import Communicators
from rccltune.perf.runs import PerfRun, RunFile

# Until the first row: libraries load and connections are made, slower with more ranks.
_START_S: Final = 120.0
_START_EACH_S: Final = 2.0
STALLED_S: Final = 60.0
_ALL_RANKS: Final = "RCCLTUNE_PERF_TOKEN"
# The first would join two sessions of one host by its port; the others are ours to say.
_NEVER: Final = ("NCCL_COMM_ID", "RCCLTUNE_SIM_*", "RCCLTUNE_PERF_*")
_SHORTEST_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryUnderTest:
    """The library that is measured, and the runtime under it.

    Attributes:
        runtime: None where the library brings its own.
        version: ``RCCL 2.27.7``, None where the file does not say.
        what: where it was found, for people.
        starts: what stands before the rank program on its command line: the library's own loader.
        needs: variables without which it does not run.
    """

    file: Path
    runtime: Path | None = None
    version: str | None = None
    what: str = ""
    starts: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSetup:
    """Where ranks run, and with what.

    Attributes:
        place: of the ranks of a communicator.
        launcher: with no program of its own, ranks are started here by the rank program.
        added: variables of every run, baseline included.
        cleared: names that would count within the placement of ranks.
        simulated: noise and times are a node file's.
        bind: whether ranks bind themselves to their GPU's NUMA node.
        stalled_s: how long no rank may finish a step.
        host_ids: of each rank, where one host plays several; empty otherwise.
    """

    library: LibraryUnderTest
    place: RankLocation
    launcher: Launcher
    hostfile: Path | None = None
    added: tuple[tuple[str, str], ...] = ()
    cleared: tuple[str, ...] = ()
    simulated: bool = False
    bind: bool = True
    stalled_s: float = STALLED_S
    host_ids: tuple[str, ...] = ()

    @property
    def n_ranks(self) -> int:
        """Ranks of the communicator."""
        return self.place.scale.n_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What one run is for.

    Attributes:
        number_of: which of several processes that measure the same, from 0.
        communicators: which of its communicators these are, from 0.
        plugin: whether our plugin answers; otherwise the site is as it is.
        said: whether the library's log is read for what ran.
    """

    purpose: str
    number_of: int
    communicators: tuple[int, ...]
    plugin: bool
    said: bool


def program() -> Path:
    """Absolute path of the rank program.

    Raises:
        MachineError: it is not in this install.
    """
    path = plugin.native_folder() / runs.PROGRAM
    if not path.is_file():
        raise MachineError(
            "the rank program is missing", where=str(path), hint="install rccltune again."
        )
    return path.resolve()


def environment_of(
    ground: LaunchSetup, order: RunRequest, site: Mapping[str, str], token: str
) -> LaunchEnvironment:
    """What every rank of a run sees.

    Where our plugin answers, what chooses is cleared, but for channels and threads, which no tuner
    can give back; without it nothing is. All else passes, so that interfaces and transports
    are those of the site.

    Args:
        ground: where.
        order: what for.
        site: the environment of rccltune itself.
        token: by which ranks of this run know each other.
    """
    added = [*ground.library.needs, *ground.added, (_ALL_RANKS, token)]
    if ground.simulated:
        who = "plugin" if order.plugin else "site"
        added.append(("RCCLTUNE_SIM_LAUNCH", f"{order.purpose} {who} {order.number_of}"))
    return launch_environment(
        site,
        added,
        clear=(*_NEVER, *ground.cleared),
        keep=CHANNELS if order.plugin else CLEARED,
    )


def argv_of(
    ground: LaunchSetup, order: RunRequest, folder: Path, seen: LaunchEnvironment
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Command line of a run, and the environment that it is started with.

    Args:
        ground: where.
        order: what for.
        folder: absolute, of the run.
        seen: what every rank is to see.
    """
    n_ranks = ground.n_ranks
    here = ground.launcher.program is None
    words = [*ground.library.starts, str(program())]
    words += ["--start", str(n_ranks)] if here and not ground.host_ids else []
    words += ["--folder", str(folder), "--plan", str(folder / runs.PLAN_FILE)]
    words += ["--library", str(ground.library.file)]
    if ground.library.runtime is not None:
        words += ["--runtime", str(ground.library.runtime)]
    if order.plugin:
        words += ["--plugin", str(plugin.library())]
    words += ["--said"] * order.said
    words += [] if ground.bind else ["--bind", "none"]
    if ground.host_ids:
        script = folder / "start.sh"
        _write(script, _one_by_one(words, ground.host_ids))
        # The script has all of it; the words are for whoever reads run.json.
        return ("/bin/sh", str(script), *words), seen.variables
    if here:
        return tuple(words), seen.variables
    names = {name for name, _ in (*seen.added, *seen.passed)}
    options, variables = ground.launcher.carry(
        {*names, launch_processes.TAG}, {**seen.variables, launch_processes.TAG: ""}
    )
    argv = ground.launcher.argv(n_ranks, tuple(words), bind="none", hostfile=ground.hostfile)
    return (argv[0], *options, *argv[1:]), variables


def _one_by_one(words: Sequence[str], host_ids: Sequence[str]) -> str:
    """A script that starts each rank with the host that it plays on, and fails where one does."""
    lines = ["ranks="]
    locals_: Counter[str] = Counter()
    for rank, host in enumerate(host_ids):
        own = (*words, "--rank", str(rank), "--ranks", str(len(host_ids)))
        command = shlex.join((*own, "--local-rank", str(locals_[host])))
        lines.append(f'NCCL_HOSTID={shlex.quote(host)} {command} & ranks="$ranks $!"')
        locals_[host] += 1
    lines.append("code=0; for rank in $ranks; do wait $rank || code=$?; done; exit $code")
    return "\n".join([*lines, ""])


def run_ranks(
    ground: LaunchSetup,
    order: RunRequest,
    communicators: Communicators,
    session: Path,
    *,
    site: Mapping[str, str],
    most_s: float | None = None,
    grown: Callable[[int], None] = lambda _: None,
) -> PerfRun:
    """Start all ranks, wait until they end or nothing goes on, and keep how it ended.

    Args:
        ground: where.
        order: what for.
        communicators: steps of each.
        session: in which the run gets a folder.
        site: the environment of rccltune itself.
        most_s: seconds that are left for it, None for as many as it takes.
        grown: told now and then how many steps rank 0 has finished.

    Raises:
        MachineError: the program cannot be started.
        SessionError: the disk refuses.
        LaunchError: a process cannot be killed (it hangs in the driver).
        KeyboardInterrupt: after everything that was started is gone.
    """
    token = secrets.token_hex(16)
    number = max(runs.numbers(session), default=0) + 1
    folder = _made(session, number)
    seen = environment_of(ground, order, site, token)
    argv, variables = argv_of(ground, order, folder, seen)
    _write(folder / runs.PLAN_FILE, plan.plan_text(communicators))
    file = RunFile(
        process=token[:12],
        purpose=order.purpose,
        number_of=order.number_of,
        communicators=order.communicators,
        plugin=order.plugin,
        said=order.said,
        n_nodes=ground.place.scale.n_nodes,
        n_ranks=ground.n_ranks,
        rank_placement=ground.place.name,
        library=str(ground.library.file),
        library_version=ground.library.version,
        runtime=None if ground.library.runtime is None else str(ground.library.runtime),
        argv=argv,
        added=_told(seen.added),
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    _write_json(folder / runs.ENVIRONMENT_FILE, _variables(seen))
    _write_json(folder / runs.RUN_FILE, schema.to_plain(file))
    watch = _StallWatch(ground, grown)
    limit_s = 10 * 365 * 86_400.0 if most_s is None else max(most_s, _SHORTEST_S)
    ending = process.run(
        process.LaunchCommand(
            argv=argv,
            variables=variables,
            folder=folder,
            timeout_s=limit_s,
            is_complete=lambda _: False,
            stalled=watch.is_stalled,
            log=runs.LOG_FILE,
        )
    )
    made = runs.read_run(folder)
    end = failures.end_of_run(made, ending, stalled=watch.stalled)
    _write_json(folder / runs.END_FILE, schema.to_plain(end))
    return replace(made, ended=end)


def _told(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Variables that may be told: who knows the ranks' word could join them."""
    return tuple(pair for pair in pairs if pair[0] != _ALL_RANKS)


def _variables(seen: LaunchEnvironment) -> dict[str, Any]:
    """environment.json, as launches have it."""
    return {
        "cleared": dict(seen.cleared),
        "passed": dict(seen.passed),
        "added": dict(_told(seen.added)),
        "files": [],
    }


class _StallWatch:
    """Whether rows still come: asked once a second, of their files' sizes alone."""

    def __init__(self, ground: LaunchSetup, grown: Callable[[int], None]) -> None:
        self.stalled = False
        self._grown = grown
        self._start_s = _START_S + _START_EACH_S * ground.n_ranks
        self._row_s = ground.stalled_s
        self._ranks = range(ground.n_ranks)
        self._n_bytes = 0
        self._since = time.monotonic()
        self._has_row = False

    def is_stalled(self, folder: Path) -> bool:
        """Whether no rank has written anything for too long."""
        now = time.monotonic()
        n_bytes = sum(_size(folder / f"rank-{rank}.csv") for rank in self._ranks)
        if n_bytes != self._n_bytes:
            self._n_bytes, self._since = n_bytes, now
            n_rows = _n_rows(folder / "rank-0.csv")
            self._has_row = self._has_row or n_rows > 0
            self._grown(n_rows)
        self.stalled = now - self._since > (self._row_s if self._has_row else self._start_s)
        return self.stalled


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _n_rows(path: Path) -> int:
    try:
        text = path.read_bytes()
    except OSError:
        return 0
    return sum(line[:1].isdigit() for line in text.split(b"\n")[:-1])


def _made(session: Path, number: int) -> Path:
    """A new folder; one that a run left before it said what it was is taken over."""
    folder = (session / runs.FOLDER / str(number)).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            left.unlink()
    except OSError as error:
        raise _full(folder, error) from error
    return folder


def _write_json(path: Path, plain: object) -> None:
    _write(path, vocabulary.json_text(plain, indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    half = path.with_name(f"{path.name}.new")
    try:
        with half.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise _full(path, error) from error


def _full(path: Path, error: OSError) -> SessionError:
    return SessionError(
        f"cannot write {path.name}: {reason_of(error)}",
        where=str(path),
        hint="free space or make the folder writable, then run the same command again; what was "
        "measured so far is kept.",
    )
