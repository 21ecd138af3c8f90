"""Choosing: what a list of zones promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import exp, log, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rccltune.zones.arms import Choice, ChoiceOptions, why_not_selectable
from rccltune.zones.choice import choose

from rccltune.fit import points
from rccltune.model.chosen import (
    BASELINE_UNKNOWN,
    NOT_FASTER,
    NOT_MEASURED,
    NOTHING_SELECTABLE,
    Proof,
    Zone,
)
from rccltune.model.curves import Curve
from rccltune.model.errors import TooLittleDataError
from rccltune.model.measured import Caution, Sample
from rccltune.model.settings import (
    DEFAULT_VARIANT,
    LL128_FORCED,
    TREE_SIMPLE_PATCHED,
    CurveKey,
    Scale,
    Setting,
    Target,
    Variant,
)
from rccltune.model.vocabulary import MAX_NBYTES, Collective, Placement

MakeCurves = Callable[..., list[Curve]]
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


@given(
    st.lists(st.lists(st.integers(50, 200), min_size=5, max_size=5), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.02, 0.1, 0.5]),
)
def test_every_size_is_in_exactly_one_zone_and_within_tolerance(
    table: list[list[int]], tolerance: float
) -> None:
    """From 0 to 2^63-1 without gap or overlap, and no measured size loses more than allowed."""
    times = {f"ring/ll/{arm + 1}": row for arm, row in enumerate(table)}
    curves = make_table(times, [1024 << i for i in range(5)], launches=("a",))
    choice = choose(curves, ChoiceOptions(tolerance=tolerance))
    zones = choice.zones
    assert (zones[0].min_nbytes, zones[-1].max_nbytes) == (0, MAX_NBYTES)
    assert all(a.max_nbytes + 1 == b.min_nbytes for a, b in pairwise(zones))
    best = [min(column) for column in zip(*table, strict=True)]
    for i in range(5):
        zone = next(z for z in zones if z.min_nbytes <= 1024 << i <= z.max_nbytes)
        assert zone.setting is not None
        assert table[(zone.setting.channels or 0) - 1][i] <= (1 + tolerance) * best[i] + 1e-6
    assert len(rules(choice)) == fewest_zones(table, tolerance)


def fewest_zones(table: Sequence[Sequence[float]], tolerance: float) -> int:
    """By trying every sequence of settings."""
    best = [min(column) for column in zip(*table, strict=True)]
    return min(
        1 + sum(a != b for a, b in pairwise(path))
        for path in product(range(len(table)), repeat=len(best))
        if all(table[a][i] <= (1 + tolerance) * best[i] + 1e-6 for i, a in enumerate(path))
    )


def test_the_order_of_curves_changes_nothing(make_curves: MakeCurves) -> None:
    """Ties fall alike whatever was measured first."""
    curves = make_curves({"ring/ll": [9, 9, 9, 9], "tree/ll": [9, 9, 9, 9], "ring/simple": [9] * 4})
    assert choose(curves).zones == choose(curves[::-1]).zones


def test_rules_end_where_measuring_ended(make_curves: MakeCurves) -> None:
    """Below the smallest and above the largest size is a hole that says so, whatever won there."""
    zones = choose(make_curves({"tree/ll": [10] * 6, "ring/ll": [30] * 6})).zones
    assert [(z.min_nbytes, z.max_nbytes, z.reason) for z in zones] == [
        (0, KIB - 1, NOT_MEASURED),
        (KIB, 32 * KIB, None),
        (32 * KIB + 1, MAX_NBYTES, NOT_MEASURED),
    ]


def test_between_sizes_more_than_a_factor_of_four_apart_nothing_is_known(
    make_curves: MakeCurves,
) -> None:
    """Four is close enough, eight is not."""
    sizes = (KIB, 4 * KIB, 32 * KIB, 64 * KIB)
    curves = make_curves({"tree/ll": [10, 10, 40, 80], "ring/ll": [20, 20, 20, 20]}, sizes=sizes)
    zones = choose(curves).zones
    assert [(z.min_nbytes, z.max_nbytes, str(z.setting or z.reason)) for z in zones[1:-1]] == [
        (KIB, 4 * KIB, "tree/ll"),
        (4 * KIB + 1, 32 * KIB - 1, NOT_MEASURED),
        (32 * KIB, 64 * KIB, "ring/ll"),
    ]


def test_two_rules_end_where_the_library_beats_both(make_curves: MakeCurves) -> None:
    """Their curves cross at 2.44 KiB, where both are slower: behind 2.38 and before 2.58 KiB."""
    table = {"baseline": [20, 20, 60, 60], "tree/ll": [10, 10, 480, 480], "ring/ll": [30] * 4}
    curves = make_curves(table, launches=("a", "b", "c"))
    zones = choose(curves).zones
    tree = next(zone for zone in zones if zone.measured_to == 2 * KIB)
    ring = next(zone for zone in zones if zone.measured_from == 4 * KIB)
    assert (str(tree.setting), str(ring.setting)) == ("tree/ll", "ring/ll")
    # Ratios 1/2 to 8 and 3/2 to 1/2: straight lines meet 1 at 0.25 and at 0.369 in log-size.
    assert 2 * KIB < tree.max_nbytes <= 2 * KIB * 2**0.25
    assert 2 * KIB * 2**0.369 <= ring.min_nbytes < 4 * KIB
    [between] = [z for z in zones if tree.max_nbytes < z.min_nbytes < ring.min_nbytes]
    assert between.setting is None


_ROWS = st.lists(st.sampled_from([0, 0, 100, 103, 110, 140, 200]), min_size=9, max_size=9)


@pytest.mark.parametrize("launches", [1, 2, 3])
def test_one_size_is_a_rule_where_several_launches_say_so(launches: int) -> None:
    """A library that changes its choice a size late: 6 % at that size, a loss beside it."""
    sizes = [KIB << index for index in range(15)]
    baseline = [10.0] * 9 + [20.0 * 2**index for index in range(6)]
    ring = [1.1 * time for time in baseline]
    ring[9] = baseline[9] / 1.06
    names = [f"launch-{index}" for index in range(launches)]
    found = rules(choose(make_table({"baseline": baseline, "ring/ll": ring}, sizes, names)))
    assert [zone.min_nbytes <= sizes[9] <= zone.max_nbytes for zone in found] == (
        [True] if launches > 1 else []
    )


@given(
    st.lists(_ROWS, min_size=1, max_size=4),
    st.lists(st.sampled_from([2, 3, 4, 5, 9]), min_size=9, max_size=9),
    st.one_of(st.none(), _ROWS),
)
def test_no_rule_reaches_further_than_its_own_setting_was_measured(
    table: list[list[int]], factors: list[int], baseline: list[int] | None
) -> None:
    """From its smallest to its largest size, and never over a gap of more than a factor of four.

    Nor is one narrower than the step at which its sizes were measured.
    """
    sizes = [KIB * math.prod(factors[:i]) for i in range(9)]
    times = {f"ring/ll/{arm + 1}": row for arm, row in enumerate(table) if any(row)}
    curves = make_table({**times, **({"baseline": baseline} if baseline else {})}, sizes)
    if not times:
        return
    for zone in rules(choose(curves)):
        mine = [n for n, t in zip(sizes, times[str(zone.setting)], strict=True) if t]
        assert mine[0] <= zone.min_nbytes <= zone.max_nbytes <= mine[-1]
        before = max(n for n in mine if n <= zone.min_nbytes)
        behind = min(n for n in mine if n >= zone.max_nbytes)
        inside = [n for n in mine if before <= n <= behind]
        assert all(high <= 4 * low for low, high in pairwise(inside))
        steps = [high / low for low, high in pairwise(sizes) if high <= 4 * low]
        if zone.n_sizes > 1:
            assert zone.max_nbytes >= zone.min_nbytes * min(steps) * 0.999


def make_table(
    table: Mapping[str, Sequence[float]],
    sizes: Sequence[int],
    launches: Sequence[str] = ("a", "b", "c"),
) -> list[Curve]:
    """Curves of settings by name, where a time is not 0."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=Setting.parse("ring/ll"),
        placement=Placement.OUT_OF_PLACE,
        scale=Scale(n_nodes=2, n_ranks=16),
    )
    samples = [
        Sample(
            key=replace(key, setting=Setting.parse(name)),
            launch=launch,
            nbytes=nbytes,
            time_us=float(time),
        )
        for name, row in table.items()
        for nbytes, time in zip(sizes, row, strict=True)
        for launch in launches
        if time
    ]
    return list(points.curves(samples).curves)


