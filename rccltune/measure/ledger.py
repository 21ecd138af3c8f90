"""What of a plan has been tried, how it ended, and what is to be tried next.

Everything is derived from the launches on disk: losing rccltune at any moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune.measure.launches import choosing_anew
from rccltune.model import schema
from rccltune.model.failure import Failure, Quarantine
from rccltune.model.measured import Launch, Outcome, Status
from rccltune.model.settings import Setting
from rccltune.plan.walks import alone as plan_alone
from rccltune.plan.walks import continuation, is_walked, n_kept
from rccltune.session import files, samples, store
from rccltune.session.launches import is_walk, setting_of
from rccltune.session.samples import Ended, is_good

QUARANTINE_FILE: Final = "quarantine.json"
# What simulated noise depends on beside what is measured.
SIM_LAUNCH: Final = "RCCLTUNE_SIM_LAUNCH"


class Ledger:
    """The launches of a session that ended.

    Args:
        ended: as :func:`rccltune.session.read_launches` gives them.
    """

    __slots__ = ("_by_plan", "_ended", "_quarantined")

    def __init__(self, ended: Iterable[Ended]) -> None:
        """Sort attempts under the planned launches that they are of."""
        self._ended: dict[str, Ended] = {}
        self._by_plan: dict[str, list[Ended]] = {}
        # Asked for every launch of a plan, and changed by one at a time.
        self._quarantined: tuple[Quarantine, ...] | None = None
        for one, outcome in ended:
            self.add(one, outcome)

    def add(self, one: Launch, outcome: Outcome) -> None:
        """Note how an attempt ended."""
        self._quarantined = None
        self._ended[one.id] = (one, outcome)
        whole = one.part_of or store.launch_id(replace(one, attempt=0))
        planned = whole if one.argv else one.id
        others = [pair for pair in self._by_plan.get(planned, ()) if pair[0].id != one.id]
        self._by_plan[planned] = [*others, (one, outcome)]

    @property
    def ended(self) -> tuple[Ended, ...]:
        """All of them, lifted failures included."""
        return tuple(self._ended.values())

    @property
    def quarantined(self) -> tuple[Quarantine, ...]:
        """Settings that are not tried any more."""
        if self._quarantined is None:
            self._quarantined = samples.quarantines(self.ended)
        return self._quarantined

    def of(self, planned: Launch) -> tuple[Ended, ...]:
        """Every launch that was made for a planned one, in the order in which they were made.

        Attempts; of a combined launch what it was gone on with, and settings of it that were tried
        alone.
        """
        return tuple(sorted(self._by_plan.get(planned.id, ()), key=lambda pair: pair[0].attempt))

    def done(self, planned: Launch) -> Ended | None:
        """The attempt of a planned launch that ended well; of a combined one the last."""
        if is_walk(planned):
            walks = self._walks(planned)
            return walks[-1] if walks and not self.is_left(planned) else None
        return next((pair for pair in self.of(planned) if is_good(pair)), None)

    def is_left(self, planned: Launch) -> bool:
        """Whether a planned launch is still to be made, or something of it."""
        if is_walk(planned):
            return self.is_to_walk(planned) or bool(self.suspects(planned))
        return self.done(planned) is None and not self.is_quarantined(planned)

    def is_quarantined(self, planned: Launch) -> bool:
        """Whether its setting is not tried any more."""
        return any(samples.covers(one, planned) for one in self.quarantined)

    def is_to_walk(self, planned: Launch) -> bool:
        """Whether a combined launch lacks repeats of a setting that is not under suspicion."""
        return not is_walked(planned, self._walked(planned), self._left_out(planned))

    def next_attempt(self, planned: Launch) -> Launch:
        """The launch to make; failed attempts keep their folders."""
        if not is_walk(planned):
            return self._named(planned, planned)
        following = continuation(planned, self._walked(planned), self._left_out(planned))
        return self._named(planned, following)

    def again(self, planned: Launch) -> Launch:
        """The launch as it is planned, once more."""
        return self._named(planned, planned)

    def suspects(self, planned: Launch) -> dict[Setting, Failure]:
        """Settings with which a combined launch failed, to be tried alone, and how it failed."""
        barred = samples.barred(self.quarantined, planned)
        made = self.of(planned)
        acquitted = {setting_of(one) for one, o in made if not is_walk(one) and is_good((one, o))}
        failed = {**self._forgiven(planned), **self._failures(planned)}
        return {
            setting: failure
            for setting, failure in failed.items()
            if setting not in barred and setting not in acquitted and failure is not Failure.KILLED
        }

    def next_alone(self, planned: Launch, setting: Setting) -> Launch:
        """The launch that tries a setting of a combined launch alone."""
        return self._named(planned, choosing_anew(plan_alone(planned, setting)))

    def kept(self, planned: Launch, setting: Setting) -> tuple[int, int]:
        """How often a setting of a combined launch was measured, alone too, and should be."""
        n_walked, n_planned = n_kept(planned, self._walked(planned), setting)
        alone = [
            pair
            for pair in self.of(planned)
            if not is_walk(pair[0]) and setting_of(pair[0]) == setting and is_good(pair)
        ]
        return n_walked + len(alone), n_planned

    def _walks(self, planned: Launch) -> list[Ended]:
        return [pair for pair in self.of(planned) if is_walk(pair[0])]

    def _walked(self, planned: Launch) -> list[tuple[Launch, int]]:
        """How far the launches for a combined one came."""
        return [(one, _n_steps(one, outcome)) for one, outcome in self._walks(planned)]

    def _left_out(self, planned: Launch) -> frozenset[Setting]:
        """What a combined launch goes on without; SIGKILL says nothing of a setting."""
        failed = self._failures(planned).items()
        suspected = {setting for setting, failure in failed if failure is not Failure.KILLED}
        return samples.barred(self.quarantined, planned) | suspected

    def _failures(self, planned: Launch) -> dict[Setting, Failure]:
        """The worst that launches for a combined one say against each setting."""
        found: dict[Setting, Failure] = {}
        for one, outcome in self._walks(planned):
            for setting, failure in samples.failures(one, outcome).items():
                if found.get(setting, Failure.KILLED) is Failure.KILLED:
                    found[setting] = failure
        return found

    def _forgiven(self, planned: Launch) -> dict[Setting, Failure]:
        """Wrong results that were forgiven; the steps were made, so only alone is left to try."""
        lifted = (replace(o, lifted=False) for _, o in self._walks(planned) if o.lifted)
        pairs = (samples.failures(planned, outcome).items() for outcome in lifted)
        return {s: failure for found in pairs for s, failure in found if failure is Failure.WRONG}

    def _named(self, planned: Launch, one: Launch) -> Launch:
        """With a folder of its own."""
        made = self.of(planned)
        attempt = max((done.attempt for done, _ in made), default=-1) + 1
        if one != planned:
            # One that was cut off and is made again is to give what it would have given.
            n_ended = sum(not outcome.was_cut_off for _, outcome in made)
            one = _told_apart(replace(one, part_of=planned.id), n_ended)
        following = replace(one, attempt=attempt)
        return replace(following, id=store.launch_id(following))


def _n_steps(one: Launch, outcome: Outcome) -> int:
    """Steps of a combined launch that need not be made again; older sessions do not say how many.

    One that was cut off from outside is made again whole: what is measured next must not depend
    on when somebody interrupted it.
    """
    if outcome.status is Status.OK and one.schedule is not None:
        return len(one.schedule.settings)
    return 0 if outcome.was_cut_off else outcome.n_steps or 0


def _told_apart(one: Launch, n_ended: int) -> Launch:
    """Simulated noise of what a combined launch goes on with is not that of its beginning again."""
    names = dict(one.environment)
    if SIM_LAUNCH in names:
        names[SIM_LAUNCH] += f" {n_ended}"
    return replace(one, environment=tuple(sorted(names.items())))


def open_ledger(folder: Path) -> Ledger:
    """The ledger of a session; empty where there is none yet."""
    return Ledger(store.read_launches(folder))


def lift(folder: Path, ledger: Ledger, one: Launch, outcome: Outcome) -> None:
    """Let a failure count no more, since the machine did not work; its log stays.

    Raises:
        SessionError: the disk refuses.
    """
    lifted = replace(outcome, lifted=True)
    ledger.add(one, lifted)
    files.write_atomically(folder / "launches" / one.id / "outcome.json", store.dump_json(lifted))


def write_quarantine(folder: Path, ledger: Ledger) -> None:
    """Keep the quarantined settings where people and programs find them; derived, like samples.csv.

    Raises:
        SessionError: the disk refuses.
    """
    found = ledger.quarantined
    if found or (folder / QUARANTINE_FILE).exists():
        plain = [{**schema.to_plain(one), "reason": one.reason} for one in found]
        store.write_derived(folder, QUARANTINE_FILE, {"quarantined": plain})
