"""Repeats of one measurement: which of them count, and how sure few of them make anybody.

Times differ by 1-4 % from launch to launch; now and then one is half as long again because it hit
something. Every room that judges repeats leaves the same ones out and asks the same distribution.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import log
from typing import Final

# A repeat this far above the middle one, in logs, hit something that is no everyday noise.
SLOW: Final = log(1.2)


def limit_of(logs: Iterable[float]) -> float:
    """The largest logarithm of a time that still counts among these; at least one."""
    ordered = sorted(logs)
    return ordered[(len(ordered) - 1) // 2] + SLOW


@cache
def upper_quantile(freedom: float, level: float) -> float:
    """The value that Student's t exceeds with this chance.

    Args:
        freedom: degrees of freedom, above 0.
        level: between 0 and 1.
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - level))
