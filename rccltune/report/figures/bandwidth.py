"""Data of the bus bandwidth figure: every setting against size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rccltune.model import Ceiling, Curve, busbw, busbw_factor, format_size
from rccltune.report.figures.scene import Scene, Series
from rccltune.report.figures.shapes import repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthPoint:
    """Bus bandwidth in GB/s at one size; low and high where the point was repeated."""

    nbytes: int
    busbw: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthLine:
    """One setting."""

    series: Series
    points: tuple[BandwidthPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingLine:
    """A ceiling, and the point of all lines that came nearest to it or went beyond."""

    ceiling: Ceiling
    reached: BandwidthPoint

    @property
    def label(self) -> str:
        """Short enough for half the figure."""
        slowest, limit = self.ceiling.slowest, self.ceiling.gb_per_s
        return (
            f"ceiling {limit:.3g} GB/s = {self.ceiling.n_links} × {slowest.gb_per_s:.3g}"
            f" (slowest link, {slowest.source}→{slowest.target});"
            f" reached {self.reached.busbw / limit:.2f} at {format_size(self.reached.nbytes)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthData:
    """Lines in the order of the scene; the ceiling where one is known."""

    scene: Scene
    leads: tuple[BandwidthLine, ...]
    faint: tuple[BandwidthLine, ...]
    ceiling: CeilingLine | None = None


def bandwidth_data(scene: Scene) -> BandwidthData | None:
    """Bus bandwidth of every series; the slow end of a time interval is its low end.

    None for a single rank, which sends nothing.
    """
    if busbw_factor(scene.collective, scene.scale.n_ranks) <= 0:
        return None
    leads = tuple(_line(scene, s) for s in scene.leads)
    faint = tuple(_line(scene, s) for s in scene.faint)
    return BandwidthData(
        scene=scene, leads=leads, faint=faint, ceiling=_ceiling(scene, (*leads, *faint))
    )


def _ceiling(scene: Scene, lines: Sequence[BandwidthLine]) -> CeilingLine | None:
    mine = (scene.collective, scene.scale, scene.rank_placement)
    # What sends fewer bytes than it was given is no measure of links.
    whole = (line for line in lines if not line.series.curve.key.variant.lossy)
    points = [point for line in whole for point in line.points]
    for one in scene.given.ceilings:
        if (one.collective, one.scale, one.rank_placement) == mine and points:
            return CeilingLine(ceiling=one, reached=max(points, key=lambda p: p.busbw))
    return None


def _line(scene: Scene, series: Series) -> BandwidthLine:
    return BandwidthLine(series=series, points=_points(scene, series.curve))


def _points(scene: Scene, curve: Curve) -> tuple[BandwidthPoint, ...]:
    def speed(nbytes: int, time_us: float) -> float:
        return busbw(scene.collective, scene.scale.n_ranks, nbytes, time_us)

    return tuple(
        BandwidthPoint(
            nbytes=p.nbytes,
            busbw=speed(p.nbytes, p.time_us),
            low=speed(p.nbytes, p.high_us) if repeated(p) else None,
            high=speed(p.nbytes, p.low_us) if repeated(p) else None,
        )
        for p in curve.points
    )
