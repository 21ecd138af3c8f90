"""Predicting each inner size from all the others: the error that decides between the models.

The smallest and the largest size are never left out: beyond the measured range nothing is
predicted, so an error there would judge the models by what they are not used for.
"""

from __future__ import annotations

import numpy as np

from rccltune.fit.linear import Array, robust_lines_without, solve
from rccltune.fit.segmented import Pieces, Sums, best_pieces, held_out_costs


def loglog_errors(sizes: Array, times: Array) -> Array:
    """Signed relative errors of log-log interpolation, shape (curves, inner sizes)."""
    x, y = np.log(sizes), np.log(times)
    share = (x[:, 1:-1] - x[:, :-2]) / (x[:, 2:] - x[:, :-2])
    guess = (1 - share) * y[:, :-2] + share * y[:, 2:]
    return np.asarray(np.expm1(guess - y[:, 1:-1]))


def linear_errors(sizes: Array, times: Array, whole: tuple[Array, Array]) -> Array:
    """Signed relative errors of the robust line, shape (curves, inner sizes).

    Args:
        sizes: bytes, shape (curves, sizes).
        times: µs.
        whole: latency and slope of the line through all sizes.
    """
    latency, slope = robust_lines_without(sizes, times, whole)
    return np.asarray((latency + slope * sizes[:, 1:-1]) / times[:, 1:-1] - 1)


def segmented_errors(
    sums: Sums, table: Array, sizes: Array, times: Array, most: int
) -> list[Array]:
    """Signed relative errors of the best splits into 2 … ``most`` pieces, splits made anew.

    Args:
        sums: of ``sizes`` and ``times``.
        table: :func:`rccltune.fit.segmented.costs` of them.
        sizes: bytes, shape (curves, sizes).
        times: µs.
        most: how many pieces to try.

    Returns:
        An array of shape (curves, inner sizes) for each number of pieces.
    """
    splits = best_pieces(held_out_costs(sums, table), most)
    return [_inner_errors(sums, pieces, sizes, times) for pieces in splits]


def _inner_errors(sums: Sums, pieces: Pieces, sizes: Array, times: Array) -> Array:
    """Where the size left out falls between two pieces, the nearer in log-size serves it."""
    held = np.arange(1, sizes.shape[1] - 1)[None]
    left, mid, right = sizes[:, :-2], sizes[:, 1:-1], sizes[:, 2:]
    donor = np.where(mid * mid <= left * right, held - 1, held + 1)
    first, last = (
        np.take_along_axis(index, donor[..., None], axis=-1)[..., 0]
        for index in (pieces.first, pieces.last)
    )
    # A piece that ends or begins at the size left out is made of the others all the same.
    inside = (first <= held) & (held <= last)
    around = sums.over_each(first, last)
    latency, slope = solve(*np.where(inside, around - sums.values[..., 1:-1], around))
    return np.asarray((latency + slope * mid) / times[:, 1:-1] - 1)
