"""The three models against closed forms and against independent implementations."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares, lsq_linear

from rccltune.analyse.line_fits import (
    MIN_POINTS,
    ROBUST_SCALE,
    LineSums,
    best_pieces,
    costs,
    robust_line,
    solve,
)
from rccltune.analyse.models import CurveFits, fit_all
from rccltune.model.curves import Fit, Model

SIZES = tuple(2**n for n in range(10, 28))
times_strategy = st.lists(st.floats(1, 1e4), min_size=2, max_size=9)


def fitted(times: list[float], sizes: tuple[int, ...] = SIZES) -> CurveFits:
    """Fits of one curve."""
    return fit_all([(sizes, tuple(times))])[0]


def fit_of(found: CurveFits, model: Model) -> Fit | None:
    """The fit of one model, None where there is none."""
    return next((one for one in found.fits if one.model is model), None)


@given(times_strategy)
def test_the_closed_form_equals_bounded_least_squares(times: list[float]) -> None:
    """Latency and slope are scipy's, by BVLS (nnls of scipy 1.15 misses the least now and then)."""
    t = np.array(times)
    sizes = 2.0 ** np.arange(len(t))
    p, q = 1 / t, sizes / t
    ours = solve(*(np.array(x.sum()) for x in (p * p, p * q, q * q, p, q)))
    matrix = np.column_stack([p, q])
    theirs = lsq_linear(matrix, np.ones(len(t)), (0, np.inf), method="bvls").x
    ours_cost = np.sum((matrix @ np.array(ours) - 1) ** 2)
    assert ours_cost == pytest.approx(np.sum((matrix @ theirs - 1) ** 2), abs=1e-9)
    assert min(ours) >= 0


def test_the_robust_line_equals_scipys_soft_l1() -> None:
    """Our rounds settle where scipy's optimiser of the same loss does."""
    generator = np.random.default_rng(3)
    sizes = np.array(SIZES, dtype=float)
    times = (20 + sizes / 50_000) * np.exp(generator.normal(0, 0.05, len(SIZES)))
    times[4] *= 3
    latency, slope = (float(x) for x in robust_line(sizes, times))
    theirs = least_squares(
        lambda x: (x[0] + x[1] * sizes / 1e4) / times - 1,
        x0=(10, 0.1),
        bounds=(0, np.inf),
        loss="soft_l1",
        f_scale=ROBUST_SCALE,
        xtol=1e-14,
    ).x
    assert latency == pytest.approx(theirs[0], rel=1e-3)
    assert slope == pytest.approx(theirs[1] / 1e4, rel=1e-3)


def test_a_step_is_found_where_it_is() -> None:
    """Two plateaus and a slope: the segmented model predicts what a line cannot."""
    times = [90.0 if n < 2**17 else 170.0 if n < 2**22 else 100 + n / 5e4 for n in SIZES]
    curve = fitted(times)
    segmented = fit_of(curve, Model.SEGMENTED)
    linear = fit_of(curve, Model.LINEAR)
    assert curve.chosen is Model.SEGMENTED
    assert segmented is not None
    assert linear is not None
    assert [s.min_nbytes > 2**16 for s in segmented.segments][:2] == [False, True]
    assert 2**16 <= segmented.segments[0].max_nbytes < 2**17
    assert max(map(abs, segmented.residuals)) < 0.01 < max(map(abs, linear.residuals))
    # Every whole size between the ends has exactly one piece.
    pieces = segmented.segments
    assert (pieces[0].min_nbytes, pieces[-1].max_nbytes) == (SIZES[0], SIZES[-1])
    assert all(a.max_nbytes + 1 == b.min_nbytes for a, b in pairwise(pieces))


def brute_force_cost(sizes: list[float], times: list[float], n_pieces: int) -> float:
    """Least cost over all splits, each piece by scipy."""
    n = len(sizes)
    best = float("inf")
    for cuts in combinations(range(1, n), n_pieces - 1):
        edges = [0, *cuts, n]
        if min(b - a for a, b in pairwise(edges)) < MIN_POINTS:
            continue
        total = 0.0
        for a, b in pairwise(edges):
            t, s = np.array(times[a:b]), np.array(sizes[a:b])
            matrix = np.column_stack([1 / t, s / t])
            total += 2 * lsq_linear(matrix, np.ones(b - a), (0, np.inf), method="bvls").cost
        best = min(best, total)
    return best


