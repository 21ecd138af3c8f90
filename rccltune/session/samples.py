"""A session's samples, and which settings failed too often to be tried again.

Everything is derived from the launches on disk: losing rccltune at any moment loses nothing.

A setting that hangs or crashes here would do so in a job. One failure may be the machine's, so it
is tried once more, alone; the second makes it a quarantined setting of this session: nothing more
is started for it, what it measured before is not used, and everybody says why. Pure: whatever is
lost can be derived again from the launches' outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.model.failure import Failure, Quarantine
from rccltune.model.measurement import (
    Caution,
    Launch,
    Notice,
    Outcome,
    Sample,
    StatedFacts,
    Status,
)
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Role, Scale, Setting
from rccltune.model.vocabulary import Collective, UnusableReason
from rccltune.perf import rows, runs
from rccltune.perf import samples as run_samples
from rccltune.session import sample_table, store
from rccltune.session.files import DerivedFiles, writing
from rccltune.session.store import Session

if TYPE_CHECKING:
    import pandas as pd


def load_frame(
    opened: Session, reporter: Reporter, derived: DerivedFiles | None = None
) -> pd.DataFrame:
    """All samples of a session; samples.csv is made again where it is not current.

    Args:
        opened: the session.
        reporter: told what is worth telling.
        derived: of this session, where more is derived from it than samples.

    Raises:
        SessionError: a row of samples.csv that cannot be read.
        OutputError: a file of a run or a log that cannot be.
    """
    stored = store.stored_samples(opened)
    if stored is not None:
        return stored
    reporter.say(why_made_again(opened))
    kept = (derived or DerivedFiles(opened.path, reporter)).keep(
        "samples.csv", lambda: _made_again(opened, reporter)
    )
    return frame_from_logs(opened) if kept is None else kept


def why_made_again(opened: Session) -> str:
    """The sentence with which samples.csv is made again."""
    return f"{store.why_not_current(opened)}: it is made again from the raw runs and logs"


def _made_again(opened: Session, reporter: Reporter) -> pd.DataFrame:
    # Read while nobody adds a launch.
    with writing(opened.path, reporter):
        samples = frame_from_logs(opened)
        store.commit(opened, [], samples)
    return samples


def frame_from_logs(opened: Session) -> pd.DataFrame:
    """Read every sample of a session anew from its raw runs and logs."""
    # Most verbs find a table that is current, and read no log.
    from rccltune.logs import reader

    ended = store.read_launches(opened.path)
    known = {}
    for launch, _ in ended:
        if not launch.argv:
            raw = store.raw_log(opened.path, launch.id)
            known[launch.id] = reader.read(raw, launch.stated or StatedFacts(), launch.id).samples
    parts = [sample_table.frame(samples_of(opened.path, ended, known))] if ended or known else []
    measured = runs.read_runs(opened.path)
    if measured:
        table = run_samples.table_of(measured, rows.rows_of_runs(measured))
        parts.append(sample_table.arranged(table))
    return sample_table.joined(parts)


def set_aside(opened: Session) -> tuple[Quarantine, ...]:
    """Settings with which launches or runs failed too often to be tried again."""
    failed = run_samples.failed(runs.read_runs(opened.path, most_ranks=0))
    return (*quarantines(store.read_launches(opened.path)), *failed)


Ended = tuple[Launch, Outcome]


def is_good(pair: Ended) -> bool:
    """Whether all that a launch was made for is there; wrong results are not, forgiven or not."""
    return pair[1].status is Status.OK and pair[1].failure is None


def counted_launches(ended: Iterable[Ended]) -> list[Ended]:
    """Launches whose samples count: what was made twice counts once.

    A launch that was cut off counts where it never came to its end; one that was made again to
    see whether the machine still works does not.
    """
    pairs = list(ended)
    first: dict[Launch, int] = {}
    for launch, outcome in pairs:
        if launch.argv and is_good((launch, outcome)):
            first[_same_for_attempts(launch)] = min(
                launch.attempt, first.get(_same_for_attempts(launch), launch.attempt)
            )
    return [
        pair for pair in pairs if not _is_superseded(*pair, first.get(_same_for_attempts(pair[0])))
    ]


def _same_for_attempts(one: Launch) -> Launch:
    """Equal for all attempts at the same launch."""
    return replace(one, id="", attempt=0, timeout_s=None)


def _is_superseded(one: Launch, outcome: Outcome, good: int | None) -> bool:
    if good is None:
        return False
    return outcome.was_cut_off or (is_good((one, outcome)) and one.attempt > good)


def samples_of(
    folder: Path, ended: Sequence[Ended], known: Mapping[str, tuple[Sample, ...]]
) -> list[Sample]:
    """Timings of measured launches; those of quarantined settings carry a flag.

    Args:
        folder: the session.
        ended: its launches.
        known: samples by launch, where they were read already.
    """
    from rccltune.session.launches import read_launch

    samples: list[Sample] = []
    for launch, outcome in counted_launches(ended):
        samples += known[launch.id] if launch.id in known else read_launch(launch, folder, outcome)
    return flagged_by_quarantine(_around_tuner(samples, folder, ended), ended)


def _around_tuner(samples: Iterable[Sample], folder: Path, ended: Sequence[Ended]) -> list[Sample]:
    """Mark samples at sizes where the library by itself asks no tuner.

    NCCL_ALGO makes the library leave paths that go around every tuner (DDA, say): the time of a
    setting forced so is true, and no rule would ever be asked for it.
    """
    from rccltune.session.launches import asked_in

    asked: dict[tuple[object, ...], frozenset[int]] = {}
    of_launch = {}
    for one, outcome in ended:
        if one.argv and one.collectives and one.settings:
            key = (one.collectives[0], one.scale, "-G" in one.argv)
            of_launch[one.id] = key
            is_idle = one.settings[0].role is Role.SILENT and is_good((one, outcome))
            sizes = asked_in(one, folder / "launches" / one.id) if is_idle else None
            if sizes is not None:
                asked[key] = sizes
    if not asked:
        return list(samples)
    return [
        replace(one, doubt=UnusableReason.BYPASSED)
        if one.doubt is None
        and one.key.setting.role is Role.FORCED
        and one.nbytes not in asked.get(of_launch.get(one.launch, ()), (one.nbytes,))
        else one
        for one in samples
    ]


_Failed = tuple[Launch, Setting, Failure]
_Arm = tuple[Collective, Setting, Scale | None, str | None]
# A second failure is the setting's own. SIGKILL comes from outside (somebody, or the kernel where
# memory is short), so one more of those is borne; a GPU's memory fault is not tried again at all,
# since it may take the GPU with it.
_TRIES: Final = 2
_TRIES_KILLED: Final = 3


def failure_of(outcome: Outcome) -> Failure | None:
    """Failure of a launch; None where it did not fail, or where that was forgiven."""
    if outcome.lifted:
        return None
    if outcome.failure is None and outcome.status is Status.FAILED:
        return Failure.CRASH
    if outcome.failure is None and outcome.status is Status.TIMED_OUT:
        return Failure.HANG
    return outcome.failure


def is_hopeless(failures: Iterable[Failure]) -> bool:
    """Whether these failures are enough to try no more."""
    all_failures = list(failures)
    by_setting = [failure for failure in all_failures if failure is not Failure.KILLED]
    return (
        Failure.MEMORY_FAULT in by_setting
        or len(by_setting) >= _TRIES
        or len(all_failures) >= _TRIES_KILLED
    )


def quarantines(ended: Iterable[Ended]) -> tuple[Quarantine, ...]:
    """Every quarantined setting, in the order in which the settings first failed.

    Args:
        ended: all launches of a session that ended, in any order; imported ones never count.
    """
    failed: dict[_Arm, list[_Failed]] = {}
    for launch, outcome in ended:
        setting, failure = _forced(launch), failure_of(outcome)
        if setting is not None and failure is not None:
            failed.setdefault(_measured_thing(launch, setting), []).append(
                (launch, setting, failure)
            )
    return tuple(
        _quarantine(found)
        for found in failed.values()
        if is_hopeless(failure for *_, failure in found)
    )


def covers(quarantine: Quarantine, launch: Launch) -> bool:
    """Whether a launch measures a quarantined setting."""
    setting = _forced(launch)
    return setting is not None and _measured_thing(launch, setting) == (
        quarantine.collective,
        quarantine.setting,
        quarantine.scale,
        quarantine.rank_placement,
    )


def flagged_by_quarantine(samples: Iterable[Sample], ended: Iterable[Ended]) -> list[Sample]:
    """Flag the samples of quarantined settings."""
    pairs = tuple(ended)
    found = quarantines(pairs)
    out = {launch.id for launch, _ in pairs if any(covers(one, launch) for one in found)}
    return [
        replace(sample, doubt=UnusableReason.QUARANTINED)
        if sample.doubt is None and sample.launch in out
        else sample
        for sample in samples
    ]


def notices(found: Iterable[Quarantine]) -> tuple[Notice, ...]:
    """One warning for each, with its logs."""
    return tuple(
        Notice(
            caution=Caution.QUARANTINED,
            message=f"{one} is quarantined and not measured: {one.reason}",
            remedy="look into its log; a sweep into a new session (-o DIR) tries it again.",
            where=", ".join(f"{store.launch_folder(Path(), name)}/" for name in one.launches),
        )
        for one in found
    )


def _forced(launch: Launch) -> Setting | None:
    """The setting that a launch forces; baselines and imported files force none."""
    if not launch.argv or not launch.settings or not launch.collectives:
        return None
    setting = launch.settings[0]
    return None if setting.role is Role.BASELINE else setting


def _measured_thing(launch: Launch, setting: Setting) -> _Arm:
    return (
        launch.collectives[0],
        setting,
        launch.scale,
        launch.rank_placement,
    )


def _quarantine(failed: list[_Failed]) -> Quarantine:
    ordered = sorted(failed, key=lambda one: (one[0].repeat, one[0].attempt))
    first, setting, _ = ordered[0]
    collective, _, scale, placement = _measured_thing(first, setting)
    return Quarantine(
        collective=collective,
        setting=setting,
        scale=scale,
        rank_placement=placement,
        launches=tuple(launch.id for launch, *_ in ordered),
        failures=tuple(failure for *_, failure in ordered),
    )
