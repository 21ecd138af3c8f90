"""Segmentation of the sizes: the fewest zones of one setting each, with the least loss."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from rccltune.analyse.intervals import Array, Counts, Truths
from rccltune.model.curves import GAP

# No setting: what the library does by itself.
NONE: Final = -1
# More than any sum of losses (log ratios), so that the number of zones always comes first.
_ZONE: Final = 1e4
# What the last bits of logarithms amount to in a size, and a thousandfold.
_LAST_BITS: Final = 1e-11


def fewest_zones(loss: Array, carries: Truths, none: Array) -> Counts:
    """Assign a setting to each size: with the fewest zones of one setting, then the least loss.

    Optimal partitioning (Jackson et al., 2005) of the Potts model of step detection (Friedrich et
    al., 2008), with several curves to choose from.

    Args:
        loss: by [setting, size], infinite where the setting may not be used.
        carries: a zone must hold a size where its setting does.
        none: loss of having no setting, by size, infinite where there must be one; not a zone.

    Returns:
        A setting or :data:`NONE` for each size; no setting anywhere where there is no such
        sequence.
    """
    n_sizes = loss.shape[1]
    loss = np.vstack([loss, none])
    carries = np.vstack([carries, np.ones(n_sizes, dtype=bool)])
    is_barred = ~np.isfinite(loss)
    price = np.append(np.full(len(loss) - 1, _ZONE), 0.0)[:, None]
    # Sums before each size, so that those of a range are one difference.
    total, held, barred = (
        np.pad(np.cumsum(each, axis=1), ((0, 0), (1, 0)))
        for each in (np.where(is_barred, 0.0, loss), carries, is_barred)
    )
    best = np.zeros(n_sizes + 1)
    previous: list[tuple[int, int]] = []
    for end in range(1, n_sizes + 1):
        lost, n_held, n_barred = (x[:, end, None] - x[:, :end] for x in (total, held, barred))
        cost = np.where((n_held > 0) & (n_barred == 0), best[:end] + price + lost, np.inf)
        at = np.unravel_index(cost.argmin(), cost.shape)
        best[end] = cost[at]
        previous.append((int(at[0]), int(at[1])))
    states = np.full(n_sizes, NONE)
    end = n_sizes if np.isfinite(best[-1]) else 0
    while end:
        setting, start = previous[end - 1]
        states[start:end] = setting if setting < len(loss) - 1 else NONE
        end = start
    return states


def split_at_gaps(nbytes: npt.NDArray[np.int64]) -> list[Counts]:
    """Indices of sizes, split where neighbours are more than a factor of four apart."""
    return np.split(np.arange(len(nbytes)), np.flatnonzero(nbytes[1:] > GAP * nbytes[:-1]) + 1)


def split_by_setting(states: Counts) -> list[Counts]:
    """Indices of neighbours that are equal."""
    return np.split(np.arange(len(states)), np.flatnonzero(np.diff(states)) + 1)


def size_where_equal(nbytes: npt.ArrayLike, log_ratio: npt.ArrayLike) -> int:
    """Size in bytes at which a log ratio is 0, straight in log size.

    Args:
        nbytes: two sizes, rising.
        log_ratio: at each of them.

    Returns:
        The last byte below it, the first size at least and less than the second; the geometric
        middle where the ratio has one sign at both, or is not known.
    """
    low, high = np.log(np.asarray(nbytes, dtype=float))
    first, last = np.asarray(log_ratio, dtype=float)
    crosses = np.isfinite(first) and np.isfinite(last) and first * last < 0
    share = first / (first - last) if crosses else 0.5
    ends = np.asarray(nbytes)
    # Logarithms and back end a little below a whole byte on one processor, and on it on another.
    at = int(np.exp(low + share * (high - low)) * (1 + _LAST_BITS))
    return min(max(at, int(ends[0])), int(ends[1]) - 1)
