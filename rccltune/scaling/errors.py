"""How far off a prediction may be: what the same model misses the measured scales by.

Every measured scale is predicted from the others. One whose slowest link no other scale has is
told, but says nothing of the model: its bandwidth was assumed. Errors are |log(predicted / true)|.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

from rccltune.interpolate import time_at
from rccltune.model import Hop, Shape, Span
from rccltune.scaling.hops import hops
from rccltune.scaling.lines import TINY_US, Lines, Measured, fit_lines, is_wide
from rccltune.scaling.shapes import doublings, nearest, times, usual_order

# What launches of one setting differ by anyway: no prediction is said to be better.
LEAST_ERROR: Final = 0.03
# An error at one size is taken for one at sizes up to so many times as large or small.
_REACH: Final = 4
# Another shape must predict better by a twentieth, as another model of one curve must.
_WORTH: Final = 0.95
_MOST: Final = 0.5
# For each doubling, where no measured scale could be predicted from the others.
_UNCHECKED: Final = 0.1
# A factor of 150: more says no more.
_WORST: Final = 5.0

Errors = dict[int, float]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A measured scale that its own curve had no part in predicting.

    Attributes:
        errors: log(predicted / measured) by shape and size in bytes.
        unseen: its slowest link is no other scale's.
    """

    span: Span
    errors: Mapping[Shape, Errors]
    unseen: bool


def left_out(known: Sequence[Measured]) -> list[LeftOut]:
    """Each scale predicted from the others."""
    made = []
    for one in known:
        others = [other for other in known if other is not one]
        lines = fit_lines(others, one.span) if others else None
        if lines is not None:
            errors = {shape: _missed(one, times(others, one.span, lines, shape)) for shape in Shape}
            made.append(LeftOut(one.span, errors, bool(assumed(others, one.span, lines))))
    return made


def assumed(known: Sequence[Measured], target: Span, lines: Lines) -> tuple[str, ...]:
    """What the target needs and none of the measured curves shows.

    A curve shows its hops where it has a call that is latency for the most part, and its slowest
    link's bandwidth where it has one that is bytes for the most part.
    """
    wanted = hops(lines.collective, lines.algorithm, target) or {}
    seen: set[Hop] = set()
    for one in known:
        if _latency_share(lines, one.span, one.curve.min_nbytes) >= _MOST:
            counts = hops(lines.collective, lines.algorithm, one.span) or {}
            seen |= {link for link, count in counts.items() if count}
    alike = [one for one in known if one.span.slowest is target.slowest]
    found = [f"a hop {link.value}" for link, count in wanted.items() if count and link not in seen]
    if all(_latency_share(lines, one.span, one.curve.max_nbytes) > 1 - _MOST for one in alike):
        found.append(f"the bandwidth {target.slowest.value}")
    if not any(is_wide(one.curve) for one in alike):
        found.append(f"what lines leave over {target.slowest.value}")
    return tuple(found)


def _latency_share(lines: Lines, span: Span, nbytes: int) -> float:
    return lines.latency_us(span) / lines.time_us(span, nbytes)


def best_shape(known: Sequence[Measured], tried: Sequence[LeftOut]) -> Shape:
    """The least error at scales left out; what the algorithm suggests where that is equal."""
    best, *others = usual_order(known[0])
    for shape in others:
        if _badness(tried, shape) < _WORTH * _badness(tried, best):
            best = shape
    return best


def expected(
    known: Sequence[Measured], target: Span, tried: Sequence[LeftOut], shape: Shape
) -> Errors | None:
    """Expected error at each size: what scales left out were missed by.

    It grows with how much further away the wanted scale is than the one left out was.

    Returns:
        None where no scale could be predicted from the others.
    """
    grown = [
        (one.errors[shape], _growth(one.span, known, target))
        for one in tried
        if not one.unseen and one.errors[shape]
    ]
    if not grown:
        return None
    sizes = {point.nbytes for one in known for point in one.curve.points}
    return {
        nbytes: min(max(LEAST_ERROR, *(by * _near(e, nbytes) for e, by in grown)), _WORST)
        for nbytes in sizes
    }


def bracket(
    known: Sequence[Measured], target: Span, lines: Lines, predicted: Mapping[int, float]
) -> Errors:
    """How far the time moves between a latency that no hop adds to and one made of hops alone."""
    origin = nearest(known, target).span
    steps = [
        sum((hops(lines.collective, lines.algorithm, span) or {}).values())
        for span in (target, origin)
    ]
    # Nothing checks how the link's bandwidth goes on with more ranks.
    least = max(LEAST_ERROR, _UNCHECKED * min(doublings(one.span, target) for one in known))
    before, latency = lines.latency_us(origin), lines.latency_us(target)
    ends = (before, before * steps[0] / max(steps[1], 1))
    made = {}
    for nbytes in predicted:
        line = lines.time_us(target, nbytes)
        moved = [abs(log(max(line + end - latency, TINY_US) / line)) for end in ends]
        made[nbytes] = min(max(least, *moved), _WORST)
    return made


def _growth(left: Span, known: Sequence[Measured], target: Span) -> float:
    """Doublings from the nearest scale to the wanted one, over those to the one left out."""
    ours = min(doublings(one.span, target) for one in known)
    theirs = min(doublings(one.span, left) for one in known if one.span != left)
    return max(1.0, ours / theirs) if theirs else 1.0


def _near(errors: Errors, nbytes: int) -> float:
    """The largest error at about this size, and no less than is usual over all."""
    here = [abs(x) for n, x in errors.items() if 1 / _REACH <= n / nbytes <= _REACH]
    return max(*here, _usual(errors)) if here else max(map(abs, errors.values()))


def _missed(one: Measured, predicted: Mapping[int, float]) -> Errors:
    sizes = sorted(predicted)
    made = [predicted[nbytes] for nbytes in sizes]
    return {
        point.nbytes: log(time / point.time_us)
        for point in one.curve.points
        if (time := time_at(sizes, made, point.nbytes)) is not None
    }


def _badness(tried: Sequence[LeftOut], shape: Shape) -> float:
    """Usual error over the scales that others could predict, 0 without any."""
    errors = [_usual(one.errors[shape]) for one in tried if not one.unseen and one.errors[shape]]
    return sum(errors) / len(errors) if errors else 0.0


def _usual(errors: Errors) -> float:
    """Root of the mean square."""
    return float((sum(x * x for x in errors.values()) / len(errors)) ** 0.5)
