"""Rows of the rank program as rows of samples.csv, and which of them count.

A communicator is what is repeated. Every timing stands in the table, with why it must not be used
where it must not (:mod:`rccltune.session.sample_table` has the columns). Where settings were timed
by both clocks at a size, replayed graphs count up to 4 MiB and loops above; where a setting was
timed roughly and again with care, care counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from rccltune.model.failure import Failure, Quarantine
from rccltune.model.measurement import RUNS, Fingerprint, Launch, Outcome, Status
from rccltune.model.settings import Role, Scale, Setting
from rccltune.model.vocabulary import Collective, UnusableReason
from rccltune.session import plan, rows
from rccltune.session.rows import setting_of
from rccltune.session.runs import PerfRun

if TYPE_CHECKING:
    import pandas as pd

GRAPH_UP_TO: Final = 4 << 20
# As samples.csv calls our plugin loaded and answering nothing.
IDLE: Final = "idle"
SWEEP: Final = "sweep"
VERIFY: Final = "verify"
_REASONS: Final = {
    rows.GOOD: "",
    rows.BYPASSED: UnusableReason.BYPASSED.value,
    rows.NOT_OFFERED: UnusableReason.INELIGIBLE.value,
    rows.OVERRIDDEN: UnusableReason.SUBSTITUTED.value,
    rows.UNKNOWN: UnusableReason.UNPROVEN.value,
}
_PREFIX: Final = "run-"
# What is compared at one size: all settings by one clock.
_SIZE: Final = ("collective", "dtype", "op", "placement", "nbytes")
_CELL: Final = ["collective", "setting", "placement", "dtype", "op", "nbytes"]
_AS_MEASURED: Final = (
    *("collective", "dtype", "placement", "clock", "nbytes", "calls"),
    *("time_us", "slowest_us", "process", "communicator", "line"),
)
_REGISTERED: Final = {"0": False, "1": True}


def name_of(run: int) -> str:
    """``run-3``, by which samples and reports name a run."""
    return f"{_PREFIX}{run}"


def number_in(name: str) -> int | None:
    """The run that a name names; None of a launch."""
    number = name.removeprefix(_PREFIX)
    return int(number) if name.startswith(_PREFIX) and number.isdigit() else None


def is_run(name: str) -> bool:
    """Whether a name in the column ``run`` is that of a run of the rank program."""
    return number_in(name) is not None


def run_in(launch: str) -> tuple[str, int | None]:
    """The run and the communicator that ``run-3:0`` names; of any other launch its own name."""
    run, _, communicator = launch.partition(RUNS)
    return (run, int(communicator)) if is_run(run) and communicator else (launch, None)


def role_of(setting: Setting) -> str:
    """The word for who chooses, in samples.csv."""
    return IDLE if setting.role is Role.SILENT else setting.role.value


def word_of(setting: Setting) -> str:
    """The word for a setting, in samples.csv."""
    return IDLE if setting.role is Role.SILENT else str(setting)


def table_of(measured: Sequence[PerfRun], table: pd.DataFrame) -> pd.DataFrame:
    """Every timing of the sweep's runs of a session as rows of samples.csv, by run and line.

    Args:
        measured: all runs.
        table: their rows.
    """
    timed = table[
        (table["step"] == plan.MEASURE)
        & (table["state"] != rows.UNTIMED)
        & (table["purpose"] != plan.VERIFY)
    ]
    timed = timed.reset_index(drop=True)
    settings = {word: Setting.parse(word) for word in timed["setting"].unique()}
    reducing = {name: Collective(name).reduces for name in timed["collective"].unique()}
    files = {run.number: run.file for run in measured}
    made: pd.DataFrame = timed[list(_AS_MEASURED)].copy()
    made["run"] = timed["run"].map({number: name_of(number) for number in files})
    for name in ("n_nodes", "n_ranks", "rank_placement"):
        made[name] = timed["run"].map({at: getattr(one, name) for at, one in files.items()})
    made["op"] = timed["op"].where(timed["collective"].map(reducing).astype(bool), "none")
    made["setting"] = timed["setting"].map({w: word_of(one) for w, one in settings.items()})
    made["role"] = timed["setting"].map({w: role_of(one) for w, one in settings.items()})
    made["wrong"] = _wrong(table, timed)
    for name in ("ran", "library"):
        made[name] = timed[name].map({word: _named(word) for word in timed[name].unique()})
    made["registered"] = timed["registered"].map(_REGISTERED).astype("boolean")
    made["trees"], made["signature"] = _orders(table, timed)
    made["unusable"] = why_unusable(measured, table, timed, made["wrong"])
    made["purpose"] = SWEEP
    # Where starts were compared, communicators of one start say less than they seem to.
    cell = timed.groupby(["collective", "nbytes"], sort=False).ngroup()
    has_starts = (timed["purpose"] == plan.SITE).groupby(cell).transform("any")
    made["rough"] = (timed["purpose"] == plan.FIRST) | (
        has_starts & (timed["purpose"] == plan.SECOND)
    )
    by = ["run", "communicator", *_CELL, "clock"]
    made["pass"] = timed.groupby(by, sort=False).cumcount()
    return made


def _named(word: str) -> str:
    """A setting as samples.csv names it; empty where the row names none."""
    found = setting_of(word)
    return "" if found is None else str(found)


def why_unusable(
    measured: Sequence[PerfRun],
    table: pd.DataFrame,
    timed: pd.DataFrame,
    wrong: pd.Series,
) -> pd.Series:
    """Why each time must not be used; empty where it may."""
    import pandas as pd

    aside = {(one.collective.value, str(one.setting)) for one in set_aside(measured, table)}
    names = zip(timed["collective"], timed["setting"], strict=True)
    found = timed["state"].map(_REASONS)
    is_out = pd.Series([name in aside for name in names], index=timed.index, dtype=bool)
    found = found.mask(is_out, UnusableReason.QUARANTINED.value)
    reasons: pd.Series = found.mask((wrong > 0).fillna(value=False), UnusableReason.WRONG.value)
    return reasons


def _wrong(table: pd.DataFrame, timed: pd.DataFrame) -> pd.Series:
    """Wrong elements that each timing's cell gave; missing where none was checked."""
    is_result = table["wrong"].notna() & (table["step"] != plan.ORDER)
    summed = table[is_result].groupby(_CELL)["wrong"].sum()
    found: pd.Series = timed.join(summed.rename("n_wrong"), on=_CELL)["n_wrong"].astype("Int64")
    return found


