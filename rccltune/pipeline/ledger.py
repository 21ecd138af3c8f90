"""What of a plan has been tried, how it ended, and what is to be tried next.

Everything is derived from the launches on disk: losing rccltune at any moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune import quarantine, session
from rccltune.model import Launch, Outcome, Quarantine, Sample, Status
from rccltune.pipeline.launching import read_launch

Ended = tuple[Launch, Outcome]
QUARANTINE_FILE: Final = "quarantine.json"


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
        planned = session.launch_id(replace(one, attempt=0)) if one.argv else one.id
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
            self._quarantined = quarantine.quarantines(self.ended)
        return self._quarantined

    def done(self, planned: Launch) -> Ended | None:
        """The attempt of a planned launch that ended well."""
        return next(
            (
                (one, outcome)
                for one, outcome in self._by_plan.get(planned.id, ())
                if outcome.status is Status.OK and quarantine.failure_of(outcome) is None
            ),
            None,
        )

    def of(self, planned: Launch) -> tuple[Ended, ...]:
        """Every launch that was made for a planned one."""
        return tuple(self._by_plan.get(planned.id, ()))

    def is_left(self, planned: Launch) -> bool:
        """Whether a planned launch is still to be made."""
        return self.done(planned) is None and not self.is_quarantined(planned)

    def is_quarantined(self, planned: Launch) -> bool:
        """Whether its setting is not tried any more."""
        return any(quarantine.covers(one, planned) for one in self.quarantined)

    def next_attempt(self, planned: Launch) -> Launch:
        """The launch to make; failed attempts keep their folders."""
        tried = [one.attempt for one, _ in self._by_plan.get(planned.id, ())]
        following = replace(planned, attempt=max(tried) + 1 if tried else 0)
        return replace(following, id=session.launch_id(following))

    def blamed(self, launches: Sequence[Launch]) -> tuple[Ended, ...]:
        """Failed launches behind the quarantines of these launches' settings."""
        found = [
            one for one in self.quarantined if any(quarantine.covers(one, x) for x in launches)
        ]
        return tuple(
            (launch, outcome)
            for launch, outcome in self.ended
            if any(launch.id in one.launches for one in found)
        )


def open_ledger(folder: Path) -> Ledger:
    """The ledger of a session; empty where there is none yet."""
    return Ledger(session.read_launches(folder))


def lift(folder: Path, ledger: Ledger, one: Launch, outcome: Outcome) -> None:
    """Let a failure count no more; its log stays.

    Raises:
        SessionError: the disk refuses.
    """
    lifted = replace(outcome, lifted=True)
    ledger.add(one, lifted)
    session.write_atomically(
        folder / "launches" / one.id / "outcome.json", session.dump_json(lifted)
    )


def write_quarantine(folder: Path, ledger: Ledger) -> None:
    """Keep the quarantined settings where people and programs find them; derived, like samples.csv.

    Raises:
        SessionError: the disk refuses.
    """
    found = ledger.quarantined
    if found or (folder / QUARANTINE_FILE).exists():
        plain = [{**session.to_plain(one), "reason": one.reason} for one in found]
        session.write_derived(folder, QUARANTINE_FILE, {"quarantined": plain})


def samples_of(
    folder: Path, ended: Sequence[Ended], known: Mapping[str, tuple[Sample, ...]]
) -> list[Sample]:
    """Half-rows of measured launches; those of quarantined settings carry a doubt.

    Args:
        folder: the session.
        ended: its launches.
        known: samples by launch, where they were read already.
    """
    found: list[Sample] = []
    for one, outcome in ended:
        found += known[one.id] if one.id in known else read_launch(one, folder, outcome)
    return quarantine.doubted(found, ended)
