"""One launch of one of rccl-tests' programs: its command line, its environment, its table.

This is the way of AMD's documents, ``mpirun -np 64 --bind-to numa -x NCCL_ALGO=tree -x
NCCL_PROTO=ll all_reduce_perf -b 1 -e 128M -f 2 -g 1``. A launch is one job of all ranks; a failure
of it is an answer and no exception, and nothing of it stays running. Its log is read as ``import``
reads others': what ran is what it says, else what was asked for.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.launch import launch_processes, process
from rccltune.launch.process import LaunchCommand, LaunchEnd
from rccltune.launch.variables import CHANNELS, CLEARED, LaunchEnvironment, launch_environment
from rccltune.logs import parsed_log
from rccltune.logs.benchmark_job import count_benchmarks
from rccltune.logs.messages import is_memory_fault, meaning_of, was_killed
from rccltune.measure.site import Site, SiteRequest
from rccltune.model import defaults
from rccltune.model.errors import LaunchError, RccltuneError
from rccltune.model.failure import Failure
from rccltune.model.json_text import json_text
from rccltune.model.measurement import Notice, StatedFacts
from rccltune.model.settings import TREE_SIMPLE_FORCED, Setting
from rccltune.model.vocabulary import Collective, Placement, UnusableReason
from rccltune.session import files, store
from rccltune.session.sample_table import framed

if TYPE_CHECKING:
    import pandas as pd

BOTH: Final = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
# How often a captured graph is replayed, as in AMD's own command (RCCL usage tips).
REPLAYS: Final = 2
# Where the simulated clock stood at the end of a launch; in the folder of one that ended well.
CLOCK: Final = "clock"
_PATIENCE: Final = 10
_LEAST_LIMIT_S: Final = 60.0
# Before one ended nobody knows.
_FIRST_LIMIT_S: Final = 600.0
_OF_ONE: Final = ("RCCLTUNE_SIM_LAUNCH", "RCCLTUNE_SIM_EPOCH", "RCCLTUNE_SIM_CLOCK")
_COMPLETE: Final = b"# Avg bus bandwidth"
# The summary of a table, and the last words of a program that failed, stand near the end.
_END_NBYTES: Final = 4096
_WORDS_NBYTES: Final = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class RcclTestsSetup:
    """Setup of rccl-tests: where they run, and what starts them.

    Attributes:
        site: as :func:`rccltune.measure.site.find_site` found it.
        node: compiled node file of a simulated node, None on a real machine.
    """

    site: Site
    node: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCall:
    """Calls of a launch: a collective at sizes from the smallest to the largest, by a factor.

    Attributes:
        dtype: in the benchmark's words, and so is ``op``.
        graph: calls are captured into a graph that is replayed (``-G``).
    """

    collective: Collective
    min_nbytes: int
    max_nbytes: int
    factor: int = defaults.FACTOR
    dtype: str = defaults.DTYPE
    op: str = defaults.OP
    placements: tuple[Placement, ...] = BOTH
    graph: bool = False
    iterations: int = defaults.ITERATIONS
    warmup: int = defaults.WARMUP


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """Result of one launch.

    Attributes:
        folder: its own, with stdout.log and stderr.log.
        table: its times (:mod:`rccltune.session.sample_table`); None where it failed before its
            table was whole.
        failure: how it failed; of wrong results the table is there all the same.
        words: why, for people; None where it did not fail.
        seconds: that it took.
        exit_code, signal: it ended with, where it ended by itself.
        library: version that its log names.
        notices: what was noticed while reading.
    """

    folder: Path
    table: pd.DataFrame | None = None
    failure: Failure | None = None
    words: str | None = None
    seconds: float = 0.0
    library: str | None = None
    notices: tuple[Notice, ...] = ()
    exit_code: int | None = None
    signal: int | None = None


def confirming_site(
    request: SiteRequest, site: Site, *, leaves_out: bool = False
) -> SiteRequest | None:
    """Request by which rccl-tests are looked for after the rank program; None to confirm nothing.

    On a simulated node the times of both come from one file.

    Args:
        request: of the session.
        site: that was measured.
        leaves_out: the user does not want it.
    """
    if leaves_out or site.node is not None:
        return None
    launcher = defaults.LAUNCHER if request.launcher == "local" else request.launcher
    return replace(request, runner=defaults.RUNNER, launcher=launcher)


# --- one launch -----------------------------------------------------------------------------------


def launch(
    where: RcclTestsSetup,
    argv: Sequence[str],
    folder: Path,
    stated: StatedFacts,
    *,
    added: Iterable[tuple[str, str]] = (),
    as_it_is: bool = False,
    timeout_s: float = 300.0,
) -> BenchmarkResult:
    """Run one collective's program once, and read its table.

    On a simulated node noise differs by the name of the folder.

    Args:
        where: it runs.
        argv: its command line (:func:`command`).
        folder: of this launch alone.
        stated: what is known of it (:func:`stated_of`).
        added: variables that every rank gets on top of the site's.
        as_it_is: keep the site's variables that choose (``NCCL_ALGO``, ``NCCL_TUNER_*`` …), for a
            baseline; otherwise they are cleared. Channels, CTAs and threads are kept always.
        timeout_s: after which it is ended.

    Raises:
        MachineError: the launcher cannot be started.
        SessionError: the disk refuses.
        LaunchError: a process cannot be killed.
        KeyboardInterrupt: after all that was started is gone.
    """
    path = folder.resolve()
    environment = environment_of(where, path, added=added, as_it_is=as_it_is)
    parts = {name: dict(getattr(environment, name)) for name in ("cleared", "passed", "added")}
    files.write_atomically(path / "command.txt", f"{shell_line(where, argv, environment)}\n")
    files.write_atomically(path / "environment.json", f"{json_text(parts, indent=1)}\n")
    command_line, variables = _carry_variables(where.site, argv, environment)
    ending = process.run(
        LaunchCommand(
            argv=command_line,
            variables=variables,
            folder=path,
            timeout_s=timeout_s,
            is_complete=is_complete,
        )
    )
    failure, words = why_failed(path, ending)
    if failure is None:
        result = read_launched(folder, stated)
    else:
        result = BenchmarkResult(failure=failure, words=words, folder=folder)
    return replace(
        result,
        seconds=ending.duration_s,
        exit_code=ending.exit_code,
        signal=ending.signal,
    )


def stated_of(site: Site, collective: Collective, setting: Setting | None = None) -> StatedFacts:
    """Facts that are known of a launch before its log is read.

    Args:
        site: where it ran.
        collective: that it called.
        setting: that was forced, or BASELINE.
    """
    return StatedFacts(
        collective=collective,
        setting=setting,
        n_ranks=site.scale.n_ranks,
        n_started=site.seating.n_started,
        n_nodes=site.scale.n_nodes,
        assume=(("rank_placement", site.seating.place.name),),
    )


def read_launched(folder: Path, stated: StatedFacts) -> BenchmarkResult:
    """Result of a launch whose processes ended well.

    Args:
        folder: its own.
        stated: what is known of it.
    """
    log = folder / store.RAW_LOG
    try:
        _check_met(log, stated.n_ranks)
        launch_log = parsed_log.read_launch(log, stated, folder.name)
    except RccltuneError as error:
        return BenchmarkResult(failure=Failure.UNREADABLE, words=str(error), folder=folder)
    failure, words = None, None
    n_wrong = int((launch_log.table["unusable"] == UnusableReason.WRONG.value).sum())
    if not is_complete(folder):
        failure, words = Failure.UNREADABLE, "its output ends before the benchmark's summary"
    elif n_wrong:
        failure, words = Failure.WRONG, f"{n_wrong} of its times have WRONG RESULTS"
    return BenchmarkResult(
        table=framed(launch_log.table, launch_log.keys),
        failure=failure,
        words=words,
        folder=folder,
        library=launch_log.library_version,
        notices=launch_log.notices,
    )


def _check_met(log: Path, n_ranks: int | None) -> None:
    """Stop where ranks did not find each other: each prints a whole table and exits with 0.

    Raises:
        LaunchError: they did not.
    """
    n_jobs = count_benchmarks(log.read_bytes())
    if n_jobs > 1:
        expected = f"one of {n_ranks} ranks" if n_ranks else "one"
        raise LaunchError(
            f"{n_jobs} jobs ran instead of {expected}: the ranks did not find each other",
            where=str(log),
            hint="launcher and benchmark are of different MPIs, or the benchmark was built without "
            "(make MPI=1); see ldd on it and mpirun --version. Under srun set SLURM_MPI_TYPE "
            "(srun --mpi=list).",
        )


def command(site: Site, call: BenchmarkCall) -> tuple[str, ...]:
    """The whole command line: launcher, ranks, binding, program, sizes."""
    options = _options(call, site.help_letters)
    program = (site.programs[call.collective], *(part for pair in options for part in pair))
    return site.launcher.argv(
        site.seating.n_started,
        program,
        bind=site.binding,
        hostfile=site.hostfile,
    )


def _options(call: BenchmarkCall, letters: frozenset[str]) -> list[tuple[str, str]]:
    """Options of the program; every default that moved between releases is given."""
    pairs: list[tuple[str, object]] = [
        ("-b", call.min_nbytes),
        ("-e", call.max_nbytes),
        ("-f", call.factor),
        ("-g", 1),
        ("-n", call.iterations),
        ("-w", call.warmup),
        ("-c", 1),
        ("-d", call.dtype),
    ]
    if call.collective.reduces:
        pairs.append(("-o", call.op))
    if call.graph:
        pairs.append(("-G", REPLAYS))
    if "A" in letters:
        # Columns that say what ran; they cost no time.
        pairs.append(("-A", 1))
    if len(call.placements) == 1 and "O" in letters:
        pairs.append(("-O", int(call.placements[0] is Placement.OUT_OF_PLACE)))
    return [(letter, str(value)) for letter, value in pairs]


def environment_of(
    where: RcclTestsSetup,
    folder: Path,
    *,
    added: Iterable[tuple[str, str]],
    as_it_is: bool = False,
) -> LaunchEnvironment:
    """The environment of a launch; its arguments are those of :func:`launch`."""
    pairs = {**dict(where.site.environment), **_simulated_variables(where, folder), **dict(added)}
    return launch_environment(
        os.environ,
        pairs.items(),
        clear=where.site.cleared,
        keep=CLEARED if as_it_is else CHANNELS,
    )


def _simulated_variables(where: RcclTestsSetup, folder: Path) -> Mapping[str, str]:
    """Variables of the stand-in programs of a simulated node."""
    if where.node is None:
        return {}
    added = {
        "RCCLTUNE_SIM_NODE": str(where.node.resolve()),
        "RCCLTUNE_SIM_LAUNCH": folder.name,
        "RCCLTUNE_SIM_EPOCH": f"{simulated_s(folder.parent):.9f}",
        "RCCLTUNE_SIM_CLOCK": str(folder / CLOCK),
    }
    if TREE_SIMPLE_FORCED in where.site.environment:
        added["RCCLTUNE_SIM_PATCHES"] = "force-tree-simple"
    return added


def simulated_s(launches: Path) -> float:
    """The simulated clock in seconds: where the last launch that ended well left it."""
    clocks = [0.0]
    for path in launches.glob(f"*/{CLOCK}"):
        # A clock that a full disk cut off counts as none.
        with suppress(ValueError):
            clocks.append(float(path.read_text(encoding="ascii")))
    return max(clocks)


def _carry_variables(
    site: Site, argv: Sequence[str], environment: LaunchEnvironment, *, tag: bool = True
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The command line and the environment with which variables reach ranks on other hosts too.

    A launch's own mark is among them, by which its ranks are found again.
    """
    names = {name for name, _ in (*environment.added, *environment.passed)}
    # The tag gets its value when the ranks start.
    mark = {launch_processes.TAG: ""} if tag else {}
    options, variables = site.launcher.carry({*names, *mark}, {**environment.variables, **mark})
    return (argv[0], *options, *argv[1:]), variables


