"""What is said of noise against closed forms and other implementations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rccltune.analyse import intervals, paired_intervals
from rccltune.analyse.intervals import LogRatio, LogTimes, SizeAxis, compare

KIB = 1024
Array = npt.NDArray[np.float64]


def sizes(nbytes: Sequence[int] = (1 << 20,), *, is_graph: bool = True) -> SizeAxis:
    """Sizes of one timing mode."""
    return SizeAxis(np.array(nbytes, dtype=np.int64), np.full(len(nbytes), is_graph))


def times(log_us: Array) -> LogTimes:
    """One pass each."""
    return LogTimes(log_us, np.where(np.isfinite(log_us), 0.0, np.nan))


def ratio(log: Array, se: float = 1.0, df: float = np.inf, n: int = 8) -> LogRatio:
    """A ratio as somebody else may have found it."""
    full = np.full_like(log, 1.0)
    return LogRatio(log, full * se, full * df, np.full(log.shape, n), full * se)


def row(values: Sequence[float]) -> Array:
    """One view, one setting, as many sizes as there are values."""
    return np.array(values, dtype=float)[None, None]


# --- floors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_graph", "nbytes", "time_us", "apart", "beside"),
    [
        (True, KIB, 10.0, 0.02, 0.01),
        (True, 1 << 30, 1e5, 0.02, 0.01),
        (False, 512 * KIB, 20.0, 0.01, 0.01),
        (False, 512 * KIB - 1, 20.0, 2.5 / 20, 1 / 20),
        (False, KIB, 14.0, 2.5 / 14, 1 / 14),
        (False, KIB, 500.0, 0.03, 0.01),
    ],
)
def test_the_floor_is_that_of_the_table(
    is_graph: bool, nbytes: int, time_us: float, apart: float, beside: float
) -> None:
    """The table of the module: by timing and size, in one communicator and in two."""
    at = sizes([nbytes], is_graph=is_graph)
    assert intervals.floor(time_us, at) == pytest.approx([apart])
    assert intervals.floor(time_us, at, paired=True) == pytest.approx([beside])


def test_a_stall_is_half_as_slow_again_and_more_where_the_host_waits() -> None:
    """Factor 1.5, or 5.4 floors: of 14 µs 2.5 µs are 18 %, so that 2.6 times as slow is a stall."""
    assert intervals.stall_limit(100.0, sizes()) == pytest.approx([np.log(1.5)])
    at = sizes([KIB], is_graph=False)
    assert intervals.stall_limit(14.0, at) == pytest.approx([5.4 * 2.5 / 14])


# --- one ratio -----------------------------------------------------------------------------------


def test_intervals_and_chances_of_a_ratio_are_students() -> None:
    """As scipy's interval of t, and of the normal where the degrees of freedom are infinite."""
    for df, theirs in ((7.0, stats.t(7.0)), (np.inf, stats.norm())):
        found = ratio(row([0.1]), 0.04, df)
        low, high = found.interval(0.9)
        assert low.item() == pytest.approx(0.1 - 0.04 * theirs.ppf(0.95))
        assert high.item() == pytest.approx(0.1 + 0.04 * theirs.ppf(0.95))
        assert found.p_above().item() == pytest.approx(theirs.sf(0.1 / 0.04))
        assert found.p_above(0.02).item() == pytest.approx(theirs.sf(0.08 / 0.04))
        sides = theirs.sf((0.1 + 0.3) / 0.04), theirs.cdf((0.1 - 0.3) / 0.04)
        assert found.p_equal(0.3).item() == pytest.approx(max(sides))
        assert found.slack(0.95).item() == pytest.approx(0.04 * theirs.ppf(0.95))


def test_a_ratio_of_one_communicator_has_the_slack_of_a_normal() -> None:
    """Its degrees of freedom are of nothing that was repeated; an unknown ratio has none."""
    assert ratio(row([0.1]), 0.04, 1.0, n=1).slack().item() == pytest.approx(
        0.04 * stats.norm.ppf(0.99)
    )
    assert np.isnan(ratio(row([np.nan])).slack()).all()


def test_the_interval_of_a_mean_is_students() -> None:
    """As scipy's test of one sample has it."""
    values = [1.0, 1.2, 0.9, 1.05, 1.3]
    found = paired_intervals.mean_of(values)
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    ends = (found.low(), found.log, found.high())
    assert ends == pytest.approx((theirs.low, np.mean(values), theirs.high))


def test_a_mean_over_sizes_is_that_of_the_least_favourable_view() -> None:
    """Errors of sizes are the communicators', which share them: they do not shrink by averaging."""
    log = np.array([[[0.1, 0.2, np.nan]], [[0.05, 0.1, np.nan]]])
    low, mean, high = intervals.mean_interval(ratio(log, 0.01), np.s_[:, 0, :])
    half = 0.01 * stats.norm.ppf(0.975)
    assert (low, mean, high) == pytest.approx((0.075 - half, 0.075, 0.075 + half))


