"""Sizes that a search looks at: a few first, then the grid and one between each two."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import log2, sqrt
from typing import Final

# The largest sizes cost nearly all of a pass's time: they are left to the settings that may win.
_CHEAP_NBYTES: Final = 4 << 20
_SHARE: Final = 8
# Sizes of the coarse pass are at least this far apart, in octaves.
_APART: Final = 2.0
_ALIGNED: Final = 16


def coarse_sizes(grid: Sequence[int], octaves: float = _APART) -> tuple[int, ...]:
    """Sizes of the coarse pass: one in two octaves, up to where sizes become dear.

    Args:
        grid: every size that an exhaustive sweep would measure, rising, in bytes.
        octaves: that two of them are apart at least.
    """
    top = max(_CHEAP_NBYTES, grid[-1] // _SHARE)
    found = [grid[0]]
    for nbytes in grid[1:]:
        if nbytes <= top and log2(nbytes / found[-1]) >= octaves - 1e-9:
            found.append(nbytes)
    # Two sizes at least, and more where the whole grid is short.
    cheap = [nbytes for nbytes in grid if nbytes <= top]
    return tuple(found if len(found) >= _FEW else cheap if len(cheap) > 1 else grid[:2])


_FEW: Final = 4


def looked_at(grid: Sequence[int], n_ranks: int) -> tuple[int, ...]:
    """The grid and a size between each two neighbours, rising, in bytes."""
    return tuple(sorted({*grid, *between(grid, n_ranks)}))


def between(grid: Sequence[int], n_ranks: int) -> tuple[int, ...]:
    """A size between each two neighbours that every rank's share can be cut to, where there is one.

    Half-way in log-size, on a quarter of the smaller one: 1.5 times the smaller of two that differ
    by two.
    """
    found = []
    for low, high in itertools.pairwise(grid):
        unit = max(_ALIGNED * n_ranks, 1 << max(0, low.bit_length() - 3))
        middle = round(sqrt(low * high) / unit) * unit
        if low < middle < high:
            found.append(middle)
    return tuple(found)
