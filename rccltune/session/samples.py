"""A session's samples, and the settings that failed in it.

Everything is derived from what lies on disk: losing rccltune at any moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.model.errors import SessionError
from rccltune.model.failure import ExcludedSetting, Failure
from rccltune.model.measurement import Caution, Notice
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective, UnusableReason
from rccltune.ranks import plan, rows, runs
from rccltune.ranks.hangs_and_crashes import find_excluded
from rccltune.ranks.plan import setting_of
from rccltune.ranks.runs import Run
from rccltune.ranks.unusable_rows import why_unusable_samples
from rccltune.session import sample_table, store
from rccltune.session.files import DerivedFiles
from rccltune.session.lock import lock_session
from rccltune.session.store import Session

if TYPE_CHECKING:
    import pandas as pd

_CELL: Final = ["collective", "setting", "placement", "dtype", "op", "nbytes"]
_AS_MEASURED: Final = (
    *("collective", "dtype", "placement", "timing", "nbytes", "calls"),
    *("time_us", "slowest_us", "unusable", "process", "communicator", "line"),
)
REPORT_WRONG: Final = (
    "keep the logs and report it to the library's maintainers; no speed is worth it."
)
# Of a list, for people.
_NAMED: Final = 3
_REGISTERED: Final = {"0": False, "1": True}


def load_frame(
    opened: Session, reporter: Reporter, derived: DerivedFiles | None = None
) -> pd.DataFrame:
    """All samples of a session; samples.csv is made again where it is not current.

    Args:
        opened: the session.
        reporter: told what is worth telling.
        derived: of this session, where more is derived from it than samples.

    Raises:
        SessionError: a row of samples.csv that cannot be read, or the table cannot be used and
            what it was made from is not there.
        OutputError: a file of a run or a log that cannot be.
    """
    stored = store.stored_samples(opened)
    if stored is not None:
        return stored
    _check_raw(opened)
    reporter.say(why_made_again(opened))
    samples = (derived or DerivedFiles(opened.path, reporter)).keep(
        "samples.csv", lambda: _made_again(opened, reporter)
    )
    return frame_from_logs(opened) if samples is None else samples


def _check_raw(opened: Session) -> None:
    """Refuse to make a table of nothing in the place of one that has samples."""
    if opened.n_samples and not store.has_raw(opened.path):
        raise SessionError(
            f"{store.why_not_current(opened)}, and the runs and logs it was made from are gone",
            where=str(opened.path),
            hint="copy the session again with all its folders.",
        )


def why_made_again(opened: Session) -> str:
    """The sentence with which samples.csv is made again."""
    return f"{store.why_not_current(opened)}: it is made again from the raw runs and logs"


def _made_again(opened: Session, reporter: Reporter) -> pd.DataFrame:
    # Read while nobody adds a launch.
    with lock_session(opened.path, reporter):
        samples = frame_from_logs(opened)
        store.commit(opened, [], samples)
    return samples


def frame_from_logs(opened: Session) -> pd.DataFrame:
    """Read every sample of a session anew from its raw runs and logs.

    Raises:
        SessionError: it has samples, and nothing that they were made from.
        OutputError: a file of a run or a log that cannot be read.
    """
    _check_raw(opened)
    measured = runs.read_runs(opened.path)
    parts = list(_of_logs(opened.path, measured))
    table = None
    if any(run.steps for run in measured):
        table = rows.rows_of_runs(measured)
        parts.append(sample_table.arranged(_samples_of_runs(measured, table)))
    samples = sample_table.joined(parts)
    out = find_excluded(measured, table)
    samples["unusable"] = why_unusable_samples(samples, out).astype("category")
    return samples


def _samples_of_runs(measured: Sequence[Run], table: pd.DataFrame) -> pd.DataFrame:
    """Every timing of the sweep's runs of a session as rows of samples.csv, by run and line.

    Args:
        measured: all runs.
        table: their rows.
    """
    timed = table[
        (table["step"] == plan.MEASURE)
        & (table["unusable"] != UnusableReason.NO_TIME.value)
        & (table["purpose"] != plan.VERIFY)
    ]
    timed = timed.reset_index(drop=True)
    settings = {word: Setting.parse(word) for word in timed["setting"].unique()}
    reducing = {name: Collective(name).reduces for name in timed["collective"].unique()}
    files = {run.number: run.file for run in measured}
    samples: pd.DataFrame = timed[list(_AS_MEASURED)].copy()
    samples["run"] = timed["run"].map({run.number: run.name for run in measured})
    for name in ("n_nodes", "n_ranks", "rank_placement"):
        samples[name] = timed["run"].map({at: getattr(one, name) for at, one in files.items()})
    samples["op"] = timed["op"].where(timed["collective"].map(reducing).astype(bool), "none")
    samples["setting"] = timed["setting"].map({w: str(one) for w, one in settings.items()})
    samples["wrong"] = _wrong(table, timed)
    for name in ("ran", "library"):
        samples[name] = timed[name].map(
            {word: _setting_cell(word) for word in timed[name].unique()}
        )
    samples["registered"] = timed["registered"].map(_REGISTERED).astype("boolean")
    samples["trees"], samples["signature"] = _orders(table, timed)
    # Where starts were compared, communicators of one start say less than they seem to.
    cell = timed.groupby(["collective", "nbytes"], sort=False).ngroup()
    has_starts = (timed["purpose"] == plan.SITE).groupby(cell).transform("any")
    samples["rough"] = (timed["purpose"] == plan.FIRST) | (
        has_starts & (timed["purpose"] == plan.SECOND)
    )
    by = ["run", "communicator", *_CELL, "timing"]
    samples["pass"] = timed.groupby(by, sort=False).cumcount()
    return samples


def _setting_cell(word: str) -> str:
    """A setting as samples.csv names it; empty where the row names none."""
    setting = setting_of(word)
    return "" if setting is None else str(setting)


def _wrong(table: pd.DataFrame, timed: pd.DataFrame) -> pd.Series:
    """Wrong elements that each timing's cell gave; missing where none was checked."""
    is_result = table["wrong"].notna() & (table["step"] != plan.ORDER)
    summed = table[is_result].groupby(_CELL)["wrong"].sum()
    n_wrong: pd.Series = timed.join(summed.rename("n_wrong"), on=_CELL)["n_wrong"].astype("Int64")
    return n_wrong


