"""The table of samples as records, which tests compare."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
from sample_rows import Sample

from rccltune.analyse.points import by_timing, without_rough
from rccltune.model.settings import CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement, UnusableReason
from rccltune.ranks.runs import is_run
from rccltune.session.sample_table import KEY

_GRAPH: Final = {"": None, "loop": False, "graph": True}


def records(table: pd.DataFrame) -> tuple[Sample, ...]:
    """The rows that count, as records: of a run those of the timing and the care that count.

    Args:
        table: of a session.
    """
    of_run = table["run"].map(is_run).astype(bool)
    counted = without_rough(by_timing(table[of_run]))
    timings = set(counted["timing"].unique())
    graph = _GRAPH[min(timings)] if len(timings) == 1 else None
    taken = table.loc[counted.index.union(table.index[~of_run])] if of_run.any() else table
    by_key = taken.groupby([*KEY, taken["run"].map(is_run)], observed=True, sort=False)
    number = by_key.ngroup()
    first = taken[~number.duplicated()]
    keys = [
        _key(row[:-1], graph=graph if is_run(row[-1]) else _GRAPH[row[-2]])
        for row in first[[*KEY, "run"]].astype(object).itertuples(index=False, name=None)
    ]
    settings = {word: Setting.parse(word) if word else None for word in taken["ran"].unique()}
    doubts: dict[str, UnusableReason | None] = {
        "": None,
        **{one.value: one for one in UnusableReason},
    }
    runs = {run for run in taken["run"].unique() if is_run(run)}
    names = (
        *("nbytes", "time_us", "wrong", "ran", "unusable"),
        *("run", "communicator", "pass", "line", "timing"),
    )
    return tuple(
        Sample(
            key=keys[at],
            launch=f"{run}:{communicator}" if run in runs else run,
            cycle=cycle,
            line=_or_none(line),
            nbytes=nbytes,
            time_us=time_us if time_us == time_us else None,  # noqa: PLR0124 - NaN is not itself
            n_wrong=_or_none(wrong),
            doubt=doubts[unusable],
            executed=settings[ran],
            timing=timing if run in runs else None,
        )
        for at, nbytes, time_us, wrong, ran, unusable, run, communicator, cycle, line, timing in zip(
            number.tolist(), *(taken[name].tolist() for name in names), strict=True
        )
    )


def _or_none(value: Any) -> int | None:  # noqa: ANN401 - a number or pandas' NA
    return value if isinstance(value, int) else None


def _key(named: tuple[Any, ...], *, graph: bool | None) -> CurveKey:
    fields = dict(zip(KEY, named, strict=True))
    return CurveKey(
        collective=Collective(fields["collective"]),
        setting=Setting.parse(fields["setting"]),
        placement=Placement(fields["placement"]),
        dtype=fields["dtype"] or None,
        op=fields["op"] or None,
        graph=graph,
        scale=Scale(n_nodes=fields["n_nodes"], n_ranks=fields["n_ranks"]),
        rank_placement=fields["rank_placement"] or None,
    )
