"""Records of failures of launches, and of excluded settings; ``ranks/hangs_and_crashes.py``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rccltune.model.schema import Word
from rccltune.model.settings import Scale, Setting
from rccltune.model.vocabulary import Collective


class Failure(Enum):
    """Failure of a launch.

    KILLED is SIGKILL, which no program sends itself: somebody did, or the kernel where memory was
    short. UNREADABLE is an output that was cut off or contradicts itself, ranks that were answered
    differently among it.
    """

    HANG = "hang"
    CRASH = "crash"
    KILLED = "killed"
    MEMORY_FAULT = "memory-fault"
    WRONG = "wrong-results"
    UNREADABLE = "unreadable"

    @property
    def words(self) -> str:
        """Words with which a sentence about the setting goes on."""
        return _WORDS[self]


_WORDS: Final = {
    Failure.HANG: "hung",
    Failure.CRASH: "crashed",
    Failure.KILLED: "was killed",
    Failure.MEMORY_FAULT: "ended with a GPU memory fault",
    Failure.WRONG: "gave wrong results",
    Failure.UNREADABLE: "left an output that cannot be used",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedSetting:
    """A setting that failed too often in a session to be tried again.

    Attributes:
        launches: ids of those that failed, in the order of their rounds; at least one.
        failures: how each of them did.
    """

    collective: Collective
    setting: Setting
    scale: Scale | None
    rank_placement: Word | None
    launches: tuple[Word, ...]
    failures: tuple[Failure, ...]

    def __post_init__(self) -> None:
        """Refuse an exclusion without a failure to show."""
        if not self.launches or len(self.launches) != len(self.failures):
            raise ValueError("an exclusion needs its failed launches, and how each failed")

    @property
    def reason(self) -> str:
        """``it hung in 2 launches``."""
        parts = [
            f"{failure.words} in {count} launch{'' if count == 1 else 'es'}"
            for failure, count in Counter(self.failures).items()
        ]
        return f"it {' and '.join(parts)}"

    def __str__(self) -> str:
        """``all_reduce tree/ll``."""
        return f"{self.collective.value} {self.setting}"
