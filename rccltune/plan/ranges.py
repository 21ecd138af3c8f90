"""Sizes covered by the fewest ranges, since rccl-tests takes a first, a last and one step.

A combined launch measures all its settings at all its sizes, and each combined launch pays a start;
so sizes are parted into ranges, a launch each, where that costs less than measuring everything
everywhere. The parting is exact: the cheapest of all ways, by dynamic programming over the sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from rccltune.model import Range, Setting

# A range that measures many sizes that nobody wants is no cover.
_MOST_SIZES: Final = 64
_LEAST: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What one launch measures: settings over a range of sizes."""

    range: Range
    settings: frozenset[Setting]


# Seconds that a launch takes: its sizes, and how many forced settings walk.
Price = Callable[[Range, int], float]


def ranges_over(sizes: Sequence[int], least: int = 1, unit: int = 1) -> Iterator[Range]:
    """Every range from the first to the last size that holds all of them.

    Args:
        sizes: rising, in bytes; at least one. One size alone gets a neighbour, since a combined
            launch sees where a step ends by a size that falls.
        least: no size is added below so many bytes, where perhaps no tuner is asked.
        unit: sizes that are added have whole ones, in bytes.
    """
    first, last = sizes[0], sizes[-1]
    if len(sizes) == 1:
        # A far smaller one costs next to nothing.
        lowest = max(_LEAST, least)
        whole = (f for f in (16, 4, 2) if first % (f * unit) == 0)
        far = next((f for f in whole if first // f >= lowest), None)
        if far is not None:
            yield Range(min_nbytes=first // far, max_nbytes=first, factor=far)
        else:
            yield Range(min_nbytes=first, max_nbytes=2 * first)
        return
    for factor in _factors(sizes):
        yield Range(min_nbytes=first, max_nbytes=last, factor=factor)
    step = gcd(*(b - a for a, b in itertools.pairwise(sizes)))
    # Newer benchmarks warm up at the first size, twice that, and so on: with less than twice the
    # first size that is one size alone, and no size falls where the table begins.
    start = first
    while last < 2 * start and start - step >= least:
        start -= step
    if last >= 2 * start and (last - start) // step < _MOST_SIZES:
        yield Range(min_nbytes=start, max_nbytes=last, step_nbytes=step)


def _factors(sizes: Sequence[int]) -> Iterator[int]:
    """Whole factors by which one comes from the first size to every other."""
    first = sizes[0]
    for root in range(1, 32):
        ratio = sizes[1] / first
        factor = round(ratio ** (1 / root))
        if factor < 2:
            return
        reached = set(Range(min_nbytes=first, max_nbytes=sizes[-1], factor=factor).sizes)
        if reached.issuperset(sizes):
            yield factor


def stretches(
    wants: Mapping[int, frozenset[Setting]], price: Price, least: int = 1, unit: int = 1
) -> tuple[Stretch, ...]:
    """The cheapest launches that measure every wanted setting at its sizes.

    Args:
        wants: settings by size in bytes; an empty set where the idle plugin alone is wanted.
        price: of one launch.
        least: no size is added below so many bytes.
        unit: sizes that are added have whole ones, in bytes.

    Returns:
        By rising size. Settings may be measured at sizes where nobody wants them, where that is
        cheaper than another launch.
    """
    sizes = sorted(wants)
    best: list[tuple[float, tuple[Stretch, ...]]] = [(0.0, ())]
    for end in range(1, len(sizes) + 1):
        ways = []
        for start in range(end):
            members = sizes[start:end]
            settings = frozenset[Setting]().union(*(wants[n] for n in members))
            for one in ranges_over(members, least, unit):
                cost = best[start][0] + price(one, len(settings))
                ways.append((cost, start, Stretch(range=one, settings=settings)))
        cost, start, stretch = min(ways, key=lambda way: (way[0], -way[1]))
        best.append((cost, (*best[start][1], stretch)))
    return best[-1][1]