def shell_line(where: RcclTestsSetup, argv: Sequence[str], environment: LaunchEnvironment) -> str:
    """A launch for a shell: its own variables, then its command line."""
    # What tells a launch of a simulated node from others is left out.
    added = tuple(pair for pair in environment.added if pair[0] not in _OF_ONE)
    cleared = [part for name, _ in environment.cleared for part in ("-u", name)]
    shown = replace(environment, added=added)
    command_line, _ = _carry_variables(where.site, argv, shown, tag=False)
    pairs = [f"{name}={value}" for name, value in added]
    return shlex.join([*(("env", *cleared) if cleared else ()), *pairs, *command_line])


def limit_s(seconds: Iterable[float]) -> float:
    """Seconds after which a launch hangs: ten times the longest that ended well.

    Args:
        seconds: of each of those.
    """
    known = list(seconds)
    return max(_LEAST_LIMIT_S, _PATIENCE * max(known)) if known else _FIRST_LIMIT_S


# --- how it ended ---------------------------------------------------------------------------------


def is_complete(folder: Path) -> bool:
    """Whether the program has printed its summary."""
    return _COMPLETE in _tail(folder / store.RAW_LOG, _END_NBYTES)


def why_failed(folder: Path, ending: LaunchEnd) -> tuple[Failure | None, str | None]:
    """How the processes failed and why, before their table is read; None twice where they did not.

    Args:
        folder: of the launch.
        ending: how its processes ended.
    """
    if ending.timed_out:
        return Failure.HANG, f"it ran for {ending.duration_s:.0f} s and was ended"
    if ending.lingered or (ending.exit_code == 0 and ending.signal is None):
        return None, None
    # rccl-tests exit with 1 where results are wrong; the table then is whole and says so.
    if ending.exit_code is not None and is_complete(folder):
        return None, None
    ends = (_tail(folder / name, _WORDS_NBYTES) for name in (store.RAW_LOG, "stderr.log"))
    text = "\n".join(end.decode("utf-8", "replace") for end in ends)
    known = meaning_of(text)
    why = f"it ended with {ending.how}" + (f": {known}" if known else "")
    if is_memory_fault(text):
        return Failure.MEMORY_FAULT, why
    if ending.signal == signal.SIGKILL or was_killed(text):
        return Failure.KILLED, why
    return Failure.CRASH, why


def _tail(path: Path, nbytes: int) -> bytes:
    with suppress(FileNotFoundError), path.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - nbytes))
        return stream.read()
    return b""
