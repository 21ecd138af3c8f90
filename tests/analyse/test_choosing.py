"""Choosing: what a list of zones promises, whatever it is chosen from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sample_rows import Sample, frame

from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.choose import Choice, choose
from rccltune.model.errors import CommandLineError, TooLittleDataError
from rccltune.model.measurement import Caution
from rccltune.model.settings import Scale
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Collective, Placement
from rccltune.model.zone import NOT_MEASURED, Zone

MakeSamples = Callable[..., list[Sample]]
ChooseFrom = Callable[..., Choice]
KIB = 1024
MIB = 1024 * KIB


def rules(choice: Choice) -> list[Zone]:
    """Zones that choose something."""
    return [zone for zone in choice.zones if zone.setting is not None]


def names(choice: Choice) -> list[str]:
    """Chosen settings, by size."""
    return [str(zone.setting) for zone in rules(choice)]


def cautions(choice: Choice) -> set[Caution]:
    """What was warned of."""
    return {notice.caution for notice in choice.notices}


# --- the whole range -------------------------------------------------------------------------


# Each makes a table and chooses from it.
few = settings(max_examples=8)


@few
@given(
    st.lists(st.lists(st.integers(50, 200), min_size=5, max_size=5), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.02, 0.1, 0.5]),
)
def test_every_size_is_in_exactly_one_zone_and_within_tolerance(
    make_samples: MakeSamples, choose_from: ChooseFrom, table: list[list[int]], tolerance: float
) -> None:
    """From 0 to 2^63-1 without gap or overlap, and no measured size loses more than allowed."""
    times = {f"ring/ll/{at + 1}": row for at, row in enumerate(table)}
    choice = choose_from(make_samples(times), ChoiceOptions(tolerance=tolerance))
    zones = choice.zones
    assert (zones[0].min_nbytes, zones[-1].max_nbytes) == (0, MAX_NBYTES)
    assert all(a.max_nbytes + 1 == b.min_nbytes for a, b in pairwise(zones))
    best = [min(column) for column in zip(*table, strict=True)]
    for zone in rules(choice):
        assert zone.measured_from is not None
        assert zone.measured_to is not None
        mine = table[(zone.setting.channels or 0) - 1] if zone.setting else []
        for at in range(5):
            if zone.measured_from <= 1024 << at <= zone.measured_to:
                assert mine[at] <= (1 + tolerance) * best[at] + 1e-6
    assert sum(zone.n_sizes for zone in rules(choice)) == 5
    assert len(rules(choice)) == fewest_zones(table, tolerance)


def fewest_zones(table: Sequence[Sequence[float]], tolerance: float) -> int:
    """By trying every sequence of settings."""
    best = [min(column) for column in zip(*table, strict=True)]
    return min(
        1 + sum(a != b for a, b in pairwise(path))
        for path in product(range(len(table)), repeat=len(best))
        if all(table[a][i] <= (1 + tolerance) * best[i] + 1e-6 for i, a in enumerate(path))
    )


def test_the_order_of_samples_changes_nothing(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """Ties fall alike whatever was measured first."""
    samples = make_samples({"ring/ll": [9] * 4, "tree/ll": [9] * 4, "ring/simple": [9] * 4})
    assert choose_from(samples).zones == choose_from(samples[::-1]).zones


def test_between_sizes_more_than_a_factor_of_four_apart_nothing_is_known(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """Four is close enough, eight is not."""
    sizes = (KIB, 4 * KIB, 32 * KIB, 64 * KIB)
    table = {"tree/ll": [10, 10, 40, 80], "ring/ll": [20, 20, 20, 20]}
    zones = choose_from(make_samples(table, sizes=sizes)).zones
    assert [(z.min_nbytes, z.max_nbytes, str(z.setting or z.reason)) for z in zones[1:-1]] == [
        (KIB, 4 * KIB, "tree/ll"),
        (4 * KIB + 1, 32 * KIB - 1, NOT_MEASURED),
        (32 * KIB, 64 * KIB, "ring/ll"),
    ]


_ROWS = st.lists(st.sampled_from([0, 0, 100, 103, 110, 140, 200]), min_size=9, max_size=9)


@settings(max_examples=8, phases=(Phase.generate,))
@given(
    st.lists(_ROWS, min_size=1, max_size=4),
    st.lists(st.sampled_from([2, 3, 4, 5, 9]), min_size=9, max_size=9),
    st.one_of(st.none(), _ROWS),
)
def test_no_rule_reaches_further_than_its_own_setting_was_measured(
    make_samples: MakeSamples,
    choose_from: ChooseFrom,
    table: list[list[int]],
    factors: list[int],
    baseline: list[int] | None,
) -> None:
    """From its smallest to its largest size, and never over a gap of more than a factor of four."""
    sizes = [KIB * math.prod(factors[:i]) for i in range(9)]
    times = {f"ring/ll/{at + 1}": row for at, row in enumerate(table) if any(row)}
    if not times:
        return
    every = {**times, **({"baseline": baseline} if baseline else {})}
    samples = make_samples(every, sizes=sizes, launches="abc", paired=True)
    for zone in rules(choose_from(samples)):
        mine = [n for n, t in zip(sizes, times[str(zone.setting)], strict=True) if t]
        assert mine[0] <= zone.min_nbytes <= zone.max_nbytes <= mine[-1]
        before = max(n for n in mine if n <= zone.min_nbytes)
        behind = min(n for n in mine if n >= zone.max_nbytes)
        inside = [n for n in mine if before <= n <= behind]
        assert all(high <= 4 * low for low, high in pairwise(inside))


half_tables = st.dictionaries(
    st.tuples(
        st.sampled_from(["baseline", "ring/ll", "ring/ll128", "ring/simple/8", "tree/ll"]),
        st.sampled_from(list(Placement)),
        st.sampled_from(["a", "b"]),
    ),
    st.lists(st.sampled_from([0, 10, 11, 14, 20, 100]), min_size=5, max_size=5),
    min_size=1,
)


@few
@given(half_tables, st.floats(0, 0.5))
def test_whatever_is_missing_the_zones_are_whole(
    make_samples: MakeSamples,
    choose_from: ChooseFrom,
    table: dict[tuple[str, Placement, str], list[int]],
    tolerance: float,
) -> None:
    """Any subset of settings, placements, launches and sizes: a cover of all sizes, or our error.

    Where a baseline is known, a rule is in the mean of its sizes faster.
    """
    samples = [
        sample
        for (name, placement, launch), row in table.items()
        for sample in make_samples({name: row}, placement=placement, launches=launch)
    ]
    try:
        choice = choose_from(samples, ChoiceOptions(tolerance=tolerance))
    except TooLittleDataError:
        return
    zones = choice.zones
    assert (zones[0].min_nbytes, zones[-1].max_nbytes) == (0, MAX_NBYTES)
    assert all(a.max_nbytes + 1 == b.min_nbytes for a, b in pairwise(zones))
    assert all(zone.gain is None or zone.gain.value > 1 for zone in rules(choice))


# --- what is chosen --------------------------------------------------------------------------


def test_what_noise_alone_may_have_made_slower_flips_nothing_either(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """Communicators that differ by 10 % say nothing of 4 %; those that agree within 0.1 % do."""
    table = {"tree/ll": [100, 104, 100, 104], "ring/ll": [104, 100, 104, 100]}
    for apart, n_rules in ((1.10, 1), (1.001, 4)):
        samples = [
            one
            for name, factor in (("a", 1.0), ("b", apart))
            for one in make_samples(
                {s: [factor * t for t in row] for s, row in table.items()},
                launches=name,
                sizes=[MIB << i for i in range(4)],
            )
        ]
        assert len(rules(choose_from(samples))) == n_rules


def by_workload(
    make_samples: MakeSamples, choose_from: ChooseFrom, calls: dict[int, float]
) -> list[str]:
    """What is chosen of two settings within 10 % of each other, tree/ll the faster at 1 and 2 KiB."""
    samples = make_samples({"tree/ll": [100, 100, 109, 109], "ring/ll": [109, 109, 100, 100]})
    scale = samples[0].key.scale
    weights = tuple((Collective.ALL_REDUCE, scale, *one) for one in calls.items())
    return names(choose_from(samples, ChoiceOptions(tolerance=0.1, weights=weights)))


def test_a_workload_decides_between_equally_short_lists(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """The sizes that it calls often, of two settings that are both near enough everywhere."""
    small = {KIB: 1000.0, 2 * KIB: 1.0, 4 * KIB: 1.0, 8 * KIB: 1.0}
    large = {KIB: 1.0, 2 * KIB: 1.0, 4 * KIB: 1.0, 8 * KIB: 1000.0}
    assert by_workload(make_samples, choose_from, small) == ["tree/ll"]
    assert by_workload(make_samples, choose_from, large) == ["ring/ll"]


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_workload_calls_sizes_that_nobody_measured(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """Gradients have the sizes that a model has: 8000 bytes are nearly 8 KiB."""
    calls = {1000: 1.0, 8000: 1000.0}
    assert by_workload(make_samples, choose_from, calls) == ["ring/ll"]
    calls = {1000: 1000.0, 8000: 1.0}
    assert by_workload(make_samples, choose_from, calls) == ["tree/ll"]


def test_a_setting_missing_in_a_view_is_not_chosen_and_that_is_said(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """The fastest out of place was never tried in place."""
    samples = make_samples({"tree/ll": [100] * 4, "ring/ll": [150] * 4})
    samples += make_samples({"ring/ll": [150] * 4}, placement=Placement.IN_PLACE)
    choice = choose_from(samples)
    assert names(choice) == ["ring/ll"]
    assert Caution.MISSING_VIEW in cautions(choice)


def test_types_are_served_together_and_scales_apart(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """No tuner sees a type; every tuner sees ranks."""
    samples = make_samples({"tree/ll": [10] * 4, "ring/ll": [15] * 4}, dtype="float")
    samples += make_samples({"tree/ll": [20] * 4, "ring/ll": [15] * 4}, dtype="half")
    samples += make_samples({"tree/ll": [10] * 4}, scale=Scale(n_nodes=2, n_ranks=16))
    choice = choose_from(samples, ChoiceOptions(tolerance=0.1))
    assert {str(zone.target.scale): str(zone.setting) for zone in rules(choice)} == {
        str(Scale(n_nodes=1, n_ranks=8)): "tree/ll",
        str(Scale(n_nodes=2, n_ranks=16)): "tree/ll",
    }
    assert len(rules(choice)) == 2
    (worst,) = {z.worst_regret for z in rules(choice) if z.target.scale.n_nodes == 1}
    assert worst == pytest.approx(1 / 3)


def test_no_samples_are_an_error_that_says_what_to_do() -> None:
    """Exit code 8, not an empty rule file."""
    with pytest.raises(TooLittleDataError, match="choose"):
        choose(frame([]))


@pytest.mark.parametrize("name", ["tolerance", "min_gain"])
@pytest.mark.parametrize("value", [-0.01, 1.0, 2.0, float("nan")])
def test_a_percentage_given_as_two_is_refused(name: str, value: float) -> None:
    """2 % is 0.02: a tolerance of 2 would allow anything."""
    with pytest.raises(CommandLineError, match="fraction"):
        ChoiceOptions(**{name: value})
