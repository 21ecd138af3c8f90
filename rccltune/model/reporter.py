"""Reporter: tells whoever started a work that takes time what is going on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a verb is.

    Attributes:
        what: what is done now, for people.
        done: steps of it that are made.
        of: all of them.
        left_s: seconds that the rest of the verb takes at a usual machine's pace.
        where: session that it is done for, where a verb measures several.
    """

    what: str
    done: int
    of: int
    left_s: float
    where: str = ""

    def __str__(self) -> str:
        """``verifying rules 509/616``."""
        return f"{self.what} {self.done}/{self.of}{f' ({self.where})' * bool(self.where)}"


class Reporter:
    """Whoever started the work; this one listens and says nothing."""

    def say(self, text: str) -> None:
        """Take a sentence for people."""

    def detail(self, text: str) -> None:
        """Take a sentence for those who want to know more."""

    def progress(self, step: Progress) -> None:
        """Take how far the work is."""
