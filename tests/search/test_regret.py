"""Expected regret against closed forms, and what it is shared among."""

from __future__ import annotations

from dataclasses import replace
from math import erf, exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring import settings

from rccltune.search.estimates import Estimates, Prospect, prospect

# 512 draws know the mean of |N| to a twentieth of it; three times that is no accident.
ROUGHLY = 0.2


def estimates(centre: object, spread: object, bend: object = 0.0) -> Estimates:
    """Settings x views x sizes, given as nested lists; channel counts of one pair."""
    times = np.array(centre, dtype=float)
    n_settings, _, n_sizes = times.shape
    return Estimates(
        settings=settings(*(f"ring/ll/{k + 1}" for k in range(n_settings))),
        sizes=tuple(8 << k for k in range(n_sizes)),
        centre=times,
        spread=np.broadcast_to(np.array(spread, dtype=float), times.shape),
        bend=np.broadcast_to(np.array(bend, dtype=float), times.shape),
        repeats=np.ones((n_settings, n_sizes), dtype=np.int64),
    )


def below(x: float) -> float:
    """Of a standard normal."""
    return (1 + erf(x / sqrt(2))) / 2


def gain(ahead: float, spread: float) -> float:
    """E[exp(X) - 1 where X > 0] for X ~ N(-ahead, spread): what the other one would have saved."""
    mean = exp(-ahead + spread**2 / 2) * below((spread**2 - ahead) / spread)
    return mean - below(-ahead / spread)


@pytest.mark.parametrize("ahead", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("spreads", [(0.02, 0.02), (0.01, 0.05), (0.0, 0.03)])
def test_two_settings_lose_what_the_other_one_would_have_saved(
    ahead: float, spreads: tuple[float, float]
) -> None:
    """As an option is priced; the first one is ahead and chosen."""
    found = prospect(estimates([[[0.0] * 40], [[ahead] * 40]], [[[spreads[0]]], [[spreads[1]]]]))
    both = sqrt(spreads[0] ** 2 + spreads[1] ** 2)
    # Of two that are equal the better one of the draws is chosen, at each size.
    rel = ROUGHLY if ahead == 0 else ROUGHLY / 2
    assert found.expected.mean() == pytest.approx(gain(ahead, both), rel=rel)
    if ahead:
        assert set(found.choice) == {0}
        assert found.chance[1].mean() == pytest.approx(below(-ahead / both), abs=0.02)


def test_where_all_is_known_nothing_is_lost() -> None:
    """The fastest one, by its worst view: the other is 1 ahead in one and 2 behind in the other."""
    found = prospect(estimates([[[0.0], [0.0]], [[-0.01], [0.02]]], 0.0))
    assert found.choice.tolist() == [0]
    # Nobody is best in both, so that exp(0.01) - 1 is lost whatever is chosen.
    assert found.expected[0] == pytest.approx(exp(0.01) - 1)
    assert found.shares[:, 0] == pytest.approx([0, exp(0.01) - 1])


def test_equal_views_are_one_view() -> None:
    """What is not known is the curve's shape, which both have."""
    one = prospect(estimates([[[0.0]], [[0.01]], [[0.02]]], 0.03))
    two = prospect(estimates([[[0.0]] * 2, [[0.01]] * 2, [[0.02]] * 2], 0.03))
    for name in ("choice", "expected", "shares", "chance"):
        assert getattr(one, name) == pytest.approx(getattr(two, name))


TIMES = st.floats(-0.2, 0.2) | st.just(float("inf"))


@given(
    centre=st.lists(
        st.lists(st.lists(TIMES, min_size=3, max_size=3), min_size=2, max_size=2),
        min_size=1,
        max_size=5,
    ),
    spread=st.floats(0, 0.3),
)
def test_shares_and_chances_add_up_and_the_choice_can_run(
    centre: list[list[list[float]]], spread: float
) -> None:
    """Whatever cannot run in every view is neither chosen nor anybody's rival."""
    made = estimates(centre, spread)
    found = prospect(made)
    able = np.isfinite(made.centre).all(axis=1)
    assert found.shares.sum(axis=0) == pytest.approx(found.expected, abs=1e-9)
    assert found.chance.sum(axis=0) == pytest.approx(able.any(axis=0).astype(float))
    assert (found.expected >= 0).all()
    assert not found.shares[~able].any()
    assert not found.chance[~able].any()
    for x, arm in enumerate(found.choice):
        assert arm == -1 if not able[:, x].any() else able[arm, x]


@given(
    centre=st.lists(st.floats(-0.1, 0.1), min_size=2, max_size=6),
    spread=st.lists(st.floats(0.001, 0.2), min_size=6, max_size=6),
)
def test_no_other_choice_is_expected_to_lose_less(centre: list[float], spread: list[float]) -> None:
    """Drawn once more, with other draws and more of them."""
    n = len(centre)
    found = prospect(estimates([[[c]] for c in centre], [[[s]] for s in spread[:n]]))
    rng = np.random.default_rng(1)
    drawn = np.array(centre) + np.array(spread[:n]) * rng.standard_normal((20_000, n))
    losses = np.expm1(drawn - drawn.min(axis=1, keepdims=True))
    means, error = losses.mean(axis=0), losses.std(axis=0) / sqrt(512)
    arm = int(found.choice[0])
    assert means[arm] <= means.min() + 4 * max(error) + 1e-9
    assert found.expected[0] == pytest.approx(means[arm], abs=5 * float(error[arm]) + 1e-9)


def test_nothing_that_can_run_is_no_choice_and_no_regret() -> None:
    """As where a library bypasses every setting."""
    found = prospect(estimates([[[np.inf, 0.0]], [[np.inf, 0.1]]], 0.01))
    assert found.choice.tolist() == [-1, 0]
    assert found.expected[0] == 0
    assert isinstance(found, Prospect)


def test_a_grid_of_many_sizes_takes_no_more_memory_than_a_size_needs() -> None:
    """Steps of 8 bytes up to 1 MiB are 131,072 sizes: all draws at once would be gigabytes."""
    import tracemalloc

    made = estimates([[[0.0] * 4000]] * 8, 0.01)
    tracemalloc.start()
    try:
        prospect(made)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16e6


def test_channel_counts_of_one_pair_bend_alike() -> None:
    """Between measured sizes they differ by their noise alone; another pair by all of it."""
    equal, sizes = [[[0.0] * 40], [[0.0] * 40]], [[[0.05]], [[0.05]]]
    [alike] = {float(x) for x in prospect(estimates(equal, sizes, bend=0.05)).expected}
    assert alike == pytest.approx(0.0, abs=1e-12)
    apart = estimates(equal, sizes, bend=0.05)
    apart = replace(apart, settings=settings("ring/ll", "tree/ll"))
    found = prospect(apart).expected.mean()
    assert found == pytest.approx(gain(0.0, 0.05 * sqrt(2)), rel=ROUGHLY)
