"""A launch's files to its timings: what it measured, what is known to have run, how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rccltune.logs.decisions import PATTERN, Decisions, prove_by_decisions, read_decisions
from rccltune.logs.library import LoggedChoices, prove_by_log, read_log
from rccltune.logs.log_runs import n_benchmarks_in
from rccltune.logs.reader import ParsedLog, read_stream
from rccltune.machine import placement
from rccltune.machine.overrides import is_watched
from rccltune.model.errors import LaunchError
from rccltune.model.measurement import Caution, Launch, Notice, Outcome, Sample, StatedFacts, Status
from rccltune.model.settings import BASELINE, Role, Setting
from rccltune.model.vocabulary import UnusableReason


def setting_of(wanted: Launch) -> Setting:
    """The one setting of a launch that measures one."""
    return wanted.settings[0] if wanted.settings else BASELINE


def samples_of_launch(
    wanted: Launch, folder: Path
) -> tuple[tuple[Sample, ...], ParsedLog, tuple[Notice, ...]]:
    """Timings of a launch with what ran.

    Args:
        wanted: the launch.
        folder: its folder.

    Raises:
        OutputError: the table is not there or not understood.
        CommandLineError: it is not the table that was asked for.
        LaunchError: the ranks did not find each other.
    """
    setting = setting_of(wanted)
    log = folder / "stdout.log"
    check_met(log, wanted.scale.n_ranks if wanted.scale else None)
    with log.open("rb") as stream:
        reading = read_stream(stream, str(log), _stated(wanted), wanted.id)
    samples = reading.samples
    if setting.role is not Role.FORCED:
        return samples, reading, ()
    if is_watched(wanted):
        samples = prove_by_decisions(samples, _decisions(folder), setting, channels_in(folder))
    else:
        samples = prove_by_log(samples, _logged(folder), setting)
    return samples, reading, _doubts(samples, wanted)


def _stated(wanted: Launch) -> StatedFacts:
    return StatedFacts(
        collective=wanted.collectives[0],
        setting=setting_of(wanted),
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
    n_jobs = n_benchmarks_in(log.read_bytes())
    if n_jobs > 1:
        asked = f"one of {n_ranks} ranks" if n_ranks else "one"
        raise LaunchError(
            f"{n_jobs} jobs ran instead of {asked}: the ranks did not find each other",
            where=str(log),
            hint="launcher and benchmark are of different MPIs, or the benchmark was built without "
            "(make MPI=1); see ldd on it and mpirun --version. Under srun set SLURM_MPI_TYPE "
            "(srun --mpi=list).",
        )


def asked_in(wanted: Launch, folder: Path) -> frozenset[int] | None:
    """Sizes at which the library asked a tuner where nothing was forced.

    Args:
        wanted: a launch.
        folder: its folder.

    Returns:
        None of a launch in which something was forced, or that logged no decision.
    """
    is_idle = setting_of(wanted).role is Role.SILENT
    decisions = _decisions(folder) if is_idle else None
    if decisions is None:
        return None
    return frozenset(nbytes for collective, nbytes in decisions if collective in wanted.collectives)


def _decisions(own: Path) -> Decisions | None:
    """Read what the plugin of all ranks logged; None where no rank loaded it."""
    paths = sorted(own.glob(PATTERN))
    return read_decisions(path.read_text(errors="replace") for path in paths) if paths else None


def channels_in(own: Path) -> frozenset[int]:
    """Numbers of channels of a launch's communicators; empty where its ranks kept no log."""
    logged = _logged(own)
    return frozenset() if logged is None else logged.channels


def _logged(own: Path) -> LoggedChoices | None:
    """Read the library's logs of all ranks; None where it was not made to write any."""
    logs = sorted(own.glob("nccl-*.log"))
    return read_log(path.read_text(errors="replace") for path in logs) if logs else None


def _doubts(samples: Sequence[Sample], wanted: Launch) -> tuple[Notice, ...]:
    """One notice for each way in which something else ran than was asked for."""
    by_doubt: dict[tuple[Setting, str], list[Sample]] = {}
    for sample in samples:
        setting, doubt = sample.key.setting, sample.doubt
        expected = doubt in (None, UnusableReason.ZERO_BYTES, UnusableReason.CONNECTING)
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


def read_launch(wanted: Launch, folder: Path, outcome: Outcome) -> tuple[Sample, ...]:
    """Samples of a launch that ended earlier, from its raw files."""
    if outcome.status is not Status.OK:
        return ()
    return samples_of_launch(wanted, folder / "launches" / wanted.id)[0]
