"""Where the best setting changes, how far that could be elsewhere, and which setting is faster.

Two or three launches are too few to resample by themselves, so the deviations from each size's
own centre are pooled over the neighbouring sizes and drawn from that pool. A launch is slow or
fast as a whole as well (1-4 %), so its mean deviation is drawn once for all sizes, and what is
left over once for each. Where both settings ran in the same launches, that common part cancels
in their ratio, and the ratio is what is resampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import log, sqrt

import numpy as np

from rccltune.fit.lines import Array
from rccltune.model.curves import Crossover, Curve, CurvePoint, Evidence, Model, crossing, time_at
from rccltune.model.defaults import TOLERANCE
from rccltune.model.settings import Role, Setting, Target, View, base_variant
from rccltune.model.vocabulary import MAX_NBYTES


@dataclass(frozen=True, slots=True)
class Ratio:
    """log(time of the one / time of the other) at each common size.

    Attributes:
        sizes: rising, in bytes, at least two.
        logs: below 0 where the first setting is the faster.
        pairs: the two measured points behind each ratio, None where one was interpolated.
    """

    sizes: tuple[int, ...]
    logs: tuple[float, ...]
    pairs: tuple[tuple[CurvePoint, CurvePoint] | None, ...]

    @property
    def n_repeats(self) -> int:
        """Launches behind the worse-repeated setting at a usual size; 1 where not measured."""
        counts = sorted(
            1 if pair is None else min(pair[0].n_launches, pair[1].n_launches)
            for pair in self.pairs
        )
        return counts[len(counts) // 2]

    def crossing(self) -> float | None:
        """Size from which the second setting is the faster, None where there is no such size.

        Noise makes curves cross several times; the split is taken that wrongs the two least.
        """
        index = split(self.logs)
        if index in (0, len(self.logs)):
            return None
        low, high = self.sizes[index - 1], self.sizes[index]
        return crossing(low, high, self.logs[index - 1], self.logs[index])

    def bracket(self) -> tuple[float, float]:
        """Last size before the split at which the first wins, first after it for the second."""
        index = split(self.logs)
        low = max((i for i in range(index) if self.logs[i] < 0), default=0)
        high = min(
            (i for i in range(index, len(self.logs)) if self.logs[i] > 0),
            default=len(self.logs) - 1,
        )
        return float(self.sizes[low]), float(self.sizes[high])


def split(logs: Sequence[float]) -> int:
    """How many sizes to leave to the first setting, so that the sum of losses is least."""
    first_loses = [0.0, *accumulate(max(x, 0.0) for x in logs)]
    second_loses = [0.0, *accumulate(max(-x, 0.0) for x in reversed(logs))][::-1]
    losses = [a + b for a, b in zip(first_loses, second_loses, strict=True)]
    return losses.index(min(losses))


def compare(first: Curve, second: Curve, low: int = 0, high: int = MAX_NBYTES) -> Ratio | None:
    """The ratio over the sizes from low to high that both cover; None from fewer than two."""
    one, two = _grid(first), _grid(second)
    low, high = max(low, one[0][0], two[0][0]), min(high, one[0][-1], two[0][-1])
    sizes = sorted({n for n in (*one[0], *two[0]) if low <= n <= high})
    if len(sizes) < 2:
        return None
    ours = {p.nbytes: p for p in first.points}
    theirs = {p.nbytes: p for p in second.points}
    logs = [
        log((time_at(*one, nbytes) or 1.0) / (time_at(*two, nbytes) or 1.0)) for nbytes in sizes
    ]
    pairs = [(ours[n], theirs[n]) if n in ours and n in theirs else None for n in sizes]
    return Ratio(tuple(sizes), tuple(logs), tuple(pairs))


def _grid(curve: Curve) -> tuple[list[int], list[float]]:
    return [p.nbytes for p in curve.points], [p.time_us for p in curve.points]


DRAWS = 400
# Neighbours on each side of the crossing whose noise and whose ratios matter.
REACH = 4
_SEED = 20_261_121


def interval(ratio: Ratio, confidence: float = 0.95) -> tuple[float, float] | None:
    """Percentile interval of the crossing in bytes; None where too little was repeated.

    The draws start from a fixed seed: the same samples give the same interval.
    """
    at = ratio.crossing()
    measured = [i for i, pair in enumerate(ratio.pairs) if pair is not None]
    if at is None or len(measured) < 2:
        return None
    near = sorted(measured, key=lambda i: abs(log(ratio.sizes[i] / at)))[: 2 * REACH]
    near.sort()
    pairs = [pair for i in near if (pair := ratio.pairs[i]) is not None]
    generator = np.random.default_rng(_SEED)
    noise = _noise(pairs, generator)
    if noise is None:
        return None
    logs = np.array([ratio.logs[i] for i in near]) + noise
    crossings = _crossings(np.log([ratio.sizes[i] for i in near]), logs)
    tail = (1 - confidence) / 2
    low, high = np.exp(np.quantile(crossings, [tail, 1 - tail]))
    return float(low), float(high)


def _noise(
    pairs: list[tuple[CurvePoint, CurvePoint]], generator: np.random.Generator
) -> Array | None:
    """Draws of the error of each size's log-ratio, shape (draws, sizes)."""
    launches = pairs[0][0].launches
    if launches and all(a.launches == launches == b.launches for a, b in pairs):
        # Same launches: only what differs between the two settings is noise.
        ratios = [
            [log(x / y) for x, y in zip(a.launch_times_us, b.launch_times_us, strict=True)]
            for a, b in pairs
        ]
        return _drawn(ratios, generator)
    parts = [
        _drawn([[log(x) for x in pair[side].launch_times_us] for pair in pairs], generator)
        for side in (0, 1)
    ]
    if parts[0] is None or parts[1] is None:
        return None
    return parts[0] - parts[1]