def test_one_size_between_others_is_no_zone_of_its_own(make_curves: MakeCurves) -> None:
    """A setting far behind at both neighbours made rules of one size, 114688 to 114688.

    One launch may have stalled; of several, what crosses this steeply leaves nothing to verify.
    """
    baseline = [100.0] * 9
    lone = {"tree/ll": [150, 150, 150, 80, 150, 150, 150, 150, 150], "baseline": baseline}
    assert rules(choose(make_curves(lone))) == []
    steep = {"tree/ll": [900, 900, 900, 80, 900, 900, 900, 900, 900], "baseline": baseline}
    assert rules(choose(make_curves(steep, launches=("a", "b", "c")))) == []
    pair = {"tree/ll": [150, 150, 150, 80, 80, 150, 150, 150, 150], "baseline": baseline}
    found = rules(choose(make_curves(pair, launches=("a", "b", "c"))))
    assert [z.max_nbytes / z.min_nbytes >= 2 for z in found] == [True]


def test_a_boundary_lies_at_the_crossing_and_not_half_way(make_curves: MakeCurves) -> None:
    """10 → 40 µs and 20 → 20 µs between 4 and 8 KiB cross at the square root of two."""
    curves = make_curves({"tree/ll": [10, 10, 10, 40, 80], "ring/ll": [20, 20, 20, 20, 20]})
    zones = rules(choose(curves))
    assert zones[0].max_nbytes == int(4096 * 2**0.5)


# --- what is chosen --------------------------------------------------------------------------


def test_noise_within_tolerance_flips_nothing(make_curves: MakeCurves) -> None:
    """One setting is 1 % faster here and there: still one zone."""
    curves = make_curves({"tree/ll": [100, 101, 100, 101], "ring/ll": [101, 100, 101, 100]})
    assert len(rules(choose(curves))) == 1


def test_ties_go_to_fewer_channels(make_curves: MakeCurves) -> None:
    """A difference of 0.2 % is no reason to take 48 compute units more."""
    curves = make_curves({"ring/ll/56": [100.0] * 4, "ring/ll/8": [100.2] * 4})
    assert names(choose(curves)) == ["ring/ll/8"]
    assert names(choose(curves, ChoiceOptions(tolerance=0.0))) == ["ring/ll/56"]