@given(st.lists(st.lists(st.sampled_from([np.nan, 1.0, 2.0, 4.0]), min_size=5, max_size=5)))
def test_the_median_is_numpys(values: list[list[float]]) -> None:
    """Where there is one."""
    for one in values:
        known = [value for value in one if np.isfinite(value)]
        found = float(intervals.median(np.array(one)))
        assert found == pytest.approx(np.median(known)) if known else np.isnan(found)


# --- comparing -----------------------------------------------------------------------------------


@pytest.fixture
def rng() -> np.random.Generator:
    """The same noise in every run."""
    return np.random.default_rng(7)


def test_many_communicators_that_hold_both_are_a_paired_t_test(rng: np.random.Generator) -> None:
    """As scipy's, though they differ by twenty times what the two settings do in one of them."""
    mood = rng.normal(0, 0.4, 400)
    one, other = (mood + rng.normal(shift, 0.02, 400) for shift in (0.0, -0.004))
    found = compare(times(one[None, None, None]), times(other[None, None, None]), sizes())
    theirs = stats.ttest_rel(one, other)
    assert found.log.item() == pytest.approx((one - other).mean())
    assert found.log.item() / found.se.item() == pytest.approx(theirs.statistic, rel=0.01)
    low, high = (float(end.item()) for end in found.interval())
    assert (low, high) == pytest.approx(tuple(theirs.confidence_interval(0.95)), abs=1e-4)
    assert found.n.item() == 400


def test_settings_of_communicators_of_their_own_are_an_analysis_of_variance(
    rng: np.random.Generator,
) -> None:
    """Pooled variance within settings, by hand; the pair's own share is 1/n of either side."""
    n_settings, n = 12, 20
    log_us = np.full((1, n_settings + 1, 1, (n_settings + 1) * n), np.nan)
    for setting in range(n_settings + 1):
        log_us[0, setting, 0, setting * n : (setting + 1) * n] = rng.normal(3, 0.05, n)
    found = compare(times(log_us[:, :1]), times(log_us[:, 1:]), sizes())
    within = np.sqrt(np.nanvar(log_us[0, :, 0], axis=-1, ddof=1).mean())
    assert np.median(found.se) == pytest.approx(within * np.sqrt(2 / n), rel=0.08)
    by_hand = np.nanmean(log_us[0, 0]) - np.nanmean(log_us[0, 1:, 0], axis=-1)
    assert found.log[0, :, 0] == pytest.approx(by_hand)
    assert (found.n == n).all()
    assert (found.df >= 2 * (n - 1)).all()


def test_what_nothing_repeats_has_the_floor_of_both_sides() -> None:
    """Twice in their own communicators, once in a shared one: sqrt(2) · 2 %, and 1 %."""
    alone = np.full((1, 1, 1, 2), np.nan)
    one, other = alone.copy(), alone.copy()
    one[..., 0], other[..., 1] = 1.0, 0.9
    found = compare(times(one), times(other), sizes())
    assert (found.se.item(), found.df.item(), found.n.item()) == (
        pytest.approx(0.02 * np.sqrt(2)),
        np.inf,
        1,
    )
    found = compare(times(one[..., :1]), times(other[..., 1:]), sizes())
    assert (found.se.item(), found.df.item()) == (pytest.approx(0.01), np.inf)


def test_passes_tell_a_floor_of_their_own() -> None:
    """A communicator's median of passes that differ by 10 % is no better known than that."""
    one, other = np.full((2, 1, 1, 1, 1), 1.0)
    known, rough = LogTimes(one, one * 0.1**2), LogTimes(other, other * 0.0)
    assert compare(known, rough, sizes()).se.item() == pytest.approx(0.1)


def test_rows_that_jump_by_more_than_the_floor_are_known_no_better(
    rng: np.random.Generator,
) -> None:
    """Single rows with noise of 8 % around straight lines: no ratio is called known to 3 %."""
    at = sizes([KIB << n for n in range(18)])
    log_us = rng.normal(0, 0.08, (1, 13, 18, 1)) + np.log(14 + at.nbytes / 2e5)[:, None]
    found = compare(times(log_us[:, :1]), times(log_us[:, 1:]), at)
    assert np.median(found.se) == pytest.approx(0.08 * np.sqrt(2), rel=0.35)
    calm = compare(times(log_us[:, :1] * 0), times(log_us[:, 1:] * 0), at)
    assert np.median(calm.se) == pytest.approx(0.01)


def test_settings_that_differ_in_channels_alone_say_how_far_communicators_differ() -> None:
    """Eight of their own communicators within 1 %: a loop of 20 µs is not known to 12 % there."""
    at, n = sizes([KIB], is_graph=False), 8
    log_us = np.full((1, n + 1, 1, n + 1), np.nan)
    for setting in range(n + 1):
        log_us[0, setting, 0, setting] = np.log(20) + 0.01 * (setting % 2)
    pair = times(log_us[:, :1]), times(log_us[:, 1:])
    plain, alike = compare(*pair, at), compare(*pair, at, ["ring/ll"] * n)
    assert np.median(plain.se) == pytest.approx(2.5 / 20 * np.sqrt(2), rel=0.01)
    spread = np.sqrt(np.nanvar(log_us[0, 1:, 0], ddof=1))
    assert np.median(alike.se) == pytest.approx(spread * np.sqrt(2), rel=0.01)


