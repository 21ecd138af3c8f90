"""Figures that are lines against size: bandwidth, speed-up, channels, environments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model.chosen import Environment, VariantGain, Zone
from rccltune.model.curves import Curve, CurvePoint
from rccltune.model.defaults import TOLERANCE
from rccltune.model.links import Ceiling
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import busbw, busbw_factor, format_size
from rccltune.report.figures.look import Polyline, repeated
from rccltune.report.figures.scene import Scene, Series


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
    leads = tuple(_bandwidth_line(scene, s) for s in scene.leads)
    faint = tuple(_bandwidth_line(scene, s) for s in scene.faint)
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


def _bandwidth_line(scene: Scene, series: Series) -> BandwidthLine:
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


MAX_SIZES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLine:
    """One size.

    Attributes:
        fastest: by rising number of channels, the least time in µs and the setting that had it.
    """

    nbytes: int
    fastest: Mapping[int, tuple[float, Setting]]

    @property
    def best_us(self) -> float:
        """Least time at this size with any number of channels."""
        return min(time_us for time_us, _ in self.fastest.values())

    @property
    def fewest(self) -> int:
        """The fewest channels whose time is within the tolerance of the least."""
        most_us = self.best_us * (1 + TOLERANCE)
        return min(n for n, (time_us, _) in self.fastest.items() if time_us <= most_us)


def channel_data(scene: Scene) -> tuple[ChannelLine, ...]:
    """Lines by rising size, at sizes with several numbers of channels; none where none has."""
    found: dict[int, dict[int, list[tuple[float, Setting]]]] = defaultdict(dict)
    for series in scene.everyone:
        channels = series.setting.channels
        for nbytes, time_us in series.time_by_size.items() if channels is not None else ():
            found[nbytes].setdefault(channels or 0, []).append((time_us, series.setting))
    sizes = sorted(nbytes for nbytes, counts in found.items() if len(counts) > 1)
    return tuple(
        ChannelLine(
            nbytes=nbytes,
            fastest={n: min(times, key=_time) for n, times in sorted(found[nbytes].items())},
        )
        for nbytes in evenly(sizes, MAX_SIZES)
    )


def _time(pair: tuple[float, Setting]) -> float:
    return pair[0]


def evenly(values: Sequence[int], at_most: int) -> tuple[int, ...]:
    """At most so many values, evenly spaced by rank, the first and the last among them."""
    if len(values) <= at_most:
        return tuple(values)
    step = (len(values) - 1) / (at_most - 1)
    return tuple(values[round(i * step)] for i in range(at_most))


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantLine:
    """One variant with the rules that belong to it.

    Attributes:
        points: (size in bytes, time with the site's rules / time in it).
        threshold_nbytes: size up to which it is confined, None where it is not.
        chosen: the rules are for it.
        lossy: its results differ by more than the benchmark allows.
    """

    name: str
    points: Polyline
    threshold_nbytes: int | None = None
    chosen: bool = False
    lossy: bool = False

    @property
    def label(self) -> str:
        """Its name, and what a reader must know of it."""
        reach = self.threshold_nbytes
        words = [self.name if reach is None else f"{self.name} up to {format_size(reach)}"]
        words += ["lossy"] if self.lossy else []
        words += ["chosen"] if self.chosen else []
        return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantData:
    """Lines in the order in which variants were named."""

    scene: Scene
    lines: tuple[VariantLine, ...]

    @property
    def ratios(self) -> list[float]:
        """All of them, 1 among them."""
        return [1.0, *(ratio for line in self.lines for _, ratio in line.points)]


def variant_data(scene: Scene) -> VariantData | None:
    """Gains of variants over the site's rules, None where no variant was measured here."""
    pairs = [(one, gain) for one in scene.given.environments for gain in _mine(one, scene)]
    lines = [_variant_line(one, gain) for one, gain in pairs if gain.points]
    if not lines:
        return None
    return VariantData(scene=scene, lines=tuple(lines))


def _mine(one: Environment, scene: Scene) -> list[VariantGain]:
    place = (scene.collective, scene.scale, scene.rank_placement)
    return [
        gain
        for gain in one.gains
        if (gain.target.collective, gain.target.scale, gain.target.rank_placement) == place
    ]


def _variant_line(one: Environment, gain: VariantGain) -> VariantLine:
    return VariantLine(
        name=one.variant.name,
        points=tuple((float(nbytes), 1 + ratio) for nbytes, ratio in gain.points),
        threshold_nbytes=one.threshold_nbytes,
        chosen=one.chosen,
        lossy=one.variant.lossy,
    )
