"""How a sweep ended, whichever program measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rccltune.measure.options import PERF
from rccltune.model import schema
from rccltune.model.brief import brief
from rccltune.model.failure import Quarantine
from rccltune.session.store import Session


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """How a sweep ended.

    Attributes:
        runner: ``perf`` or ``rccl-tests``.
        n_starts: of all ranks: runs of the rank program, or launches that ended well.
        aside: settings that are measured no more, each with the reason.
        not_offered: settings that the library lets be chosen nowhere, in words; a plan of launches
            leaves them out before.
        remarks: what else of the times should be known.
        tuner: which one the library uses by itself on this site, as its log says: ``none``,
            ``plugin NAME``, ``built-in table FILE``; None where no log of the baseline is there.
        is_over: the budget ended it.
        seconds: of all starts of the session.
    """

    session: Session
    runner: str
    n_starts: int
    n_samples: int
    aside: tuple[Quarantine, ...]
    remarks: tuple[str, ...]
    is_over: bool
    seconds: float
    library: str
    tuner: str | None
    not_offered: tuple[str, ...] = ()

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "session": str(self.session.path),
            "runner": self.runner,
            "simulated": self.session.simulated,
            "library": self.library,
            "tuner_of_baseline": self.tuner,
            "runs" if self.runner == PERF else "launches": self.n_starts,
            "samples": self.n_samples,
            "set_aside": [{**schema.to_plain(one), "reason": one.reason} for one in self.aside],
            "not_offered": list(self.not_offered),
            "remarks": list(self.remarks),
            "budget_spent": self.is_over,
            "seconds": round(self.seconds, 1),
        }
