"""The dynamic programme against trying every sequence; where two lines cross."""

from __future__ import annotations

from itertools import groupby, product
from math import inf

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rccltune.analyse.segmentation import NONE, fewest_zones, size_where_equal

SETTINGS = (0, 1, 2)
cells = st.tuples(st.sampled_from([0, 1, 2, 3, inf]), st.booleans())
columns = st.tuples(st.lists(cells, min_size=3, max_size=3), st.sampled_from([0, 1, 2, inf]))
tables = st.lists(columns, min_size=1, max_size=6)
Column = tuple[list[tuple[float, bool]], float]


def price(path: tuple[int, ...], table: list[Column]) -> tuple[int, float] | None:
    """Zones, then the sum of losses; None where the sequence is not allowed."""
    cost = [
        none if state == NONE else row[state][0]
        for state, (row, none) in zip(path, table, strict=True)
    ]
    zones = [list(run) for state, run in groupby(range(len(path)), path.__getitem__) if state >= 0]
    holds = all(any(table[at][0][path[at]][1] for at in zone) for zone in zones)
    return (len(zones), sum(cost)) if holds and sum(cost) < inf else None


@given(tables)
def test_no_sequence_has_fewer_zones_or_loses_less(table: list[Column]) -> None:
    """All sequences of three settings and none, over six sizes at most."""
    loss, carries = (np.array([[cell[i] for cell in row] for row, _ in table]).T for i in (0, 1))
    found = tuple(
        int(one) for one in fewest_zones(loss, carries, np.array([none for _, none in table]))
    )
    prices = [price(path, table) for path in product([NONE, *SETTINGS], repeat=len(table))]
    possible = [one for one in prices if one is not None]
    if possible:
        assert price(found, table) == min(possible)
    else:
        assert set(found) == {NONE}


def test_a_gap_between_two_zones_of_one_setting_costs_a_zone() -> None:
    """Bridging one size that carries nothing is cheaper; beginning a size earlier is not."""
    loss, carries = np.array([[1.0, 0, 1, 0, 1]]), np.array([[False, True, False, True, False]])
    none = np.array([0.0, inf, 0, inf, 0])
    assert fewest_zones(loss, carries, none).tolist() == [NONE, 0, 0, 0, NONE]


@pytest.mark.parametrize(
    ("ratios", "at"),
    [
        ((-0.1, 0.3), 2048),
        ((0.3, -0.1), 8192),
        ((-0.2, 0.2), 4096),
        ((0.1, 0.3), 4096),
        ((float("nan"), 0.3), 4096),
        ((0.0, 0.3), 4096),
    ],
)
def test_a_crossing_lies_on_a_straight_line_in_log_size(
    ratios: tuple[float, float], at: int
) -> None:
    """From 1 to 16 KiB: a quarter of the way is 2 KiB; without one it is half-way, 4 KiB."""
    assert size_where_equal([1024, 16384], ratios) == pytest.approx(at, abs=1)


@given(
    st.integers(1, 2**40),
    st.integers(1, 2**40),
    st.floats(1e-3, 1.0),
    st.floats(1e-3, 1.0),
    st.booleans(),
)
def test_a_crossing_lies_between_the_sizes(
    low: int, step: int, first: float, last: float, is_rising: bool
) -> None:
    """Each size stays on its own side: the first belongs to the zone that ends there."""
    assume(low > 4096)
    sign = -1 if is_rising else 1
    assert low <= size_where_equal([low, low + step], [sign * first, -sign * last]) < low + step


@pytest.mark.parametrize("ratios", [(1e-17, -0.05), (-1e-17, 0.05)])
def test_a_size_at_the_crossing_itself_stays_in_its_zone(ratios: tuple[float, float]) -> None:
    """2 % faster, where 2 % is wanted, is a ratio of zero but for its last digit."""
    assert size_where_equal([4096, 8192], ratios) == 4096
