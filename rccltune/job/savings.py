"""What rules save of a recorded job, from times that sessions measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rccltune.fit.session import FitDone, fit_session
from rccltune.job.times import Times
from rccltune.model.chosen import Rule, Zone
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Scale, Setting
from rccltune.model.vocabulary import Collective
from rccltune.workload.reader import read
from rccltune.workload.records import Workload
from rccltune.workload.shares import Saving, Timed, saving_of

# The setting that runs where rules have their way; None where they have none.
Chosen = Callable[[Collective, Scale, int], Setting | None]


def saving(whole: Workload, chosen: Chosen, fits: Sequence[FitDone]) -> Saving:
    """What rules save of a recorded job, estimated from the sessions that they were made of.

    Calls whose size was not measured, of the baseline and of the rule's setting, count as
    not known; those that no rule is for take what they took.

    Args:
        whole: the workload.
        chosen: what runs under the rules, None where there is none.
        fits: the sessions.
    """
    times = Times([curve for done in fits for curve in done.curves])

    def timed(collective: Collective, scale: Scale, nbytes: int) -> Timed | None:
        before = times.before(collective, scale, nbytes)
        setting = chosen(collective, scale, nbytes)
        after = before if setting is None else times.under(collective, scale, nbytes, setting)
        if before is None or after is None:
            return None
        return Timed(before_us=before, after_us=after)

    return saving_of(whole, timed)


def saving_in(path: Path, folders: Sequence[Path], chosen: Chosen, *, reporter: Reporter) -> Saving:
    """The same of a file, and of sessions by their folders; raises as both do."""
    fits = [fit_session(folder, reporter=reporter) for folder in folders]
    whole = read(path)
    for cut in whole.cuts:
        reporter.say(f"Warning: {cut}.")
    return saving(whole, chosen, fits)


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
        first = next(matching, None)
        return None if first is None else first.setting

    return chosen


def saving_plain(saved: Saving) -> dict[str, Any]:
    """For --json."""
    return {
        "before_s": saved.before_s,
        "after_s": saved.after_s,
        "saved_s": saved.saved_s,
        "known": saved.known,
    }


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
