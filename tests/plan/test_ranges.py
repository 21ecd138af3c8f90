"""Ranges that cover sizes: nothing is left out, nothing is dearer than it must be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rccltune.model.ranges import Range
from rccltune.model.settings import Setting
from rccltune.plan.rounds import Stretch, ranges_over, stretches

A, B, C = map(Setting.parse, ("tree/ll", "ring/ll", "ring/simple"))
POWERS = st.sets(st.integers(3, 33), min_size=1, max_size=6).map(
    lambda found: sorted(1 << power for power in found)
)
BETWEEN = st.sets(st.integers(12, 30), min_size=1, max_size=5).map(
    lambda found: sorted({n for power in found for n in (1 << power, 3 << (power - 1))})[:6]
)
ODD = st.sets(st.integers(1, 1 << 20), min_size=1, max_size=6).map(sorted)
SIZES = POWERS | BETWEEN | ODD
WANTS = SIZES.flatmap(
    lambda sizes: st.fixed_dictionaries(
        {n: st.frozensets(st.sampled_from([A, B, C])) for n in sizes}
    )
)
START_US = st.sampled_from([0.0, 1e3, 1e6, 1e9])


def stepped(one: Range) -> list[int]:
    """The sizes at which rccl-tests' loop stops by: for (size = b; size <= e; size = next)."""
    found, size = [], one.min_nbytes
    while size <= one.max_nbytes:
        found.append(size)
        size = size + one.step_nbytes if one.step_nbytes else size * one.factor
    return found


def price_of(start_us: float, one: Range, n_settings: int) -> float:
    """A start, and for each setting and silence 50 us and a byte's time."""
    return start_us + (n_settings + 1) * sum(50 + n / 10_000 for n in stepped(one))


@given(
    one=st.builds(
        Range,
        min_nbytes=st.integers(1, 1 << 40),
        max_nbytes=st.integers(1, 1 << 40),
        factor=st.integers(2, 1 << 20),
        step_nbytes=st.none() | st.integers(1 << 32, 1 << 40),
    )
)
def test_the_sizes_of_a_range_are_those_that_rccl_tests_step_through(one: Range) -> None:
    """Its first one is measured even where it is above the last, as nobody plans it."""
    assert list(one.sizes) == (stepped(one) or [one.min_nbytes])


def test_a_factor_of_one_does_not_go_on_for_ever() -> None:
    """The same size again is no further one."""
    assert Range(min_nbytes=8, max_nbytes=64, factor=1).sizes == (8,)


@given(sizes=SIZES)
def test_every_range_over_sizes_holds_them_and_can_be_walked(sizes: list[int]) -> None:
    """A walk sees where a step ends by a size that falls: two sizes, and one that is doubled.

    Benchmarks since 2.17 warm up at the first size, twice that and so on, whatever the step.
    """
    found = list(ranges_over(sizes))
    assert found or len(sizes) > 1
    for one in found:
        assert set(sizes) <= set(stepped(one))
        assert len(stepped(one)) >= 2
        assert one.max_nbytes >= 2 * one.min_nbytes
        assert one.min_nbytes >= 1
        # Nothing that is dearer than what is wanted, but for a size that nothing smaller divides.
        assert one.max_nbytes == sizes[-1] or len(sizes) == 1


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([1 << 20], [(1 << 16, 1 << 20)]),
        ([32], [(16, 32)]),
        ([17], [(17, 34)]),
        ([1, 2], [(1, 2)]),
    ],
)
def test_a_size_alone_has_a_far_smaller_neighbour(
    sizes: list[int], wanted: list[tuple[int, int]]
) -> None:
    """It costs next to nothing; a larger one only where there is no smaller one."""
    found = [tuple(stepped(one)) for one in ranges_over(sizes)]
    assert wanted[0] in found


@pytest.mark.parametrize("n_ranks", [2, 8, 64, 72])
@pytest.mark.parametrize("factor", [1, 2, 4, 8, 16, 64])
def test_the_neighbour_is_no_size_at_which_ranks_have_nothing(n_ranks: int, factor: int) -> None:
    """all_gather cuts 16 bytes for each rank; of less nothing is sent and no tuner is asked."""
    least = 16 * n_ranks
    for one in ranges_over([factor * least], least):
        assert one.min_nbytes >= least


