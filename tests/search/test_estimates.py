"""Estimates against closed forms: lines, bridges, latency and bandwidth, stalls, equal settings."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, log
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring import IN, OUT, curve, settings

from rccltune.search.estimates import Estimates, estimate

SIZES = tuple(1 << power for power in range(10, 31))
COARSE = SIZES[:15:2]
LATENCY = st.floats(5, 500)
RATE = st.floats(0.1, 400)


def line(latency_us: float, gb_per_s: float, sizes: tuple[int, ...]) -> dict[int, list[float]]:
    """Latency and bandwidth, one launch each; GB/s is 1e9 bytes per second."""
    return {n: [latency_us + n / gb_per_s / 1000] for n in sizes}


def centres(found: Estimates) -> list[float]:
    """µs of the first setting in the first view."""
    return [exp(x) for x in found.centre[0, 0]]


@given(scale=st.floats(1e-3, 1e3), power=st.floats(0, 1))
def test_a_power_of_the_size_is_met_between_all_sizes(scale: float, power: float) -> None:
    """Straight in log-log."""
    at = (1 << 10, 1 << 14, 1 << 20)
    between = (1 << 10, 3 << 10, 1 << 13, 1 << 14, 5 << 16, 1 << 20)
    found = estimate([curve("ring/ll", {n: [scale * n**power] for n in at})], between, {})
    assert centres(found) == pytest.approx([scale * n**power for n in between], rel=1e-9)


@given(latency_us=LATENCY, gb_per_s=RATE)
def test_latency_and_bandwidth_go_on_beyond_what_was_measured(
    latency_us: float, gb_per_s: float
) -> None:
    """Without noise exactly, up to 64 times the largest measured size."""
    found = estimate([curve("ring/ll", line(latency_us, gb_per_s, COARSE))], SIZES, {})
    beyond = [i for i, n in enumerate(SIZES) if n >= COARSE[-1]]
    wanted = [latency_us + SIZES[i] / gb_per_s / 1000 for i in beyond]
    assert [centres(found)[i] for i in beyond] == pytest.approx(wanted, rel=1e-6)


def test_below_the_smallest_size_latency_is_left() -> None:
    """And less is sure the further it is."""
    found = estimate([curve("ring/ll", {1 << 16: [30.0], 1 << 18: [40.0]})], (8, 1 << 12), {})
    assert centres(found) == pytest.approx([30, 30])
    assert found.spread[0, 0, 0] > found.spread[0, 0, 1] > 0


def test_what_is_not_known_is_least_at_measured_sizes_and_most_half_way() -> None:
    """The law of a bridge; beyond the last point it grows without end."""
    at = {1 << 10: [20.0], 1 << 14: [21.0], 1 << 18: [30.0]}
    sizes = tuple(1 << power for power in range(10, 25))
    [spread] = estimate([curve("ring/ll", at)], sizes, {}).spread[0]
    first, middle, second = spread[0], spread[2], spread[4]
    assert first < spread[1] < middle > spread[3] > second
    assert spread[1] == pytest.approx(spread[3])
    assert all(np.diff(spread[8:]) > 0)


def test_more_launches_make_a_time_surer() -> None:
    """By the root of their number, whatever each curve's own luck."""
    both = [
        curve("ring/ll", {1 << 10: [10.0, 10.2, 9.8, 10.0]}),
        curve("ring/ll128", {1 << 10: [10.0]}),
    ]
    found = estimate(both, (1 << 10,), {})
    assert found.spread[1, 0, 0] == pytest.approx(2 * found.spread[0, 0, 0])


@given(
    latency_us=LATENCY,
    gb_per_s=RATE,
    at=st.integers(0, len(COARSE) - 1),
)
def test_one_stalled_launch_is_not_believed(latency_us: float, gb_per_s: float, at: int) -> None:
    """Twenty times its time, at whatever size: the estimate is that of its neighbours, and unsure.

    Two neighbours are four times apart in size, so they are no further apart in time.
    """
    true = line(latency_us, gb_per_s, COARSE)
    stalled = {**true, COARSE[at]: [20 * true[COARSE[at]][0]]}
    found = estimate([curve("ring/ll", stalled)], COARSE, {})
    calm = estimate([curve("ring/ll", true)], COARSE, {})
    [here] = true[COARSE[at]]
    assert here / 4.01 < centres(found)[at] < here * 4.01
    assert found.spread[0, 0, at] > calm.spread[0, 0, at]
    # It was a launch all the same; the one that must be asked again is the estimate's spread.
    assert found.repeats[0, at] == 1


def test_of_several_launches_the_stalled_one_does_not_count() -> None:
    """Two that agree, and one of twenty times as long."""
    found = estimate([curve("ring/ll", {1 << 10: [10.0, 200.0, 10.0]})], (1 << 10,), {})
    assert centres(found) == pytest.approx([10.0])


