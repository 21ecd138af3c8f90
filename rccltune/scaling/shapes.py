"""What latency and bandwidth leave over: carried from the nearest measured curve to another scale.

Straight lines are up to a quarter off between small and large calls (docs/scales.md), wherever a
protocol's buffer fills. What a measured curve departs from its line by is taken over at equal
bytes per rank for a ring whose steps send a rank's share, at equal bytes where a call is passed
on in slices; which of them, or nothing, predicts the scales left out best is what is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Final

from rccltune.interpolate import time_at
from rccltune.model import Shape, Span
from rccltune.scaling.hops import algorithm_of, is_chunked
from rccltune.scaling.lines import Lines, Measured

_FADING: Final = 4


def usual_order(one: Measured) -> tuple[Shape, ...]:
    """Shapes to choose from, what the algorithm itself suggests first.

    None at all is not among them: it would miss even the curves that were measured.
    """
    key = one.curve.key
    algorithm = algorithm_of(key.setting)
    if algorithm is not None and is_chunked(key.collective, algorithm):
        return (Shape.PER_RANK, Shape.BALANCE, Shape.TOTAL)
    return (Shape.BALANCE, Shape.TOTAL, Shape.PER_RANK)


def times(known: Sequence[Measured], target: Span, lines: Lines, shape: Shape) -> dict[int, float]:
    """Time in µs at every size in bytes of the measured curves."""
    origin = nearest(known, target)
    rest = {
        point.nbytes: point.time_us / lines.time_us(origin.span, point.nbytes)
        for point in origin.curve.points
    }
    sizes = {point.nbytes for one in known for point in one.curve.points}
    made = {}
    for nbytes in sorted(sizes):
        kept = 1.0
        if shape is not Shape.LINE:
            kept = _at(rest, _alike(lines, origin.span, target, nbytes, shape))
        made[nbytes] = lines.time_us(target, nbytes) * kept
    return _through_own(known, target, made)


def _through_own(
    known: Sequence[Measured], target: Span, made: dict[int, float]
) -> dict[int, float]:
    """The same times, drawn through what few sizes of the wanted scale itself were measured."""
    own = next((one for one in known if one.span == target), None)
    if own is None:
        return made
    missed = {p.nbytes: log2(p.time_us / made[p.nbytes]) for p in own.curve.points}
    return {nbytes: time * 2 ** _pulled(missed, nbytes) for nbytes, time in made.items()}


def _pulled(missed: dict[int, float], nbytes: int) -> float:
    """What is missed at a measured size, fading over sixteen times larger or smaller ones."""
    shares = {n: max(0.0, 1 - abs(log2(n / nbytes)) / _FADING) for n in missed}
    total = max(1.0, sum(shares.values()))
    return missed.get(nbytes, sum(share * missed[n] for n, share in shares.items()) / total)


def _alike(lines: Lines, origin: Span, target: Span, nbytes: int, shape: Shape) -> float:
    """The size in bytes at the measured scale that is this size's counterpart."""
    if shape is Shape.PER_RANK:
        return nbytes * origin.scale.n_ranks / target.scale.n_ranks
    if shape is Shape.TOTAL:
        return float(nbytes)
    latencies = lines.latency_us(origin), lines.latency_us(target)
    slopes = lines.slope(origin), lines.slope(target)
    if min(*latencies, *slopes) <= 0:
        return float(nbytes)
    return nbytes * (latencies[0] / latencies[1]) * (slopes[1] / slopes[0])


def nearest(known: Sequence[Measured], target: Span) -> Measured:
    """The curve whose shape is taken: of many sizes, over the same slowest link, then near."""
    most = max(len(one.curve.points) for one in known)

    def away(one: Measured) -> tuple[bool, bool, float]:
        return (
            2 * len(one.curve.points) < most,
            one.span.slowest is not target.slowest,
            doublings(one.span, target),
        )

    return min(known, key=away)


def doublings(one: Span, other: Span) -> float:
    """How often the ranks of one scale double on the way to the other's."""
    return abs(log2(one.scale.n_ranks / other.scale.n_ranks))


def _at(rest: dict[int, float], nbytes: float) -> float:
    """A departure between measured sizes; that of the nearest end outside."""
    sizes = sorted(rest)
    inside = min(max(nbytes, sizes[0]), sizes[-1])
    return time_at(sizes, [rest[size] for size in sizes], inside) or 1.0