def test_a_limit_on_channels_also_bars_an_unstated_number(make_curves: MakeCurves) -> None:
    """What RCCL would use by itself cannot be promised to be below a limit."""
    curves = make_curves({"ring/ll/56": [90] * 4, "ring/ll": [90] * 4, "ring/ll/8": [100] * 4})
    choice = choose(curves, ChoiceOptions(max_channels=16))
    assert names(choice) == ["ring/ll/8"]
    assert {str(out.setting) for out in choice.left_out} == {"ring/ll/56", "ring/ll"}


def test_a_workload_decides_between_equally_short_lists(make_curves: MakeCurves) -> None:
    """Both settings are within 10 % everywhere; the sizes that are called decide."""
    curves = make_curves({"tree/ll": [100, 100, 109, 109], "ring/ll": [109, 109, 100, 100]})
    scale = curves[0].key.scale
    small = (
        (Collective.ALL_REDUCE, scale, 1024, 1000.0),
        (Collective.ALL_REDUCE, scale, 8192, 1.0),
    )
    large = (
        (Collective.ALL_REDUCE, scale, 1024, 1.0),
        (Collective.ALL_REDUCE, scale, 8000, 1000.0),
    )
    for weights, expected in ((small, "tree/ll"), (large, "ring/ll")):
        options = ChoiceOptions(tolerance=0.1, weights=weights)
        assert names(choose(curves, options)) == [expected]


def test_calls_of_another_scale_do_not_weigh(make_curves: MakeCurves) -> None:
    """A communicator of eight says nothing of that of all ranks."""
    curves = make_curves({"tree/ll": [100, 100, 109, 109], "ring/ll": [109, 109, 100, 100]})
    other = Scale(n_nodes=7, n_ranks=77)
    assert other not in {curve.key.scale for curve in curves}
    plain = names(choose(curves, ChoiceOptions(tolerance=0.1)))
    for nbytes in (1024, 8192):
        weights = ((Collective.ALL_REDUCE, other, nbytes, 1000.0),)
        assert names(choose(curves, ChoiceOptions(tolerance=0.1, weights=weights))) == plain


def test_one_rule_serves_both_placements(make_curves: MakeCurves) -> None:
    """Regret is the worse of the two: 4 % in both beats 0 % in one and 30 % in the other."""
    out = make_curves({"tree/ll": [100] * 4, "ring/ll": [104] * 4})
    inside = make_curves(
        {"tree/ll": [130] * 4, "ring/ll": [104] * 4, "ring/simple": [100] * 4},
        placement=Placement.IN_PLACE,
    )
    more = make_curves({"ring/simple": [150] * 4})
    choice = choose([*out, *inside, *more])
    (zone,) = rules(choice)
    assert str(zone.setting) == "ring/ll"
    assert zone.worst_regret == pytest.approx(0.04)
    assert Caution.TOLERANCE_NOT_MET in cautions(choice)


def test_a_setting_missing_in_a_view_is_not_chosen_and_that_is_said(
    make_curves: MakeCurves,
) -> None:
    """The fastest out of place was never tried in place."""
    out = make_curves({"tree/ll": [100] * 4, "ring/ll": [150] * 4})
    inside = make_curves({"ring/ll": [150] * 4}, placement=Placement.IN_PLACE)
    choice = choose([*out, *inside])
    assert names(choice) == ["ring/ll"]
    assert Caution.MISSING_VIEW in cautions(choice)


def test_a_size_missing_on_one_curve_is_interpolated(make_curves: MakeCurves) -> None:
    """A row that was lost does not cut a zone in two."""
    curves = make_curves({"tree/ll": [100, 100, 0, 100, 100], "ring/ll": [150] * 5})
    assert names(choose(curves)) == ["tree/ll"]


def test_dtypes_are_served_together_and_scales_apart(make_curves: MakeCurves) -> None:
    """No tuner sees a type; every tuner sees ranks."""
    curves = make_curves({"tree/ll": [10] * 4}, dtype="float")
    curves += make_curves({"tree/ll": [12] * 4}, dtype="half")
    curves += make_curves({"ring/ll": [10] * 4}, scale=Scale(n_nodes=2, n_ranks=16))
    assert len({zone.target for zone in choose(curves).zones}) == 2


# --- what cannot be chosen -------------------------------------------------------------------

ONE = Target(
    collective=Collective.ALL_REDUCE,
    scale=Scale(n_nodes=1, n_ranks=64),
    rank_placement="node",
    variant=DEFAULT_VARIANT,
)


