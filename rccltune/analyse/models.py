"""Models of time against size.

Which of the three models of a curve to trust is told by errors at sizes left out. The smallest and
the largest never are: beyond the measured range nothing is predicted, so an error there would judge
the models by what they are not used for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from rccltune.analyse.line_fits import (
    MAX_PIECES,
    MAX_SIZES,
    MIN_POINTS,
    Array,
    LineSums,
    PieceBounds,
    best_pieces,
    costs,
    held_out_costs,
    relative_error,
    robust_line,
    robust_lines_without,
    solve,
)
from rccltune.model.curves import Fit, Model, Segment


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
    sums: LineSums, table: Array, sizes: Array, times: Array, most: int
) -> list[Array]:
    """Signed relative errors of the best splits into 2 … ``most`` pieces, splits made anew.

    Args:
        sums: of ``sizes`` and ``times``.
        table: :func:`rccltune.analyse.line_fits.costs` of them.
        sizes: bytes, shape (curves, sizes).
        times: µs.
        most: how many pieces to try.

    Returns:
        An array of shape (curves, inner sizes) for each number of pieces.
    """
    splits = best_pieces(held_out_costs(sums, table), most)
    return [_inner_errors(sums, pieces, sizes, times) for pieces in splits]


def _inner_errors(sums: LineSums, pieces: PieceBounds, sizes: Array, times: Array) -> Array:
    """Errors at inner sizes; between two pieces the nearer in log-size serves."""
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


# Another piece, or a richer model, must predict better by a twentieth to be worth having.
WORTH = 0.95
# A line that predicts as well as launches repeat (1-4 %) is not broken into pieces.
GOOD_LINE = 0.015
# Held-out errors from fewer sizes than this say nothing.
MIN_SIZES = 4
# Numbers in one temporary array: large enough for numpy to be fast, small enough for the cache.
_CHUNK = 1_000_000


@dataclass(frozen=True, slots=True)
class CurveFits:
    """Fits of one curve, in the order of Model, and the one chosen."""

    fits: tuple[Fit, ...]
    chosen: Model


def fit_all(curves: list[tuple[tuple[int, ...], tuple[float, ...]]]) -> list[CurveFits]:
    """Fit every curve.

    Args:
        curves: rising sizes in bytes and times in µs of each, at least one point.

    Returns:
        One result for each, in the same order; curves with equally many sizes are fitted
        together, which changes nothing but the speed.
    """
    results: dict[int, CurveFits] = {}
    by_length: dict[int, list[int]] = {}
    for index, (sizes, _) in enumerate(curves):
        by_length.setdefault(len(sizes), []).append(index)
    for n_sizes, members in by_length.items():
        step = max(1, _CHUNK // n_sizes ** (3 if n_sizes <= MAX_SIZES else 2))
        for start in range(0, len(members), step):
            chunk = members[start : start + step]
            results.update(zip(chunk, _fit_chunk([curves[i] for i in chunk]), strict=True))
    return [results[index] for index in range(len(curves))]


def _fit_chunk(curves: list[tuple[tuple[int, ...], tuple[float, ...]]]) -> list[CurveFits]:
    sizes = np.array([c[0] for c in curves], dtype=float)
    times = np.array([c[1] for c in curves], dtype=float)
    integer_sizes = [c[0] for c in curves]
    linear = _linear_fits(sizes, times, integer_sizes)
    loglog = _loglog_fits(sizes, times)
    segmented = _segmented_fits(sizes, times, integer_sizes, linear)
    return [_choose(*three) for three in zip(linear, segmented, loglog, strict=True)]


def _choose(linear: Fit, segmented: Fit | None, loglog: Fit) -> CurveFits:
    """Return the model of least held-out error, the simpler one where that is nearly equal."""
    fits = tuple(fit for fit in (linear, segmented, loglog) if fit is not None)
    if loglog.held_out_error is None:
        return CurveFits(fits, Model.LOGLOG)
    best = fits[0]
    for fit in fits[1:]:
        if (fit.held_out_error or 0.0) < WORTH * (best.held_out_error or 0.0):
            best = fit
    return CurveFits(fits, best.model)


def _errors(errors: Array | None, index: int) -> tuple[float | None, float | None]:
    if errors is None:
        return None, None
    size = np.abs(errors[index])
    return float(size.mean()), float(size.max())


def _linear_fits(sizes: Array, times: Array, integers: list[tuple[int, ...]]) -> list[Fit]:
    latency, slope = robust_line(sizes, times)
    residuals = relative_error(latency, slope, sizes, times)
    errors = None
    if sizes.shape[1] >= MIN_SIZES:
        errors = linear_errors(sizes, times, (latency, slope))
    result = []
    for index, grid in enumerate(integers):
        mean, worst = _errors(errors, index)
        segment = Segment(
            min_nbytes=grid[0],
            max_nbytes=grid[-1],
            latency_us=float(latency[index]),
            us_per_byte=float(slope[index]),
        )
        result.append(
            Fit(
                model=Model.LINEAR,
                segments=(segment,),
                residuals=tuple(residuals[index].tolist()),
                held_out_error=mean,
                held_out_worst=worst,
            )
        )
    return result


def _loglog_fits(sizes: Array, times: Array) -> list[Fit]:
    errors = loglog_errors(sizes, times) if sizes.shape[1] >= MIN_SIZES else None
    result = []
    for index in range(len(sizes)):
        mean, worst = _errors(errors, index)
        result.append(
            Fit(
                model=Model.LOGLOG,
                segments=(),
                residuals=(0.0,) * sizes.shape[1],
                held_out_error=mean,
                held_out_worst=worst,
            )
        )
    return result


def _segmented_fits(
    sizes: Array, times: Array, integers: list[tuple[int, ...]], linear: list[Fit]
) -> list[Fit | None]:
    """Fit as few pieces as the held-out error justifies; None where a single line is enough."""
    n_sizes = sizes.shape[1]
    most = min(MAX_PIECES, (n_sizes - 1) // MIN_POINTS)
    result: list[Fit | None] = [None] * len(sizes)
    poor = [i for i, fit in enumerate(linear) if (fit.held_out_error or 0.0) > GOOD_LINE]
    if most < 2 or n_sizes > MAX_SIZES or not poor:
        return result
    sizes, times = sizes[poor], times[poor]
    sums = LineSums(sizes, times)
    table = costs(sums)
    errors = segmented_errors(sums, table, sizes, times, most)
    splits = best_pieces(table, most)
    lines = [solve(*sums.over_each(pieces.first, pieces.last)) for pieces in splits]
    means = np.array([np.abs(error).mean(axis=1) for error in errors])
    for row, index in enumerate(poor):
        best = _justified(linear[index].held_out_error or 0.0, means[:, row].tolist())
        if best is not None:
            firsts = sorted(set(splits[best].first[row].tolist()))
            latency, slope = (x[row][firsts].tolist() for x in lines[best])
            result[index] = _segmented_fit(
                _segments(firsts, integers[index], latency, slope),
                integers[index],
                times[row],
                np.abs(errors[best][row]),
            )
    return result


def _justified(single: float, means: list[float]) -> int | None:
    """Index of the number of pieces to take, from the held-out errors of one and of more."""
    best, least = None, single
    for option, mean in enumerate(means):
        if mean < WORTH * least:
            best, least = option, mean
    return best


def _segmented_fit(
    segments: tuple[Segment, ...], grid: tuple[int, ...], times: Array, errors: Array
) -> Fit:
    pieces = [next(s for s in segments if nbytes <= s.max_nbytes) for nbytes in grid]
    return Fit(
        model=Model.SEGMENTED,
        segments=segments,
        residuals=tuple(
            segment.predict(nbytes) / time - 1
            for segment, nbytes, time in zip(pieces, grid, times.tolist(), strict=True)
        ),
        held_out_error=float(errors.mean()),
        held_out_worst=float(errors.max()),
    )


def _segments(
    firsts: list[int], grid: tuple[int, ...], latency: list[float], slope: list[float]
) -> tuple[Segment, ...]:
    """Pieces meet half-way in log-size between the sizes at which they end and begin."""
    edges = [isqrt(grid[first - 1] * grid[first]) for first in firsts[1:]]
    lows = [grid[0], *(edge + 1 for edge in edges)]
    highs = [*edges, grid[-1]]
    return tuple(
        Segment(min_nbytes=low, max_nbytes=high, latency_us=base, us_per_byte=rise)
        for low, high, base, rise in zip(lows, highs, latency, slope, strict=True)
    )
