"""One launch of one of rccl-tests' programs: its command line, its environment, its table.

This is the way of AMD's documents, ``mpirun -np 64 --bind-to numa -x NCCL_ALGO=tree -x
NCCL_PROTO=ll all_reduce_perf -b 1 -e 128M -f 2 -g 1``. A launch is one job of all ranks; a failure
of it is an answer and no exception, and nothing of it stays running.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.launch import launch_processes, process, variables
from rccltune.launch.process import LaunchCommand, LaunchEnd
from rccltune.launch.variables import LaunchEnvironment
from rccltune.logs import reader
from rccltune.logs.resolver import is_memory_fault, meaning_of, was_killed
from rccltune.measure.site import Site, SiteRequest, find_site
from rccltune.model import defaults
from rccltune.model.errors import RccltuneError, SessionError
from rccltune.model.failure import Failure
from rccltune.model.measurement import Sample, StatedFacts
from rccltune.model.vocabulary import Collective, Placement, UnusableReason
from rccltune.session.launches import check_met

if TYPE_CHECKING:
    import pandas as pd

BOTH: Final = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
# How often a captured graph is replayed, as in AMD's own command (RCCL usage tips).
REPLAYS: Final = 2
_COLUMNS: Final = ("nbytes", "placement", "time_us", "n_wrong", "order")
# Where the simulated clock stood at the end of a launch; in the folder of one that ended well.
CLOCK: Final = "clock"
_COMPLETE: Final = b"# Avg bus bandwidth"
# The summary of a table, and the last words of a program that failed, stand near the end.
_END_NBYTES: Final = 4096
_WORDS_NBYTES: Final = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class RcclTestsSetup:
    """Where rccl-tests run, and what starts them.

    Attributes:
        site: as :func:`rccltune.measure.site.find_site` found it.
        node: compiled node file of a simulated node, None on a real machine.
    """

    site: Site
    node: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCall:
    """What a launch calls: a collective at sizes from the smallest to the largest, by a factor.

    Attributes:
        dtype: in the benchmark's words, and so is ``op``.
        graph: calls are captured into a graph that is replayed (``-G``).
        shows: the table has columns that say what ran, where the benchmark can (``-A``).
    """

    collective: Collective
    min_nbytes: int
    max_nbytes: int
    factor: int = defaults.FACTOR
    dtype: str = defaults.DTYPE
    op: str = defaults.REDOP
    placements: tuple[Placement, ...] = BOTH
    graph: bool = False
    iterations: int = defaults.ITERATIONS
    warmup: int = defaults.WARMUP
    shows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """What one launch gave.

    Attributes:
        table: a row for each time, with columns nbytes, placement, time_us, n_wrong (NaN where
            nothing was checked) and order (row of the benchmark's table, from 0); None where the
            launch failed before it was whole.
        failure: how it failed; of wrong results the table is there all the same.
        words: why, for people; None where it did not fail.
        seconds: that it took.
        folder: its own, with stdout.log and stderr.log.
    """

    table: pd.DataFrame | None
    failure: Failure | None
    words: str | None
    seconds: float
    folder: Path


def find(request: SiteRequest) -> Site:
    """What rccl-tests would run on.

    Raises:
        MachineError: there are none, or no launcher; confirming and cross-checking go on without.
        CommandLineError: what was said does not fit together.
    """
    return find_site(request)


def confirming_site(
    request: SiteRequest, site: Site, *, leaves_out: bool = False
) -> SiteRequest | None:
    """Where rccl-tests are looked for after the rank program; None where nothing is to confirm.

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


def launch(
    where: RcclTestsSetup,
    call: BenchmarkCall,
    folder: Path,
    *,
    added: Iterable[tuple[str, str]] = (),
    removed: Iterable[str] = (),
    as_it_is: bool = False,
    timeout_s: float = 300.0,
) -> BenchmarkResult:
    """Run one collective's program once, and read its table.

    On a simulated node noise differs by the name of the folder.

    Args:
        where: it runs.
        call: what it calls.
        folder: of this launch alone; made, and empty where it is there.
        added: variables that every rank gets on top of the site's.
        removed: names, or prefixes that end in ``*``, of the site's that no rank gets.
        as_it_is: keep the site's variables that choose (``NCCL_ALGO``, ``NCCL_TUNER_*`` …), for a
            baseline; otherwise they are cleared. Channels, CTAs and threads are kept always.
        timeout_s: after which it is ended.

    Raises:
        MachineError: the launcher cannot be started.
        SessionError: the disk refuses, or the folder is not empty.
        LaunchError: a process cannot be killed.
        KeyboardInterrupt: after all that was started is gone.
    """
    if folder.exists() and any(folder.iterdir()):
        raise SessionError(
            "a launch needs a folder of its own, and there is something in it", where=str(folder)
        )
    own = folder.resolve()
    environment = environment_of(where, own, added=added, removed=removed, as_it_is=as_it_is)
    ending = start(where, command(where.site, call), own, environment, timeout_s=timeout_s)
    failure, words = why_failed(own, ending)
    if failure is not None:
        return BenchmarkResult(
            table=None, failure=failure, words=words, seconds=ending.duration_s, folder=folder
        )
    return read_launched(where, call, own, seconds=ending.duration_s)


def read_launched(
    where: RcclTestsSetup, call: BenchmarkCall, folder: Path, *, seconds: float = 0.0
) -> BenchmarkResult:
    """What a launch gave whose processes ended well.

    Args:
        where: it ran.
        call: what it called.
        folder: its own.
        seconds: that it took, where that is known.
    """
    try:
        samples = _read(folder / "stdout.log", where.site, call)
    except RccltuneError as error:
        return BenchmarkResult(
            table=None,
            failure=Failure.UNREADABLE,
            words=str(error),
            seconds=seconds,
            folder=folder,
        )
    failure, words = judged(samples, folder)
    return BenchmarkResult(
        table=_table(samples), failure=failure, words=words, seconds=seconds, folder=folder
    )


def _read(log: Path, site: Site, call: BenchmarkCall) -> tuple[Sample, ...]:
    check_met(log, site.scale.n_ranks)
    stated = StatedFacts(
        collective=call.collective,
        n_ranks=site.scale.n_ranks,
        n_started=site.seating.n_started,
        n_nodes=site.scale.n_nodes,
    )
    with log.open("rb") as stream:
        return reader.read_stream(stream, str(log), stated, log.parent.name).samples


def _table(samples: Sequence[Sample]) -> pd.DataFrame:
    import pandas as pd

    order: dict[int | None, int] = {}
    rows = [
        {
            "nbytes": one.nbytes,
            "placement": one.key.placement.value,
            "time_us": one.time_us,
            "n_wrong": one.n_wrong,
            "order": order.setdefault(one.line, len(order)),
        }
        for one in sorted(samples, key=lambda one: one.line or 0)
    ]
    found: pd.DataFrame = pd.DataFrame(rows, columns=list(_COLUMNS))
    for name in ("time_us", "n_wrong"):
        found[name] = found[name].astype("float64")
    return found


# --- the command line -----------------------------------------------------------------------------


def command(
    site: Site, call: BenchmarkCall, *, n_started: int | None = None, n_gpus: int = 1
) -> tuple[str, ...]:
    """The whole command line: launcher, ranks, binding, program, sizes.

    Args:
        site: where.
        call: what.
        n_started: ranks, None for the site's.
        n_gpus: of a process.
    """
    options = _options(call, site.help_letters, n_gpus)
    program = (site.programs[call.collective], *(part for pair in options for part in pair))
    return site.launcher.argv(
        n_started or site.seating.n_started,
        program,
        bind=site.binding,
        hostfile=site.hostfile,
    )


def _options(call: BenchmarkCall, letters: frozenset[str], n_gpus: int) -> list[tuple[str, str]]:
    """Options of the program; every default that moved between releases is given."""
    pairs: list[tuple[str, object]] = [
        ("-b", call.min_nbytes),
        ("-e", call.max_nbytes),
        ("-f", call.factor),
        ("-g", n_gpus),
        ("-n", call.iterations),
        ("-w", call.warmup),
        ("-c", 1),
        ("-d", call.dtype),
    ]
    if call.collective.reduces:
        pairs.append(("-o", call.op))
    if call.graph:
        pairs.append(("-G", REPLAYS))
    if call.shows and "A" in letters:
        pairs.append(("-A", 1))
    if len(call.placements) == 1 and "O" in letters:
        pairs.append(("-O", int(call.placements[0] is Placement.OUT_OF_PLACE)))
    return [(letter, str(value)) for letter, value in pairs]


# --- the environment and the run ------------------------------------------------------------------


def environment_of(
    where: RcclTestsSetup,
    folder: Path,
    *,
    added: Iterable[tuple[str, str]],
    removed: Iterable[str] = (),
    as_it_is: bool = False,
) -> LaunchEnvironment:
    """The environment of a launch; its arguments are those of :func:`launch`."""
    pairs = {**dict(where.site.environment), **_simulated(where, folder), **dict(added)}
    return variables.launch_environment(
        os.environ,
        pairs.items(),
        clear=(*where.site.cleared, *removed),
        keep=variables.CLEARED if as_it_is else variables.CHANNELS,
    )


def _simulated(where: RcclTestsSetup, folder: Path) -> Mapping[str, str]:
    """What the stand-in programs of a simulated node are told."""
    if where.node is None:
        return {}
    return {
        "RCCLTUNE_SIM_NODE": str(where.node.resolve()),
        "RCCLTUNE_SIM_LAUNCH": folder.name,
        "RCCLTUNE_SIM_EPOCH": f"{simulated_s(folder.parent):.9f}",
        "RCCLTUNE_SIM_CLOCK": str(folder / CLOCK),
    }


def simulated_s(launches: Path) -> float:
    """The simulated clock in seconds: where the last launch that ended well left it.

    Raises:
        SessionError: a launch's clock is no number.
    """
    return max((_seconds(path) for path in launches.glob(f"*/{CLOCK}")), default=0.0)


def _seconds(clock: Path) -> float:
    try:
        return float(clock.read_text(encoding="ascii"))
    except ValueError as error:
        raise SessionError(
            f"the simulated clock cannot be read: {error}",
            where=str(clock),
            hint="delete this launch's folder; the same command makes it anew.",
        ) from error


def carried(
    site: Site, argv: Sequence[str], environment: LaunchEnvironment, *, tag: bool = True
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The command line and the environment with which variables reach ranks on other hosts too.

    Args:
        site: whose launcher takes them.
        argv: the command line without that.
        environment: of the launch.
        tag: the launch's own mark is among them, by which its ranks are found again.
    """
    names = {name for name, _ in (*environment.added, *environment.passed)}
    # The tag gets its value when the ranks start.
    mark = {launch_processes.TAG: ""} if tag else {}
    options, own = site.launcher.carry({*names, *mark}, {**environment.variables, **mark})
    return (argv[0], *options, *argv[1:]), own


def start(
    where: RcclTestsSetup,
    argv: Sequence[str],
    folder: Path,
    environment: LaunchEnvironment,
    *,
    timeout_s: float,
) -> LaunchEnd:
    """Run a command line to its certain end; its output lies in the folder.

    Raises:
        MachineError: the launcher cannot be started.
        SessionError: the disk refuses.
        LaunchError: a process cannot be killed.
        KeyboardInterrupt: after all that was started is gone.
    """
    whole, own = carried(where.site, argv, environment)
    return process.run(
        LaunchCommand(
            argv=whole,
            variables=own,
            folder=folder,
            timeout_s=timeout_s,
            is_complete=is_complete,
        )
    )


# --- how it ended ---------------------------------------------------------------------------------


def is_complete(folder: Path) -> bool:
    """Whether the program has printed its summary."""
    return _COMPLETE in _tail(folder / "stdout.log", _END_NBYTES)


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
    text = last_words(folder)
    known = meaning_of(text)
    why = f"it ended with {ending.how}" + (f": {known}" if known else "")
    if is_memory_fault(text):
        return Failure.MEMORY_FAULT, why
    if ending.signal == signal.SIGKILL or was_killed(text):
        return Failure.KILLED, why
    return Failure.CRASH, why


def judged(samples: Sequence[Sample], folder: Path) -> tuple[Failure | None, str | None]:
    """What is wrong with a table that could be read; None twice where nothing is."""
    if not is_complete(folder):
        return Failure.UNREADABLE, "its output ends before the benchmark's summary"
    wrong = [one for one in samples if one.doubt is UnusableReason.WRONG]
    if not wrong:
        return None, None
    return Failure.WRONG, f"{len(wrong)} of its times have WRONG RESULTS"


def last_words(folder: Path) -> str:
    """The ends of both outputs of a launch."""
    ends = (_tail(folder / name, _WORDS_NBYTES) for name in ("stdout.log", "stderr.log"))
    return "\n".join(end.decode("utf-8", "replace") for end in ends)


def _tail(path: Path, nbytes: int) -> bytes:
    with suppress(FileNotFoundError), path.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - nbytes))
        return stream.read()
    return b""