def _drawn(logs: list[list[float]], generator: np.random.Generator) -> Array | None:
    """Errors of the centres of repeated values, shape (draws, sizes)."""
    repeated = [np.array(row) for row in logs if len(row) >= 2]
    if not repeated:
        return None
    n_launches = min(len(row) for row in repeated)
    # Deviations from a centre that they define themselves are too small by this factor.
    widen = sqrt(n_launches / (n_launches - 1))
    deviations = np.array([row[:n_launches] - row[:n_launches].mean() for row in repeated]) * widen
    common = deviations.mean(axis=0)
    rest = (deviations - common).ravel()
    n_sizes = len(logs)
    shared = generator.choice(common, (DRAWS, n_launches)).mean(axis=1)
    own = np.median(generator.choice(rest, (DRAWS, n_sizes, n_launches)), axis=2)
    return np.asarray(shared[:, None] + own)


def _crossings(x: Array, logs: Array) -> Array:
    """Log-size of each draw's crossing; the ends of the range where it has none."""
    zeros = np.zeros((len(logs), 1))
    first = np.hstack([zeros, np.cumsum(np.maximum(logs, 0), axis=1)])
    second = np.hstack([np.cumsum(np.maximum(-logs, 0)[:, ::-1], axis=1)[:, ::-1], zeros])
    index = np.argmin(first + second, axis=1)
    inner = np.clip(index, 1, len(x) - 1)
    draw = np.arange(len(logs))
    below, above = logs[draw, inner - 1], logs[draw, inner]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(below == above, 0.5, below / (below - above))
    at = x[inner - 1] + np.clip(share, 0, 1) * (x[inner] - x[inner - 1])
    return np.asarray(np.where(index == 0, x[0], np.where(index == len(x), x[-1], at)))


Pair = tuple[Setting, Setting]
# A loss of exactly the tolerance is within it, whatever the last bit says.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A setting and the sizes at which it is taken for the winner."""

    curve: Curve
    min_nbytes: int
    max_nbytes: int


def crossovers(
    curves: Sequence[Curve], pairs: Sequence[Pair] | None = None, *, tolerance: float = TOLERANCE
) -> tuple[Crossover, ...]:
    """Crossovers in each target and view.

    Args:
        curves: as :func:`rccltune.fit.curves` made them.
        pairs: (faster below, faster above); those adjacent in the winner order unless stated.
        tolerance: relative time by which a setting may be slower than the best and still count
            as winner, so that noise makes no crossovers.

    Returns:
        By target and view as they first appear, then by size. A pair of which one setting is
        the faster everywhere has none.
    """
    found: list[Crossover] = []
    for target, view, group in _groups(curves):
        wanted = _adjacent(group, tolerance) if pairs is None else _named(group, pairs)
        crossed = (_crossover(target, view, pair) for pair in wanted)
        found.extend(sorted((c for c in crossed if c is not None), key=lambda c: c.at_nbytes))
    return tuple(found)


def _groups(curves: Sequence[Curve]) -> Iterable[tuple[Target, View, list[Curve]]]:
    """Forced settings by what a rule can tell apart and by view; the base variant goes first."""
    groups: dict[tuple[Target, View], dict[Setting, Curve]] = {}
    for curve in curves:
        key = curve.key
        if key.setting.role is not Role.FORCED or not key.setting.is_complete:
            continue
        base = base_variant(key.variant)
        group = groups.setdefault((replace(key.target, variant=base), key.view), {})
        if key.setting not in group or key.variant == base:
            group[key.setting] = curve
    for (target, view), group in groups.items():
        yield target, view, list(group.values())