def test_a_plateau_that_begins_between_two_sizes_is_no_stall() -> None:
    """A protocol's step doubles the time and stays."""
    times = {1 << 10: [10.0], 1 << 12: [10.0], 1 << 14: [20.0], 1 << 16: [21.0], 1 << 18: [25.0]}
    found = estimate([curve("ring/ll", times)], tuple(times), {})
    assert centres(found) == pytest.approx([t for [t] in times.values()])


@given(
    tried=st.dictionaries(st.sampled_from(SIZES), st.booleans(), min_size=1),
    asked=st.sampled_from(SIZES),
)
def test_a_setting_cannot_be_chosen_between_sizes_where_it_cannot_run(
    tried: dict[int, bool], asked: int
) -> None:
    """Nor beyond them. Next to one where it ran it may run, and nobody knows before it is tried.

    A path that took 20 to 200 KiB hid 16 and 256 KiB from the search, where rules gained most.
    """
    [setting] = settings("ring/ll")
    ran = {n: [10.0 + n / 1000] for n, did in tried.items() if did}
    closed = frozenset(n for n, did in tried.items() if not did)
    curves = [curve(setting, ran)] if ran else []
    found = estimate(curves, (asked,), {setting: closed})
    if not ran:
        assert found.settings == ()
        return
    below = max((n for n in tried if n <= asked), default=None)
    above = min((n for n in tried if n >= asked), default=None)
    barred = {below, above} - {None} <= closed
    assert (found.centre[0, 0, 0] == inf) == barred


def test_a_view_without_any_time_leaves_nothing_to_choose_by() -> None:
    """A rule serves both; launches count where both views have them."""
    both = {1 << 10: [10.0, 10.0], 1 << 12: [12.0]}
    curves = [
        curve("ring/ll", both, OUT),
        curve("ring/ll", {1 << 10: [10.0], 1 << 14: [15.0]}, IN),
        curve("ring/simple", both, OUT),
    ]
    found = estimate(curves, (1 << 10, 1 << 12, 1 << 14), {})
    assert found.repeats.tolist() == [[1, 0, 0], [0, 0, 0]]
    assert np.isfinite(found.centre[0]).all()
    assert np.isinf(found.centre[1, 1]).all()


@given(seed=st.integers(0, 1000), n=st.integers(3, 24))
def test_equal_settings_are_drawn_together_and_none_runs_ahead(seed: int, n: int) -> None:
    """Their order and their mean stay; on average they are nearer to the truth than they were."""
    rng = Random(seed)
    logs = [rng.gauss(log(50), 0.02) for _ in range(n)]
    curves = [curve(f"ring/ll/{k + 1}", {1 << 10: [exp(x)]}) for k, x in enumerate(logs)]
    found = estimate(curves, (1 << 10,), {}).centre[:, 0, 0]
    assert np.argsort(found).tolist() == np.argsort(logs).tolist()
    assert found.mean() == pytest.approx(np.mean(logs), abs=0.02)
    before = max(abs(np.array(logs) - log(50)))
    assert max(abs(found - log(50))) <= before + 1e-9


def test_of_ten_equal_settings_the_best_one_is_not_believed_to_be_as_fast_as_it_looked() -> None:
    """Over many draws the winner's mean is the truth and not the least of ten."""
    lucky, believed = [], []
    for seed in range(40):
        rng = Random(seed)
        logs = [rng.gauss(0, 0.02) for _ in range(10)]
        curves = [curve(f"ring/ll/{k + 1}", {1 << 10: [exp(x)]}) for k, x in enumerate(logs)]
        lucky.append(min(logs))
        believed.append(estimate(curves, (1 << 10,), {}).centre[:, 0, 0].min())
    # The least of ten lies 1.54 standard deviations below their mean.
    assert np.mean(lucky) == pytest.approx(-1.54 * 0.02, abs=0.006)
    assert abs(np.mean(believed)) < 0.5 * abs(np.mean(lucky))


def test_settings_that_noise_does_not_part_from_nothing_stay_where_they_are() -> None:
    """Three times 20 % apart is a difference and no noise; two alone are not drawn together."""
    for names in (("ring/ll", "ring/ll128", "tree/ll"), ("ring/ll", "ring/ll128")):
        times = [10.0 * 1.2**k for k in range(len(names))]
        curves = [curve(s, {1 << 10: [t]}) for s, t in zip(names, times, strict=True)]
        found = estimate(curves, (1 << 10,), {})
        assert [exp(x) for x in found.centre[:, 0, 0]] == pytest.approx(times)


def test_channels_make_another_setting() -> None:
    """Nothing of one is taken for the other."""
    [plain] = settings("ring/ll")
    four = replace(plain, channels=4)
    found = estimate([curve(plain, {8: [1.0]}), curve(four, {8: [2.0]})], (8,), {})
    assert found.settings == (plain, four)
