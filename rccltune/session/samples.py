"""A session's samples, and the settings that failed in it.

Everything is derived from what lies on disk: losing rccltune at any moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.model.failure import Quarantine
from rccltune.model.measurement import Caution, Launch, Notice, Outcome, StatedFacts
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Role
from rccltune.model.vocabulary import UnusableReason
from rccltune.session import rows, run_samples, runs, sample_table, store
from rccltune.session.files import DerivedFiles, writing
from rccltune.session.store import Session

if TYPE_CHECKING:
    import pandas as pd

Ended = tuple[Launch, Outcome]


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
    ended = store.read_launches(opened.path)
    out = {name for one in excluded_by(ended) for name in one.launches}
    parts = []
    for launch, outcome in ended:
        if outcome.has_table:
            part = read_log(opened.path, launch)
            if launch.id in out:
                reasons = part["unusable"].map(lambda one: one or UnusableReason.QUARANTINED.value)
                part["unusable"] = reasons.astype("category")
            parts.append(part)
    measured = runs.read_runs(opened.path)
    if measured:
        table = run_samples.table_of(measured, rows.rows_of_runs(measured))
        parts.append(sample_table.arranged(table))
    return sample_table.joined(parts)


def read_log(folder: Path, launch: Launch) -> pd.DataFrame:
    """Samples of a launch of ours or of an imported file, from its raw log.

    Raises:
        OutputError: it is not understood.
        CommandLineError: what is stated contradicts it.
    """
    # Most verbs find a table that is current, and read no log.
    from rccltune.logs import reader

    log, stated = store.raw_log(folder, launch.id), launch.stated or StatedFacts()
    if launch.argv:
        found = reader.read_launch(log, stated, launch.id)
    else:
        found = reader.read(log, stated, launch.id)
    return sample_table.framed(found.table, found.keys)


def bring_up_to_date(folder: Path) -> None:
    """Make samples.csv again of all that is there, where runs have grown since it was made.

    Raises:
        SessionError: the disk refuses.
        OutputError: a run that cannot be read.
    """
    opened = store.open_session(folder)
    if store.why_not_current(opened) is not None:
        store.commit(opened, [], frame_from_logs(opened))


def set_aside(opened: Session) -> tuple[Quarantine, ...]:
    """Settings of a session that failed and are measured no more."""
    failed = run_samples.failed(runs.read_runs(opened.path, most_ranks=0))
    return (*excluded_by(store.read_launches(opened.path)), *failed)


def excluded_by(ended: Iterable[Ended]) -> tuple[Quarantine, ...]:
    """Settings whose launch failed; the library as it is is never one."""
    return tuple(
        Quarantine(
            collective=launch.collectives[0],
            setting=launch.settings[0],
            scale=launch.scale,
            rank_placement=launch.rank_placement,
            launches=(launch.id,),
            failures=(outcome.failure,),
        )
        for launch, outcome in ended
        if outcome.failure is not None and launch.settings[0].role is Role.FORCED
    )


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
