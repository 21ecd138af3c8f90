"""What calls take, and what could be spared of them, by a session's curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rccltune import plan
from rccltune.model import Collective, Curve, Role, Scale, Setting, base_variant, time_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """What could be spared of a call, or of many calls.

    Attributes:
        before_us: time of the baseline.
        most_us: what the fastest measured setting spares of it, 0 and up.
        low_us: the same where both lie at the ends of their spreads that are near each other.
        high_us: where they lie at the ends that are far from each other.
    """

    before_us: float
    most_us: float
    low_us: float
    high_us: float


class Times:
    """What calls take, from a session's curves."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        """Sort them by what they are of."""
        self._curves: dict[tuple[Collective, Scale], list[Curve]] = {}
        for curve in curves:
            key = (curve.key.collective, curve.key.scale)
            self._curves.setdefault(key, []).append(curve)

    def before(self, collective: Collective, scale: Scale, nbytes: int) -> float | None:
        """The baseline's, in µs; the median of what no tuner can tell apart."""
        return self._time(collective, scale, nbytes, None)

    def under(
        self, collective: Collective, scale: Scale, nbytes: int, setting: Setting
    ) -> float | None:
        """A setting's, in µs."""
        return self._time(collective, scale, nbytes, setting)

    def most(self, collective: Collective, scale: Scale, nbytes: int) -> Spared | None:
        """What the fastest measured setting spares of the baseline's time; None unmeasured.

        Of settings that never gave wrong results, in the default variant.
        """
        curves = self._curves.get((collective, scale), ())
        plain = [c for c in curves if _is_of(c, None)]
        forced = [
            c
            for c in curves
            if c.key.setting.role is Role.FORCED
            and not c.n_wrong
            and base_variant(c.key.variant).name == "default"
        ]
        before = [found for c in plain if (found := _spread_at(c, nbytes)) is not None]
        after = [found for c in forced if (found := _spread_at(c, nbytes)) is not None]
        if not before:
            return None
        own = tuple(median(one[at] for one in before) for at in range(3))
        best = min(after, default=own)
        return Spared(
            before_us=own[0],
            most_us=max(0.0, own[0] - best[0]),
            low_us=max(0.0, own[1] - best[2]),
            high_us=max(0.0, own[2] - best[1]),
        )

    def _time(
        self, collective: Collective, scale: Scale, nbytes: int, setting: Setting | None
    ) -> float | None:
        found = [
            time
            for curve in self._curves.get((collective, scale), ())
            if _is_of(curve, setting) and (time := _at(curve, nbytes)) is not None
        ]
        return median(found) if found else None


def _spread_at(curve: Curve, nbytes: int) -> tuple[float, float, float] | None:
    """Time at a size, and the ends of its spread, in µs."""
    sizes = [point.nbytes for point in curve.points]
    inside = _inside(sizes, nbytes)
    if inside is None:
        return None
    middle, low, high = (
        time_at(sizes, [getattr(point, name) for point in curve.points], inside)
        for name in ("time_us", "low_us", "high_us")
    )
    return None if middle is None or low is None or high is None else (middle, low, high)


def _inside(sizes: Sequence[int], nbytes: int) -> int | None:
    """A size, or the first or last measured one where that is near; None where it is not."""
    inside = min(max(nbytes, sizes[0]), sizes[-1]) if sizes else nbytes
    return inside if nbytes and abs(inside - nbytes) <= plan.NEAR * nbytes else None


def _is_of(curve: Curve, setting: Setting | None) -> bool:
    if setting is not None:
        return curve.key.setting == setting
    plain = base_variant(curve.key.variant).name == "default"
    return plain and curve.key.setting.role is Role.BASELINE


def _at(curve: Curve, nbytes: int) -> float | None:
    """Between measured sizes, or at the first or the last one where that is near."""
    sizes = [point.nbytes for point in curve.points]
    inside = _inside(sizes, nbytes)
    if inside is None:
        return None
    return time_at(sizes, [point.time_us for point in curve.points], inside)
