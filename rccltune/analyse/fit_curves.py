"""Curves of time against size, through the points that settings are chosen by.

A curve is one setting in one view, from its smallest to its largest measured size. Its points are
those of :mod:`rccltune.analyse.points`: nothing else is left out of them or put into them. The
models fitted to them are those of :mod:`rccltune.analyse.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

import pandas as pd

from rccltune.analyse import points
from rccltune.analyse.models import fit_all
from rccltune.analyse.points import KEYS, TARGET, VIEW
from rccltune.model.curves import Curve, CurvePoint
from rccltune.model.settings import CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement

_CLOCK: Final = "timing_of_view"


def curves(
    table: pd.DataFrame, wrong: Mapping[tuple[str, str], int] | None = None
) -> tuple[Curve, ...]:
    """Fit one curve to the points of each setting and view.

    Args:
        table: of :func:`rccltune.analyse.points.by_communicator`.
        wrong: samples with wrong results by collective and setting. Such a setting keeps its
            curves for people to look at, marked so that nothing chooses it.

    Returns:
        By rising key, as the table has it.
    """
    curve_points = points.points(table)
    curve_points[_CLOCK] = _timing_modes(curve_points)
    by_curve = groupby(curve_points.itertuples(index=False), key=lambda row: row[: len(KEYS)])
    parts: list[list[Any]] = [list(rows) for _, rows in by_curve]
    fitted = fit_all(
        [(tuple(int(p.nbytes) for p in part), tuple(p.time_us for p in part)) for part in parts]
    )
    return tuple(
        Curve(
            key=_key(part[0]),
            points=tuple(map(_point, part)),
            fits=result.fits,
            chosen=result.chosen,
            n_wrong=(wrong or {}).get((part[0].collective, part[0].setting), 0),
        )
        for part, result in zip(parts, fitted, strict=True)
    )


def _timing_modes(curve_points: pd.DataFrame) -> pd.Series[Any]:
    """Whether all sizes of a view were timed by replayed graphs: yes, no, or None for some."""
    by_view = curve_points.groupby([*TARGET, *VIEW], observed=True, sort=False)["is_graph"]
    every, some = by_view.transform("all"), by_view.transform("any")
    agreed: pd.Series[Any] = every.astype(object).where(every == some, None)
    return agreed


def _key(row: Any) -> CurveKey:  # noqa: ANN401 - a row of pandas
    return CurveKey(
        collective=Collective(row.collective),
        setting=Setting.parse(row.setting),
        placement=Placement(row.placement),
        dtype=row.dtype or None,
        op=row.op or None,
        graph=row.timing_of_view,
        scale=Scale(n_nodes=int(row.n_nodes), n_ranks=int(row.n_ranks)),
        rank_placement=row.rank_placement or None,
    )


def _point(row: Any) -> CurvePoint:  # noqa: ANN401 - a row of pandas
    return CurvePoint(
        nbytes=int(row.nbytes),
        time_us=float(row.time_us),
        low_us=float(row.low_us),
        high_us=float(row.high_us),
        n_samples=int(row.n_passes),
        n_communicators=int(row.n_communicators),
        n_left_out=int(row.n_stalled),
        timing=row.timing,
    )
