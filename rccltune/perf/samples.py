"""Rows of the rank program as the samples that everything after measuring works on.

A communicator is what is repeated: its samples are those of a launch called ``run-3:0``. Where a
setting was timed by both clocks at a size, replayed graphs count up to 4 MiB and loops above; where
it was timed roughly and again with care, care counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rccltune.model.failure import Failure, Quarantine
from rccltune.model.measured import RUNS, Fingerprint, Launch, Outcome, Sample, Schedule, Status
from rccltune.model.settings import KNOWN_VARIANTS, CurveKey, Role, Scale, Setting, Variant
from rccltune.model.vocabulary import Collective, Doubt, Placement
from rccltune.perf import plan, rows, runs
from rccltune.perf.rows import setting_of
from rccltune.perf.runs import Run

if TYPE_CHECKING:
    import pandas as pd

GRAPH_UP_TO: Final = 4 << 20
_DOUBTS: Final = {
    rows.GOOD: None,
    rows.BYPASSED: Doubt.BYPASSED,
    rows.NOT_OFFERED: Doubt.INELIGIBLE,
    rows.OVERRIDDEN: Doubt.SUBSTITUTED,
    rows.UNKNOWN: Doubt.UNPROVEN,
}
_PREFIX: Final = "run-"
# What is compared at one size: all settings by one clock.
_SIZE: Final = ["variant", "collective", "dtype", "op", "placement", "nbytes"]


def name_of(run: int) -> str:
    """``run-3``, by which samples and reports name a run."""
    return f"{_PREFIX}{run}"


def number_in(name: str) -> int | None:
    """The run that a name names; None of a launch."""
    number = name.removeprefix(_PREFIX)
    return int(number) if name.startswith(_PREFIX) and number.isdigit() else None


def is_run(launch: str) -> bool:
    """Whether a sample's launch is a communicator of the rank program: ``run-3:0``."""
    return number_in(launch.partition(RUNS)[0]) is not None


def samples_of(
    measured: Sequence[Run], table: pd.DataFrame, variants: Mapping[str, Variant]
) -> tuple[Sample, ...]:
    """Samples of all runs of a session, in the order of runs and lines.

    Args:
        measured: all runs.
        table: their rows.
        variants: by name, those that every session knows left out.
    """
    timed = table[(table["step"] == plan.MEASURE) & (table["state"] != rows.UNTIMED)]
    kept = careful(by_clock(timed))
    known = {**KNOWN_VARIANTS, **variants}
    out = {(q.collective, q.setting, q.variant.name) for q in set_aside(measured, table, known)}
    wrong = _wrong(table)
    ran = rows.what_ran(table)
    clocks = set(kept["clock"])
    graph = clocks == {plan.GRAPH} if len(clocks) == 1 else None
    by_number = {run.number: run for run in measured}
    keys: dict[tuple[Any, ...], CurveKey] = {}
    passes: Counter[tuple[Any, ...]] = Counter()
    found = []
    row: Any
    for row in kept.itertuples(index=False):
        run = by_number[row.run]
        named = (row.collective, row.setting, row.placement, row.dtype, row.op, row.variant)
        if named not in keys:
            keys[named] = _key(run, row, variant_of(row.variant, known), graph=graph)
        key = keys[named]
        cell = (*named, row.nbytes)
        doubt = _DOUBTS[row.state]
        if (key.collective, key.setting, row.variant) in out:
            doubt = Doubt.QUARANTINED
        n_wrong = wrong.get(cell)
        if n_wrong:
            doubt = Doubt.WRONG
        where = (row.run, row.communicator, *cell)
        told = ran.get((row.variant, row.setting, row.collective, row.dtype, row.nbytes), "")
        found.append(
            Sample(
                key=key,
                launch=f"{name_of(row.run)}:{row.communicator}",
                cycle=passes[where],
                line=int(row.line),
                nbytes=int(row.nbytes),
                time_us=float(row.time_us),
                n_wrong=n_wrong,
                doubt=doubt,
                executed=setting_of(told),
                clock=row.clock,
            )
        )
        passes[where] += 1
    return tuple(found)


def _key(run: Run, row: Any, variant: Variant, *, graph: bool | None) -> CurveKey:  # noqa: ANN401 - a row of pandas
    collective = Collective(row.collective)
    return CurveKey(
        collective=collective,
        setting=Setting.parse(row.setting),
        placement=Placement(row.placement),
        dtype=row.dtype,
        redop=row.op if collective.reduces else "none",
        graph=graph,
        scale=scale_of(run),
        rank_placement=run.file.rank_placement,
        variant=variant,
    )


def variant_of(name: str, known: Mapping[str, Variant]) -> Variant:
    """A variant by its name; of one that the session does not describe the name alone."""
    return known.get(name) or Variant(name=name)


def scale_of(run: Run) -> Scale:
    """Nodes and ranks of a run."""
    return Scale(n_nodes=run.file.n_nodes, n_ranks=run.file.n_ranks)


