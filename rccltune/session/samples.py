"""A session's samples: kept in samples.csv, read from the raw logs again where that is old.

Everything is derived from the launches on disk: losing rccltune at any moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune import logs
from rccltune.model import Launch, Outcome, Reporter, Sample, Stated, Status
from rccltune.session import quarantine, store
from rccltune.session.files import Derived, writing
from rccltune.session.store import Session

AGAIN: Final = "samples.csv is missing or older than the launches: reading the raw logs again"


def load_samples(
    opened: Session, reporter: Reporter, derived: Derived | None = None
) -> tuple[Sample, ...]:
    """All samples of a session; samples.csv is made again where it is not current.

    Args:
        opened: the session.
        reporter: told what is worth telling.
        derived: of this session, where more is derived from it than samples.
    """
    stored = store.stored_samples(opened)
    if stored is not None:
        return stored
    reporter.say(AGAIN)
    kept = (derived or Derived(opened.path, reporter)).keep(
        "samples.csv", lambda: _made_again(opened, reporter)
    )
    return samples_from_logs(opened) if kept is None else kept


def _made_again(opened: Session, reporter: Reporter) -> tuple[Sample, ...]:
    # Read while nobody adds a launch.
    with writing(opened.path, reporter):
        samples = samples_from_logs(opened)
        store.commit(opened, [], samples)
    return samples


def samples_from_logs(opened: Session) -> tuple[Sample, ...]:
    """Every sample of a session, read anew from its raw logs."""
    ended = store.read_launches(opened.path)
    known = {}
    for launch, _ in ended:
        if not launch.argv:
            raw = store.raw_log(opened.path, launch.id)
            known[launch.id] = logs.read(raw, launch.stated or Stated(), launch.id).samples
    return tuple(samples_of(opened.path, ended, known))


Ended = tuple[Launch, Outcome]


def is_good(pair: Ended) -> bool:
    """Whether all that a launch was made for is there; wrong results are not, forgiven or not."""
    return pair[1].status is Status.OK and pair[1].failure is None


def counted(ended: Iterable[Ended]) -> list[Ended]:
    """Those whose samples count: what was made twice counts once.

    A launch that was cut off counts where it never came to its end; one that was made again to
    see whether the machine still works does not.
    """
    pairs = list(ended)
    first: dict[Launch, int] = {}
    for one, outcome in pairs:
        if one.argv and is_good((one, outcome)):
            first[_alike(one)] = min(one.attempt, first.get(_alike(one), one.attempt))
    return [pair for pair in pairs if not _is_superseded(*pair, first.get(_alike(pair[0])))]


def _alike(one: Launch) -> Launch:
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

    What a combined launch had proven when it was interrupted counts until that launch is made
    again.

    Args:
        folder: the session.
        ended: its launches.
        known: samples by launch, where they were read already.
    """
    from rccltune.session.launches import interrupted_walks, read_launch

    found: list[Sample] = []
    for one, outcome in counted(ended):
        found += known[one.id] if one.id in known else read_launch(one, folder, outcome)
    cut_off = interrupted_walks(folder)
    for ran in cut_off:
        found += ran.samples
    return quarantine.doubted(found, [*ended, *((ran.launch, ran.outcome) for ran in cut_off)])
