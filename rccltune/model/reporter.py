"""Reporter: tells whoever started a work that takes time what is going on."""

from __future__ import annotations


class Reporter:
    """Whoever started the work; this one listens and says nothing."""

    def say(self, text: str) -> None:
        """Take a sentence for people."""

    def detail(self, text: str) -> None:
        """Take a sentence for those who want to know more."""

    def progress(self, step: object) -> None:
        """Take what a launch that ended has to say: a record of the work that made it."""
