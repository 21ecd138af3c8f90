"""Sizes of a workload as sweeps of their own: none is lost, and little else is measured."""

from __future__ import annotations

from dataclasses import replace

from grounds import GROUND
from hypothesis import given, settings
from hypothesis import strategies as st

from rccltune.model.measured import Sweep
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.plan import launches, rounds

SIZES = st.sets(st.integers(1, 1 << 28) | st.integers(3, 30).map(lambda k: 1 << k), max_size=8)
WANTED = st.dictionaries(st.sampled_from(TUNABLE), SIZES.filter(bool), min_size=1, max_size=3)


def sweep(wanted: dict[Collective, set[int]]) -> Sweep:
    """Over these sizes alone."""
    every = [nbytes for sizes in wanted.values() for nbytes in sizes]
    return Sweep(
        collectives=tuple(wanted),
        settings=(),
        min_nbytes=min(every),
        max_nbytes=max(every),
        wanted=tuple((c, tuple(sorted(sizes))) for c, sizes in wanted.items()),
    )


@given(WANTED)
@settings(max_examples=50, deadline=None)
def test_every_size_is_in_a_part_of_its_collective(wanted: dict[Collective, set[int]]) -> None:
    """Each part is of one collective, and says its sizes itself."""
    parts = rounds.parted(sweep(wanted), GROUND)

    for collective, sizes in wanted.items():
        own = [part for part in parts if part.collectives == (collective,)]
        measured = {nbytes for part in own for nbytes in launches.sizes(part)}
        assert sizes <= measured
    assert all(len(part.collectives) == 1 and not part.wanted for part in parts)
    assert len(parts) <= sum(len(sizes) for sizes in wanted.values())


def test_sizes_that_lie_in_a_row_share_launches() -> None:
    """A start of 64 ranks costs more than the sizes between."""
    row = {Collective.ALL_REDUCE: {1 << k for k in range(10, 20)}}

    (part,) = rounds.parted(sweep(row), GROUND)

    assert (part.min_nbytes, part.max_nbytes, part.factor) == (1 << 10, 1 << 19, 2)


def test_a_lone_size_gets_a_small_neighbour() -> None:
    """Where the size falls, the plugin sees that a step ended; a small one costs next to nothing."""
    (part,) = rounds.parted(sweep({Collective.REDUCE: {48 << 10}}), GROUND)

    assert launches.sizes(part) == (3 << 10, 48 << 10)


def test_a_sweep_without_wanted_sizes_has_no_parts() -> None:
    """It is measured as one."""
    whole = replace(sweep({Collective.REDUCE: {8}}), wanted=())
    assert rounds.parted(whole, GROUND) == ()