@given(sizes=SIZES, least=st.sampled_from([1, 16, 1 << 10]), unit=st.sampled_from([1, 16]))
def test_a_range_that_is_led_begins_one_size_below(sizes: list[int], least: int, unit: int) -> None:
    """Where that is one of whole units that may be measured; nothing else changes."""
    plain, led = (list(ranges_over(sizes, least, unit, led=led)) for led in (False, True))
    assert len(led) <= len(plain)
    for one in led:
        rest = [n for n in stepped(one) if n >= sizes[0]]
        below = [n for n in stepped(one) if n < sizes[0]]
        assert set(sizes) <= set(rest)
        if len(sizes) > 1 and below and one not in plain:
            assert below[0] >= max(16, least)
            assert below[0] % unit == 0
            begun = stepped(one)[1:]
            assert any(begun == stepped(other) for other in plain)


@given(wants=WANTS, start_us=START_US)
def test_everything_that_is_wanted_is_measured(
    wants: Mapping[int, frozenset[Setting]], start_us: float
) -> None:
    """Each pair of size and setting, and each size, be it for silence alone."""
    made = stretches(wants, lambda one, those: price_of(start_us, one, len(those)))
    for nbytes, settings in wants.items():
        there = [stretch for stretch in made if nbytes in stepped(stretch.range)]
        assert there
        assert settings <= frozenset[Setting]().union(*(stretch.settings for stretch in there))
    for stretch in made:
        assert stretch.settings <= frozenset[Setting]().union(*wants.values())


@hypothesis_settings(max_examples=150)
@given(wants=WANTS, start_us=START_US)
def test_no_other_way_to_part_sizes_is_cheaper(
    wants: Mapping[int, frozenset[Setting]], start_us: float
) -> None:
    """Of all ways to cut up to six sizes, each piece as one range of whatever factor or step."""

    def price(one: Range, settings: frozenset[Setting]) -> float:
        return price_of(start_us, one, len(settings))

    sizes = sorted(wants)
    made = stretches(wants, price)
    least = min(
        sum(
            min(
                (price(one, _together(wants, part)) for one in _ranges(part)),
                default=float("inf"),
            )
            for part in parts
        )
        for parts in _partings(sizes)
    )
    assert _cost(made, start_us) <= least * (1 + 1e-9)


@given(wants=WANTS)
def test_a_start_that_costs_nothing_keeps_sizes_apart_and_a_dear_one_brings_them_together(
    wants: Mapping[int, frozenset[Setting]],
) -> None:
    """The dearer a launch, the fewer."""
    cheap, dear = (
        len(stretches(wants, lambda one, those, us=us: price_of(us, one, len(those))))
        for us in (0.0, 1e12)
    )
    assert dear <= cheap
    powers = [n for n in wants if n & (n - 1) == 0]
    if len(powers) == len(wants):
        assert dear == 1


def test_two_groups_of_sizes_are_two_launches_where_that_is_cheaper() -> None:
    """One setting is wanted at small sizes only, and another at a dear one: 1 GB/s says apart."""
    wants = {8: frozenset([A]), 16: frozenset([A]), 1 << 30: frozenset([B])}
    first, second = stretches(wants, lambda one, those: len(those) * sum(stepped(one)))
    assert (first.range, first.settings) == (Range(min_nbytes=8, max_nbytes=16), {A})
    assert second.settings == {B}
    assert second.range.max_nbytes == 1 << 30


def _cost(made: Sequence[Stretch], start_us: float) -> float:
    return sum(price_of(start_us, one.range, len(one.settings)) for one in made)


def _together(wants: Mapping[int, frozenset[Setting]], part: Sequence[int]) -> frozenset[Setting]:
    return frozenset[Setting]().union(*(wants[n] for n in part))


def _partings(sizes: Sequence[int]) -> Iterator[list[Sequence[int]]]:
    """All ways to cut a row into neighbours."""
    for cuts in itertools.product([False, True], repeat=len(sizes) - 1):
        ends = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(sizes)]
        yield [sizes[a:b] for a, b in itertools.pairwise(ends)]


def _ranges(part: Sequence[int]) -> Iterator[Range]:
    """From the first size to the last, by any factor or step of no more than 64 sizes."""
    first, last = part[0], part[-1]
    if len(part) == 1:
        yield from ranges_over(part)
        return
    # Another first factor can only be a root of the ratio of the first two.
    ratios = {round((part[1] / first) ** (1 / root)) for root in range(1, 41)}
    steps = {(part[1] - first) // parts for parts in range(1, 65) if part[1] - first >= parts}
    made = [Range(min_nbytes=first, max_nbytes=last, factor=f) for f in ratios if f >= 2]
    if last >= 2 * first:
        made += [Range(min_nbytes=first, max_nbytes=last, step_nbytes=s) for s in steps]
    for one in made:
        if one.step_nbytes and (last - first) // one.step_nbytes >= 64:
            continue
        if set(part) <= set(stepped(one)):
            yield one
