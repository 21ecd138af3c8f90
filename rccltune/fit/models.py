"""Models of time against size, and latency as base + steps x time of a step.

Which of the three models of a curve to trust is told by errors at sizes left out. The smallest and
the largest never are: beyond the measured range nothing is predicted, so an error there would judge
the models by what they are not used for.

One scale gives one latency and nothing to split it with; dividing it by a number of steps from a
text is numerology. AMD's article on CPX (2026) counts 2n-1 = 127 steps for a ring of 64 ranks and
2 log2 n = 12 for a tree. RCCL's own model (2.28.3 ``src/graph/tuning.cc``) counts 2(n-1) = 126 for
the ring and, inside a node, 2(n-1) = 126 for the tree too, since there the tree is a chain: only
between nodes does it grow with the logarithm. Both counts are shown, RCCL's is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isqrt, log2

import numpy as np

from rccltune.fit.lines import (
    MAX_PIECES,
    MAX_SIZES,
    MIN_POINTS,
    Array,
    Pieces,
    Sums,
    best_pieces,
    costs,
    held_out_costs,
    relative_error,
    robust_line,
    robust_lines_without,
    solve,
)
from rccltune.model.curves import Curve, Fit, Model, Segment, Separation, time_at
from rccltune.model.errors import TooLittleDataError
from rccltune.model.settings import CurveKey, Role, Scale
from rccltune.model.vocabulary import Algorithm, Collective, format_size


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
        table: :func:`rccltune.fit.lines.costs` of them.
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


# Another piece, or a richer model, must predict better by a twentieth to be worth having.
WORTH = 0.95
# A line that predicts as well as launches repeat (1-4 %) is not broken into pieces.
GOOD_LINE = 0.015
# Held-out errors from fewer sizes than this say nothing.
MIN_SIZES = 4
# Numbers in one temporary array: large enough for numpy to be fast, small enough for the cache.
_CHUNK = 1_000_000


@dataclass(frozen=True, slots=True)
class Fitted:
    """Fits of one curve, in the order of Model, and the one chosen."""

    fits: tuple[Fit, ...]
    chosen: Model


def fit_all(curves: list[tuple[tuple[int, ...], tuple[float, ...]]]) -> list[Fitted]:
    """Fit every curve.

    Args:
        curves: rising sizes in bytes and times in µs of each, at least one point.

    Returns:
        One result for each, in the same order; curves with equally many sizes are fitted
        together, which changes nothing but the speed.
    """
    results: dict[int, Fitted] = {}
    by_length: dict[int, list[int]] = {}
    for index, (sizes, _) in enumerate(curves):
        by_length.setdefault(len(sizes), []).append(index)
    for n_sizes, members in by_length.items():
        step = max(1, _CHUNK // n_sizes ** (3 if n_sizes <= MAX_SIZES else 2))
        for start in range(0, len(members), step):
            chunk = members[start : start + step]
            results.update(zip(chunk, _fit_chunk([curves[i] for i in chunk]), strict=True))
    return [results[index] for index in range(len(curves))]


def _fit_chunk(curves: list[tuple[tuple[int, ...], tuple[float, ...]]]) -> list[Fitted]:
    sizes = np.array([c[0] for c in curves], dtype=float)
    times = np.array([c[1] for c in curves], dtype=float)
    integer_sizes = [c[0] for c in curves]
    linear = _linear_fits(sizes, times, integer_sizes)
    loglog = _loglog_fits(sizes, times)
    segmented = _segmented_fits(sizes, times, integer_sizes, linear)
    return [_choose(*three) for three in zip(linear, segmented, loglog, strict=True)]


def _choose(linear: Fit, segmented: Fit | None, loglog: Fit) -> Fitted:
    """The least held-out error, the simpler model where that is nearly equal."""
    fits = tuple(fit for fit in (linear, segmented, loglog) if fit is not None)
    if loglog.held_out_error is None:
        return Fitted(fits, Model.LOGLOG)
    best = fits[0]
    for fit in fits[1:]:
        if (fit.held_out_error or 0.0) < WORTH * (best.held_out_error or 0.0):
            best = fit
    return Fitted(fits, best.model)


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
    """As few pieces as the held-out error justifies; None where a single line is enough."""
    n_sizes = sizes.shape[1]
    most = min(MAX_PIECES, (n_sizes - 1) // MIN_POINTS)
    result: list[Fit | None] = [None] * len(sizes)
    wanted = [i for i, fit in enumerate(linear) if (fit.held_out_error or 0.0) > GOOD_LINE]
    if most < 2 or n_sizes > MAX_SIZES or not wanted:
        return result
    sizes, times = sizes[wanted], times[wanted]
    sums = Sums(sizes, times)
    table = costs(sums)
    errors = segmented_errors(sums, table, sizes, times, most)
    splits = best_pieces(table, most)
    lines = [solve(*sums.over_each(pieces.first, pieces.last)) for pieces in splits]
    means = np.array([np.abs(error).mean(axis=1) for error in errors])
    for row, index in enumerate(wanted):
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
    own = [next(s for s in segments if nbytes <= s.max_nbytes) for nbytes in grid]
    return Fit(
        model=Model.SEGMENTED,
        segments=segments,
        residuals=tuple(
            segment.predict(nbytes) / time - 1
            for segment, nbytes, time in zip(own, grid, times.tolist(), strict=True)
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


def predict(curve: Curve, nbytes: float, model: Model | None = None) -> float:
    """Time in µs by one model, the chosen one unless stated.

    Raises:
        TooLittleDataError: the size lies outside the measured range, or the curve has too few
            sizes for that model.
    """
    return times(curve, (nbytes,), model)[0]


def times(curve: Curve, sizes: Iterable[float], model: Model | None = None) -> tuple[float, ...]:
    """:func:`predict` for many sizes in bytes; the same errors."""
    model = model or curve.chosen
    fit = curve.fit(model)
    if fit is None:
        raise TooLittleDataError(
            f"{curve.key.setting} has no {model.value} model: one straight line is as good, or "
            f"its {len(curve.points)} sizes are too few",
            hint=f"use the {curve.chosen.value} model.",
        )
    grid = [point.nbytes for point in curve.points]
    measured = [point.time_us for point in curve.points]
    wanted = tuple(sizes)
    for nbytes in wanted:
        if not grid[0] <= nbytes <= grid[-1]:
            raise _outside(curve, nbytes)
    if model is Model.LOGLOG:
        return tuple(time_at(grid, measured, nbytes) or 0.0 for nbytes in wanted)
    # Pieces meet between whole bytes: the first that reaches as far is the one.
    return tuple(
        next(s for s in fit.segments if nbytes < s.max_nbytes + 1).predict(nbytes)
        for nbytes in wanted
    )


def _outside(curve: Curve, nbytes: float) -> TooLittleDataError:
    return TooLittleDataError(
        f"{curve.key.setting} was measured from {format_size(curve.min_nbytes)} to "
        f"{format_size(curve.max_nbytes)}; {format_size(nbytes)} lies outside",
        hint="measure that size too: nothing is predicted beyond what was measured.",
    )


def rccl_steps(collective: Collective, algorithm: Algorithm, scale: Scale) -> int | None:
    """Sequential steps in RCCL's latency term; None where it does not count any.

    Ring: nsteps of ``tuning.cc``, which is 2(n-1), n-1 or, for broadcast and reduce, n. Tree:
    twice the chain inside a node plus twice the whole logarithm of the number of nodes.
    """
    n_ranks, n_nodes = scale.n_ranks, scale.n_nodes
    if algorithm is Algorithm.RING and collective.is_tunable:
        passes = collective.ring_passes
        return n_ranks if passes is None else passes * (n_ranks - 1)
    if algorithm is Algorithm.TREE and collective.has_tree:
        return 2 * (n_ranks // n_nodes - 1 + (n_nodes.bit_length() - 1))
    return None


def blog_steps(collective: Collective, algorithm: Algorithm, scale: Scale) -> int | None:
    """Steps as AMD's article on CPX counts them: 127 and 12 for an all_reduce of 64 ranks."""
    if collective is not Collective.ALL_REDUCE:
        return None
    if algorithm is Algorithm.RING:
        return 2 * scale.n_ranks - 1
    if algorithm is Algorithm.TREE:
        return round(2 * log2(scale.n_ranks))
    return None