@pytest.mark.parametrize(
    ("setting", "changes", "arch", "able"),
    [
        ("tree/ll", {}, "gfx942", True),
        ("tree/simple", {}, "gfx942", False),
        ("tree/simple", {}, "amd", False),
        ("tree/simple", {}, "nvidia", True),
        ("tree/simple", {}, None, True),
        ("tree/simple", {}, "gfx950", False),
        ("tree/simple", {}, "gfx90a", True),
        ("tree/simple", {}, "sm_90", True),
        ("tree/simple", {"scale": Scale(n_nodes=2, n_ranks=128)}, "gfx942", True),
        ("tree/ll", {"collective": Collective.ALL_GATHER}, "gfx942", False),
        ("pat/simple", {"collective": Collective.ALL_GATHER}, "gfx942", True),
        ("pat/ll", {"collective": Collective.ALL_GATHER}, "gfx942", False),
        ("pat/simple", {}, "gfx942", False),
        ("nvls/simple", {}, "gfx942", False),
        ("nvls/simple", {}, "amd", False),
        ("nvls/simple", {}, "sm_90", True),
        ("nvls/simple", {}, "nvidia", True),
        ("nvls/simple", {}, None, True),
        ("nvls_tree/simple", {}, "nvidia", True),
        ("collnet_chain/simple", {}, "nvidia", True),
        ("tree/ll", {"collective": Collective.ALL_GATHER}, None, False),
        ("ring/ll", {"collective": Collective.ALLTOALL}, "gfx942", False),
        ("ring/-", {}, "gfx942", False),
        ("-/ll", {}, "gfx942", False),
        ("unstated", {}, "gfx942", False),
    ],
)
def test_selectable_is_what_rccl_can_be_made_to_choose(
    setting: str, changes: dict[str, object], arch: str | None, able: bool
) -> None:
    """From RCCL's own source; every refusal has a reason in words, and no unknown GPU is AMD's."""
    target = replace(ONE, **changes)
    reason = why_not_selectable(Setting.parse(setting), target, arch)
    assert (reason is None) == able


def test_what_was_measured_and_cannot_be_chosen_is_named_with_what_it_would_have_won(
    make_curves: MakeCurves,
) -> None:
    """The fastest of all is left out, says why, and at how many sizes it was the fastest."""
    curves = make_curves({"tree/simple": [50, 50, 50, 500], "ring/ll": [100] * 4})
    choice = choose(curves, ChoiceOptions(arch="gfx942"))
    assert names(choice) == ["ring/ll"]
    (out,) = choice.left_out
    assert (str(out.setting), out.n_fastest) == ("tree/simple", 3)
    assert Caution.NOT_SELECTABLE in cautions(choice)


def test_a_patched_library_is_left_out_of_the_target_that_it_patches(
    make_curves: MakeCurves,
) -> None:
    """Shown and never emitted: no zone has its variant."""
    curves = make_curves({"ring/ll": [100] * 4})
    curves += make_curves({"tree/simple": [50] * 4}, variant=TREE_SIMPLE_PATCHED)
    choice = choose(curves)
    assert {zone.variant.name for zone in choice.zones} == {"default"}
    assert [out.variant.name for out in choice.left_out] == ["tree-simple-patched"]


def test_wrong_results_disqualify(make_curves: MakeCurves) -> None:
    """However fast."""
    fast, slow = make_curves({"tree/ll": [1] * 4, "ring/ll": [100] * 4})
    assert names(choose([replace(fast, n_wrong=1), slow])) == ["ring/ll"]


def test_ll128_on_one_node_carries_its_variable_and_a_fallback(make_curves: MakeCurves) -> None:
    """Without RCCL_LL128_FORCE_ENABLE=1 the rule is skipped, and the next one is taken."""
    default = make_curves({"tree/ll": [10, 10, 40, 80], "ring/ll": [90, 90, 50, 60]})
    forced = make_curves(
        {"tree/ll128": [20, 20, 20, 20], "tree/ll": [1, 1, 1, 1]}, variant=LL128_FORCED
    )
    first, second = rules(choose([*default, *forced]))
    assert (str(first.setting), first.variant.name, first.fallback) == ("tree/ll", "default", None)
    assert (str(second.setting), second.variant) == ("tree/ll128", LL128_FORCED)
    assert str(second.fallback) == "ring/ll"


def test_ll128_measured_without_its_variable_still_says_what_it_needs(
    make_curves: MakeCurves,
) -> None:
    """An import that forgot to name the variant must not make a rule that is skipped."""
    curves = make_curves({"tree/ll128": [10] * 4, "ring/ll": [50] * 4})
    for arch in ("gfx942", "gfx950", "amd"):
        (zone,) = rules(choose(curves, ChoiceOptions(arch=arch)))
        assert zone.variant.environment == LL128_FORCED.environment
    two_nodes = make_curves({"tree/ll128": [10] * 4}, scale=Scale(n_nodes=2, n_ranks=16))
    assert rules(choose(two_nodes, ChoiceOptions(arch="gfx942")))[0].variant == DEFAULT_VARIANT


@pytest.mark.parametrize("arch", ["nvidia", "sm_90", "gfx90a", None])
def test_ll128_needs_no_variable_where_no_rccl_of_gfx94x_is_known_to_be(
    make_curves: MakeCurves, arch: str | None
) -> None:
    """NCCL has no such variable, and nobody's GPUs are taken for AMD's."""
    curves = make_curves({"tree/ll128": [10] * 4, "ring/ll": [50] * 4})
    (zone,) = rules(choose(curves, ChoiceOptions(arch=arch)))
    assert zone.variant == DEFAULT_VARIANT


def test_what_was_measured_in_a_widening_variant_alone_carries_all_of_it(
    make_curves: MakeCurves,
) -> None:
    """A rule is for the environment that it was measured in, whichever cell it names."""
    pairs = (("NCCL_BUFFSIZE", "8388608"), ("RCCL_LL128_FORCE_ENABLE", "1"))
    mine = Variant(name="mine", environment=pairs, widens="default")
    curves = make_curves({"ring/simple": [50] * 4})
    curves += make_curves({"ring/ll": [10] * 4, "ring/ll128": [20] * 4}, variant=mine)
    for arch in ("gfx942", None):
        (zone,) = rules(choose(curves, ChoiceOptions(arch=arch)))
        assert (str(zone.setting), zone.variant, zone.target.variant) == (
            "ring/ll",
            mine,
            DEFAULT_VARIANT,
        )


