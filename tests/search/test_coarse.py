"""The coarse pass on any grid: cheap sizes, an octave apart, and never fewer than two."""

from __future__ import annotations

from itertools import pairwise
from math import log2, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring import settings

from rccltune.model.ranges import Motive, Range
from rccltune.model.vocabulary import Collective
from rccltune.search import rounds, sizes
from rccltune.search.sizes import between

MIB = 1 << 20
GRIDS = st.builds(
    Range,
    min_nbytes=st.integers(1, 64 * MIB),
    max_nbytes=st.integers(64 * MIB, 1 << 34),
    factor=st.integers(2, 1 << 20),
) | st.builds(
    lambda low, step, n: Range(min_nbytes=low, max_nbytes=low + step * n, step_nbytes=step),
    st.integers(1, 1 << 30),
    st.integers(1, 1 << 27),
    st.integers(0, 300),
)


@given(grid=GRIDS.map(lambda one: one.sizes))
def test_a_coarse_pass_is_two_sizes_or_more_of_the_grid_from_its_first(
    grid: tuple[int, ...],
) -> None:
    """Rising, and no more than the grid has."""
    coarse = sizes.coarse_sizes(grid)
    assert coarse[0] == grid[0]
    assert set(coarse) <= set(grid)
    assert list(coarse) == sorted(set(coarse))
    assert len(coarse) >= min(2, len(grid))


@given(grid=GRIDS.map(lambda one: one.sizes))
def test_it_ends_where_sizes_become_dear(grid: tuple[int, ...]) -> None:
    """4 MiB or an eighth of the largest; a second size is needed wherever the first is dear."""
    coarse = sizes.coarse_sizes(grid)
    assert all(n <= max(4 * MIB, grid[-1] // 8) for n in coarse[2:])
    # One in two octaves at most, but where so few sizes are left that all are taken.
    if len(coarse) > 1 and any(log2(b / a) < 2 - 1e-6 for a, b in pairwise(coarse)):
        cheap = [n for n in grid if n <= max(4 * MIB, grid[-1] // 8)]
        assert list(coarse) == (cheap if len(cheap) > 1 else list(grid[:2]))


@pytest.mark.parametrize(
    ("grid", "wanted"),
    [
        # rccl-tests' own: 8, 32, … and no more than an eighth of 1 GiB.
        (Range(min_nbytes=8, max_nbytes=1 << 30), [8 << 2 * k for k in range(13)]),
        (Range(min_nbytes=1024, max_nbytes=2048), [1024, 2048]),
        (Range(min_nbytes=1024, max_nbytes=1024), [1024]),
        (Range(min_nbytes=8, max_nbytes=1 << 30, factor=1 << 20), [8, 8 << 20]),
        # 4 MiB, 16 MiB and 64 MiB would be three; all that is cheap is taken.
        (
            Range(min_nbytes=4 * MIB, max_nbytes=512 * MIB),
            [n * MIB for n in (4, 8, 16, 32, 64)],
        ),
        (Range(min_nbytes=256 * MIB, max_nbytes=512 * MIB), [256 * MIB, 512 * MIB]),
        (
            Range(min_nbytes=MIB, max_nbytes=64 * MIB, step_nbytes=MIB),
            [n * MIB for n in range(1, 9)],
        ),
    ],
)
def test_odd_grids(grid: Range, wanted: list[int]) -> None:
    """Two sizes, one, a step, a huge factor."""
    assert list(sizes.coarse_sizes(grid.sizes)) == wanted


def test_every_setting_of_every_collective_is_in_the_first_round() -> None:
    """A collective of which nothing can be measured asks for nothing."""
    arms = {
        Collective.ALL_REDUCE: settings("tree/ll", "ring/ll"),
        Collective.ALL_GATHER: settings("ring/ll"),
        Collective.REDUCE: (),
    }
    made = rounds.first_round(arms, Range(min_nbytes=8, max_nbytes=1 << 20).sizes)
    assert made.number == 1
    assert {want.motive for want in made.wants} == {Motive.COARSE}
    for collective, found in arms.items():
        wants = [want for want in made.wants if want.collective is collective]
        assert all(set(want.settings) == set(found) and want.repeats == 1 for want in wants)
        wanted = [8 << 2 * k for k in range(9)] if found else []
        assert [want.nbytes for want in wants] == wanted


@given(grid=GRIDS.map(lambda one: one.sizes), n_ranks=st.integers(1, 512))
def test_sizes_between_can_be_cut_evenly_and_lie_half_way(
    grid: tuple[int, ...], n_ranks: int
) -> None:
    """Sixteen bytes for each rank; half-way in log-size, as near as that allows."""
    found = between(grid, n_ranks)
    assert list(found) == sorted(set(found) - set(grid))
    for middle in found:
        low = max(n for n in grid if n < middle)
        high = min(n for n in grid if n > middle)
        assert middle % (16 * n_ranks) == 0 or middle % (1 << max(0, low.bit_length() - 3)) == 0
        assert abs(middle - sqrt(low * high)) <= max(16 * n_ranks, low / 4) / 2 + 1


def test_between_two_octaves_lies_one_and_a_half() -> None:
    """3 MiB; and nothing where one rank's share cannot be cut so."""
    assert between((2 * MIB, 4 * MIB, 8 * MIB), 64) == (3 * MIB, 6 * MIB)
    assert between((8, 16, 1024, 2048), 64) == ()
