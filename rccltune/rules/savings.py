"""Savings of rules in a recorded job, from times that sessions measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from rccltune.analyse.session_fit import FitResult, fit_session
from rccltune.model.curves import Curve, time_at
from rccltune.model.reporter import Reporter
from rccltune.model.rule import Rule
from rccltune.model.settings import Role, Scale, Setting
from rccltune.model.vocabulary import Collective
from rccltune.model.zone import Zone
from rccltune.workload import Workload, read_workload

_US: Final = 1e-6
# Times of a call in µs, by the library alone and under the rules; None where one is not known.
Timed = Callable[[Collective, Scale, int], tuple[float, float] | None]
# The setting that runs where rules have their way; None where they have none.
Chosen = Callable[[Collective, Scale, int], Setting | None]
# Beside the smallest and the largest measured size a call takes what it takes there, up to this
# share of its size: in proportion it is off by no more.
_NEAR: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Time of one rank in collectives, estimated from what was measured.

    Attributes:
        before_s: of all calls whose time is known, by the library alone.
        after_s: the same under the rules.
        known: share of the calls whose time is known, from 0 to 1.
    """

    before_s: float
    after_s: float
    known: float

    @property
    def saved_s(self) -> float:
        """Seconds saved of the whole recording."""
        return self.before_s - self.after_s

    def json_fields(self) -> dict[str, float]:
        """Fields for --json."""
        return {
            "before_s": self.before_s,
            "after_s": self.after_s,
            "saved_s": self.saved_s,
            "known": self.known,
        }


def saving_of(whole: Workload, timed: Timed) -> Saving:
    """Estimate what rules save of a workload, for each rank that took part in it."""
    before = after = 0.0
    known = 0
    for count in whole.counts:
        times_us = timed(count.collective, count.scale, count.nbytes)
        if times_us is not None:
            calls = count.calls / whole.ranks_at(count.scale)
            before += calls * times_us[0] * _US
            after += calls * times_us[1] * _US
            known += count.calls
    share = known / whole.calls if whole.calls else 0.0
    return Saving(before_s=before, after_s=after, known=share)


def saving(whole: Workload, chosen: Chosen, done: FitResult) -> Saving:
    """Estimate what rules save of a recorded job, from the session that they were made of.

    Calls whose size was not measured, of the baseline and of the rule's setting, count as
    not known; those that no rule is for take what they took.

    Args:
        whole: the workload.
        chosen: what runs under the rules, None where there is none.
        done: the session.
    """
    curves: dict[tuple[Collective, Scale], list[Curve]] = {}
    for curve in done.curves:
        curves.setdefault((curve.key.collective, curve.key.scale), []).append(curve)

    def timed(collective: Collective, scale: Scale, nbytes: int) -> tuple[float, float] | None:
        measured = curves.get((collective, scale), [])
        before = _time(measured, nbytes, None)
        setting = chosen(collective, scale, nbytes)
        after = before if setting is None else _time(measured, nbytes, setting)
        return None if before is None or after is None else (before, after)

    return saving_of(whole, timed)


def _time(curves: Sequence[Curve], nbytes: int, setting: Setting | None) -> float | None:
    """Time of a call in µs, the median of what no tuner can tell apart.

    Args:
        curves: of one collective and scale.
        nbytes: between measured sizes, or near the first or the last one.
        setting: None is the library's own choice.
    """
    times = []
    for curve in curves:
        sizes = [point.nbytes for point in curve.points]
        if not sizes or not nbytes or not _is_of(curve, setting):
            continue
        inside = min(max(nbytes, sizes[0]), sizes[-1])
        if abs(inside - nbytes) <= _NEAR * nbytes:
            times.append(time_at(sizes, [point.time_us for point in curve.points], inside))
    known = [time for time in times if time is not None]
    return median(known) if known else None


def _is_of(curve: Curve, setting: Setting | None) -> bool:
    if setting is not None:
        return curve.key.setting == setting
    return curve.key.setting.role is Role.BASELINE


def saving_in(path: Path, folder: Path, chosen: Chosen, *, reporter: Reporter) -> Saving:
    """Estimate the saving of a file, from a session by its folder; raises as both do."""
    done = fit_session(folder, reporter=reporter)
    whole = read_workload(path)
    for cut in whole.cuts:
        reporter.say(f"Warning: {cut}.")
    return saving(whole, chosen, done)


def by_zones(zones: Sequence[Zone]) -> Chosen:
    """Function that looks up the setting that zones choose."""

    def chosen(collective: Collective, scale: Scale, nbytes: int) -> Setting | None:
        for zone in zones:
            target = (zone.target.collective, zone.target.scale)
            if target == (collective, scale) and zone.min_nbytes <= nbytes <= zone.max_nbytes:
                return zone.setting
        return None

    return chosen


def by_rules(rules: Sequence[Rule]) -> Chosen:
    """Function that looks up the setting of the first rule that matches."""

    def chosen(collective: Collective, scale: Scale, nbytes: int) -> Setting | None:
        matching = (rule for rule in rules if rule.matches(collective, nbytes, scale))
        first = next(matching, None)
        return None if first is None else first.setting

    return chosen


def saving_text(saved: Saving) -> str:
    """One line for people."""
    if not saved.known:
        return "Time saved: not known, since none of the workload's sizes was measured"
    part = f"{100 * saved.saved_s / saved.before_s:.1f} %" if saved.before_s else "0 %"
    text = (
        f"Time saved of what was recorded, estimated: {1e3 * saved.saved_s:.3f} ms of "
        f"{1e3 * saved.before_s:.3f} ms in collectives of a rank ({part}), one after the other"
    )
    if saved.known < 1:
        text += f"; {100 * (1 - saved.known):.1f} % of the calls were not measured"
    return text