def winner_order(curves: Sequence[Curve], tolerance: float = TOLERANCE) -> tuple[Curve, ...]:
    """The fewest settings, by size, of which one is always within tolerance of the best.

    Args:
        curves: settings of one target and view.
        tolerance: relative.

    Returns:
        Curves by rising size, one as often as it wins again. Among those that reach equally
        far the one with the least regret on the way is taken. Reaching as far as possible each
        time is exact for the fewest, as in any covering of a line by intervals.
    """
    return tuple(stretch.curve for stretch in _stretches(curves, tolerance))


def _stretches(curves: Sequence[Curve], tolerance: float) -> list[_Stretch]:
    sizes = sorted({point.nbytes for curve in curves for point in curve.points})
    regrets = [_regrets(curve, curves, sizes) for curve in curves]
    order: list[_Stretch] = []
    start = 0
    while start < len(sizes):
        reaches = [_reach(regret, start, tolerance) for regret in regrets]
        far = max(reaches)
        able = [i for i, reach in enumerate(reaches) if reach == far]
        best = min(able, key=lambda i: sum(regrets[i][start:far]))
        order.append(_Stretch(curves[best], sizes[start], sizes[far - 1]))
        start = far
    return order


def _regrets(curve: Curve, rivals: Sequence[Curve], sizes: Sequence[int]) -> list[float]:
    mine = {point.nbytes: point.time_us for point in curve.points}
    best: dict[int, float] = {}
    for rival in rivals:
        for point in rival.points:
            best[point.nbytes] = min(best.get(point.nbytes, point.time_us), point.time_us)
    return [mine.get(nbytes, float("inf")) / best[nbytes] - 1 for nbytes in sizes]


def _reach(regrets: Sequence[float], start: int, tolerance: float) -> int:
    """Index of the first size from ``start`` at which the setting is no winner."""
    return next(
        (i for i in range(start, len(regrets)) if regrets[i] > tolerance + _EPSILON), len(regrets)
    )


def _adjacent(group: Sequence[Curve], tolerance: float) -> list[tuple[_Stretch, _Stretch]]:
    able = [c for c in group if not c.key.variant.patched and not c.n_wrong]
    order = _stretches(able, tolerance)
    return list(pairwise(order))


def _named(group: Sequence[Curve], pairs: Sequence[Pair]) -> list[tuple[_Stretch, _Stretch]]:
    by_setting = {c.key.setting: _Stretch(c, c.min_nbytes, c.max_nbytes) for c in group}
    return [
        (by_setting[below], by_setting[above])
        for below, above in pairs
        if below in by_setting and above in by_setting
    ]


def _crossover(target: Target, view: View, pair: tuple[_Stretch, _Stretch]) -> Crossover | None:
    below, above = pair[0].curve, pair[1].curve
    ratio = compare(below, above, min(s.min_nbytes for s in pair), max(s.max_nbytes for s in pair))
    at = ratio.crossing() if ratio is not None else None
    if ratio is None or at is None:
        return None
    low, high = ratio.bracket()
    evidence = Evidence.BRACKET
    spread = interval(ratio) if ratio.n_repeats >= 2 else None
    if spread is not None:
        # The percentiles of few repeats may miss the estimate itself by a hair.
        low, high = min(spread[0], at), max(spread[1], at)
        evidence = Evidence.BOOTSTRAP
    return Crossover(
        target=target,
        view=view,
        below=below.key.setting,
        above=above.key.setting,
        at_nbytes=at,
        low_nbytes=low,
        high_nbytes=high,
        evidence=evidence,
        linear_nbytes=_linear_crossing(below, above),
    )


def _linear_crossing(below: Curve, above: Curve) -> float | None:
    """Where latency + bytes/bandwidth become equal, inside the common range and this way round."""
    lines = [fit for c in (below, above) if (fit := c.fit(Model.LINEAR)) is not None]
    if len(lines) < 2:
        return None
    one, two = lines[0].segments[0], lines[1].segments[0]
    slope = one.us_per_byte - two.us_per_byte
    if slope <= 0:
        return None
    at = (two.latency_us - one.latency_us) / slope
    low, high = max(below.min_nbytes, above.min_nbytes), min(below.max_nbytes, above.max_nbytes)
    return at if low <= at <= high else None
