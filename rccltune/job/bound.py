"""What calls take by a session's curves, and what rules can save of a job at the very most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rccltune import plan
from rccltune.model import Collective, Curve, Role, Scale, Setting, base_variant, time_at
from rccltune.workload import Workload


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What rules can save of a recorded job at the very most, before there are any.

    Attributes:
        spared: of all calls of a rank whose size was measured.
        known: share of the calls whose size was measured, from 0 to 1.
        seen_s: time of a rank in all of its calls as the job had it; None where no file says.
        steps: of the job, None where nobody says.
    """

    spared: Spared
    known: float
    seen_s: float | None
    steps: int | None = None

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "before_s": self.spared.before_us * 1e-6,
            "most_s": self.spared.most_us * 1e-6,
            "low_s": self.spared.low_us * 1e-6,
            "high_s": self.spared.high_us * 1e-6,
            "known": self.known,
            "seen_s": self.seen_s,
            "steps": self.steps,
        }


def ceiling_of(whole: Workload, times: Times, steps: int | None = None) -> Ceiling:
    """Calls times what the fastest measured setting spares of each.

    A rank's calls are taken one after the other: what a job overlaps is not seen. The fastest of
    many settings is chosen by the times that it is judged by, so this is a bound and no promise.

    Args:
        whole: the workload.
        times: of a session.
        steps: that the job made while it was recorded.
    """
    sums = [0.0] * 4
    known = 0
    for one in whole.counts:
        found = times.most(one.collective, one.scale, one.nbytes)
        if found is not None:
            calls = one.calls / whole.ranks_at(one.scale)
            parts = (found.before_us, found.most_us, found.low_us, found.high_us)
            sums = [total + calls * part for total, part in zip(sums, parts, strict=True)]
            known += one.calls
    return Ceiling(
        spared=Spared(before_us=sums[0], most_us=sums[1], low_us=sums[2], high_us=sums[3]),
        known=known / whole.calls if whole.calls else 0.0,
        seen_s=_seen_s(whole),
        steps=steps,
    )


def _seen_s(whole: Workload) -> float | None:
    """A rank's time in collectives as the job had it, the mean of the ranks."""
    ranks: dict[tuple[str, int, int], int] = {}
    for one in whole.recorders:
        if one.spent_us is not None:
            key = (one.host, one.pid, one.context)
            ranks[key] = ranks.get(key, 0) + one.spent_us
    return 1e-6 * sum(ranks.values()) / len(ranks) if ranks else None


def ceiling_text(found: Ceiling) -> str:
    """One line for people."""
    if not found.known:
        return "What rules can save: not known, since none of the workload's sizes was measured"
    per = 1e-3 / found.steps if found.steps else 1e-3
    each = "a step" if found.steps else "of what was recorded"
    spared = found.spared
    text = (
        f"Rules can save at most {per * spared.most_us:.3f} ms "
        f"({per * spared.low_us:.3f} to {per * spared.high_us:.3f} ms) of "
        f"{per * spared.before_us:.3f} ms {each} in collectives of a rank, one after the other"
    )
    if found.seen_s is not None:
        text += f"; the job itself had {1e6 * per * found.seen_s:.3f} ms in them, waiting included"
    if found.known < 1:
        text += f"; {100 * (1 - found.known):.1f} % of the calls were not measured"
    return text
