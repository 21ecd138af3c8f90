"""The stand-in chooses as the real RCCL 2.27.7 did, where both get the same topology.

What is expected are recordings of the real library; where it was fetched, it is held against them, too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import recordings
from real_runs import COLLECTIVES, PLACES

from rccltune.measure.real_rccl import real_library
from rccltune.model.errors import MachineError

QUICK = ("spx-8", "cpx-8", "cpx-64", "two-hosts")


@pytest.fixture
def real() -> Path:
    """The library that scripts/fetch-rccl downloaded."""
    try:
        return real_library(Path("real"), os.environ)
    except MachineError as error:
        pytest.skip(f"{error}: scripts/fetch-rccl fetches it")


@pytest.mark.parametrize(
    "place",
    [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK)) for name in PLACES],
)
def test_choices_and_channels_are_the_real_ones(place: str) -> None:
    """At every power of two from 8 B to 1 GiB, in all five collectives."""
    if place == "two-hosts" and not (Path(sys.executable).parent / "mpirun").exists():
        pytest.skip("no mpirun")
    for collective in COLLECTIVES:
        expected = recordings.recorded_choices(PLACES[place], collective)
        assert len(expected) > 20
        assert recordings.choices(None, PLACES[place], collective) == expected, collective


@pytest.mark.parametrize(
    "place", ["spx-8", *(pytest.param(p, marks=pytest.mark.long) for p in ("cpx-64", "two-hosts"))]
)
def test_what_is_asked_for_runs_as_it_does_in_the_real_one(place: str) -> None:
    """Every setting with every number of channels, offered or closed."""
    expected = recordings.recorded_asked(place)
    assert len(expected) > 1000
    assert recordings.asked(None, place) == expected


@pytest.mark.parametrize(
    ("mode", "place"),
    [
        pytest.param(mode, place, marks=[pytest.mark.long] * (place != "spx-8"))
        for mode in recordings.CASES
        for place in recordings.CASE_PLACES[mode]
    ],
)
def test_variables_and_groups_do_what_they_do_in_the_real_one(mode: str, place: str) -> None:
    """Variables that choose; calls in a group, which are one question."""
    for case in recordings.CASES[mode]:
        expected = recordings.recorded_case(mode, case, place)
        assert len(expected) > 60
        assert recordings.in_case(None, mode, case, place) == expected, case


def test_lines_of_the_log_that_are_read_are_the_real_ones() -> None:
    """Start, channels, tuner and choices; addresses and counts of point to point aside."""
    expected = recordings.recorded_log()
    assert len(expected) > 8
    assert recordings.log_lines(None) == expected


def same_questions(library: Path | None, of: str) -> bool:
    """Arguments of init and of each question, and the cost table's times to 0.1 ns."""
    expected, found = recordings.recorded_questions(of), recordings.questions(library, of)
    assert len(expected) > (100 if of in recordings.COST_PLACES else 20)
    return len(expected) == len(found) and all(map(recordings.alike, expected, found))


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(name, marks=[pytest.mark.long] * (not name.startswith("spx-8")))
        for name in recordings.QUESTIONS
    ],
)
def test_a_tuner_is_asked_the_same_with_the_same_costs(of: str) -> None:
    """At places, in groups, and with buffers that are registered."""
    assert same_questions(None, of)


# The recordings are held against the stand-in above, in seconds.
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", ["spx-8", "cpx-64", "two-hosts"])
def test_the_real_library_still_does_what_was_recorded(real: Path, place: str) -> None:
    """By itself, asked for everything, under variables that choose, and in the cost tables that it hands out."""
    for collective in COLLECTIVES:
        expected = recordings.recorded_choices(PLACES[place], collective)
        assert recordings.choices(real, PLACES[place], collective) == expected
    assert recordings.asked(real, place) == recordings.recorded_asked(place)
    for mode in ("env", "group"):
        for case in recordings.CASES[mode] if place in recordings.CASE_PLACES[mode] else ():
            expected = recordings.recorded_case(mode, case, place)
            assert recordings.in_case(real, mode, case, place) == expected
    assert same_questions(real, place)


def test_the_real_library_still_logs_what_was_recorded(real: Path) -> None:
    """The lines that are read."""
    assert recordings.log_lines(real) == recordings.recorded_log()
