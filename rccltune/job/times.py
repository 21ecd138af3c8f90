"""What calls take by a session's curves."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rccltune.model.curves import Curve, time_at
from rccltune.model.settings import Role, Scale, Setting, base_variant
from rccltune.model.vocabulary import Collective
from rccltune.plan import walks


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

    def _time(
        self, collective: Collective, scale: Scale, nbytes: int, setting: Setting | None
    ) -> float | None:
        found = [
            time
            for curve in self._curves.get((collective, scale), ())
            if _is_of(curve, setting) and (time := _at(curve, nbytes)) is not None
        ]
        return median(found) if found else None


def _inside(sizes: Sequence[int], nbytes: int) -> int | None:
    """A size, or the first or last measured one where that is near; None where it is not."""
    inside = min(max(nbytes, sizes[0]), sizes[-1]) if sizes else nbytes
    return inside if nbytes and abs(inside - nbytes) <= walks.NEAR * nbytes else None


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
