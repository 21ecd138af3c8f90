"""The dynamic programme against trying every sequence of states."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rccltune.zones.path import HOLE, Cell, Column, cheapest

cells = st.builds(
    Cell,
    cost=st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 3)).map(
        lambda three: tuple(float(x) for x in three)
    ),
    proves=st.booleans(),
)
columns = st.lists(
    st.dictionaries(st.sampled_from([HOLE, 0, 1, 2]), cells, min_size=1), min_size=1, max_size=6
)


def runs(states: tuple[int, ...]) -> list[tuple[int, range]]:
    """State and indices of each run of equal states."""
    found = []
    start = 0
    for end in range(1, len(states) + 1):
        if end == len(states) or states[end] != states[start]:
            found.append((states[start], range(start, end)))
            start = end
    return found


def price(path: tuple[int, ...], table: list[Column]) -> tuple[float, ...] | None:
    """Rules first, then the cells' costs; None where the path is not allowed."""
    if any(state not in column for state, column in zip(path, table, strict=True)):
        return None
    zones = [(state, span) for state, span in runs(path) if state != HOLE]
    if not all(any(table[i][state].proves for i in span) for state, span in zones):
        return None
    sums = zip(*(table[i][state].cost for i, state in enumerate(path)), strict=True)
    return (float(len(zones)), *(sum(column) for column in sums))


@given(columns)
def test_no_sequence_is_cheaper(table: list[Column]) -> None:
    """Fewest rules, then least of each cost in turn, over all sequences that are allowed."""
    prices = [price(path, table) for path in product([HOLE, 0, 1, 2], repeat=len(table))]
    possible = [p for p in prices if p is not None]
    found = cheapest(table)
    if not possible:
        assert found == []
    else:
        assert price(tuple(found), table) == pytest.approx(min(possible))


def test_a_hole_between_two_zones_of_one_setting_costs_a_rule() -> None:
    """Bridging one unproven size is cheaper than a second rule; beginning earlier is not."""
    proven, bridge = Cell((0.0,)), Cell((1.0,), proves=False)
    gap = {0: bridge, HOLE: Cell((0.0,))}
    table = [gap, {0: proven}, gap, {0: proven}, gap]
    assert cheapest(table) == [HOLE, 0, 0, 0, HOLE]
