"""Data of the bus bandwidth figure: every setting against size."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model import Curve
from rccltune.plot.scene import Ceiling, Scene, Series
from rccltune.plot.shapes import repeated
from rccltune.units import busbw, busbw_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthPoint:
    """Bus bandwidth in GB/s at one size; low and high where the point was repeated."""

    nbytes: int
    busbw: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthLine:
    """One setting; ``twin`` is the same in the other placement."""

    series: Series
    points: tuple[BandwidthPoint, ...]
    twin: tuple[BandwidthPoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthData:
    """Lines in the order of the scene."""

    scene: Scene
    leads: tuple[BandwidthLine, ...]
    faint: tuple[BandwidthLine, ...]
    ceilings: tuple[Ceiling, ...]

    @property
    def has_twins(self) -> bool:
        """Whether any lead was measured in the other placement too."""
        return any(line.twin for line in self.leads)


def bandwidth_data(scene: Scene) -> BandwidthData | None:
    """Bus bandwidth of every series; the slow end of a time interval is its low end.

    None for a single rank, which sends nothing.
    """
    if busbw_factor(scene.collective, scene.scale.n_ranks) <= 0:
        return None
    return BandwidthData(
        scene=scene,
        leads=tuple(_line(scene, s) for s in scene.leads),
        faint=tuple(_line(scene, s) for s in scene.faint),
        ceilings=scene.given.ceilings,
    )


def _line(scene: Scene, series: Series) -> BandwidthLine:
    twin = _points(scene, series.twin) if series.twin else ()
    return BandwidthLine(series=series, points=_points(scene, series.curve), twin=twin)


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