def _orders(table: pd.DataFrame, timed: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Trees and signature of each timing's setting at its size; missing where none was probed."""
    cell = ["collective", "setting", "dtype", "nbytes"]
    probed = table[(table["step"] == plan.ORDER) & (table["purpose"] == plan.ORDERS)]
    first = probed.groupby(cell)[["trees", "signature"]].first()
    found = timed[cell].join(first, on=cell)
    return found["trees"].astype("Int64"), found["signature"].fillna("").astype(str)


def scale_of(run: PerfRun) -> Scale:
    """Nodes and ranks of a run."""
    return Scale(n_nodes=run.file.n_nodes, n_ranks=run.file.n_ranks)


def by_clock(measured: pd.DataFrame, by: Sequence[str] = _SIZE) -> pd.DataFrame:
    """Measures by the clock that counts at their size: graph up to 4 MiB where there is one.

    Args:
        measured: with ``clock`` and ``nbytes``.
        by: columns of what is compared at a size: all settings by one clock.
    """
    if measured.empty:
        return measured
    size = measured.groupby(list(by), observed=True, sort=False).ngroup()
    is_graph = measured["clock"] == plan.GRAPH
    has_graph = is_graph.groupby(size).transform("any")
    has_loop = (~is_graph).groupby(size).transform("any")
    counts = has_graph & ((measured["nbytes"] <= GRAPH_UP_TO) | ~has_loop)
    kept: pd.DataFrame = measured[is_graph == counts]
    return kept


def without_rough(measured: pd.DataFrame, by: Sequence[str] = _SIZE) -> pd.DataFrame:
    """Rows of samples.csv without rough ones, where a setting has better ones at that size.

    Args:
        measured: with ``rough`` and ``setting``.
        by: columns of a size, as for :func:`by_clock`.
    """
    if not measured["rough"].any():
        return measured
    cell = measured.groupby([*by, "setting"], observed=True, sort=False).ngroup()
    has_fine = (~measured["rough"]).groupby(cell).transform("any")
    kept: pd.DataFrame = measured[~(measured["rough"] & has_fine)]
    return kept


# After so many a setting takes too much memory, or what kills it will go on.
MOST_KILLED: Final = 3


def failed(measured: Iterable[PerfRun], rules: str = "") -> tuple[Quarantine, ...]:
    """Settings with which runs hung or crashed, or were killed three times.

    No setting sends SIGKILL: somebody did, or the kernel where memory is short, and that is borne.

    Args:
        measured: all runs of a session; their rows are not looked at.
        rules: digest of a rule file whose rules are looked at instead of settings.
    """
    found: dict[_Name, list[tuple[PerfRun, Failure]]] = {}
    for run in measured:
        end = run.ended
        if end is None or end.failure is None or end.rules != rules:
            continue
        if end.setting is not None and end.collective is not None:
            found.setdefault((end.collective, end.setting), []).append((run, end.failure))
    return _quarantines({name: those for name, those in found.items() if not _is_borne(those)})


def _is_borne(those: Sequence[tuple[PerfRun, Failure]]) -> bool:
    return len(those) < MOST_KILLED and all(how is Failure.KILLED for _, how in those)


def set_aside(measured: Iterable[PerfRun], table: pd.DataFrame) -> tuple[Quarantine, ...]:
    """Settings that are measured no more: they hung, crashed or gave wrong results.

    Args:
        measured: all runs of a session.
        table: their rows.
    """
    by_number = {run.number: run for run in measured}
    spoiled = table[(table["wrong"] > 0) & (table["step"] != plan.ORDER)]
    columns = [spoiled[name] for name in ("collective", "setting", "run")]
    found: dict[_Name, list[tuple[PerfRun, Failure]]] = {}
    for collective, word, number in dict.fromkeys(zip(*columns, strict=True)):
        setting = Setting.parse(word)
        if setting.role is Role.FORCED:
            name = (Collective(collective), setting)
            found.setdefault(name, []).append((by_number[number], Failure.WRONG))
    return (*failed(by_number.values()), *_quarantines(found))


_Name: TypeAlias = tuple[Collective, Setting]


def _quarantines(
    found: Mapping[_Name, Sequence[tuple[PerfRun, Failure]]],
) -> tuple[Quarantine, ...]:
    return tuple(
        Quarantine(
            collective=collective,
            setting=setting,
            scale=scale_of(those[0][0]),
            rank_placement=those[0][0].file.rank_placement,
            launches=tuple(name_of(run.number) for run, _ in those),
            failures=tuple(failure for _, failure in those),
        )
        for (collective, setting), those in found.items()
    )


def as_launches(
    measured: Iterable[PerfRun], fingerprint: Fingerprint
) -> tuple[tuple[Launch, Outcome], ...]:
    """Runs as whoever lists launches wants them: what was started, and how it ended."""
    return tuple((_launch(run), _outcome(run, fingerprint)) for run in measured)


def _launch(run: PerfRun) -> Launch:
    steps = [one.step for one in run.steps if one.step is not None]
    return Launch(
        id=name_of(run.number),
        argv=run.file.argv,
        environment=tuple(sorted(run.file.added)),
        collectives=tuple(dict.fromkeys(step.call.collective for step in steps)),
        settings=tuple(dict.fromkeys(step.setting for step in steps)),
        scale=scale_of(run),
        rank_placement=run.file.rank_placement,
    )


def _outcome(run: PerfRun, fingerprint: Fingerprint) -> Outcome:
    end = run.ended
    status: Status = Status.INTERRUPTED
    if end is not None:
        failed = Status.TIMED_OUT if end.failure is Failure.HANG else Status.FAILED
        status = Status.OK if end.failure is None else failed
    return Outcome(
        launch=name_of(run.number),
        status=status,
        exit_code=end.exit_code if end else None,
        signal=end.signal if end else None,
        started=run.file.started,
        duration_s=end.duration_s if end else None,
        n_samples=sum(_is_measure(one) for one in run.steps[: run.n_done]),
        fingerprint=fingerprint,
        library_version=run.file.library_version,
        failure=end.failure if end else None,
    )


def _is_measure(one: plan.PlacedStep) -> bool:
    return one.step is not None and one.step.kind == plan.MEASURE
