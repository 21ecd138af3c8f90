"""The simulated library chooses as the real RCCL 2.27.7 did, where both get the same topology.

Expected choices are recordings of the real library (examples/mi300x-*/rccl-2.27.7-choices.csv,
scripts/bench conform --live --save).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import bench_conform
from real_runs import COLLECTIVES, PLACES

QUICK = ("spx-8", "cpx-8", "cpx-64", "two-hosts")


@pytest.mark.parametrize(
    "place",
    [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK)) for name in PLACES],
)
def test_choices_and_channels_are_the_real_ones(place: str) -> None:
    """At every power of two from 8 B to 1 GiB, in all five collectives."""
    for collective in COLLECTIVES:
        real = bench_conform.recorded(PLACES[place], collective)
        ours = bench_conform.asked(None, PLACES[place], collective, [bench_conform.POWERS])
        assert len(real) > 20
        assert ours.keys() == real.keys()
        assert ours == real, (place, collective)


@pytest.mark.parametrize(
    "place", ["spx-8", *(pytest.param(p, marks=pytest.mark.long) for p in ("cpx-64", "two-hosts"))]
)
def test_what_is_asked_for_runs_as_it_does_in_the_real_one(place: str) -> None:
    """Every setting with every number of channels, offered or closed."""
    path = bench_conform.RECORDED / f"rccl-2.27.7-{place}.csv"
    real = bench_conform.executed(path.read_text(encoding="utf-8").splitlines()[2:])
    assert len(real) > 1000
    assert bench_conform.imitated(place) == real


@pytest.mark.parametrize(
    ("mode", "place"),
    [
        pytest.param(mode, place, marks=[pytest.mark.long] * (place != "spx-8"))
        for mode in bench_conform.CASES
        for place in bench_conform.CASE_PLACES[mode]
    ],
)
def test_variables_and_groups_do_what_they_do_in_the_real_one(mode: str, place: str) -> None:
    """Variables that choose; calls in a group, which are one question."""
    for case in bench_conform.CASES[mode]:
        real = bench_conform.recorded_case(mode, case, place)
        assert len(real) > 60
        assert bench_conform.in_case(None, mode, case, place) == real, case


def test_lines_of_the_log_that_are_read_are_the_real_ones() -> None:
    """Start, channels, tuner and choices; addresses and counts of point to point aside."""
    real = bench_conform.recorded_log()
    assert len(real) > 8
    assert bench_conform.log_lines(None) == real


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(name, marks=[pytest.mark.long] * (not name.startswith("spx-8")))
        for name in bench_conform.ASKED
    ],
)
def test_a_tuner_is_asked_the_same_with_the_same_costs(asked: str) -> None:
    """Arguments of init and of each question, and the cost table's times to 0.1 ns."""
    real, ours = bench_conform.recorded_questions(asked), bench_conform.questions(None, asked)
    assert len(real) == len(ours) > (100 if asked in bench_conform.COST_PLACES else 20)
    assert [pair for pair in zip(real, ours, strict=True) if not bench_conform.alike(*pair)] == []
