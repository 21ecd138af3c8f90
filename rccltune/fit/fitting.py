"""Samples to curves with their fits, and what weakens them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rccltune.fit.gather import Gathered, Row, gather, rows
from rccltune.fit.models import fit_all
from rccltune.fit.notices import doubt_notices, stall_notices
from rccltune.fit.stalls import Stall, find_stalls
from rccltune.model import Curve, CurveKey, CurvePoint, Notice, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What the samples give.

    Attributes:
        curves: in the order in which their keys first appear.
        notices: stalls, doubted samples, disqualified settings.
    """

    curves: tuple[Curve, ...]
    notices: tuple[Notice, ...]


def curves(samples: Sequence[Sample]) -> Fitted:
    """Fit one curve for each key.

    Doubted samples are never used. A launch counts once at each size, with the median of its
    cycles, since only launches are independent; the curve's point is the median over launches,
    without those that stalled there. A setting with wrong results at any size keeps its curve
    for people to look at, marked with ``n_wrong`` so that nothing chooses it.
    """
    gathered = gather(samples)
    stalls: dict[CurveKey, list[Stall]] = {}
    points: dict[CurveKey, tuple[CurvePoint, ...]] = {}
    for key, table in gathered.tables.items():
        by_size = rows(table, gathered.firsts.get(key))
        stalls[key] = find_stalls(by_size)
        kept = _points(by_size, stalls[key])
        if kept:
            points[key] = kept
    return Fitted(
        curves=_curves(gathered, points),
        notices=(*stall_notices(stalls), *doubt_notices(gathered.doubted, gathered.wrong)),
    )


def _curves(
    gathered: Gathered, points: dict[CurveKey, tuple[CurvePoint, ...]]
) -> tuple[Curve, ...]:
    fitted = fit_all(
        [(tuple(p.nbytes for p in row), tuple(p.time_us for p in row)) for row in points.values()]
    )
    wrong = gathered.wrong
    return tuple(
        Curve(
            key=key,
            points=row,
            fits=result.fits,
            chosen=result.chosen,
            n_wrong=wrong[key.collective, key.setting, key.variant] if wrong else 0,
        )
        for (key, row), result in zip(points.items(), fitted, strict=True)
    )


def _points(by_size: Sequence[Row], stalls: Sequence[Stall]) -> tuple[CurvePoint, ...]:
    out = {(stall.nbytes, stall.launch) for stall in stalls}
    made = (_point(row, out) for row in by_size)
    return tuple(point for point in made if point is not None)


def _point(row: Row, out: set[tuple[int, str]]) -> CurvePoint | None:
    kept = row.centres
    if out:
        kept = {launch: time for launch, time in kept.items() if (row.nbytes, launch) not in out}
        if not kept:
            return None
    centres = tuple(kept.values())
    spread = centres if len(row.centres) > 1 else row.cycles
    return CurvePoint(
        nbytes=row.nbytes,
        time_us=centres[0] if len(centres) == 1 else median(centres),
        low_us=min(spread),
        high_us=max(spread),
        n_samples=len(row.cycles),
        n_launches=len(kept),
        launches=tuple(kept),
        launch_times_us=centres,
        n_left_out=len(row.centres) - len(kept),
    )
