"""What runs of an arm come to: how often a false answer is given, and when it is enough.

Runs are made up: lognormal, as step times of real jobs are about, with the spread given. Chances
are counted, and held against the levels that docs/job.md promises.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rccltune.job.looks import (
    HARM_LEVEL,
    LOOKS,
    MOST_ROUNDS,
    Compared,
    Verdict,
    compared,
    is_hopeless,
    is_over,
)
from rccltune.job.runs import Arm

N_JOBS = 1500


def tried(
    speed: float, spread: float, n_jobs: int, arm: Arm = Arm.RULES, n_rounds: int = MOST_ROUNDS
) -> list[Compared]:
    """What is said of so many jobs whose arm has this speed beside the job as it is."""
    made = np.random.default_rng(20261125)
    found = []
    for _ in range(n_jobs):
        as_is = np.exp(made.normal(0.0, spread, n_rounds))
        own = np.exp(made.normal(0.0, spread, n_rounds)) / speed
        one = compared(arm, as_is.tolist(), own.tolist())
        assert one is not None
        found.append(one)
    return found


@pytest.mark.parametrize("spread", [0.003, 0.02])
def test_rules_that_do_nothing_are_seldom_called_anything(spread: float) -> None:
    """Faster once in 40 jobs at the most, slower once in 1000, though runs are looked at again.

    With 1500 jobs, 5 % more than the promised part would be seen.
    """
    said = Counter(one.verdict for one in tried(1.0, spread, N_JOBS))
    assert said[Verdict.FASTER] <= 0.025 * N_JOBS
    assert said[Verdict.SLOWER] <= max(1, HARM_LEVEL * N_JOBS)
    assert said[Verdict.PERHAPS_SLOWER] <= 0.025 * N_JOBS


@pytest.mark.parametrize("speed", [0.97, 1.0, 1.04])
def test_intervals_hold_the_truth(speed: float) -> None:
    """In 95 of 100 jobs, whenever it ended."""
    found = tried(speed, 0.015, N_JOBS)
    held = sum(one.low <= np.log(speed) <= one.high for one in found)
    assert held >= 0.95 * N_JOBS


@pytest.mark.parametrize(
    ("speed", "verdict"),
    [(1.10, Verdict.FASTER), (0.90, Verdict.SLOWER), (0.5, Verdict.SLOWER)],
)
def test_what_matters_is_told(speed: float, verdict: Verdict) -> None:
    """10 % among runs that differ by 1 %, in nine jobs of ten, and in fewer than all rounds."""
    found = tried(speed, 0.01, 200)
    assert sum(one.verdict is verdict for one in found) > 180
    ended = sorted(one.speed.n_launches for one in found)
    assert ended[100] <= 6


def test_nothing_to_be_found_ends_early() -> None:
    """Runs that are alike within 0.1 % need no twelve rounds to say that nothing is there."""
    found = tried(1.0, 0.0007, 100)
    assert all(one.verdict is Verdict.SAME for one in found)
    assert sorted(one.speed.n_launches for one in found)[50] <= 6


def test_no_difference_needs_a_narrow_interval() -> None:
    """Runs that differ by 10 % do not show that there is none: up to some percent may be there."""
    found = tried(1.0, 0.10, 200)
    assert sum(one.verdict is Verdict.SAME for one in found) == 0
    assert sum(one.verdict is Verdict.UNKNOWN for one in found) > 180


def test_the_control_ends_where_it_tells_something() -> None:
    """Bad rules that halve the speed, and such that change nothing; both before the last round."""
    slower = tried(0.5, 0.01, 100, Arm.CONTROL)
    assert all(one.costs and not one.costs_nothing and is_over(one) for one in slower)
    assert max(one.speed.n_launches for one in slower) <= 3
    same = tried(1.0, 0.002, 100, Arm.CONTROL)
    assert all(one.costs_nothing and is_over(one) for one in same)


def test_looks_are_few_and_the_last_one_is_any() -> None:
    """Between planned rounds nothing is decided: five rounds are judged as the last look."""
    [five] = tried(1.0, 0.02, 1, n_rounds=5)
    [eight] = tried(1.0, 0.02, 1, n_rounds=8)
    assert (five.speed.n_launches, five.share) == (5, 0.5)
    assert (eight.speed.n_launches, eight.share) == (8, 0.5)
    assert LOOKS == (2, 3, 4, 6, 8)


def test_what_cannot_be_told_within_the_budget_is_given_up() -> None:
    """Runs that differ by 30 % tell nothing of 1 % in twelve rounds; those that differ by 1 % may."""
    noisy = tried(1.0, 0.30, 100, n_rounds=6)
    assert sum(is_hopeless(one, MOST_ROUNDS) for one in noisy) > 50
    assert all(is_hopeless(one, 6) for one in noisy if abs(one.speed.mean) < 0.1)
    calm = tried(1.0, 0.005, 100, n_rounds=4)
    assert sum(is_hopeless(one, MOST_ROUNDS) for one in calm) < 10
    # What is given up would seldom have been told: of jobs that are really 10 % faster.
    noisy = tried(1.10, 0.30, 300, n_rounds=MOST_ROUNDS)
    assert sum(one.verdict is Verdict.FASTER for one in noisy) < 60
    # Two and three rounds say too little of how runs differ.
    assert not any(is_hopeless(one, 3) for one in tried(1.0, 0.3, 20, n_rounds=3))


def test_one_round_has_no_interval() -> None:
    """And none is no comparison."""
    [one] = tried(2.0, 0.0, 1, n_rounds=1)
    assert one.verdict is Verdict.UNKNOWN
    assert not is_over(one)
    assert compared(Arm.RULES, [], []) is None
