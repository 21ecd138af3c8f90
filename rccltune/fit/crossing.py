"""Where the best setting changes: log-log crossings, their uncertainty, and the textbook's line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rccltune.defaults import TOLERANCE
from rccltune.fit.bootstrap import interval
from rccltune.fit.ratio import compare
from rccltune.model import (
    Crossover,
    Curve,
    Evidence,
    Model,
    Role,
    Setting,
    Target,
    View,
    base_variant,
)

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
