"""Numbers are rounded once, where they are written, and stay the same when they are written again."""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.json_text import json_text
from rccltune.model.rounding import csv_text, round_number, round_record, round_times

numbers = st.floats(-1e18, 1e18)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (70.00000000000003, 70.0),
        (305.99999999999994, 306.0),
        (18.960000000000004, 18.96),
        (1234567.0, 1234570.0),
        (1.4370612e-04, 0.000143706),
        # What arithmetic leaves of 0, whatever its sign.
        (-2.220446049250313e-16, 0.0),
        # Half-way between two: the last bit does not choose.
        (math.nextafter(12.34565, 0), round_number(12.34565)),
        (math.nextafter(12.34565, 99), round_number(12.34565)),
    ],
)
def test_a_number_is_written_with_six_digits(value: float, written: float) -> None:
    """Which a person would write by hand."""
    assert round_number(value) == written
    assert math.copysign(1, round_number(-2e-16)) == 1


@given(numbers)
def test_a_number_that_was_rounded_stays(value: float) -> None:
    """Reading it and writing it again changes nothing."""
    once = round_number(value)
    assert round_number(once) == once
    assert once == pytest.approx(value, rel=5.1e-6, abs=1e-12)


@given(st.floats(1e-3, 1e10))
def test_a_time_keeps_what_was_measured(time_us: float) -> None:
    """Four decimals of a µs, or six digits where they are more; again they stay the same."""
    once = round_times(np.array([time_us, math.nan, 0.0]))
    assert once[0] == pytest.approx(time_us, rel=5.1e-6, abs=0.0)
    assert abs(once[0] - time_us) <= 0.00005 + 2 * math.ulp(time_us)
    assert (round_times(once) == once).tolist() == [True, False, True]
    printed = float(f"{time_us:.4f}")
    assert round_times(np.array([printed]))[0] == printed


def test_json_is_rounded_and_whole_numbers_are_not() -> None:
    """In lists, pairs and alone; on one line and on many."""
    plain = {"a": [0.1 + 0.2, 2**53 + 1], "b": [{"c": (1 / 3, True, None)}], "d": 2 / 3}
    wanted = {"a": [0.3, 2**53 + 1], "b": [{"c": [0.333333, True, None]}], "d": 0.666667}
    for indent in (None, 1):
        text = json_text(plain, indent)
        assert json.loads(text) == wanted
        assert json_text(json.loads(text), indent) == text


def test_a_table_is_written_again_alike() -> None:
    """Whole numbers whole, nothing where nothing is known, and LF."""
    table = pd.DataFrame({"n": [1, 2**53 + 1], "ratio": [1 / 3, math.nan], "word": ["a", "b"]})
    text = csv_text(table)
    assert text == "n,ratio,word\n1,0.333333,a\n9007199254740993,,b\n"
    assert csv_text(pd.read_csv(io.StringIO(text))) == text


def test_a_record_is_rounded_as_deep_as_it_goes() -> None:
    """The record in memory says what its file says."""

    @dataclass(frozen=True)
    class Inner:
        value: float
        count: int

    @dataclass(frozen=True)
    class Outer:
        inner: tuple[Inner, ...]
        named: dict[str, float]
        word: str

    made = round_record(Outer((Inner(1 / 3, 3),), {"x": 2 / 3}, "0.123456789"))
    assert made == Outer((Inner(0.333333, 3),), {"x": 0.666667}, "0.123456789")
