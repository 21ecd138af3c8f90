"""Curves at scales that were not measured, and how far off they may be.

Every measured scale is predicted from the others. One whose slowest link no other scale has is
told, but says nothing of the model: its bandwidth was assumed. Errors are |log(predicted / true)|.

Straight lines are up to a quarter off between small and large calls (docs/scales.md), wherever a
protocol's buffer fills. What a measured curve departs from its line by is taken over at equal
bytes per rank for a ring whose steps send a rank's share, at equal bytes where a call is passed
on in slices; which of them, or nothing, predicts the scales left out best is what is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, log2
from statistics import median
from typing import Final

from rccltune.model import (
    Curve,
    CurveKey,
    CurvePoint,
    Extrapolation,
    Hop,
    Model,
    RankPlacement,
    ScaleError,
    ScaleModel,
    Shape,
    Span,
    time_at,
)
from rccltune.scaling.lines import (
    BASE,
    TINY_US,
    Lines,
    Measured,
    algorithm_of,
    counted,
    fit_lines,
    hops,
    is_chunked,
    is_wide,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One setting at one scale that was not measured.

    Attributes:
        curve: marked as extrapolated; the ends of its points' spread are the expected error.
            Without a known error they are the time itself.
    """

    model: ScaleModel
    curve: Curve


def predict(
    measured: Sequence[Measured], target: Span, shape: Shape | None = None
) -> Prediction | None:
    """Predict one setting's curve, at every size that any of its curves has.

    Args:
        measured: of one setting, collective and view; of several curves of one span the first is
            taken. The wanted scale itself may be among them with a few sizes.
        target: the wanted scale.
        shape: what to do with what lines leave over; None takes what predicts best.

    Returns:
        None where RCCL counts no steps of the setting, so that there is nothing to go by.
    """
    known = _by_span(measured)
    lines = fit_lines(known, target)
    if lines is None:
        return None
    tried = left_out(known)
    taken = shape or best_shape(known, tried)
    predicted = times(known, target, lines, taken)
    unknown = assumed(known, target, lines)
    errors = None
    if not unknown:
        errors = expected(known, target, tried, taken) or bracket(known, target, lines, predicted)
    key = replace(known[0].curve.key, scale=target.scale, rank_placement=RankPlacement.NODE.value)
    model = ScaleModel(
        key=key,
        target=target,
        spans=tuple(one.span for one in known),
        base_us=lines.terms_us[BASE],
        hop_us=_hop_us(lines, target),
        us_per_byte=tuple(lines.us_per_byte.items()),
        separated=_separated(lines, (target, *(one.span for one in known))),
        assumed=unknown,
        shape=taken,
        errors=tuple(_error(one, taken) for one in tried if one.errors[taken]),
    )
    return Prediction(model=model, curve=_curve(key, known, predicted, errors))


def _by_span(measured: Sequence[Measured]) -> list[Measured]:
    found: dict[Span, Measured] = {}
    for one in measured:
        found.setdefault(one.span, one)
    return sorted(found.values(), key=lambda one: (one.span.scale.n_ranks, one.span.n_oams))


def _separated(lines: Lines, spans: Sequence[Span]) -> tuple[tuple[str, ...], ...]:
    """Groups of the terms that any of these scales has."""
    counts = [counted(lines.collective, lines.algorithm, span) for span in spans]
    groups = (tuple(n for n in g if any(one[n] for one in counts)) for g in lines.groups)
    return tuple(group for group in groups if group)


def _hop_us(lines: Lines, target: Span) -> tuple[tuple[Hop, float], ...]:
    counts = hops(lines.collective, lines.algorithm, target) or {}
    return tuple((link, lines.terms_us[link.value]) for link in Hop if counts.get(link))


def _error(one: LeftOut, shape: Shape) -> ScaleError:
    errors = [exp(x) - 1 for x in one.errors[shape].values()]
    return ScaleError(
        span=one.span,
        median=median(abs(x) for x in errors),
        worst=max(errors, key=abs),
        unseen=one.unseen,
    )


def _curve(
    key: CurveKey,
    known: Sequence[Measured],
    predicted: dict[int, float],
    errors: Errors | None,
) -> Curve:
    spread = errors or {}
    return Curve(
        key=key,
        points=tuple(
            CurvePoint(
                nbytes=nbytes,
                time_us=time,
                low_us=time * exp(-spread.get(nbytes, 0.0)),
                high_us=time * exp(spread.get(nbytes, 0.0)),
                n_samples=0,
                n_launches=0,
            )
            for nbytes, time in sorted(predicted.items())
        ),
        fits=(),
        chosen=Model.LOGLOG,
        n_wrong=max(one.curve.n_wrong for one in known),
        extrapolated=Extrapolation(
            scales=tuple(dict.fromkeys(one.span.scale for one in known)),
            error=exp(max(spread.values())) - 1 if spread else None,
        ),
    )