def separate(curves: Sequence[Curve]) -> tuple[Separation, ...]:
    """Split the latencies of each setting that was measured at two scales of one link class.

    A link class is one placement of ranks on one number of nodes: between a group inside an OAM
    and a whole node, or between one node and two, the step itself changes, and a line through
    both means nothing.

    Returns:
        Nothing for a setting without such a partner: one latency cannot be split in two.
    """
    groups: dict[CurveKey, list[Curve]] = {}
    for curve in curves:
        key = curve.key
        if key.setting.role is Role.FORCED and key.setting.algorithm is not None:
            nodes = key.scale.n_nodes
            anywhere = replace(key, scale=Scale(n_nodes=nodes, n_ranks=nodes))
            groups.setdefault(anywhere, []).append(curve)
    made = (_separation(group) for group in groups.values() if len(group) > 1)
    return tuple(separation for separation in made if separation is not None)


def _separation(group: Sequence[Curve]) -> Separation | None:
    ordered = sorted(group, key=lambda curve: curve.key.scale.n_ranks)
    key = ordered[0].key
    algorithm = key.setting.algorithm
    scales = tuple(curve.key.scale for curve in ordered)
    if algorithm is None:
        return None
    counted = [rccl_steps(key.collective, algorithm, scale) for scale in scales]
    steps = tuple(step for step in counted if step is not None)
    latencies = tuple(
        fit.segments[0].latency_us for c in ordered if (fit := c.fit(Model.LINEAR)) is not None
    )
    if len(set(steps)) < 2 or len(steps) != len(latencies):
        return None
    blog = tuple(blog_steps(key.collective, algorithm, scale) for scale in scales)
    base, per_step = _line(steps, latencies)
    known = [step for step in blog if step is not None]
    return Separation(
        target=key.target,
        view=key.view,
        setting=key.setting,
        scales=scales,
        latencies_us=latencies,
        steps=steps,
        blog_steps=blog,
        base_us=base,
        per_step_us=per_step,
        blog_per_step_us=_line(known, latencies)[1] if len(known) == len(steps) else None,
    )


def _line(steps: Sequence[int], latencies: Sequence[float]) -> tuple[float, float]:
    """Non-negative base and time per step, least squares."""
    import numpy as np

    # Not nnls: that of scipy 1.15, the last for Python 3.10, misses the least now and then.
    from scipy.optimize import lsq_linear

    matrix = np.column_stack([np.ones(len(steps)), np.array(steps, dtype=float)])
    base, per_step = lsq_linear(matrix, np.array(latencies), (0, np.inf), method="bvls").x
    return float(base), float(per_step)