def test_other_variants_are_targets_of_their_own(make_curves: MakeCurves) -> None:
    """Nothing measured with 32 channels in the environment is pooled with the default."""
    variant = Variant(name="channels-32", environment=(("NCCL_MIN_NCHANNELS", "32"),))
    curves = make_curves({"tree/ll": [10] * 4}) + make_curves({"ring/ll": [1] * 4}, variant=variant)
    chosen = {zone.target.variant.name: str(zone.setting) for zone in rules(choose(curves))}
    assert chosen == {"default": "tree/ll", "channels-32": "ring/ll"}


def test_a_collective_that_never_asks_has_no_zones(make_curves: MakeCurves) -> None:
    """Alltoall goes point to point; a rule for it would be dead."""
    choice = choose(make_curves({"ring/ll": [10] * 4}, collective=Collective.ALLTOALL))
    assert choice.zones == ()
    assert len(choice.left_out) == 1


def test_nothing_selectable_is_one_hole(make_curves: MakeCurves) -> None:
    """The whole range, with the reason."""
    wish = ChoiceOptions(arch="gfx942")
    (zone,) = choose(make_curves({"tree/simple": [10] * 4}), wish).zones
    assert (zone.min_nbytes, zone.max_nbytes, zone.reason) == (0, MAX_NBYTES, NOTHING_SELECTABLE)


def test_no_curves_are_an_error_that_says_what_to_do() -> None:
    """Exit code 8, not an empty rule file."""
    with pytest.raises(TooLittleDataError, match="choose"):
        choose([])


def test_a_replaced_table_of_what_is_selectable_is_obeyed(make_curves: MakeCurves) -> None:
    """A sweep that knows better (rows that the library refused) says so itself."""
    curves = make_curves({"tree/ll": [10] * 4, "ring/ll": [50] * 4})
    options = ChoiceOptions(
        selectable=lambda setting, _: "refused here" if str(setting) == "tree/ll" else None
    )
    assert names(choose(curves, options)) == ["ring/ll"]


@pytest.mark.parametrize("name", ["tolerance", "min_gain"])
@pytest.mark.parametrize("value", [-0.01, 1.0, 2.0, float("nan")])
def test_a_percentage_given_as_two_is_refused(name: str, value: float) -> None:
    """2 % is 0.02: a tolerance of 2 would allow anything."""
    with pytest.raises(ValueError, match="fraction"):
        ChoiceOptions(**{name: value})


# --- against a baseline ----------------------------------------------------------------------


def test_a_zone_in_which_nothing_beats_the_baseline_is_a_hole(make_curves: MakeCurves) -> None:
    """Forced settings as fast as the default are no reason for a rule."""
    curves = make_curves({"baseline": [100] * 6, "ring/ll": [99] * 6, "tree/ll": [150] * 6})
    choice = choose(curves)
    assert rules(choice) == []
    assert NOT_FASTER in {zone.reason for zone in choice.zones}


def test_what_one_launch_makes_likely_is_an_unproven_rule_with_its_certainty(
    make_curves: MakeCurves,
) -> None:
    """Below 512 KiB two launches differ by 17 % each; above by 1 %: 4 % is likely there alone."""
    table = {"baseline": [100.0] * 8, "ring/ll": [96.0] * 8}
    small = make_curves(table)
    large = make_curves(table, sizes=[512 * KIB << i for i in range(8)])
    assert rules(choose(small)) == []
    (zone,) = rules(choose(large))
    assert (zone.proof, zone.is_proven) == (Proof.UNPROVEN, False)
    # The same evidence at every size, so that none is luckier than another.
    expected = NormalDist().cdf(log(100 / 96) / (0.01 * sqrt(2)))
    assert zone.certainty == pytest.approx(expected, abs=0.002)
    assert zone.noise == pytest.approx(exp(1.645 * 0.01 * sqrt(2)) - 1, abs=0.001)
    (zone,) = rules(choose(make_curves({"baseline": [100.0] * 8, "ring/ll": [60.0] * 8})))
    expected = NormalDist().cdf(log(100 / 60) / (0.17 * sqrt(2)))
    assert zone.certainty == pytest.approx(expected, abs=0.002)


def test_sizes_far_apart_have_reasons_of_their_own(make_curves: MakeCurves) -> None:
    """AMD's table of CPX, ring/ll taken for the baseline: tree/ll's 154 / 94 are for 1 KiB alone."""
    table = {"baseline": [70.0, 154.0, 129.0, 9996.0], "tree/ll": [76.0, 94.0, 87.0, 21500.0]}
    choice = choose(make_curves(table, sizes=[32, KIB, 16 * KIB, 128 << 20]))
    assert rules(choice) == []
    reasons = [str(zone.reason) for zone in choice.zones if zone.n_sizes]
    assert [reason.partition(",")[0] for reason in reasons] == [
        "not faster",
        "not proven: up to 64% faster",
        "not proven: up to 48% faster",
        "not faster",
    ]