def test_a_stalled_communicator_of_two_is_seen() -> None:
    """The library 1.4 times as slow in one of two: its mean gains 18 %, and proves nothing."""
    log_us = np.zeros((1, 7, 6, 2))
    log_us[0, :, :, 1] = 0.002
    log_us[0, 0, 3, 1] = np.log(1.4)
    found = compare(times(log_us[:, :1]), times(log_us[:, 1:]), sizes([KIB << n for n in range(6)]))
    assert found.log[0, :, 3] == pytest.approx(np.full(6, np.log(1.4) / 2), abs=0.01)
    assert (intervals.adjusted_p(found)[:, 3] > intervals.LIKELY).all()
    assert (found.se[0, :, 3] > 10 * found.se[0, :, 0]).all()


tables = st.integers(2, 7).flatmap(
    lambda rows: st.lists(
        st.lists(st.floats(-0.1, 0.1), min_size=6, max_size=6), min_size=rows, max_size=rows
    )
)


@given(tables, st.booleans(), st.booleans())
def test_a_second_communicator_that_agrees_never_tells_less(
    table: list[list[float]], paired: bool, is_graph: bool
) -> None:
    """Its interval is no wider than that of the first alone, however few settings there are."""
    at = sizes([KIB << n for n in range(6)], is_graph=is_graph)
    first = np.array(table)[None, :, :, None] + np.log(20.0)
    once, twice = first, np.repeat(first, 2, axis=-1)
    if not paired:
        once, twice = _apart(once), _apart(twice)
    widths = []
    for log_us in (once, twice):
        low, high = compare(times(log_us[:, :1]), times(log_us[:, 1:]), at).interval()
        widths.append(high - low)
    assert (widths[1] <= widths[0] + 1e-12).all()


def _apart(log_us: Array) -> Array:
    """The same times, in communicators of each setting's own."""
    rows, n = log_us.shape[1], log_us.shape[-1]
    found = np.full((*log_us.shape[:-1], rows * n), np.nan)
    for setting in range(rows):
        found[:, setting, :, setting * n : (setting + 1) * n] = log_us[:, setting]
    return found


# --- luck ----------------------------------------------------------------------------------------


def test_shares_of_false_gains_are_those_of_the_procedure() -> None:
    """Benjamini and Hochberg's own example of 1995: at 5 % four of fifteen are rejected."""
    published = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    published += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000]
    log = np.minimum(-stats.norm.ppf(published), 30)
    found = intervals.adjusted_p(ratio(np.maximum(log, -30)[None, :, None]))
    assert (found <= 0.05).sum() == 4
    by_hand = [
        min(15 / (k + 1) * p for k, p in enumerate(published) if k >= at) for at in range(15)
    ]
    assert found[:, 0] == pytest.approx(by_hand)


def test_a_rule_is_as_sure_as_in_its_least_sure_view() -> None:
    """A gain that is sure out of place and none in place is none; an unknown view says nothing."""
    log = np.array([[[8.0, 8.0]], [[0.0, np.nan]]])
    assert intervals.adjusted_p(ratio(log))[0] == pytest.approx(
        [0.5, 2 * stats.norm.sf(8)], rel=1e-6
    )


@pytest.mark.parametrize(("n", "is_proven"), [(1, False), (2, True), (8, True)])
def test_what_was_seen_once_is_never_proven(n: int, is_proven: bool) -> None:
    """However large it is; it may be likely."""
    luck = intervals.adjusted_p(ratio(row([9.0] * 4), n=n))
    assert (luck <= intervals.LIKELY).all()
    assert (luck <= intervals.PROVEN).all() == is_proven


def test_a_gain_of_one_size_may_be_a_library_that_stood_still() -> None:
    """One row in fifty does: so it is no surer than that, unless a size beside gains too."""
    lone, pair = row([0.0, 9, 0, 0]), row([0.0, 9, 9, 0])
    assert intervals.adjusted_p(ratio(lone, n=3))[0, 1] >= intervals.STOOD_STILL
    assert intervals.adjusted_p(ratio(pair, n=3))[0, 1] < 1e-6
    # More communicators, or a second view, would have shown it.
    assert intervals.adjusted_p(ratio(lone, n=4))[0, 1] < 1e-6
    assert intervals.adjusted_p(ratio(np.repeat(lone, 2, axis=0), n=3))[0, 1] < 1e-6


def test_a_second_communicator_that_agrees_takes_no_gain_away() -> None:
    """One of two settings gains 10 % at four of 18 sizes: likely once, and so when seen again."""
    once = np.full((1, 3, 18, 1), np.log(20.0))
    once[0, 1, 6:10] -= np.log(1.1)
    at = sizes([KIB << n for n in range(18)])
    for log_us in (once, np.repeat(once, 2, axis=-1)):
        found = compare(times(log_us[:, :1]), times(log_us[:, 1:]), at)
        assert (intervals.adjusted_p(found)[0, 6:10] <= intervals.LIKELY).all()
