"""Curves and zones as polylines and bands, without any drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model import Curve, CurvePoint, Model, Proof, Setting, Zone

Polyline = tuple[tuple[float, float], ...]
# Points per fitted segment: a straight line in bytes is curved on logarithmic axes.
_GRID: Final = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A zone as far as it lies inside the axis.

    Attributes:
        setting: None for a gap.
        labels: what may be written on it, the longest first.
        is_doubted: a choice that the sweep does not prove.
    """

    low: float
    high: float
    setting: Setting | None
    labels: tuple[str, ...]
    is_doubted: bool = False


def repeated(point: CurvePoint) -> bool:
    """Whether an interval stands behind the point: cycles of one launch are no repeats.

    A predicted point has no launch; its interval is the expected error.
    """
    return point.n_launches != 1 and point.low_us < point.high_us


def model_paths(curve: Curve, model: Model) -> tuple[Polyline, ...]:
    """One polyline for each segment of a fitted model, inside the measured sizes.

    Log-log interpolation is straight between measured points on log-log axes, so its polyline
    is the points. No path where the curve has no such fit.
    """
    fit = curve.fit(model)
    if model is Model.LOGLOG:
        return (tuple((float(p.nbytes), p.time_us) for p in curve.points),)
    if fit is None:
        return ()
    paths = []
    for segment in fit.segments:
        low = max(segment.min_nbytes, curve.min_nbytes)
        high = min(segment.max_nbytes, curve.max_nbytes)
        if low <= high:
            paths.append(tuple((x, segment.predict(x)) for x in geometric(low, high, _GRID)))
    return tuple(paths)


def geometric(low: float, high: float, count: int) -> tuple[float, ...]:
    """Evenly spaced on a logarithmic axis, both ends exactly included."""
    ratio = math.log(high / low)
    inner = (low * math.exp(ratio * i / (count - 1)) for i in range(1, count - 1))
    return (float(low), *inner, float(high))


def axis_range(values: Sequence[float], margin: float = 0.03) -> tuple[float, float]:
    """Logarithmic axis limits with a margin; a single value gets a factor of two each way."""
    low, high = min(values), max(values)
    if low == high:
        return low / 2, high * 2
    pad = (high / low) ** margin
    return low / pad, high * pad


def bands(zones: Sequence[Zone], low: float, high: float) -> tuple[Band, ...]:
    """Zones cut to the axis; those wholly outside are left out.

    A border between two zones (next min = previous max + 1) is drawn at one place.
    """
    cut = []
    for zone in zones:
        left, right = max(low, float(zone.min_nbytes)), min(high, float(zone.max_nbytes) + 1)
        if left < right:
            cut.append(
                Band(
                    low=left,
                    high=right,
                    setting=zone.setting,
                    labels=_labels(zone),
                    is_doubted=is_doubted(zone),
                )
            )
    return tuple(cut)


def is_doubted(zone: Zone) -> bool:
    """Whether it is a choice that the sweep does not prove."""
    return zone.proof in (Proof.UNPROVEN, Proof.NO_BASELINE, Proof.DERIVED)


def _labels(zone: Zone) -> tuple[str, ...]:
    if zone.setting is None:
        return f"no rule: {zone.reason}", str(zone.reason)
    text = str(zone.setting)
    return (f"{text}, not proven by the sweep", text) if is_doubted(zone) else (text,)
