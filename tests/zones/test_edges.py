"""Boundaries between two measured sizes, and where a rule ends beside the library."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from math import exp, log, log2
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rccltune.zones.arms import ChoiceOptions
from rccltune.zones.choice import choose
from rccltune.zones.reach import boundary

from rccltune.fit import points
from rccltune.model.measured import Sample
from rccltune.model.settings import BASELINE, CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement

ratios_strategy = st.lists(
    st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)), min_size=1, max_size=4
)


def test_one_view_is_served_by_the_crossing_itself() -> None:
    """-0.1 at 1 KiB and +0.3 at 16 KiB cross a quarter of the way in log-size: at 2 KiB."""
    assert boundary(1024, 16384, [(-0.1, 0.3)]) == 2048


def test_without_a_crossing_the_better_setting_keeps_all() -> None:
    """The left one up to just below the next measured size, or the right one from the last."""
    assert boundary(1024, 16384, [(-0.3, -0.1)]) == 16383
    assert boundary(1024, 16384, [(0.01, 0.3)]) == 1024


def test_without_any_view_the_boundary_is_half_way_in_log_size() -> None:
    """Not the arithmetic midpoint of 8704."""
    assert boundary(1024, 16384, []) == 4096


def worst(at: float, low: int, high: int, ratios: list[tuple[float, float]]) -> float:
    """Largest loss of any size in any view, sampled densely, with the boundary at ``at``."""
    share = log(at / low) / log(high / low)
    losses = [0.0]
    for below, above in ratios:
        for step in range(100):
            here = below + (step + 0.5) / 100 * (above - below)
            losses.append(here if (step + 0.5) / 100 <= share else -here)
    return max(losses)


@settings(max_examples=50)
@given(ratios_strategy)
def test_no_boundary_has_a_smaller_worst_loss(ratios: list[tuple[float, float]]) -> None:
    """With several views: compared with a hundred other places, to within their spacing."""
    low, high = 2**20, 2**24
    ours = worst(boundary(low, high, ratios), low, high, ratios)
    others = [low * exp(log(high / low) * step / 100) for step in range(101)]
    assert ours <= min(worst(at, low, high, ratios) for at in others) + 0.011


@given(ratios_strategy, st.integers(1, 2**40), st.integers(1, 2**40))
def test_a_boundary_lies_between_the_sizes(
    ratios: list[tuple[float, float]], low: int, gap: int
) -> None:
    """Each measured size stays in its own zone."""
    assert low <= boundary(low, low + gap, ratios) < low + gap


def test_two_views_meet_where_both_lose_equally() -> None:
    """Crossings at a quarter and at three quarters: the compromise is in the middle."""
    at = boundary(2**10, 2**14, [(-0.1, 0.3), (-0.3, 0.1)])
    assert at == pytest.approx(2**12, rel=1e-3)


def noisy_end(seed: int) -> int:
    """End of the rule of a setting that gains 9 % at 16 KiB and loses as much at 32 KiB."""
    generator = random.Random(seed)
    samples = []
    for setting in (BASELINE, Setting.parse("ring/ll")):
        key = CurveKey(
            collective=Collective.ALL_REDUCE,
            setting=setting,
            placement=Placement.IN_PLACE,
            scale=Scale(n_nodes=1, n_ranks=8),
        )
        for launch in range(2):
            slow = generator.gauss(0, 0.01)
            for octave in range(9):
                loss = 0.18 * (octave - 4.5) * (setting != BASELINE)
                time = (20 + 2**octave) * exp(loss + slow + generator.gauss(0, 0.03))
                name = f"{setting}-{launch}"
                samples.append(Sample(key=key, launch=name, nbytes=1024 << octave, time_us=time))
    (end,) = {
        zone.max_nbytes
        for zone in choose(points.curves(samples).curves).zones
        if zone.setting is not None
    }
    return end


def test_few_rules_end_where_they_lose() -> None:
    """At the crossing itself noise would let one of six lose there; and little is given up."""
    ends = [noisy_end(seed) for seed in range(60)]
    crossing = 1024 * 2**4.5
    assert sum(end > crossing for end in ends) <= 3
    assert median(ends) > crossing / 2**0.5


def test_two_rules_meet_where_verification_will_look_and_keep_to_their_sizes_elsewhere() -> None:
    """A search measures each where it may win; between 8 and 16 KiB nobody knows which is faster."""
    samples = []
    for name, sizes in (("ring/ll", (4, 8)), ("tree/ll", (16, 32)), ("", (4, 8, 16, 32))):
        key = CurveKey(
            collective=Collective.ALL_REDUCE,
            setting=Setting.parse(name) if name else BASELINE,
            placement=Placement.IN_PLACE,
            scale=Scale(n_nodes=1, n_ranks=8),
        )
        samples += [
            Sample(key=key, launch=f"{name}{n}", nbytes=size << 10, time_us=70 if name else 100)
            for size in sizes
            for n in range(4)
        ]
    curves = points.curves(samples).curves
    for to_verify, ends in (
        ({}, (8192, 16384)),
        ({Collective.ALL_REDUCE: quarters(4096, 32768)}, (11585, 11586)),
    ):
        zones = choose(curves, ChoiceOptions(to_verify=to_verify)).zones
        below, above = (zone for zone in zones if zone.setting is not None)
        assert (below.max_nbytes, above.min_nbytes) == ends


def quarters(low: int, high: int) -> tuple[int, ...]:
    """Four sizes an octave, as a verification calls."""
    found = [round(low * 2 ** (n / 4)) for n in range(4 * round(log2(high / low)) + 1)]
    return tuple(found)


def edge_samples(gain: Callable[[int], float], sizes: Iterable[int]) -> list[Sample]:
    """One setting and the library, which takes 100 us everywhere."""
    return [
        Sample(
            key=CurveKey(
                collective=Collective.ALL_REDUCE,
                setting=Setting.parse(name) if name else BASELINE,
                placement=Placement.IN_PLACE,
                scale=Scale(n_nodes=1, n_ranks=8),
            ),
            launch=f"{name}{n}",
            nbytes=nbytes,
            time_us=100 / gain(nbytes) if name else 100.0,
        )
        for nbytes in sizes
        for name in ("ring/ll", "")
        for n in range(4)
    ]


@given(
    first=st.floats(10.5, 13.5),
    width=st.floats(1.0, 6.0),
    step=st.sampled_from([1.0, 0.5]),
    slope=st.floats(0.05, 0.6),
)
def test_a_rule_to_be_verified_ends_inside_where_it_wins_and_at_a_size_that_is_called(
    first: float, width: float, step: float, slope: float
) -> None:
    """At most a quarter of an octave inside the crossings: what it gives up there is little."""

    def gain(nbytes: int) -> float:
        octave = log2(nbytes)
        return float(exp(slope * min(octave - first, first + width - octave, 1.0)))

    swept = [round(2 ** (10 + step * n)) for n in range(round(12 / step) + 1)]
    curves = points.curves(edge_samples(gain, swept)).curves
    grid = quarters(1024, 1 << 22)

    def ends(options: ChoiceOptions) -> list[tuple[int, int]]:
        zones = choose(curves, options).zones
        return [(one.min_nbytes, one.max_nbytes) for one in zones if one.setting is not None]

    free = ends(ChoiceOptions())
    held = ends(ChoiceOptions(to_verify={Collective.ALL_REDUCE: grid}))
    assert len(free) == len(held) <= 1
    for (low, high), (first_size, last_size) in zip(free, held, strict=True):
        is_wide = last_size >= 2**0.25 * first_size - 1
        assert low <= first_size <= last_size <= high
        assert first_size <= low * 2**0.26
        assert last_size >= high / 2**0.26
        assert is_wide
        assert first_size in {low, *grid, *swept}
        assert last_size in {high, *grid, *swept}
        # An end stays only where the rule would be too narrow to be verified.
        if (high / low) > 2**0.8:
            assert {first_size, last_size} <= {*grid, *swept}
