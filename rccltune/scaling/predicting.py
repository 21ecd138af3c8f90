"""Curves at scales that were not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from statistics import median

from rccltune.model import (
    Curve,
    CurveKey,
    CurvePoint,
    Extrapolation,
    Hop,
    Model,
    ScaleError,
    ScaleModel,
    Shape,
    Span,
)
from rccltune.scaling.errors import (
    Errors,
    LeftOut,
    assumed,
    best_shape,
    bracket,
    expected,
    left_out,
)
from rccltune.scaling.hops import hops
from rccltune.scaling.lines import BASE, Lines, Measured, counted, fit_lines
from rccltune.scaling.shapes import times
from rccltune.vocab import RankPlacement


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
