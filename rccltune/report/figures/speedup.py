"""Data of the speed-up figure: baseline time over a setting's time, against size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rccltune.model import Curve, CurvePoint, Zone
from rccltune.report.figures.scene import Scene, Series
from rccltune.report.figures.shapes import repeated

LOWEST: Final = 0.25
HIGHEST: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupPoint:
    """baseline time / time, above 1 where the setting is faster.

    Attributes:
        low: worst case of both intervals (fastest baseline over slowest run), None where neither
            side was repeated.
        high: best case.
    """

    nbytes: int
    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupLine:
    """One setting against baseline at the sizes where both were measured."""

    series: Series
    points: tuple[SpeedupPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupData:
    """Lines in the order of the scene, without the baseline itself.

    Attributes:
        chosen: one line for each zone that chooses, cut to the zone's sizes.
    """

    scene: Scene
    baseline: Series
    leads: tuple[SpeedupLine, ...]
    faint: tuple[SpeedupLine, ...]
    chosen: tuple[SpeedupLine, ...]

    @property
    def reach(self) -> tuple[float, float]:
        """The ratios worth showing, 1 among them.

        Settings far slower than the baseline would press what matters into a thin strip, and so
        would a baseline that stalled at a few sizes: what lies below a quarter is cut off, and
        what lies above ten where less than a quarter of the points does.
        """
        points = [p for line in self.leads + self.faint for p in line.points]
        values = [v for p in points for v in (p.ratio, p.low, p.high) if v is not None]
        low, high = min(1.0, *values), max(1.0, *values)
        stalled = 0 < sum(p.ratio > HIGHEST for p in points) < len(points) / 4
        return max(low, LOWEST), min(high, HIGHEST) if stalled else high


def speedup_data(scene: Scene) -> SpeedupData | None:
    """Speed-ups, None where there is no baseline or nothing to hold against it.

    A size at which only one of the two was measured is left out: nothing is ever compared with
    an interpolated time.
    """
    base = scene.baseline
    if base is None:
        return None
    leads = _lines(base, scene.leads)
    faint = _lines(base, scene.faint)
    if not leads and not faint:
        return None
    chosen = (_chosen(base, zone, series) for zone, series in scene.chosen)
    kept = tuple(line for line in chosen if line.points)
    return SpeedupData(scene=scene, baseline=base, leads=leads, faint=faint, chosen=kept)


def _lines(base: Series, series: tuple[Series, ...]) -> tuple[SpeedupLine, ...]:
    lines = (SpeedupLine(series=s, points=speedups(base.curve, s.curve)) for s in series)
    return tuple(line for line in lines if line.points and line.series is not base)


def _chosen(base: Series, zone: Zone, series: Series) -> SpeedupLine:
    points = speedups(base.curve, series.curve)
    inside = tuple(p for p in points if zone.min_nbytes <= p.nbytes <= zone.max_nbytes)
    return SpeedupLine(series=series, points=inside)


def speedups(base: Curve, curve: Curve) -> tuple[SpeedupPoint, ...]:
    """Speed-up at each size that both curves have."""
    by_size = {p.nbytes: p for p in base.points}
    return tuple(_point(by_size[p.nbytes], p) for p in curve.points if p.nbytes in by_size)


def _point(base: CurvePoint, point: CurvePoint) -> SpeedupPoint:
    ratio = base.time_us / point.time_us
    if not (repeated(base) or repeated(point)):
        return SpeedupPoint(nbytes=point.nbytes, ratio=ratio)
    return SpeedupPoint(
        nbytes=point.nbytes,
        ratio=ratio,
        low=base.low_us / point.high_us,
        high=base.high_us / point.low_us,
    )
