"""What each setting's time may be at each size: a centre and a spread, in logs.

Where a setting was measured the spread is that of few noisy repeats. Between two sizes the centre
lies on the straight line in log-log, and the spread grows as a Brownian bridge does, with the
roughness that the curves themselves show where one of their points is left out. Beyond the largest
size time grows by the last bytes' rate, and the spread with the distance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, log2, sqrt
from statistics import fmean, median
from typing import Final

import numpy as np
import numpy.typing as npt

from rccltune.model import Curve, CurvePoint, Setting, View

Array = npt.NDArray[np.float64]
# Launches this far above the lower middle one hit something that is no everyday noise.
_SLOW: Final = log(1.2)
# Spread of one measurement before repeats tell: two launches differ by 1-4 %.
_USUAL: Final = 0.02
_USUAL_WEIGHT: Final = 8.0
# Roughness in log-time per square root of an octave: at least, at most, and beyond what was
# measured, where no two points hold the curve.
_LEAST: Final = 0.03
_MOST: Final = 0.25
_BEYOND: Final = 0.08
# One measurement this far above its neighbours is more likely a stall than a plateau.
_STALL: Final = log(1.5)
_FALLS: Final = log(1.15)


@dataclass(frozen=True, slots=True)
class Estimates:
    """Settings × views × sizes.

    Attributes:
        centre: log of µs; infinite where a setting cannot run or nothing is known of it.
        spread: standard deviation of that.
        repeats: shape (settings, sizes): launches in the view that has fewest; 0 unmeasured.
    """

    settings: tuple[Setting, ...]
    sizes: tuple[int, ...]
    centre: Array
    spread: Array
    repeats: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Point:
    """One size of one curve: log2 of bytes, centre and variance in logs, launches that count."""

    at: float
    centre: float
    variance: float
    n: int


def estimate(
    curves: Sequence[Curve], sizes: Sequence[int], barred: Mapping[Setting, frozenset[int]]
) -> Estimates:
    """Estimates at sizes, whether measured or not.

    Args:
        curves: forced settings of one collective at one scale, in whatever views.
        sizes: in bytes, rising.
        barred: sizes at which a setting was tried and cannot run.
    """
    settings = tuple(dict.fromkeys(curve.key.setting for curve in curves))
    views = tuple(dict.fromkeys(curve.key.view for curve in curves))
    by_key = {(curve.key.setting, curve.key.view): curve for curve in curves}
    variance = _variance(curves)
    points = {key: _points(curve, variance) for key, curve in by_key.items()}
    rough = _roughness(points.values())
    centre = np.full((len(settings), len(views), len(sizes)), np.inf)
    spread = np.zeros_like(centre)
    repeats = np.zeros((len(settings), len(sizes)), dtype=np.int64)
    for a, setting in enumerate(settings):
        closed = barred.get(setting, frozenset())
        for v, view in enumerate(views):
            row = points.get((setting, view))
            if row:
                centre[a, v], spread[a, v] = _row(row, sizes, closed, rough)
        repeats[a] = [_repeats(by_key, setting, views, nbytes) for nbytes in sizes]
    _shrink(centre, spread, repeats > 0)
    return Estimates(settings, tuple(sizes), centre, spread, repeats)


def _shrink(centre: Array, spread: Array, measured: npt.NDArray[np.bool_]) -> None:
    """Draw measured settings that noise alone may part towards each other, in place.

    Of ten equal settings one always looks fastest; what their centres vary more than noise makes
    them is what they truly differ by (James and Stein 1961).
    """
    _, n_views, n_sizes = centre.shape
    for v in range(n_views):
        for x in range(n_sizes):
            able = np.flatnonzero(measured[:, x] & np.isfinite(centre[:, v, x]))
            if able.size < _CLUSTER:
                continue
            best = able[centre[able, v, x].argmin()]
            near = centre[able, v, x] - centre[best, v, x] <= _NEAR * spread[best, v, x]
            cluster = able[near]
            if cluster.size < _CLUSTER:
                continue
            noise = float((spread[cluster, v, x] ** 2).mean())
            own = max(0.0, float(centre[cluster, v, x].var(ddof=1)) - noise)
            share = max(own / (own + noise), _LEAST_SHARE) if noise > 0 else 1.0
            middle = centre[cluster, v, x].mean()
            centre[cluster, v, x] = middle + share * (centre[cluster, v, x] - middle)
            spread[cluster, v, x] *= sqrt(share)


# Settings that are drawn together: at least three, within this many spreads of the best.
_CLUSTER: Final = 3
_NEAR: Final = 4.0
_LEAST_SHARE: Final = 0.1


def _repeats(
    by_key: Mapping[tuple[Setting, View], Curve],
    setting: Setting,
    views: Sequence[View],
    nbytes: int,
) -> int:
    counts = []
    for view in views:
        curve = by_key.get((setting, view))
        point = None if curve is None else _point_at(curve, nbytes)
        counts.append(0 if point is None else point.n_launches)
    return min(counts, default=0)


def _point_at(curve: Curve, nbytes: int) -> CurvePoint | None:
    return next((point for point in curve.points if point.nbytes == nbytes), None)


def _logs(point: CurvePoint) -> list[float]:
    """Launches that count, in logs."""
    logs = sorted(log(time) for time in point.launch_times_us) or [log(point.time_us)]
    return [x for x in logs if x <= logs[(len(logs) - 1) // 2] + _SLOW]


def _variance(curves: Iterable[Curve]) -> float:
    """Of one measurement, from all that were repeated and what is usual."""
    squares = []
    for curve in curves:
        for point in curve.points:
            logs = _logs(point)
            if len(logs) > 1:
                middle = fmean(logs)
                squares += [(x - middle) ** 2 * len(logs) / (len(logs) - 1) for x in logs]
    total = sum(squares) + _USUAL_WEIGHT * _USUAL**2
    return total / (len(squares) + _USUAL_WEIGHT)


def _points(curve: Curve, variance: float) -> list[_Point]:
    made = [
        _Point(log2(point.nbytes), fmean(logs), variance / len(logs), len(logs))
        for point in curve.points
        if (logs := _logs(point))
    ]
    return [point for i, point in enumerate(made) if not _is_stalled(made, i)]


def _is_stalled(points: Sequence[_Point], i: int) -> bool:
    """Whether a single measurement stands out as only a disturbance does; it is asked again."""
    here = points[i]
    if here.n > 1 or len(points) < 2:
        return False
    right = points[i + 1] if i + 1 < len(points) else None
    if right is not None and here.centre > right.centre + _FALLS:
        return True
    if i == 0:
        return False
    left = points[i - 1]
    if right is None:
        # Time grows no faster than the bytes do.
        return here.centre > left.centre + log(2) * (here.at - left.at) + _STALL
    return here.centre > _between(left, right, here.at) + _STALL


def _between(left: _Point, right: _Point, at: float) -> float:
    share = (at - left.at) / (right.at - left.at)
    return (1 - share) * left.centre + share * right.centre


def _roughness(rows: Iterable[Sequence[_Point]]) -> float:
    """By how much a point misses the line through its neighbours, by the law of a bridge."""
    misses = []
    for row in rows:
        for left, here, right in zip(row, row[1:], row[2:], strict=False):
            span = (here.at - left.at) * (right.at - here.at) / (right.at - left.at)
            misses.append(abs(here.centre - _between(left, right, here.at)) / sqrt(span))
    if not misses:
        return _MOST / 2
    # Half mean, half median: kinks are rare, but they are what crossovers are made of.
    typical = (fmean(misses) * 1.25 + median(misses) * 1.48) / 2
    return min(max(typical, _LEAST), _MOST)


def _row(
    points: Sequence[_Point], sizes: Sequence[int], barred: frozenset[int], rough: float
) -> tuple[list[float], list[float]]:
    closed = [log2(nbytes) for nbytes in barred]
    centres, spreads = [], []
    for nbytes in sizes:
        at = log2(nbytes)
        if _is_barred(points, closed, at):
            centre, variance = float("inf"), 0.0
        else:
            centre, variance = _at(points, at, rough)
        centres.append(centre)
        spreads.append(sqrt(variance))
    return centres, spreads


def _is_barred(points: Sequence[_Point], closed: Sequence[float], at: float) -> bool:
    """Whether the nearest size that was tried, on either side, was one where it cannot run."""
    tried = [(p.at, True) for p in points] + [(c, False) for c in closed]
    below = max((t for t in tried if t[0] <= at), default=None)
    above = min((t for t in tried if t[0] >= at), default=None)
    return any(side is not None and not side[1] for side in (below, above))


def _at(points: Sequence[_Point], at: float, rough: float) -> tuple[float, float]:
    """Centre and variance at a size."""
    if at <= points[0].at:
        first = points[0]
        return first.centre, first.variance + rough**2 * (first.at - at)
    if at > points[-1].at:
        return _above(points, at)
    i = next(i for i, point in enumerate(points) if point.at >= at)
    right, left = points[i], points[i - 1]
    share = (at - left.at) / (right.at - left.at)
    held = (1 - share) ** 2 * left.variance + share**2 * right.variance
    span = (at - left.at) * (right.at - at) / (right.at - left.at)
    return _between(left, right, at), held + rough**2 * span


def _above(points: Sequence[_Point], at: float) -> tuple[float, float]:
    """Beyond the largest size: more bytes at the rate of the last ones."""
    last = points[-1]
    nbytes, time = 2**last.at, exp(last.centre)
    rate = 0.0
    if len(points) > 1:
        before = points[-2]
        rate = max(0.0, (time - exp(before.centre)) / (nbytes - 2**before.at))
    centre = log(time + rate * (2**at - nbytes))
    # The rate rests on two noisy points.
    return centre, 4 * last.variance + _BEYOND**2 * (at - last.at)
