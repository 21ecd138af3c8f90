"""What scripts/bench gpus makes of sessions and times whose truth is known."""

from __future__ import annotations

from math import log

import bench_gpus
import numpy as np
import pytest

from rccltune.rules.reader import RuleFile, read_rules

ROW = "allreduce,{low},{high},{algorithm},ll,-1,1,2,-1,-1\n"


def file_of(low: int, high: int, algorithm: str) -> RuleFile:
    """One rule."""
    return read_rules(ROW.format(low=low, high=high, algorithm=algorithm).encode())


def test_sessions_agree_where_both_have_the_same_rule() -> None:
    """Four sizes an octave and one more, from 1 to 4 KiB; the others are nobody's two."""
    short, long = file_of(1 << 10, 4 << 10, "ring"), file_of(1 << 10, 1 << 20, "ring")
    assert bench_gpus.agreement([short, long]) == (9, 0)
    assert bench_gpus.agreement([short, file_of(2 << 10, 4 << 10, "tree"), long]) == (19, 10)
    assert bench_gpus.agreement([short]) == (0, 0)


def test_an_interval_is_students_and_wider_for_many_sizes() -> None:
    """8 ratios: 2.365 standard errors for one, 5.408 for 50 (tables of t)."""
    logs = [0.01 * one for one in (-1.2472, -0.8, -0.5, -0.2, 0.2, 0.5, 0.8, 1.2472)]
    error = np.std(logs, ddof=1) / 8**0.5
    mid, low, high = bench_gpus.interval(logs)
    assert (mid, log(high), log(low)) == pytest.approx((1, 2.365 * error, -2.365 * error), rel=1e-3)
    assert log(bench_gpus.interval(logs, 50)[2]) == pytest.approx(5.408 * error, rel=1e-3)


def test_the_best_of_equal_settings_gains_nothing_on_launches_that_did_not_choose_it() -> None:
    """Silence, rules and five settings, noise alone: what luck gains on one half is lost on the other."""
    noise = np.random.default_rng(1)
    halves = noise.normal(0, 0.05, (2, 4, 7, len(bench_gpus.SIZES)))
    best, rules, fastest = bench_gpus.gains(*halves)
    assert abs(best.mean()) < 0.02
    assert abs(rules.mean()) < 0.02
    assert 1 not in fastest


def test_a_setting_that_is_ahead_is_found_with_its_gain() -> None:
    """The fourth answer takes half the time, the rules three quarters; one answer was never given."""
    times = np.zeros((2, 4, 7, len(bench_gpus.SIZES)))
    times[:, :, 3], times[:, :, 1], times[:, :, 6] = log(0.5), log(0.75), np.inf
    best, rules, fastest = bench_gpus.gains(*times)
    assert best == pytest.approx(log(2))
    assert rules == pytest.approx(log(4 / 3))
    assert set(fastest) == {3}
