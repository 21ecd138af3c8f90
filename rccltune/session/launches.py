"""A launch's files to its timings: what it measured, what is known to have run, how it ended."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from rccltune.logs.decisions import PATTERN, Decisions, prove_by_decisions, read_decisions
from rccltune.logs.jobs import jobs_in
from rccltune.logs.library import Logged, prove_by_log, read_log
from rccltune.logs.reader import Reading, read_stream
from rccltune.logs.trace import agree, prove, read_trace
from rccltune.logs.walk import Walk, agree_on_walk, place, read_walk, suspect
from rccltune.machine import overrides, placement
from rccltune.machine.overrides import is_switched, is_watched
from rccltune.model import grammar
from rccltune.model.errors import LaunchError, RccltuneError
from rccltune.model.measured import Caution, Launch, Notice, Outcome, Sample, Stated, Status
from rccltune.model.settings import (
    BASELINE,
    KNOWN_VARIANTS,
    NEEDS,
    RULES,
    Role,
    Setting,
    base_variant,
)
from rccltune.model.vocabulary import Doubt
from rccltune.releases import LOADING_OURS, library_named
from rccltune.session import store

T = TypeVar("T")
_CONTEXT: Final = re.compile(r" context=\d+")


def setting_of(wanted: Launch) -> Setting:
    """The one setting of a launch that measures one."""
    return wanted.schedule.settings[0] if wanted.schedule else BASELINE


def name_of(wanted: Launch) -> str:
    """What a launch measures, for people."""
    if wanted.schedule is None or not is_walk(wanted):
        return str(setting_of(wanted))
    settings = {s for s in wanted.schedule.settings if s.role is Role.FORCED}
    if RULES in wanted.schedule.settings:
        return "with and without the rules"
    return f"{len(settings)} setting{'' if len(settings) == 1 else 's'}"


def named_in(wanted: Launch) -> str:
    """The same with the variant that a user asked for, where it is in one."""
    if wanted.schedule is not None and RULES in wanted.schedule.settings:
        return name_of(wanted)
    base = base_variant(wanted.variant).name
    if base == NEEDS:
        return f"{name_of(wanted)} in the rules' environment"
    return name_of(wanted) if base in KNOWN_VARIANTS else f"{name_of(wanted)} in {base}"


def is_walk(wanted: Launch) -> bool:
    """Whether the launch goes through settings."""
    return wanted.schedule is not None and wanted.schedule.questions is not None


def samples_of_launch(
    wanted: Launch, own: Path, library: str | None = None
) -> tuple[tuple[Sample, ...], Reading, tuple[Notice, ...]]:
    """Timings of a launch with what ran.

    In a lossy variant elements beyond the benchmark's tolerance are what it is measured for, and
    no flag.

    Args:
        wanted: the launch.
        own: its folder.
        library: what it loads with its family, which its log does not name.

    Raises:
        OutputError: the table is not there or not understood.
        CommandLineError: it is not the table that was asked for.
        LaunchError: ranks were answered differently.
    """
    setting = setting_of(wanted)
    log = own / "stdout.log"
    check_met(log, wanted.scale.n_ranks if wanted.scale else None)
    with log.open("rb") as stream:
        reading = read_stream(stream, str(log), _stated(wanted), wanted.id)
    if wanted.variant.lossy:
        reading = replace(reading, samples=tuple(map(_tolerated, reading.samples)))
    if is_walk(wanted):
        samples = _walked(wanted, _walks(own), reading.samples)
        samples = overrides.overwrite_doubted(
            samples, library or reading.library_version, reading.samples
        )
        return samples, reading, _doubts(samples, wanted)
    warm = _after_first_use(wanted, reading.samples)
    if setting.role is not Role.FORCED:
        return warm, reading, ()
    if is_watched(wanted):
        samples = prove_by_decisions(warm, _decisions(own), setting, channels_in(own))
        return samples, reading, _doubts(samples, wanted)
    if is_switched(wanted):
        samples = prove_by_log(warm, _logged(own), setting)
        return samples, reading, _doubts(samples, wanted)
    traces = of_all_ranks(own, read_trace, agree)
    samples = prove(warm, next(iter(traces.values())), setting)
    samples = overrides.overwrite_doubted(
        samples, library or reading.library_version, reading.samples
    )
    return samples, reading, _doubts(samples, wanted)


def samples_before_the_end(
    wanted: Launch, own: Path, library: str | None = None
) -> tuple[Sample, ...]:
    """Timings of a combined launch that was cut short: of its proven steps, maybe none.

    Raises:
        RccltuneError: nothing of it can be used.
    """
    log = own / "stdout.log"
    check_met(log, wanted.scale.n_ranks if wanted.scale else None)
    with log.open("rb") as stream:
        # Half a line may look like a whole one with another number in it.
        whole = (line for line in stream if line.endswith(b"\n"))
        reading = read_stream(whole, str(log), _stated(wanted), wanted.id)
    walks = _walks(own)
    if any(walk.n_over for walk in walks.values()):
        raise LaunchError("more was asked than the launch has steps", where=str(own))
    cut = {name: replace(walk, ended=False) for name, walk in walks.items()}
    samples = _walked(wanted, cut, reading.samples)
    return overrides.overwrite_doubted(samples, library or reading.library_version, reading.samples)


def suspect_of(wanted: Launch, own: Path) -> Setting | None:
    """The setting in force when a combined launch failed; None where nobody can be blamed."""
    if wanted.schedule is None or wanted.schedule.questions is None:
        return None
    walks = []
    for path in own.glob("trace-*.csv"):
        # A rank that had no time to write its file says nothing.
        with suppress(RccltuneError):
            walks.append(read_walk(grammar.read_text(path), str(path)))
    return suspect(walks, wanted.schedule.questions)


def wrong_in(samples: Sequence[Sample]) -> tuple[Setting, ...]:
    """Settings that gave wrong results, in the order in which they were first seen to."""
    return tuple(dict.fromkeys(s.key.setting for s in samples if s.doubt is Doubt.WRONG))


def _after_first_use(wanted: Launch, samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Samples of a launch that prints its table twice: the first pass pays for connections.

    Passes are told by their rows: each size is printed once in every pass.
    """
    if passes_of(wanted) == 1:
        return tuple(samples)
    last = {(s.key, s.nbytes): s.line or 0 for s in sorted(samples, key=lambda s: s.line or 0)}
    return tuple(
        sample
        if sample.doubt or (sample.line or 0) >= last[sample.key, sample.nbytes]
        else replace(sample, doubt=Doubt.CONNECTING)
        for sample in samples
    )