def test_only_what_repeats_prove_is_a_rule_where_that_is_wanted(make_curves: MakeCurves) -> None:
    """One launch proves nothing, three do, and without a baseline nothing can."""
    table = {"baseline": [100.0] * 8, "ring/ll": [60.0] * 8}
    proven = ChoiceOptions(proven=True)
    once = choose(make_curves(table), proven)
    assert rules(once) == []
    assert any("measured in one launch" in str(zone.reason) for zone in once.zones)
    (zone,) = rules(choose(make_curves(table, launches="abc"), proven))
    assert zone.is_proven
    alone = choose(make_curves({"ring/ll": [60.0] * 8, "tree/ll": [70.0] * 8}), proven)
    assert rules(alone) == []
    assert BASELINE_UNKNOWN in {zone.reason for zone in alone.zones}


def test_a_rule_that_repeats_prove_in_part_is_one_rule_and_no_proven_one(
    make_curves: MakeCurves,
) -> None:
    """A rule that is called proven reaches no further than repeats do: --proven has that part."""
    sizes = [MIB << i for i in range(8)]
    first = make_curves({"baseline": [100] * 8, "ring/ll": [60] * 8}, sizes=sizes)
    again = make_curves(
        {"baseline": [100] * 5, "ring/ll": [60] * 5}, sizes=sizes[:5], launches="abc"
    )
    # Three launches up to 16 MiB and one beyond.
    curves = [
        replace(one, points=(*more.points, *one.points[5:]))
        for one, more in zip(first, again, strict=True)
    ]
    (whole,) = rules(choose(curves))
    assert (whole.measured_from, whole.measured_to) == (MIB, 128 * MIB)
    assert whole.proof is Proof.UNPROVEN
    (alone,) = rules(choose(curves, ChoiceOptions(proven=True)))
    assert (alone.min_nbytes, alone.measured_to) == (whole.min_nbytes, 16 * MIB)
    assert alone.is_proven


def test_the_fastest_of_many_is_less_certain(make_curves: MakeCurves) -> None:
    """A gain of one of thirty settings is luck sooner than that of an only one."""
    sizes = [MIB << i for i in range(8)]
    bump = [100.0] * 4 + [95.0] * 2 + [100.0] * 2
    few = make_curves({"baseline": [100.0] * 8, "ring/ll": bump}, sizes=sizes)
    # Launches that differ by 1.5 % each.
    moods = NormalDist(100, 1.5).samples(30, seed=1)
    others = {f"ring/simple/{n}": [mood] * 8 for n, mood in enumerate(moods, 1)}
    many = make_curves({"baseline": [100.0] * 8, "ring/ll": bump, **others}, sizes=sizes)
    alone, crowd = (rules(choose(curves)) for curves in (few, many))
    assert len(alone) == 1
    assert not crowd or (crowd[0].certainty or 0) < (alone[0].certainty or 0)


def test_a_gain_at_one_size_may_be_a_row_that_stood_still(make_curves: MakeCurves) -> None:
    """One row in fifty is slow by itself: that of the library must not become a rule.

    In both placements at once, or at two sizes, it hardly happens.
    """
    sizes = [MIB << i for i in range(8)]

    def found(stalled: Sequence[int], placements: Sequence[Placement]) -> int:
        base = [140.0 if i in stalled else 100.0 for i in range(8)]
        table = {"baseline": base, "ring/ll": [100.0] * 8, "tree/ll": [100.0] * 8}
        curves = [make_curves(table, sizes=sizes, placement=one) for one in placements]
        return len(rules(choose([curve for part in curves for curve in part])))

    assert found([4], [Placement.OUT_OF_PLACE]) == 0
    assert found([4], list(Placement)) == 1
    assert found([4, 5], [Placement.OUT_OF_PLACE]) == 1


