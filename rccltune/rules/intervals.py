"""Intervals of sizes in the order of a file: what is covered, and what comes first at a size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

Interval = tuple[int, int]


class Covered:
    """Sizes that were taken so far, as disjoint intervals in order; bounds are inclusive."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        """None was."""
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, low: int, high: int) -> None:
        """Take an interval; what it touches becomes one with it."""
        first = bisect_right(self._ends, low - 2)
        last = bisect_right(self._starts, high + 1)
        if first < last:
            low, high = min(low, self._starts[first]), max(high, self._ends[last - 1])
        self._starts[first:last] = [low]
        self._ends[first:last] = [high]

    def end_at(self, nbytes: int) -> int | None:
        """Last size of the interval that a size lies in; None where it lies in none."""
        at = bisect_right(self._starts, nbytes) - 1
        return self._ends[at] if at >= 0 and self._ends[at] >= nbytes else None


def is_covered(low: int, high: int, by: Sequence[Covered]) -> bool:
    """Whether several together take every size of an interval."""
    while low <= high:
        ends = [end for each in by if (end := each.end_at(low)) is not None]
        if not ends:
            return False
        low = max(ends) + 1
    return True


def first_at(intervals: Iterable[Interval], sizes: Sequence[int]) -> list[int | None]:
    """Number of the first interval, in the order given, that each size lies in.

    Args:
        intervals: with inclusive bounds.
        sizes: in ascending order.
    """
    waiting = sorted((low, number, high) for number, (low, high) in enumerate(intervals))
    begun: list[tuple[int, int]] = []
    found: list[int | None] = []
    at = 0
    for nbytes in sizes:
        while at < len(waiting) and waiting[at][0] <= nbytes:
            heappush(begun, waiting[at][1:])
            at += 1
        # What ended before this size is over for all that follow.
        while begun and begun[0][1] < nbytes:
            heappop(begun)
        found.append(begun[0][0] if begun else None)
    return found
