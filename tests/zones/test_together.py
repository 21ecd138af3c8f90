"""One list of zones for several placements of ranks: what a tuner cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rccltune.zones.choice import choose_together

from rccltune.model.curves import Curve

MakeCurves = Callable[..., list[Curve]]
SIZES = 6
BASE = [100.0] * SIZES
FAST = [50.0] * SIZES
SLOW = [150.0] * SIZES


def chosen(parts: dict[str, list[Curve]]) -> list[tuple[int, str | None]]:
    """(first measured size, setting) of each zone with measured sizes."""
    found = choose_together(parts).zones
    return [
        (zone.measured_from, str(zone.setting) if zone.setting else None)
        for zone in found
        if zone.measured_from is not None
    ]


def test_what_wins_in_both_is_chosen(make_curves: MakeCurves) -> None:
    """And what wins in one alone is not, however much."""
    one = make_curves({"baseline": BASE, "tree/ll": FAST, "ring/ll": [10.0] * SIZES})
    other = make_curves({"baseline": BASE, "tree/ll": FAST, "ring/ll": SLOW})

    assert chosen({"one-oam": one, "one-per-oam": other}) == [(1024, "tree/ll")]
    assert chosen({"one-oam": one}) == [(1024, "ring/ll")]


def test_where_one_placement_loses_there_is_a_hole(make_curves: MakeCurves) -> None:
    """Sizes are decided one by one."""
    one = make_curves({"baseline": BASE, "tree/ll": FAST})
    other = make_curves({"baseline": BASE, "tree/ll": [50.0, 50.0, 50.0, 150.0, 150.0, 150.0]})

    assert chosen({"one-oam": one, "one-per-oam": other}) == [(1024, "tree/ll"), (8192, None)]


def test_what_one_placement_did_not_measure_is_not_chosen(make_curves: MakeCurves) -> None:
    """Neither a setting, nor a size, nor against a baseline that is not known there."""
    whole = make_curves({"baseline": BASE, "tree/ll": FAST, "ring/ll": [10.0] * SIZES})
    no_ring = make_curves({"baseline": BASE, "tree/ll": FAST})
    half = make_curves({"baseline": BASE[:3], "tree/ll": FAST[:3], "ring/ll": SLOW[:3]})
    blind = make_curves({"tree/ll": FAST, "ring/ll": FAST})

    assert chosen({"one-oam": whole, "one-per-oam": no_ring}) == [(1024, "tree/ll")]
    zones = choose_together({"one-oam": whole, "one-per-oam": half}).zones
    assert max(z.measured_to or 0 for z in zones) == 4096
    assert chosen({"one-oam": whole, "one-per-oam": blind}) == []


def test_wrong_results_in_one_placement_disqualify_everywhere(make_curves: MakeCurves) -> None:
    """Right first, fast second."""
    one = make_curves({"baseline": BASE, "tree/ll": FAST})
    wrong = [
        replace(curve, n_wrong=1) if str(curve.key.setting) == "tree/ll" else curve for curve in one
    ]
    assert all(setting is None for _, setting in chosen({"one-oam": one, "one-per-oam": wrong}))


TIMES = st.lists(st.sampled_from([20.0, 60.0, 100.0, 200.0]), min_size=SIZES, max_size=SIZES)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(TIMES, TIMES), min_size=2, max_size=3))
def test_nothing_is_chosen_that_is_slower_than_the_baseline_somewhere(
    make_curves: MakeCurves, rows: list[tuple[list[float], list[float]]]
) -> None:
    """Whatever the times: design §7."""
    tables = [{"baseline": BASE, "tree/ll": a, "ring/ll": b} for a, b in rows]
    # One slow launch alone would be taken for a stall.
    launches = ("a", "b", "c")
    parts = {f"place-{i}": make_curves(t, launches=launches) for i, t in enumerate(tables)}
    for zone in choose_together(parts).zones:
        for index in range(SIZES):
            if zone.setting is not None and zone.min_nbytes <= 1024 << index <= zone.max_nbytes:
                assert all(table[str(zone.setting)][index] <= 100.0 for table in tables)
