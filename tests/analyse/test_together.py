"""One list of zones for several placements of ranks: what a tuner cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from rccltune.analyse.choice import choose_together
from rccltune.model.choice import Zone
from rccltune.model.measurement import Sample
from rccltune.session.sample_table import frame

MakeSamples = Callable[..., list[Sample]]
SIZES = 6
BASE = [100.0] * SIZES
FAST = [50.0] * SIZES
SLOW = [150.0] * SIZES


def together(parts: dict[str, list[Sample]]) -> tuple[Zone, ...]:
    """Zones that hold in all placements."""
    tables = {name: frame(samples) for name, samples in parts.items()}
    return choose_together(tables).zones


def chosen(parts: dict[str, list[Sample]]) -> list[tuple[int, str | None]]:
    """(first measured size, setting) of each zone with measured sizes."""
    return [
        (zone.measured_from, str(zone.setting) if zone.setting else None)
        for zone in together(parts)
        if zone.measured_from is not None
    ]


def test_a_zone_says_that_it_is_of_all_placements(make_samples: MakeSamples) -> None:
    """A rule file has one target for both."""
    one = make_samples({"baseline": BASE, "tree/ll": FAST})
    found = {zone.target.rank_placement for zone in together({"one-oam": one, "node": one})}
    assert found == {"one-oam and node"}


def test_what_one_placement_did_not_measure_is_not_chosen(make_samples: MakeSamples) -> None:
    """Neither a setting, nor a size, nor against a baseline that is not known there."""
    whole = make_samples({"baseline": BASE, "tree/ll": FAST, "ring/ll": [10.0] * SIZES})
    no_ring = make_samples({"baseline": BASE, "tree/ll": FAST})
    half = make_samples({"baseline": BASE[:3], "tree/ll": FAST[:3], "ring/ll": SLOW[:3]})
    blind = make_samples({"tree/ll": FAST, "ring/ll": FAST})
    assert chosen({"one-oam": whole, "one-per-oam": no_ring}) == [(1024, "tree/ll")]
    zones = together({"one-oam": whole, "one-per-oam": half})
    assert max(z.measured_to or 0 for z in zones) == 4096
    assert chosen({"one-oam": whole, "one-per-oam": blind}) == []


TIMES = st.lists(st.sampled_from([20.0, 60.0, 100.0, 200.0]), min_size=SIZES, max_size=SIZES)


@settings(max_examples=8)
@given(st.lists(st.tuples(TIMES, TIMES), min_size=2, max_size=3))
def test_nothing_is_chosen_that_is_slower_than_the_baseline_somewhere(
    make_samples: MakeSamples, rows: list[tuple[list[float], list[float]]]
) -> None:
    """Whatever the times, at every size that was measured."""
    tables = [{"baseline": BASE, "tree/ll": a, "ring/ll": b} for a, b in rows]
    # One slow launch alone would be taken for a stall.
    parts = {f"at-{i}": make_samples(t, launches="abc") for i, t in enumerate(tables)}
    for zone in together(parts):
        for index in range(SIZES):
            if zone.setting is not None and zone.min_nbytes <= 1024 << index <= zone.max_nbytes:
                assert all(table[str(zone.setting)][index] <= 100.0 for table in tables)
