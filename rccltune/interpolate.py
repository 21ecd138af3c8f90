"""Time between measured sizes, straight in log(time) over log(size).

Collectives cost microseconds at 4 KiB and seconds at 8 GiB, and what matters is relative error;
in log-log a constant time, a time proportional to bytes and any power in between are all straight
lines. Nothing here reaches outside the measured range.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import exp, log
from typing import Final

# What lies between two measured sizes further apart than this factor is not known.
GAP: Final = 4


def is_gap(low: int, high: int) -> bool:
    """Whether two neighbouring measured sizes are too far apart to know what lies between."""
    return high > GAP * low


def time_at(sizes: Sequence[float], times: Sequence[float], nbytes: float) -> float | None:
    """Interpolated time in µs.

    Args:
        sizes: rising, in bytes, above 0.
        times: in µs, above 0, one for each size.
        nbytes: where.

    Returns:
        None outside the range of ``sizes``.
    """
    if not sizes or not sizes[0] <= nbytes <= sizes[-1]:
        return None
    right = bisect_left(sizes, nbytes)
    if sizes[right] == nbytes:
        return times[right]
    low, high = sizes[right - 1], sizes[right]
    share = log(nbytes / low) / log(high / low)
    return exp((1 - share) * log(times[right - 1]) + share * log(times[right]))


def crossing(low: float, high: float, below: float, above: float) -> float | None:
    """The size between ``low`` and ``high`` at which a log-ratio of two times becomes zero.

    Args:
        low: a size in bytes.
        high: a larger one.
        below: log(time of one / time of the other) at ``low``.
        above: the same at ``high``.

    Returns:
        None where the ratio has the same sign at both ends (or is zero at both).
    """
    if below == above or below * above > 0:
        return None
    share = below / (below - above)
    return exp((1 - share) * log(low) + share * log(high))
