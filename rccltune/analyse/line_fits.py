"""Lines through times, straight or in several straight pieces, many at once.

All functions take arrays whose last axis runs over sizes and whose other axes are independent
problems: thousands of curves and their leave-one-out repetitions are fitted in a few numpy calls.
Errors are relative, (fitted - measured) / measured, since a microsecond matters at 4 KiB and not
at 8 GiB.

Pieces need not meet: times jump where a protocol, a chunk size or a number of channels changes
(17 to 38 µs at 128 KiB in a public broadcast sweep), and a continuous model would smear the step.
The cost of every interval of sizes comes in closed form from prefix sums, so all splits of all
curves, with each size left out in turn, are a handful of numpy calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]
# Beyond this relative error a point pulls less and less (soft L1, as scipy's least_squares).
ROBUST_SCALE = 0.1
_ROUNDS = 20
_ROUNDS_FROM_NEAR = 5


def solve(uu: Array, uv: Array, vv: Array, u: Array, v: Array) -> tuple[Array, Array]:
    """Minimise the sum of (a p + b q - 1)^2 over a, b >= 0, from its sums.

    Args:
        uu: sum of p^2, any shape; p is 1/time where a is a latency.
        uv: sum of p q; q is size/time where b is µs per byte.
        vv: sum of q^2.
        u: sum of p.
        v: sum of q.

    Returns:
        a and b. From sums over a single size b is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        determinant = uu * vv - uv * uv
        single = determinant <= 1e-13 * uu * vv
        latency = np.where(single, u / uu, (u * vv - v * uv) / determinant)
        slope = np.where(single, 0.0, (v * uu - u * uv) / determinant)
        # Both right sides are positive, so at most one of the two is negative, and then the
        # optimum lies where that one is zero.
        no_latency, no_slope = latency < 0, slope < 0
        latency = np.where(no_latency, 0.0, np.where(no_slope, u / uu, latency))
        slope = np.where(no_slope, 0.0, np.where(no_latency, v / vv, slope))
    return latency, slope


def robust_line(sizes: Array, times: Array) -> tuple[Array, Array]:
    """Latency in µs and µs per byte, non-negative, by soft L1 on relative error.

    Args:
        sizes: bytes, shape (…, sizes).
        times: µs, the same shape.
    """
    p, q = 1 / times, sizes / times
    return _settle(p, q, np.ones_like(p), _weighted(p, q, np.ones_like(p)), _ROUNDS)


def robust_lines_without(
    sizes: Array, times: Array, whole: tuple[Array, Array]
) -> tuple[Array, Array]:
    """:func:`robust_line` with each inner size left out in turn, shape (…, inner sizes).

    Args:
        sizes: bytes, shape (…, sizes).
        times: µs, the same shape.
        whole: the line through all sizes, from which only a few rounds are needed.
    """
    p, q = (1 / times)[..., None, :], (sizes / times)[..., None, :]
    weight = (1 - np.eye(sizes.shape[-1]))[1:-1]
    start = (whole[0][..., None], whole[1][..., None])
    return _settle(p, q, weight, start, _ROUNDS_FROM_NEAR)


def _settle(
    p: Array, q: Array, weight: Array, line: tuple[Array, Array], rounds: int
) -> tuple[Array, Array]:
    """Weigh each point by the line so far, fit again, and so on."""
    for _ in range(rounds):
        error = line[0][..., None] * p + line[1][..., None] * q - 1
        line = _weighted(p, q, weight / np.sqrt(1 + (error / ROBUST_SCALE) ** 2))
    return line


def _weighted(p: Array, q: Array, weight: Array) -> tuple[Array, Array]:
    heavy_p, heavy_q = weight * p, weight * q
    sums = (heavy_p * p, heavy_p * q, heavy_q * q, heavy_p, heavy_q)
    uu, uv, vv, u, v = (x.sum(-1) for x in sums)
    return solve(uu, uv, vv, u, v)


def relative_error(latency: Array, slope: Array, sizes: Array, times: Array) -> Array:
    """(fitted - measured) / measured, shape (…, sizes)."""
    return (latency[..., None] + slope[..., None] * sizes) / times - 1


MIN_POINTS = 3
# Of 90 curves of public sweeps 29 earn a fourth piece; a fifth helps ten and hardly anybody.
MAX_PIECES = 4
# n^3 numbers a curve: above this many sizes the measured points are dense enough by themselves.
MAX_SIZES = 96
Index = npt.NDArray[np.intp]