@given(st.lists(st.floats(1, 100), min_size=9, max_size=10))
def test_the_split_into_pieces_is_the_best_of_all(times: list[float]) -> None:
    """The dynamic programme's cost equals that of trying every split."""
    sizes = [float(2**n) for n in range(len(times))]
    table = costs(LineSums(np.array([sizes]), np.array([times])))
    for pieces, count in zip(best_pieces(table, 3), (2, 3), strict=True):
        starts = sorted(set(pieces.first[0].tolist()))
        ours = sum(table[0, pieces.last[0, start], start] for start in starts)
        assert len(starts) == count
        assert ours == pytest.approx(brute_force_cost(sizes, times, count), abs=1e-6)


def test_held_out_error_is_that_of_fitting_without_the_size() -> None:
    """For log-log it is a closed form: the geometric mean of the neighbours on a ×2 grid."""
    times = [10.0, 11.0, 14.0, 30.0, 33.0, 60.0]
    curve = fitted(times, SIZES[:6])
    expected = [
        abs((times[i - 1] * times[i + 1]) ** 0.5 / times[i] - 1) for i in range(1, len(times) - 1)
    ]
    loglog = fit_of(curve, Model.LOGLOG)
    assert loglog is not None
    assert loglog.held_out_error == pytest.approx(sum(expected) / len(expected))
    assert loglog.held_out_worst == pytest.approx(max(expected))


def test_held_out_errors_of_pieces_are_made_anew_for_each_size() -> None:
    """Fitting the curve without a size predicts it as the held-out table says."""
    generator = np.random.default_rng(7)
    times = [
        (90.0 if n < 2**17 else 170.0 + n / 5e4) * float(np.exp(generator.normal(0, 0.03)))
        for n in SIZES
    ]
    segmented = fit_of(fitted(times), Model.SEGMENTED)
    assert segmented is not None
    n_pieces = len(segmented.segments)
    errors = []
    for i in range(1, len(SIZES) - 1):
        sizes = np.array([[float(n) for j, n in enumerate(SIZES) if j != i]])
        kept = np.array([[t for j, t in enumerate(times) if j != i]])
        sums = LineSums(sizes, kept)
        pieces = best_pieces(costs(sums), n_pieces)[-1]
        # On a ×2 grid the size left out is exactly half-way, and belongs to the piece below.
        first, last = pieces.first[0, i - 1], pieces.last[0, i - 1]
        a, b = solve(*sums.over(np.array([first]), np.array([last]))[:, 0, 0])
        errors.append(abs((a + b * SIZES[i]) / times[i] - 1))
    assert segmented.held_out_error == pytest.approx(float(np.mean(errors)), rel=1e-3)


def test_the_chosen_model_has_the_least_held_out_error() -> None:
    """Up to the twentieth that a simpler model is allowed."""
    generator = np.random.default_rng(5)
    for _ in range(20):
        curve = fitted([float(10 + 40 * generator.random() + n / 1e5) for n in SIZES])
        errors = {f.model: f.held_out_error or 0.0 for f in curve.fits}
        assert errors[curve.chosen] <= min(errors.values()) / 0.95


@given(st.lists(times_strategy, min_size=1, max_size=4))
def test_fitting_together_equals_fitting_alone(curves: list[list[float]]) -> None:
    """Batches are for speed and change nothing."""
    wanted = [(SIZES[: len(t)], tuple(t)) for t in curves]
    together = fit_all(wanted)
    for one, result in zip(wanted, together, strict=True):
        alone = fit_all([one])[0]
        assert alone.chosen == result.chosen
        for a, b in zip(alone.fits, result.fits, strict=True):
            assert a.residuals == pytest.approx(b.residuals, abs=1e-9)


def test_very_many_sizes_are_fitted_without_pieces() -> None:
    """A sweep by step has thousands of sizes; the measured points are dense enough then."""
    sizes = tuple(1024 * n for n in range(1, 1200))
    curve = fitted([20 + n / 5e4 + (n > 600_000) * 30 for n in sizes], sizes)
    assert fit_of(curve, Model.SEGMENTED) is None
    assert curve.chosen is Model.LOGLOG