def in_walk(name: str, times: Sequence[float], launches: Sequence[str]) -> list[Sample]:
    """One size of a setting, a time for each pass, at four sizes from 4 KiB on."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=Setting.parse(name),
        placement=Placement.IN_PLACE,
        scale=Scale(n_nodes=1, n_ranks=8),
    )
    return [
        Sample(key=key, launch=launch, nbytes=4096 << i, time_us=time)
        for launch, time in zip(launches, times, strict=True)
        for i in range(4)
    ]


def test_passes_of_one_launch_are_no_repeats() -> None:
    """Six passes that agree to 0.1 % do not say what the next launch does; three launches do."""
    noise = [0.999, 1.0, 1.001, 1.0, 0.999, 1.001]
    passes, launches = ([f"w{mark}{n}" for n in range(6)] for mark in (".", "-"))
    for names, is_proven in ((passes, False), (launches, True)):
        samples = in_walk("baseline", [100 * x for x in noise], names)
        samples += in_walk("ring/ll", [80 * x for x in reversed(noise)], names)
        (zone,) = rules(choose(points.curves(samples).curves))
        assert zone.is_proven is is_proven


def test_what_a_launch_gives_to_both_sides_is_no_gain() -> None:
    """Launches of the library alone are slower than the walk in which it is as fast as the rest.

    So on two H200 below 64 KiB: 10 µs alone; in one walk 7.4 µs, and ring/ll 7.3 µs.
    """
    walk = ["w.1", "w.2", "w.3"]
    alone = in_walk("baseline", [10.1, 10.0, 9.9, 7.4, 7.3, 7.5], ["a", "b", "c", *walk])
    curves = points.curves(alone + in_walk("ring/ll", [7.3, 7.2, 7.4], walk)).curves
    assert rules(choose(curves)) == []
    # A gain inside the walk is one.
    (zone,) = rules(choose(points.curves(alone + in_walk("ring/ll", [5.3, 5.2, 5.4], walk)).curves))
    assert zone.gain is not None
    assert zone.gain.median == pytest.approx(7.4 / 5.3 - 1, abs=0.02)


def test_what_the_library_runs_by_itself_is_no_rule_however_fast_it_looks(
    make_curves: MakeCurves,
) -> None:
    """Where it runs something else the same setting is one, and other settings are everywhere."""
    table = {"baseline": [100.0] * 8, "ring/ll": [60.0] * 8}
    curves = make_curves(table, launches=["a", "b", "c"])
    (zone,) = rules(choose(curves))
    assert (zone.measured_from, zone.measured_to) == (1 << 10, 1 << 17)
    target = curves[0].key.target
    own = {1024 << i: Setting.parse("ring/ll" if i < 4 else "ring/simple") for i in range(8)}
    (zone,) = rules(choose(curves, ChoiceOptions(own={target: own})))
    assert (zone.measured_from, zone.measured_to) == (1 << 14, 1 << 17)
    tree = make_curves({"tree/ll": [50.0] * 4 + [90.0] * 4}, launches=["a", "b", "c"])
    found = rules(choose([*curves, *tree], ChoiceOptions(own={target: own})))
    assert [str(zone.setting) for zone in found] == ["tree/ll", "ring/ll"]
    # A count of channels of its own is another setting.
    eight = make_curves({"ring/ll/8": [60.0] * 8}, launches=["a", "b", "c"])
    every = dict.fromkeys(own, Setting.parse("ring/ll"))
    found = rules(choose([*curves, *eight], ChoiceOptions(own={target: every})))
    assert [str(zone.setting) for zone in found] == ["ring/ll/8"]


def test_settings_of_many_launches_that_agree_say_how_far_launches_differ(
    make_curves: MakeCurves,
) -> None:
    """Eight channel counts in launches of their own, all 18 % faster: that is no mood of one."""
    one = make_curves({"baseline": [100.0] * 8, "ring/ll/1": [85.0] * 8})
    assert rules(choose(one)) == []
    more = [
        curve
        for n in range(2, 10)
        for curve in make_curves({f"ring/ll/{n}": [85.0 + n / 10] * 8}, launches=[f"x{n}"])
    ]
    (zone,) = rules(choose([*one, *more]))
    assert zone.certainty is not None
    assert zone.certainty > 0.95


def test_both_placements_must_gain(make_curves: MakeCurves) -> None:
    """60 % out of place and 1 % in place are no gain for a rule that serves both."""
    out = make_curves({"baseline": [100] * 5, "ring/ll": [60] * 5})
    inside = make_curves({"baseline": [100] * 5, "ring/ll": [99] * 5}, placement=Placement.IN_PLACE)
    assert len(rules(choose(out))) == 1
    assert rules(choose([*out, *inside])) == []


def test_neighbours_that_gain_less_join_a_zone(make_curves: MakeCurves) -> None:
    """A gain does not end at a size: 4 % beside 50 % is taken, half a percent is not."""
    sizes = [MIB << i for i in range(7)]
    curves = make_curves(
        {"baseline": [100.0] * 7, "ring/ll": [99.5, 96, 60, 60, 60, 96, 99.5]}, sizes=sizes
    )
    (zone,) = rules(choose(curves))
    assert (zone.measured_from, zone.measured_to) == (2 * MIB, 32 * MIB)


def test_a_rule_ends_where_the_gain_falls_below_what_is_wanted(make_curves: MakeCurves) -> None:
    """Between the last size that gains and the next, at the crossing, or before it by noise."""
    table = {"baseline": [100] * 5, "ring/ll": [50, 50, 50, 200, 200]}
    ends = []
    for launches in (("a",), ("a", "b", "c", "d", "e", "f")):
        curves = make_curves(table, launches=launches)
        ends.append(rules(choose(curves, ChoiceOptions(min_gain=0.0)))[0].max_nbytes)
    crossing = 4096 * 2**0.5
    assert 4096 < ends[0] < ends[1] < crossing
    assert ends[1] == pytest.approx(crossing, rel=0.05)


def test_a_baseline_missing_at_a_size_is_a_reason_of_its_own(make_curves: MakeCurves) -> None:
    """Nothing is proven where the default was not measured."""
    curves = make_curves({"baseline": [0, 0, 0, 100, 100, 100], "ring/ll": [50] * 6})
    zones = choose(curves).zones
    assert [(z.reason, z.measured_from) for z in zones] == [
        (NOT_MEASURED, None),
        (BASELINE_UNKNOWN, KIB),
        (None, 8 * KIB),
        (NOT_MEASURED, None),
    ]


def test_a_setting_may_be_named_as_baseline(make_curves: MakeCurves) -> None:
    """It is what is compared with, and no rule chooses it."""
    curves = make_curves({"ring/simple": [100] * 4, "ring/ll": [50] * 4, "tree/ll": [100] * 4})
    choice = choose(curves, ChoiceOptions(baseline=Setting.parse("ring/simple")))
    assert names(choice) == ["ring/ll"]
    choice = choose(curves, ChoiceOptions(baseline=Setting.parse("ring/ll")))
    assert rules(choice) == []


def test_a_variant_may_be_named_as_baseline(make_curves: MakeCurves) -> None:
    """The untouched library under another environment."""
    site = Variant(name="site", environment=(("NCCL_MIN_NCHANNELS", "112"),))
    curves = make_curves({"ring/ll": [50] * 4, "baseline": [51] * 4})
    curves += make_curves({"baseline": [100] * 4}, variant=site)
    assert rules(choose(curves)) == []
    assert names(choose(curves, ChoiceOptions(baseline="site"))) == ["ring/ll"]


def test_a_baseline_that_was_not_measured_is_an_error(make_curves: MakeCurves) -> None:
    """A typing mistake must not silently make rules against nothing."""
    curves = make_curves({"ring/ll": [50] * 4})
    with pytest.raises(TooLittleDataError, match="ring/simple"):
        choose(curves, ChoiceOptions(baseline=Setting.parse("ring/simple")))


def test_without_a_baseline_rules_are_made_and_the_doubt_is_told(make_curves: MakeCurves) -> None:
    """A published table has none."""
    choice = choose(make_curves({"ring/ll": [50] * 4}))
    assert {Caution.NO_BASELINE, Caution.ONE_RUN} <= cautions(choice)
    assert rules(choice)[0].proof is Proof.NO_BASELINE


def test_silent_is_neither_baseline_nor_choice(make_curves: MakeCurves) -> None:
    """Our plugin answering nothing is a control, not a setting."""
    choice = choose(make_curves({"silent": [10] * 4, "ring/ll": [50] * 4}))
    assert names(choice) == ["ring/ll"]
    assert Caution.NO_BASELINE in cautions(choice)


def test_samples_without_a_stated_setting_are_used_for_nothing(make_curves: MakeCurves) -> None:
    """And the way to state it is told."""
    choice = choose(make_curves({"unstated": [10] * 4, "ring/ll": [50] * 4}))
    assert names(choice) == ["ring/ll"]
    assert Caution.UNSTATED_SETTING in cautions(choice)


def test_a_fallback_that_does_not_beat_the_baseline_is_none(make_curves: MakeCurves) -> None:
    """Where LL128 is off, RCCL's own choice is then the better fallback."""
    default = make_curves({"baseline": [100] * 4, "ring/ll": [101] * 4})
    forced = make_curves({"ring/ll128": [50] * 4}, variant=LL128_FORCED)
    (zone,) = rules(choose([*default, *forced]))
    assert (str(zone.setting), zone.fallback) == ("ring/ll128", None)