def _tolerated(sample: Sample) -> Sample:
    """The same sample without the flag that its wrong elements bring, where they are counted."""
    counted = sample.doubt is Doubt.WRONG and sample.n_wrong and sample.time_us
    return replace(sample, doubt=None) if counted else sample


def _stated(wanted: Launch) -> Stated:
    return Stated(
        collective=wanted.collectives[0],
        setting=setting_of(wanted),
        variant=wanted.variant,
        n_ranks=wanted.scale.n_ranks if wanted.scale else None,
        n_started=placement.n_started_in_groups(wanted),
        n_nodes=wanted.scale.n_nodes if wanted.scale else None,
        assume=(("rank_placement", wanted.rank_placement or "node"),),
    )


def check_met(log: Path, n_ranks: int | None) -> None:
    """Stop where ranks did not find each other: each prints a whole table and exits with 0.

    Args:
        log: what a launch printed.
        n_ranks: of the one job that was to run, None where that is not known.

    Raises:
        LaunchError: they did not.
    """
    n_jobs = jobs_in(log.read_bytes())
    if n_jobs > 1:
        asked = f"one of {n_ranks} ranks" if n_ranks else "one"
        raise LaunchError(
            f"{n_jobs} jobs ran instead of {asked}: the ranks did not find each other",
            where=str(log),
            hint="launcher and benchmark are of different MPIs, or the benchmark was built without "
            "(make MPI=1); see ldd on it and mpirun --version. Under srun set SLURM_MPI_TYPE "
            "(srun --mpi=list).",
        )


def asked_in(wanted: Launch, own: Path) -> frozenset[int] | None:
    """Sizes at which the library asked a tuner where nothing was forced.

    Args:
        wanted: a launch.
        own: its folder.

    Returns:
        None of a launch in which something was forced, or that logged no decision.
    """
    is_idle = setting_of(wanted).role is Role.SILENT and not is_walk(wanted)
    said = _decisions(own) if is_idle else None
    if said is None:
        return None
    return frozenset(nbytes for collective, nbytes in said if collective in wanted.collectives)


def _decisions(own: Path) -> Decisions | None:
    """What the plugin of all ranks logged; None where no rank loaded it."""
    paths = sorted(own.glob(PATTERN))
    return read_decisions(path.read_text(errors="replace") for path in paths) if paths else None


def channels_in(own: Path) -> frozenset[int]:
    """How many channels the communicators of a launch had; empty where its ranks kept no log."""
    logged = _logged(own)
    return frozenset() if logged is None else logged.channels


def _logged(own: Path) -> Logged | None:
    """What the library's logs of all ranks say; None where it was not made to write any."""
    logs = sorted(own.glob("nccl-*.log"))
    return read_log(path.read_text(errors="replace") for path in logs) if logs else None


def _walks(own: Path) -> dict[str, Walk]:
    """Every rank's way.

    Raises:
        LaunchError: no trace, or ranks that differ.
    """
    return of_all_ranks(own, read_walk, agree_on_walk)


def _walked(
    wanted: Launch, walks: Mapping[str, Walk], printed: Sequence[Sample]
) -> tuple[Sample, ...]:
    """Samples of a combined launch, each with its own setting.

    Raises:
        LaunchError: a table that the steps do not fit.
    """
    if wanted.schedule is None or wanted.schedule.questions is None:
        raise ValueError("this launch has no setting")
    # Only what every rank has finished is proven.
    shortest = min(walks.values(), key=lambda walk: walk.n_whole)
    return place(printed, shortest, wanted.schedule.settings, wanted.schedule.questions)


