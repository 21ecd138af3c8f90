"""What rules save of a recorded job, from times that sessions measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rccltune import plan, workload
from rccltune.interpolate import time_at
from rccltune.model import Curve, Role, Rule, Scale, Setting, Zone, base_variant
from rccltune.pipeline.fitting import FitDone, fit_session
from rccltune.reporter import Note
from rccltune.vocab import Collective
from rccltune.workload import Saving, Timed, Workload

# The setting that runs where rules have their way; None where they have none.
Chosen = Callable[[Collective, Scale, int], Setting | None]


class Times:
    """What calls take, from a session's curves."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        """Sort them by what they are of."""
        self._curves: dict[tuple[Collective, Scale], list[Curve]] = {}
        for curve in curves:
            key = (curve.key.collective, curve.key.scale)
            self._curves.setdefault(key, []).append(curve)

    def before(self, collective: Collective, scale: Scale, nbytes: int) -> float | None:
        """The untouched site's, in µs; the median of what no tuner can tell apart."""
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


def _is_of(curve: Curve, setting: Setting | None) -> bool:
    if setting is not None:
        return curve.key.setting == setting
    plain = base_variant(curve.key.variant).name == "default"
    return plain and curve.key.setting.role is Role.BASELINE


def _at(curve: Curve, nbytes: int) -> float | None:
    """Between measured sizes, or at the first or the last one where that is near."""
    sizes = [point.nbytes for point in curve.points]
    inside = min(max(nbytes, sizes[0]), sizes[-1]) if sizes else nbytes
    if not nbytes or abs(inside - nbytes) > plan.NEAR * nbytes:
        return None
    return time_at(sizes, [point.time_us for point in curve.points], inside)


def saving(
    whole: Workload, chosen: Chosen, fits: Sequence[FitDone], steps: int | None = None
) -> Saving:
    """What rules save of a recorded job, estimated from the sessions that they were made of.

    Calls whose size was not measured, of the untouched site and of the rule's setting, count as
    not known; those that no rule is for take what they took.

    Args:
        whole: the workload.
        chosen: what runs under the rules, None where there is none.
        fits: the sessions.
        steps: that the job made while it was recorded, None where nobody says.
    """
    times = Times([curve for done in fits for curve in done.curves])

    def timed(collective: Collective, scale: Scale, nbytes: int) -> Timed | None:
        before = times.before(collective, scale, nbytes)
        setting = chosen(collective, scale, nbytes)
        after = before if setting is None else times.under(collective, scale, nbytes, setting)
        if before is None or after is None:
            return None
        return Timed(before_us=before, after_us=after)

    return workload.saving_of(whole, timed, steps)


def saving_in(
    path: Path, folders: Sequence[Path], chosen: Chosen, steps: int | None, *, note: Note
) -> Saving:
    """The same of a file, and of sessions by their folders; raises as both do."""
    fits = [fit_session(folder, note=note) for folder in folders]
    whole = workload.read(path)
    for cut in whole.cuts:
        note(f"Warning: {cut}.")
    return saving(whole, chosen, fits, steps)


def by_zones(zones: Sequence[Zone]) -> Chosen:
    """What zones choose."""

    def chosen(collective: Collective, scale: Scale, nbytes: int) -> Setting | None:
        for zone in zones:
            target = (zone.target.collective, zone.target.scale)
            if target == (collective, scale) and zone.min_nbytes <= nbytes <= zone.max_nbytes:
                return zone.setting
        return None

    return chosen


def by_rules(rules: Sequence[Rule]) -> Chosen:
    """What rules choose, the first that matches."""

    def chosen(collective: Collective, scale: Scale, nbytes: int) -> Setting | None:
        matching = (rule for rule in rules if rule.matches(collective, nbytes, scale))
        found = next(matching, None)
        return None if found is None else found.setting

    return chosen


def saving_plain(found: Saving) -> dict[str, Any]:
    """For --json."""
    return {
        "before_s": found.before_s,
        "after_s": found.after_s,
        "saved_s": found.saved_s,
        "known": found.known,
        "steps": found.steps,
        "saved_s_per_step": found.saved_s / found.steps if found.steps else None,
    }


def saving_text(found: Saving) -> str:
    """One line for people."""
    if not found.known:
        return "Time saved: not known, since none of the workload's sizes was measured"
    part = f"{100 * found.saved_s / found.before_s:.1f} %" if found.before_s else "0 %"
    if found.steps:
        each = [1e3 * time / found.steps for time in (found.saved_s, found.before_s)]
        text = f"Time saved per step, estimated: {each[0]:.3f} ms of {each[1]:.3f} ms"
    else:
        text = (
            f"Time saved of what was recorded, estimated: {1e3 * found.saved_s:.3f} ms of "
            f"{1e3 * found.before_s:.3f} ms"
        )
    text += f" in collectives of a rank ({part}), one after the other"
    if found.known < 1:
        text += f"; {100 * (1 - found.known):.1f} % of the calls were not measured"
    return text + ("" if found.steps else "; --steps N says how many steps that were")