def test_a_proof_in_one_view_is_no_choice_where_another_view_was_not_measured(
    make_curves: MakeCurves,
) -> None:
    """Out of place 50 % faster than the default, in place unknown: RCCL keeps the size."""
    curves = make_curves({"baseline": [100] * 4, "ring/ll": [50] * 4, "tree/ll": [100] * 4})
    curves += make_curves({"tree/ll": [100] * 4}, placement=Placement.IN_PLACE)
    choice = choose(curves)
    assert rules(choice) == []
    assert Caution.MISSING_VIEW in cautions(choice)


def test_settings_that_no_view_has_in_common_are_a_hole(make_curves: MakeCurves) -> None:
    """Each was measured in another placement: nothing is known to be good in both."""
    curves = make_curves({"tree/ll": [50] * 4})
    curves += make_curves({"ring/ll": [50] * 4}, placement=Placement.IN_PLACE)
    choice = choose(curves)
    assert {zone.reason for zone in choice.zones} == {NOT_MEASURED}


half_tables = st.dictionaries(
    st.tuples(
        st.sampled_from(["baseline", "ring/ll", "ring/ll128", "ring/simple/8", "tree/ll"]),
        st.sampled_from(list(Placement)),
        st.sampled_from(["a", "b"]),
    ),
    st.lists(st.sampled_from([0, 10, 11, 14, 20, 100]), min_size=5, max_size=5),
    min_size=1,
)


@given(half_tables, st.floats(0, 0.5))
def test_whatever_is_missing_the_zones_are_whole(
    table: dict[tuple[str, Placement, str], list[int]], tolerance: float
) -> None:
    """Any subset of settings, placements, launches and sizes: a cover of all sizes, or our error.

    Where a baseline is known, the setting of a zone is nowhere in it measured to be slower.
    """
    samples = [
        Sample(
            key=CurveKey(
                collective=Collective.ALL_REDUCE,
                setting=Setting.parse(name),
                placement=placement,
                scale=Scale(n_nodes=1, n_ranks=8),
            ),
            launch=launch,
            nbytes=1024 << i,
            time_us=float(time),
        )
        for (name, placement, launch), row in table.items()
        for i, time in enumerate(row)
        if time
    ]
    try:
        choice = choose(points.curves(samples).curves, ChoiceOptions(tolerance=tolerance))
    except TooLittleDataError:
        return
    zones = choice.zones
    assert (zones[0].min_nbytes, zones[-1].max_nbytes) == (0, MAX_NBYTES)
    assert all(a.max_nbytes + 1 == b.min_nbytes for a, b in pairwise(zones))
    assert all(zone.gain is None or zone.gain.low >= 0 for zone in rules(choice))


def test_a_hole_says_whether_something_looks_faster(make_curves: MakeCurves) -> None:
    """1.22x at one size of one launch is not proven; a curve below the baseline is not faster."""
    slow = choose(make_curves({"baseline": [100] * 6, "ring/ll": [101] * 6}))
    assert {zone.reason for zone in slow.zones if zone.n_sizes} == {"not faster"}
    once = choose(make_curves({"baseline": [122] * 6, "ring/ll": [122] * 3 + [100] + [122] * 2}))
    assert rules(once) == []
    assert {zone.reason for zone in once.zones if zone.n_sizes} == {
        "not proven: up to 22% faster, measured in one launch, where noise makes up to 75%"
    }
