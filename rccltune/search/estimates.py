"""What each setting's time may be at each size, and what the best choice may lose by that.

Where a setting was measured the spread is that of few noisy repeats. Between two sizes the centre
lies on the straight line in log-log, and the spread grows as a Brownian bridge does, with the
roughness that the curves themselves show where one of their points is left out. Beyond the largest
size time grows by the last bytes' rate, and the spread with the distance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, log2, sqrt
from statistics import fmean, median, variance
from typing import Final

import numpy as np
import numpy.typing as npt

from rccltune.model.curves import SLOW, Curve, CurvePoint, limit_of
from rccltune.model.settings import Setting, View

# Draws of what the times may be; the mean of 512 regrets is known to a twentieth of itself.
_DRAWS: Final = 512
# Always the same draws: a search is repeatable, and sizes are compared on equal terms.
_SEED: Final = 8


@dataclass(frozen=True, slots=True)
class Prospect:
    """What is expected, by size.

    Attributes:
        choice: index of the setting that is expected to lose least, -1 where none can run.
        expected: its expected regret, 0 where nothing can run.
        shares: shape (settings, sizes): the part of it that each setting would save by being
            the fastest.
        chance: shape (settings, sizes): how likely each setting is the fastest.
    """

    choice: npt.NDArray[np.int64]
    expected: Array
    shares: Array
    chance: Array


def prospect(estimates: Estimates) -> Prospect:
    """Average over what the times may be.

    A setting's regret at a size is the worst over its views, as for a rule, which serves them all.
    """
    n_settings, _, n_sizes = estimates.centre.shape
    rng = np.random.default_rng(_SEED)
    pairs = [(one.role, one.algorithm, one.protocol) for one in estimates.settings]
    kin = [pairs.index(pair) for pair in pairs]
    noise = np.sqrt(np.maximum(0.0, estimates.spread**2 - estimates.bend**2))
    choice = np.full(n_sizes, -1, dtype=np.int64)
    expected = np.zeros(n_sizes)
    shares = np.zeros((n_settings, n_sizes))
    chance = np.zeros((n_settings, n_sizes))
    for x in range(n_sizes):
        # One for all views of a setting: what is not known is mostly the curve's shape.
        z = rng.standard_normal((_DRAWS, n_settings, 1))
        bent = rng.standard_normal((_DRAWS, n_settings, 1))[:, kin]
        able = np.flatnonzero(np.isfinite(estimates.centre[:, :, x]).all(axis=1))
        if able.size == 0:
            continue
        logs = (
            estimates.centre[able, :, x]
            + noise[able, :, x] * z[:, able]
            + estimates.bend[able, :, x] * bent[:, able]
        )
        over = logs - logs.min(axis=1, keepdims=True)
        regrets = np.expm1(over.max(axis=2))
        means = regrets.mean(axis=0)
        best = int(means.argmin())
        choice[x], expected[x] = able[best], means[best]
        # The rival is the fastest in the view in which the choice loses most.
        view = over[:, best, :].argmax(axis=1)
        fastest = logs[np.arange(_DRAWS), :, view].argmin(axis=1)
        for i, arm in enumerate(able):
            shares[arm, x] = regrets[fastest == i, best].sum() / _DRAWS
            chance[arm, x] = (fastest == i).mean()
    return Prospect(choice, expected, shares, chance)


Array = npt.NDArray[np.float64]
# Spread of one measurement before repeats tell: two launches differ by 1-4 %.
_USUAL: Final = 0.02
_USUAL_WEIGHT: Final = 8.0
# Roughness in log-time per square root of an octave: at least, at most, and at most beyond what was
# measured, where bandwidth alone is left.
_LEAST: Final = 0.01
_MOST: Final = 0.25
_BEYOND: Final = 0.08
# One measurement this far above its neighbours is more likely a stall than a plateau.
_STALL: Final = log(1.5)
# A setting this far above the best, in logs, is nobody's rival at a size.
_RIVAL: Final = log(1.5)
_FALLS: Final = log(1.15)


@dataclass(frozen=True, slots=True)
class Estimates:
    """Settings × views × sizes.

    Attributes:
        centre: log of µs; infinite where a setting cannot run or nothing is known of it.
        spread: standard deviation of that.
        bend: the part of it that is the curve's unknown shape between measured sizes, which
            settings of one pair that differ in channels alone have in common; at most ``spread``.
        repeats: shape (settings, sizes): launches in the view that has fewest; 0 unmeasured.
    """

    settings: tuple[Setting, ...]
    sizes: tuple[int, ...]
    centre: Array
    spread: Array
    bend: Array
    repeats: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Point:
    """One size of one curve: log2 of bytes, centre and variance in logs, launches that count."""

    at: float
    centre: float
    variance: float
    n: int


_Key = tuple[Setting, View]
# Settings that are drawn together: at least three, within this many spreads of the best.
_CLUSTER: Final = 3
_NEAR: Final = 4.0
_LEAST_SHARE: Final = 0.1
_NEARLY_ALL: Final = 0.8


def estimate(
    curves: Sequence[Curve], sizes: Sequence[int], barred: Mapping[Setting, frozenset[int]]
) -> Estimates:
    """Estimates at sizes, whether measured or not.

    Args:
        curves: forced settings of one collective at one scale, in whatever views.
        sizes: in bytes, rising.
        barred: sizes at which a setting was tried and cannot run, or can win nothing.
    """
    settings = tuple(dict.fromkeys(curve.key.setting for curve in curves))
    views = tuple(dict.fromkeys(curve.key.view for curve in curves))
    by_key = {(curve.key.setting, curve.key.view): curve for curve in curves}
    noise = _noise(curves)
    points = _shrunk({key: _points(curve, noise) for key, curve in by_key.items()})
    rough = _roughness(points)
    centre = np.full((len(settings), len(views), len(sizes)), np.inf)
    spread, bend = np.zeros_like(centre), np.zeros_like(centre)
    repeats = np.zeros((len(settings), len(sizes)), dtype=np.int64)
    for a, setting in enumerate(settings):
        closed = barred.get(setting, frozenset())
        for v, view in enumerate(views):
            row = points.get((setting, view))
            if row:
                centre[a, v], spread[a, v], bend[a, v] = _row(row, sizes, closed, rough)
        repeats[a] = [_repeats(by_key, setting, views, nbytes) for nbytes in sizes]
    return Estimates(settings, tuple(sizes), centre, spread, bend, repeats)


def _shrunk(points: Mapping[_Key, Sequence[_Point]]) -> dict[_Key, list[_Point]]:
    """Settings that noise alone may part, drawn towards each other at every size.

    Of ten equal settings one always looks fastest; what their centres vary more than noise makes
    them is what they truly differ by (James and Stein 1961).
    """
    made = {key: list(row) for key, row in points.items()}
    places: dict[tuple[View, float], list[tuple[_Key, int]]] = {}
    for key, row in points.items():
        for i, point in enumerate(row):
            places.setdefault((key[1], point.at), []).append((key, i))
    for members in places.values():
        best = min((points[key][i] for key, i in members), key=lambda point: point.centre)
        reach = best.centre + _NEAR * sqrt(best.variance)
        cluster = [(key, i) for key, i in members if points[key][i].centre <= reach]
        if len(cluster) >= _CLUSTER:
            for (key, i), point in zip(
                cluster, _drawn([points[key][i] for key, i in cluster]), strict=True
            ):
                made[key][i] = point
    return made


def _drawn(cluster: Sequence[_Point]) -> list[_Point]:
    centres = [point.centre for point in cluster]
    noise = fmean(point.variance for point in cluster)
    own = max(0.0, variance(centres) - noise)
    share = max(own / (own + noise), _LEAST_SHARE) if noise > 0 else 1.0
    middle = fmean(centres)
    return [
        replace(
            point,
            centre=middle + share * (point.centre - middle),
            variance=share * point.variance,
        )
        for point in cluster
    ]


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
    limit = limit_of(logs)
    if limit > logs[0] + _STALL + SLOW:
        # Nothing makes a launch this much faster than it is; then most of them stalled.
        limit = logs[0] + SLOW
    return [x for x in logs if x <= limit]


def _noise(curves: Iterable[Curve]) -> float:
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


def _points(curve: Curve, noise: float) -> list[_Point]:
    made = [
        _Point(log2(point.nbytes), fmean(logs), noise / len(logs), len(logs))
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
    # More bytes take no less time, whichever larger size shows it: stalls come in rows.
    if any(here.centre > later.centre + _FALLS for later in points[i + 1 :]):
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


def _roughness(points: Mapping[_Key, Sequence[_Point]]) -> float:
    """By how much a point misses the line through its neighbours, by the law of a bridge.

    What all settings have in common tells nothing of who is faster, so each curve is taken beside
    the middle of all, at the sizes at which nearly all were measured; two have no middle. Nor do
    curves far above the best: where four channels are full nobody asks how their line bends.
    """
    misses = []
    for view in dict.fromkeys(view for _, view in points):
        rows = [row for (_, of), row in points.items() if of == view]
        longest = max(map(len, rows), default=0)
        # Settings of the second round were measured here and there, and have no middle.
        rows = [row for row in rows if len(row) >= _NEARLY_ALL * longest]
        by_size: dict[float, list[float]] = {}
        for row in rows:
            for point in row:
                by_size.setdefault(point.at, []).append(point.centre)
        most = max(map(len, by_size.values()), default=0)
        middles = {
            at: median(found) if most >= _CLUSTER else 0.0
            for at, found in by_size.items()
            if len(found) >= _NEARLY_ALL * most
        }
        best = {at: min(found) for at, found in by_size.items()}
        for row in rows:
            beside = [replace(p, centre=p.centre - middles[p.at]) for p in row if p.at in middles]
            near = {p.at for p in row if p.centre <= best[p.at] + _RIVAL}
            misses += [
                _miss(*three)
                for three in zip(beside, beside[1:], beside[2:], strict=False)
                if three[1].at in near
            ]
    if not misses:
        return _MOST / 2
    # Half mean, half median: kinks are rare, but they are what crossovers are made of.
    typical = (fmean(misses) * 1.25 + median(misses) * 1.48) / 2
    return min(max(typical, _LEAST), _MOST)


def _miss(left: _Point, here: _Point, right: _Point) -> float:
    """Beyond what noise explains, per square root of an octave."""
    share = (here.at - left.at) / (right.at - left.at)
    span = (here.at - left.at) * (right.at - here.at) / (right.at - left.at)
    noise = here.variance + (1 - share) ** 2 * left.variance + share**2 * right.variance
    square = (here.centre - _between(left, right, here.at)) ** 2
    return sqrt(max(0.0, square - noise) / span)


def _row(
    points: Sequence[_Point], sizes: Sequence[int], barred: frozenset[int], rough: float
) -> tuple[list[float], list[float], list[float]]:
    closed = [log2(nbytes) for nbytes in barred]
    centres, spreads, bends = [], [], []
    for nbytes in sizes:
        at = log2(nbytes)
        if _is_barred(points, closed, at):
            centre, noise, shape = float("inf"), 0.0, 0.0
        else:
            centre, noise, shape = _at(points, at, rough)
        centres.append(centre)
        spreads.append(sqrt(noise + shape))
        bends.append(sqrt(shape))
    return centres, spreads, bends


def _is_barred(points: Sequence[_Point], closed: Sequence[float], at: float) -> bool:
    """Whether it cannot run at the nearest sizes that were tried, on both sides.

    Where it can on one of them, a path begins or ends somewhere between: that is to be found out.
    """
    if at in closed:
        return True
    tried = [(p.at, True) for p in points] + [(c, False) for c in closed]
    below = max((t for t in tried if t[0] <= at), default=None)
    above = min((t for t in tried if t[0] >= at), default=None)
    sides = [side[1] for side in (below, above) if side is not None]
    return bool(sides) and not any(sides)


def _at(points: Sequence[_Point], at: float, rough: float) -> tuple[float, float, float]:
    """Centre at a size, and its variance: of noise, and of the curve's shape."""
    if at <= points[0].at:
        first = points[0]
        return first.centre, first.variance, rough**2 * (first.at - at)
    if at > points[-1].at:
        return _above(points, at, min(rough, _BEYOND))
    i = next(i for i, point in enumerate(points) if point.at >= at)
    right, left = points[i], points[i - 1]
    share = (at - left.at) / (right.at - left.at)
    # Never surer than where it was measured.
    held = (1 - share) * left.variance + share * right.variance
    span = (at - left.at) * (right.at - at) / (right.at - left.at)
    return _between(left, right, at), held, rough**2 * span


def _above(points: Sequence[_Point], at: float, rough: float) -> tuple[float, float, float]:
    """Beyond the largest size: more bytes at the rate of the last ones."""
    last = points[-1]
    nbytes, time = 2**last.at, exp(last.centre)
    rate = 0.0
    if len(points) > 1:
        before = points[-2]
        rate = max(0.0, (time - exp(before.centre)) / (nbytes - 2**before.at))
    centre = log(time + rate * (2**at - nbytes))
    # The rate rests on two noisy points.
    return centre, 4 * last.variance, rough**2 * (at - last.at)
