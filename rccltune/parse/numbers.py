"""Numbers as benchmarks print them, and whether three of them can belong together."""

from __future__ import annotations

from math import isfinite

from rccltune.units import MAX_NBYTES, MOST_US
from rccltune.vocab import Doubt

UNCHECKED = frozenset(("N/A", "n/a", "NA", "-", ""))


def step(text: str) -> float:
    """Weight of the last printed digit: ``58.20`` → 0.01, ``1.6e+07`` → 1e6."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}")


def agree(nbytes: int, time_us: float, algbw: float, time_step: float, algbw_step: float) -> bool:
    """Whether size = algbw × time within one unit of the last digit of both.

    One whole unit, not half of one: tools that recompute or truncate a column are common and
    harmless.
    """
    if time_us <= time_step:
        return True
    low = nbytes / ((time_us + time_step) * 1000.0) - algbw_step
    high = nbytes / ((time_us - time_step) * 1000.0) + algbw_step
    return low * (1 - 1e-9) <= algbw <= high * (1 + 1e-9)


def wrong(text: str) -> int | None:
    """The ``#wrong`` column: a count, in any notation, or None where nothing was checked.

    Raises:
        ValueError: neither a count nor one of the words for unchecked.
    """
    if text in UNCHECKED:
        return None
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    # A fraction of an element would still be a wrong element.
    return int(value) + (value > int(value))


def old_error(text: str) -> int | None:
    """The ``error`` column of old benchmarks: the largest difference, not a count.

    Only an asterisk says that it was too large; without one the run's summary decides.

    Raises:
        ValueError: no number.
    """
    if text in UNCHECKED:
        return None
    if text.endswith("*"):
        return 1
    float(text)
    return 0


def size(text: str) -> int:
    """A size or a count in bytes or elements.

    Raises:
        ValueError: not a whole number of at most 2^63-1.
    """
    value = int(text)
    if not 0 <= value <= MAX_NBYTES:
        raise ValueError(text)
    return value


def usable(time_us: float) -> bool:
    """Whether a time can be computed with."""
    return 0.0 < time_us < MOST_US


def doubt_of(nbytes: int, time_us: float | None, n_wrong: int | None) -> Doubt | None:
    """The gravest reason not to use a half-row, from its own numbers."""
    if n_wrong:
        return Doubt.WRONG
    if nbytes == 0:
        return Doubt.ZERO_BYTES
    if time_us is None:
        return Doubt.NO_TIME
    return None