def of_all_ranks(
    own: Path, read: Callable[[str, str], T], differences: Callable[[Mapping[str, T]], str | None]
) -> dict[str, T]:
    """The traces of a launch by file, one for each rank, which are alike.

    Raises:
        LaunchError: there is none, or they are not alike.
    """
    traces: dict[str, T] = {}
    # Ranks that are alike write the same but for the number of their communicator in the process,
    # which nobody asks for: 64 files are read and compared as the one that they are.
    distinct: dict[str, str] = {}
    for path in sorted(own.glob("trace-*.csv")):
        text = _CONTEXT.sub("", grammar.read_text(path))
        first = distinct.setdefault(text, path.name)
        traces[path.name] = traces[first] if first in traces else read(text, str(path))
    if not traces:
        raise LaunchError(
            "the plugin left no trace, so what ran is not known",
            where=str(own),
            hint="the library did not load it: look for 'tuner' in its log with NCCL_DEBUG=INFO. "
            f"One before {LOADING_OURS} looks for none; with --librccl naming its file "
            "that is seen, and its own switches force the settings.",
        )
    differing = differences({name: traces[name] for name in distinct.values()})
    if differing is not None:
        raise LaunchError(f"ranks were answered differently: {differing}", where=str(own))
    return traces


def _doubts(samples: Sequence[Sample], wanted: Launch) -> tuple[Notice, ...]:
    """One notice for each way in which something else ran than was asked for."""
    by_doubt: dict[tuple[Setting, str], list[Sample]] = {}
    for sample in samples:
        setting, doubt = sample.key.setting, sample.doubt
        expected = doubt in (None, Doubt.ZERO_BYTES, Doubt.CONNECTING)
        if doubt is not None and not expected and sample.executed != setting:
            by_doubt.setdefault((setting, doubt.meaning), []).append(sample)
    return tuple(
        Notice(
            caution=Caution.DOUBTED_SAMPLES,
            message=f"{setting}: {len(found)} timings from {min(s.nbytes for s in found)} to "
            f"{max(s.nbytes for s in found)} bytes are not used: {meaning}",
            remedy="see the columns doubt and executed in samples.csv.",
            where=wanted.id,
            count=len(found),
        )
        for (setting, meaning), found in by_doubt.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one launch gave."""

    launch: Launch
    outcome: Outcome
    samples: tuple[Sample, ...]
    tuner: str | None = None


def proven_before_the_end(
    wanted: Launch, own: Path, library: str | None = None
) -> tuple[Sample, ...]:
    """Samples of a combined launch that was cut short; none where nothing of it is proven."""
    try:
        return samples_before_the_end(wanted, own, library)
    except (RccltuneError, OSError):
        # Cut off before its first row or its first step, or nothing of it belongs together.
        return ()


def n_steps_of(samples: Sequence[Sample]) -> int | None:
    """How many steps of a combined launch these samples prove."""
    return max((s.step + 1 for s in samples if s.step is not None), default=None)


def read_launch(wanted: Launch, folder: Path, outcome: Outcome) -> tuple[Sample, ...]:
    """Samples of a launch that ended earlier, from its raw files."""
    own = folder / "launches" / wanted.id
    arch = outcome.fingerprint.arch_or_vendor if outcome.fingerprint is not None else None
    known = library_named(outcome.library_version, arch)
    if outcome.status is Status.OK:
        return samples_of_launch(wanted, own, known)[0]
    return samples_before_the_end(wanted, own, known) if outcome.n_steps else ()


def is_interrupted(own: Path) -> bool:
    """Whether a launch began and has no outcome: it is made again.

    Args:
        own: its folder.
    """
    return (own / "launch.json").exists() and not (own / "outcome.json").exists()


def interrupted_walks(folder: Path) -> list[Ran]:
    """Combined launches that were interrupted and not made again, with what they had proven.

    They steer nothing: without an outcome they are in no ledger.

    Raises:
        SessionError: a launch's own file is damaged.
    """
    found = []
    for own in filter(is_interrupted, sorted((folder / "launches").glob("*"))):
        wanted = store.read_launch(own)
        samples = proven_before_the_end(wanted, own) if is_walk(wanted) else ()
        if samples:
            outcome = Outcome(
                launch=wanted.id,
                status=Status.INTERRUPTED,
                n_samples=len(samples),
                n_steps=n_steps_of(samples),
                wrong=wrong_in(samples),
            )
            found.append(Ran(launch=wanted, outcome=outcome, samples=samples))
    return found


# What has rccl-tests print its table several times; older ones know -s alone.
REPEATING: Final = ("-N", "-s")


def passes_of(launch: Launch) -> int:
    """How often a launch goes over its sizes, the warm-up of a combined launch counted as once."""
    if launch.schedule is not None and launch.schedule.questions is not None:
        return len(launch.schedule.settings)
    told = [b for a, b in itertools.pairwise(launch.argv) if a in REPEATING and b.isdigit()]
    return int(told[-1]) if told else 1
