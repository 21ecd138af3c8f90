"""Tests look for what a sentence is about, so that its words can improve."""

from __future__ import annotations

from collections.abc import Iterable


def lacks(text: str | Iterable[object] | None, *data: str) -> list[str]:
    """What of a sentence's data is missing in a text; a test asserts that nothing is.

    Args:
        text: what was said, or lines of it.
        data: numbers with their units, settings, paths, options; a word where there is none.
    """
    whole = text if isinstance(text, str) else "\n".join(map(str, text or ()))
    # Where a line is folded depends on the paths in it, which are longer in some runs.
    folded = " ".join(whole.split())
    return [one for one in data if one not in whole and one not in folded]