def _orders(table: pd.DataFrame, timed: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Trees and signature of each timing's setting at its size; missing where none was probed."""
    cell = ["collective", "setting", "dtype", "nbytes"]
    probed = table[(table["step"] == plan.ORDER) & (table["purpose"] == plan.ORDERS)]
    first = probed.groupby(cell)[["trees", "signature"]].first()
    rows_with_words = timed[cell].join(first, on=cell)
    return rows_with_words["trees"].astype("Int64"), rows_with_words["signature"].fillna("").astype(
        str
    )


def _of_logs(folder: Path, measured: Iterable[Run]) -> Iterator[pd.DataFrame]:
    """Samples of imported files and of runs of rccl-tests, from their raw logs.

    Raises:
        OutputError: one is not understood.
        CommandLineError: what is stated contradicts it.
    """
    # Most verbs find a table that is current, and read no log.
    from rccltune.logs import parsed_log

    for one in store.imported_files(folder):
        log = parsed_log.read_log(store.raw_log(folder, one.id), one.stated, one.id)
        yield sample_table.framed(log.table, log.keys)
    for run in measured:
        if run.has_log_table and run.file.stated is not None:
            log = parsed_log.read_launch(store.raw_log(folder, run.name), run.file.stated, run.name)
            yield sample_table.framed(log.table, log.keys)


def bring_up_to_date(folder: Path) -> None:
    """Make samples.csv again of all that is there, where runs have grown since it was made.

    Raises:
        SessionError: the disk refuses.
        OutputError: a run that cannot be read.
    """
    opened = store.open_session(folder)
    if store.why_not_current(opened) is not None:
        store.commit(opened, [], frame_from_logs(opened))


def damage(session: Path, session_runs: Iterable[Run]) -> tuple[Notice, ...]:
    """One warning for each run that has ended and of which rows are lost.

    Args:
        session: its folder.
        session_runs: all of them.
    """
    damaged = ((run, run.damaged_files) for run in session_runs)
    return tuple(
        Notice(
            caution=Caution.INCOMPLETE_LOG,
            message=f"{run.name} has lost rows: "
            f"{len(files)} of its {run.file.n_ranks} ranks' files cut or missing, and what not all "
            "ranks have is not used",
            remedy="copy the session again with all its files, or measure what is lost again with "
            "the same sweep.",
            where=", ".join(str(file.relative_to(session)) for file in files[:_NAMED]),
        )
        for run, files in damaged
        if files
    )


def excluded(session_runs: Sequence[Run]) -> tuple[ExcludedSetting, ...]:
    """Settings that are measured no more, by all runs of a session."""
    # Every verb asks: few runs have wrong results, and a table of all rows takes long.
    wrong = [run for run in session_runs if rows.has_wrong_results(run)]
    return find_excluded(session_runs, rows.rows_of_runs(wrong) if wrong else None)


def notices(settings: Iterable[ExcludedSetting]) -> tuple[Notice, ...]:
    """One warning of all wrong results, one for each setting that failed otherwise; with logs."""
    settings = tuple(settings)
    wrong = [one for one in settings if Failure.WRONG in one.failures]
    said = [
        Notice(
            caution=Caution.EXCLUDED,
            message=f"{one} is excluded and not measured: {one.reason}",
            remedy="look into its log; a sweep into a new session (-o DIR) tries it again.",
            where=_folders([one]),
        )
        for one in settings
        if set(one.failures) != {Failure.WRONG}
    ]
    if wrong:
        names = ", ".join(map(str, wrong))
        said.insert(
            0,
            Notice(
                caution=Caution.WRONG_RESULTS,
                message=f"{names} gave WRONG RESULTS: excluded, chosen nowhere",
                remedy=REPORT_WRONG,
                where=_folders(wrong),
            ),
        )
    return tuple(said)


def _folders(settings: Iterable[ExcludedSetting]) -> str:
    """Folders of the launches in which settings failed."""
    names = dict.fromkeys(name for one in settings for name in one.launches)
    return ", ".join(f"{store.folder_named(Path(), name)}/" for name in names)
