"""What runs in turns say."""

from __future__ import annotations

from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev

import pytest

from rccltune.job import STEPS, WORDS, JobResult, JobRun, gain_words

# Student's t, 97.5 %, two degrees of freedom: any table.
T_2 = 4.302653


def answer(
    as_is: list[float], rules: list[float], bad: list[float] | None = None, *, is_rate: bool = False
) -> JobResult:
    """Answer of pairs."""
    runs = [
        JobRun(pair=pair, kind=kind, folder=Path("x"), seconds=1, value=value)
        for kind, values in zip(WORDS, (as_is, rules, bad or []), strict=True)
        for pair, value in enumerate(values, 1)
    ]
    return JobResult(
        folder=Path("x"), measure=STEPS, runs=runs, planned=len(rules), is_rate=is_rate
    )


def test_the_interval_is_student_s_of_the_logs_of_pairs() -> None:
    """By the closed form, on three pairs."""
    as_is, rules = [100.0, 104.0, 99.0], [95.0, 96.0, 96.0]
    logs = [log(a / b) for a, b in zip(as_is, rules, strict=True)]
    half = T_2 * stdev(logs) / sqrt(3)
    gain = answer(as_is, rules).gain
    assert gain is not None
    assert gain.value == pytest.approx(exp(fmean(logs)), rel=1e-5)
    assert gain.low == pytest.approx(exp(fmean(logs) - half), rel=1e-5)
    assert gain.high == pytest.approx(exp(fmean(logs) + half), rel=1e-5)
    assert gain.n == 3


def test_what_both_runs_of_a_pair_share_is_no_noise() -> None:
    """A machine that slows by a half from pair to pair: 1.25 all the same."""
    gain = answer([100, 150, 225], [80, 120, 180]).gain
    assert gain is not None
    assert gain_words(gain) == "1.250× faster (1.247 to 1.253), 3 pairs"


@pytest.mark.parametrize(
    ("as_is", "rules", "words"),
    [
        ([80, 80, 80], [100, 100, 100], "1.250× slower (1.247 to 1.253), 3 pairs"),
        ([100, 90, 100], [90, 100, 100], "no difference shown: 1.000 (0.770 to 1.299), 3 pairs"),
    ],
)
def test_the_words(as_is: list[float], rules: list[float], words: str) -> None:
    """Slower is said by its inverse."""
    assert f"With the rules: {words}" in answer(as_is, rules).lines


def test_more_is_faster_of_a_rate() -> None:
    """100 tokens/s instead of 80."""
    gain = answer([80, 80], [100, 100], is_rate=True).gain
    assert gain is not None
    assert gain.is_faster
    assert gain.value == pytest.approx(1.25)


def test_a_small_loss_is_slower_and_no_harm() -> None:
    """0.3 % in every pair, as counting calls may cost; 3 % is harm."""
    small, large = (answer([100.0] * 4, [value] * 4) for value in (100.3, 103.0))
    assert small.gain is not None
    assert (small.gain.is_slower, small.is_harm) == (True, False)
    assert large.is_harm
