"""Printed times and bandwidths, and which of them can be computed with.

All readers ask here: of logs, of JSON, of tables and of our own files. Positive, finite and below
thirty years is usable. Zero is what a clock says that was too coarse; negative numbers, nan and
infinities are what a division by it leaves: they are numbers, and no measurement.
"""

from __future__ import annotations

from typing import Final, TypeGuard

# Thirty years: what is longer was no call, and squares of it would not be finite.
MOST_US: Final = 1e15
_ABSENT: Final = frozenset(("", "-", "n/a", "null", "none"))


def is_usable(value: float | None) -> TypeGuard[float]:
    """Whether a time (µs) or a bandwidth (GB/s) can be computed with."""
    return value is not None and 0.0 < value < MOST_US


def printed(word: str) -> float:
    """A number as benchmarks print it, nan and infinities included.

    Raises:
        ValueError: no number, or one that only Python would write so (``1_000``).
    """
    if "_" in word or not word.isascii():
        raise ValueError(f"'{word}' is no number")
    return float(word)


def printed_or_none(word: str) -> float | None:
    """Read a printed number; None for a word that says there is none: ``-``, ``N/A``, ``null``.

    Raises:
        ValueError: neither.
    """
    return None if word.lower() in _ABSENT else printed(word)
