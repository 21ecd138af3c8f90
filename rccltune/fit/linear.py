"""Straight lines through times, many at once.

All functions take arrays whose last axis runs over sizes and whose other axes are independent
problems: thousands of curves and their leave-one-out repetitions are fitted in a few numpy calls.
Errors are relative, (fitted - measured) / measured, since a microsecond matters at 4 KiB and not
at 8 GiB.
"""

from __future__ import annotations

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