def by_clock(measured: pd.DataFrame) -> pd.DataFrame:
    """Measures by the clock that counts at their size: graph up to 4 MiB where there is one."""
    has_graph = (measured["clock"] == plan.GRAPH).groupby([measured[c] for c in _SIZE])
    has_loop = (measured["clock"] == plan.LOOP).groupby([measured[c] for c in _SIZE])
    small = measured["nbytes"] <= GRAPH_UP_TO
    graph = has_graph.transform("any") & (small | ~has_loop.transform("any"))
    kept: pd.DataFrame = measured[(measured["clock"] == plan.GRAPH) == graph]
    return kept


def careful(measured: pd.DataFrame) -> pd.DataFrame:
    """Measures without rough ones, where a setting has better ones at that size."""
    cells = [measured[name] for name in (*_SIZE, "setting")]
    has_fine = (measured["purpose"] == runs.FINE).groupby(cells).transform("any")
    kept: pd.DataFrame = measured[(measured["purpose"] == runs.FINE) | ~has_fine]
    return kept


def _wrong(table: pd.DataFrame) -> dict[tuple[Any, ...], int]:
    """Wrong elements that checks found, by what was called; 0 where all were right."""
    checks = table[(table["step"] == plan.CHECK) & table["wrong"].notna()]
    names = ["collective", "setting", "placement", "dtype", "op", "variant", "nbytes"]
    summed = checks.groupby(names)["wrong"].sum()
    return {tuple(name): int(n) for name, n in summed.items()}


def failed(measured: Iterable[Run], variants: Mapping[str, Variant]) -> tuple[Quarantine, ...]:
    """Settings with which runs hung or crashed.

    Args:
        measured: all runs of a session; their rows are not looked at.
        variants: by name, all of them.
    """
    found: dict[_Name, list[tuple[Run, Failure]]] = {}
    for run in measured:
        end = run.ended
        if end is None or end.failure is None:
            continue
        if end.setting is not None and end.collective is not None:
            name = (end.collective, end.setting, run.file.variant)
            found.setdefault(name, []).append((run, end.failure))
    return _quarantines(found, variants)


def set_aside(
    measured: Iterable[Run], table: pd.DataFrame, variants: Mapping[str, Variant]
) -> tuple[Quarantine, ...]:
    """Settings that are measured no more: they hung, crashed or gave wrong results.

    Args:
        measured: all runs of a session.
        table: their rows.
        variants: by name, all of them.
    """
    by_number = {run.number: run for run in measured}
    checks = table[(table["step"] == plan.CHECK) & (table["wrong"] > 0)]
    columns = [checks[name] for name in ("collective", "setting", "variant", "run")]
    found: dict[_Name, list[tuple[Run, Failure]]] = {}
    for collective, word, variant, number in dict.fromkeys(zip(*columns, strict=True)):
        setting = Setting.parse(word)
        if setting.role is Role.FORCED:
            name = (Collective(collective), setting, variant)
            found.setdefault(name, []).append((by_number[number], Failure.WRONG))
    return (*failed(by_number.values(), variants), *_quarantines(found, variants))


_Name: TypeAlias = tuple[Collective, Setting, str]


def _quarantines(
    found: Mapping[_Name, Sequence[tuple[Run, Failure]]], variants: Mapping[str, Variant]
) -> tuple[Quarantine, ...]:
    return tuple(
        Quarantine(
            collective=collective,
            setting=setting,
            variant=variant_of(variant, variants),
            scale=scale_of(those[0][0]),
            rank_placement=those[0][0].file.rank_placement,
            launches=tuple(name_of(run.number) for run, _ in those),
            failures=tuple(failure for _, failure in those),
        )
        for (collective, setting, variant), those in found.items()
    )


def as_launches(
    measured: Iterable[Run], fingerprint: Fingerprint, variants: Mapping[str, Variant]
) -> tuple[tuple[Launch, Outcome], ...]:
    """Runs as whoever lists launches wants them: what was started, and how it ended."""
    known = {**KNOWN_VARIANTS, **variants}
    return tuple((_launch(run, known), _outcome(run, fingerprint)) for run in measured)


def _launch(run: Run, variants: Mapping[str, Variant]) -> Launch:
    steps = [one.step for one in run.steps if one.step is not None]
    return Launch(
        id=name_of(run.number),
        argv=run.file.argv,
        environment=tuple(sorted(run.file.added)),
        collectives=tuple(dict.fromkeys(step.call.collective for step in steps)),
        schedule=_schedule(dict.fromkeys(step.setting for step in steps)),
        variant=variant_of(run.file.variant, variants),
        scale=scale_of(run),
        rank_placement=run.file.rank_placement,
        repeat=run.file.number_of,
    )


def _schedule(settings: Mapping[Setting, None]) -> Schedule | None:
    return Schedule(settings=tuple(settings)) if settings else None


def _outcome(run: Run, fingerprint: Fingerprint) -> Outcome:
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


def _is_measure(one: plan.Placed) -> bool:
    return one.step is not None and one.step.kind == plan.MEASURE
