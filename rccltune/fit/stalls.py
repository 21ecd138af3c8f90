"""Finding the rows during which a whole job stood still.

Outliers in public data are bursts, not single points: six consecutive rows at 19-27 ms where 40 µs
is normal, both placements hit, nothing wrong before or after. Neither the minimum of the two
placements nor a robust fit survives that; a second launch does. Where there is one, a launch is
left out at the sizes at which it is far above the others. Where there is none, a burst still shows
as a time that no larger size needs, or as bandwidth that collapses: such rows are named and left
out too, since twenty milliseconds of baseline at 4 KiB would 'prove' any rule.

Bursts that hit the same size in most launches leave no majority. But a launch's first pass pays for
the connections, and can only be slower than what follows: what is far above it stood still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from rccltune.fit.gather import Row

# Launches of one setting differ by 1-4 %, with stalls of 60 % and more.
ABOVE_OTHER_LAUNCHES = 1.5
# A GPU that slows down when it is warm does so by less.
ABOVE_ITS_FIRST_PASS = 6.0
# Real curves step too: a plateau's edge is up to 2.3x in public sweeps, a bad default up to 5x.
ABOVE_OTHER_SIZES = 6.0


@dataclass(frozen=True, slots=True)
class Stall:
    """One launch that stood still at one size.

    Attributes:
        factor: its time over what was to be expected.
        alone: no other launch says what is normal.
    """

    nbytes: int
    launch: str
    factor: float
    alone: bool


def find_stalls(table: Sequence[Row]) -> list[Stall]:
    """Stalled launches of one curve, by size."""
    own = [stall for row in table for stall in _against_first_pass(row)]
    left = _without(table, own)
    found = [stall for row in left for stall in _against_launches(row)]
    return sorted(own + found + _against_sizes(left), key=lambda s: (s.nbytes, s.launch))


def _against_first_pass(row: Row) -> list[Stall]:
    """Launches far above their own first pass, unless all are: then that is what it takes."""
    slow = {
        launch: time
        for launch, time in row.centres.items()
        if time > ABOVE_ITS_FIRST_PASS * row.firsts.get(launch, time)
    }
    others = [time for launch, time in row.centres.items() if launch not in slow]
    if not others:
        return []
    return [
        Stall(row.nbytes, launch, time / min(others), alone=False) for launch, time in slow.items()
    ]


def _without(table: Sequence[Row], stalls: Sequence[Stall]) -> list[Row]:
    out = {(stall.nbytes, stall.launch) for stall in stalls}
    if not out:
        return list(table)
    return [
        replace(row, centres={n: t for n, t in row.centres.items() if (row.nbytes, n) not in out})
        for row in table
    ]


def _against_launches(row: Row) -> list[Stall]:
    if len(row.centres) < 2:
        return []
    normal = median_low(row.centres.values())
    return [
        Stall(row.nbytes, launch, time / normal, alone=False)
        for launch, time in row.centres.items()
        if time > ABOVE_OTHER_LAUNCHES * normal
    ]


def _against_sizes(table: Sequence[Row]) -> list[Stall]:
    """Single launches far above a larger size's time, or a smaller size's time per byte."""
    normal = [median_low(row.centres.values()) for row in table]
    later = [float("inf")] * (len(table) + 1)
    for index in range(len(table) - 1, -1, -1):
        later[index] = min(later[index + 1], normal[index])
    found: list[Stall] = []
    per_byte = float("inf")
    for index, row in enumerate(table):
        expected = min(later[index + 1], per_byte * row.nbytes)
        stalled = normal[index] > ABOVE_OTHER_SIZES * expected
        if stalled and len(row.centres) == 1:
            launch = next(iter(row.centres))
            found.append(Stall(row.nbytes, launch, normal[index] / expected, alone=True))
        elif not stalled:
            per_byte = min(per_byte, normal[index] / row.nbytes)
    return found