class LineSums:
    """Sums over any interval of sizes from which a line and its error follow.

    Args:
        sizes: bytes, shape (curves, sizes).
        times: µs, the same shape.
    """

    def __init__(self, sizes: Array, times: Array) -> None:
        """Accumulate p^2, pq, q^2, p, q with p = 1/time and q = size/time."""
        p, q = 1 / times, sizes / times
        self.values = np.stack([p * p, p * q, q * q, p, q])
        # With a zero in front, so that a span is one difference.
        self._before = np.zeros((*self.values.shape[:-1], sizes.shape[1] + 1))
        np.cumsum(self.values, axis=-1, out=self._before[..., 1:])

    def over(self, first: Index, last: Index) -> Array:
        """Return the five sums over sizes first…last, the same intervals for every curve.

        Args:
            first: index of the first size, shape (intervals).
            last: index of the last size.

        Returns:
            Shape (5, curves, intervals).
        """
        before = self._before
        return np.asarray(before.take(last + 1, axis=-1) - before.take(first, axis=-1))

    def over_each(self, first: Index, last: Index) -> Array:
        """:func:`over` with intervals of their own for every curve, shape (curves, intervals)."""
        high = np.take_along_axis(self._before, (last + 1)[None], axis=-1)
        return np.asarray(high - np.take_along_axis(self._before, first[None], axis=-1))


def line_cost(sums: Array, count: Index) -> Array:
    """Sum of squared relative errors of the best line, from its five sums."""
    uu, uv, vv, u, v = sums
    a, b = solve(uu, uv, vv, u, v)
    squares = a * a * uu + 2 * a * b * uv + b * b * vv
    return np.asarray(np.maximum(squares - 2 * (a * u + b * v) + count, 0.0))


@cache
def _intervals(n_sizes: int) -> tuple[Index, Index]:
    """First and last index of every interval that is long enough for a piece."""
    first, last = np.triu_indices(n_sizes, MIN_POINTS - 1)
    return first, last


@cache
def _left_out(n_sizes: int) -> tuple[Index, Index, Index]:
    """(size left out, first, last) for every inner size and interval around it."""
    first, last = np.triu_indices(n_sizes, MIN_POINTS - 1)
    held = np.arange(1, n_sizes - 1)[:, None]
    inner, interval = np.nonzero((first <= held) & (held <= last))
    return inner + 1, first[interval], last[interval]


def costs(sums: LineSums) -> Array:
    """Cost of every interval, by [last, first], infinite where too short.

    Returns:
        Shape (curves, sizes, sizes). The last index comes before the first so that the search for
        the best beginning runs over neighbours in memory.
    """
    n_curves, n_sizes = sums.values.shape[1:]
    first, last = _intervals(n_sizes)
    table = np.full((n_curves, n_sizes, n_sizes), np.inf)
    table[:, last, first] = line_cost(sums.over(first, last), last - first + 1)
    return table


def held_out_costs(sums: LineSums, table: Array) -> Array:
    """:func:`costs` with each inner size left out in turn, shape (curves, inner, sizes, sizes).

    Only intervals around the size that is left out differ from ``table``.
    """
    n_sizes = sums.values.shape[2]
    held, first, last = _left_out(n_sizes)
    # Single precision is plenty for choosing where to split, and twice as fast.
    every = np.repeat(table[:, None].astype(np.float32), n_sizes - 2, axis=1)
    without = sums.over(first, last) - sums.values.take(held, axis=-1)
    changed = line_cost(without, last - first)
    every[:, held - 1, last, first] = np.where(last - first >= MIN_POINTS, changed, np.inf)
    return every


@dataclass(frozen=True, slots=True)
class PieceBounds:
    """First and last index of the piece that each size belongs to, shape (…, sizes)."""

    first: Index
    last: Index


def best_pieces(table: Array, most: int) -> list[PieceBounds]:
    """The cheapest splits into exactly 2, 3, … ``most`` pieces.

    Args:
        table: cost of intervals by [last, first], shape (…, sizes, sizes); there must be
            MIN_POINTS sizes that count for each piece.
        most: at least 2.
    """
    cost = table[..., 0]
    splits: list[Index] = []
    bounds: list[PieceBounds] = []
    for _ in range(most - 1):
        # Best up to i-1 plus the piece from i; only the first piece begins at the first size.
        longer = cost[..., None, :-1] + table[..., 1:]
        split = longer.argmin(axis=-1)
        cost = np.take_along_axis(longer, split[..., None], axis=-1)[..., 0]
        splits.append(split + 1)
        bounds.append(_trace(splits))
    return bounds


def _trace(splits: list[Index]) -> PieceBounds:
    """Go back from the last size through the first sizes of the pieces."""
    shape = splits[0].shape
    position = np.arange(shape[-1])
    first = np.zeros(shape, dtype=np.intp)
    last = np.full(shape, shape[-1] - 1, dtype=np.intp)
    end = np.full((*shape[:-1], 1), shape[-1] - 1, dtype=np.intp)
    for split in reversed(splits):
        start = np.take_along_axis(split, end, axis=-1)
        inside = (position >= start) & (position <= end)
        first = np.where(inside, start, first)
        end = start - 1
        last = np.where(position <= end, end, last)
    return PieceBounds(first, last)
