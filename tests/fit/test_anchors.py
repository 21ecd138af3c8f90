"""Launches of an environment of their own, compared by a setting that runs in both."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.fit import points
from rccltune.model.curves import Curve
from rccltune.model.measured import Caution, Sample
from rccltune.model.settings import (
    DEFAULT_VARIANT,
    LL128_FORCED,
    SILENT,
    CurveKey,
    Scale,
    Setting,
    Variant,
)
from rccltune.model.vocabulary import Collective, Doubt, Placement

RING = Setting.parse("ring/simple")
TREE = Setting.parse("tree/ll")
GATED = Setting.parse("tree/ll128")
SIZES = tuple(1024 << n for n in range(0, 12, 2))
TRUE_US = {RING: 40.0, TREE: 25.0, GATED: 20.0, SILENT: 30.0}
PLAIN_WALK, GATED_WALK = "aaaa", "bbbb"
FACTORS = st.floats(0.3, 3.0)


def passes(
    walk: str,
    variant: Variant,
    settings: Iterable[Setting],
    *,
    factor: float = 1.0,
    sizes: Iterable[int] = SIZES,
    noise: random.Random | None = None,
    apart: bool = False,
) -> list[Sample]:
    """Three kept passes of each setting; apart: launches of their own, as a table names them."""
    return [
        Sample(
            key=CurveKey(
                collective=Collective.ALL_REDUCE,
                setting=setting,
                placement=Placement.OUT_OF_PLACE,
                scale=Scale(n_nodes=1, n_ranks=64),
                variant=variant,
            ),
            launch=walk if apart else f"{walk}.{number}",
            nbytes=nbytes,
            time_us=factor
            * (TRUE_US[setting] + nbytes / 1e4)
            * (1 + (noise.gauss(0, 0.01) if noise else 0.0)),
        )
        for setting in settings
        for nbytes in sizes
        for number in (1, 2, 3)
    ]


def curve_of(curves: Iterable[Curve], setting: Setting, variant: Variant) -> Curve:
    """The only one."""
    (found,) = [c for c in curves if (c.key.setting, c.key.variant) == (setting, variant)]
    return found


def times(curve: Curve) -> dict[int, float]:
    """By size, in us."""
    return {point.nbytes: point.time_us for point in curve.points}


def truth(setting: Setting) -> dict[int, float]:
    """Without noise or slow launches."""
    return {nbytes: pytest.approx(TRUE_US[setting] + nbytes / 1e4) for nbytes in SIZES}


@given(plain=FACTORS, gated=FACTORS)
def test_a_launch_that_is_slow_or_fast_as_a_whole_changes_no_order(
    plain: float, gated: float
) -> None:
    """Times stand to each other as in one launch, whatever either launch is slow or fast by."""
    samples = passes(PLAIN_WALK, DEFAULT_VARIANT, (RING, TREE, SILENT), factor=plain)
    samples += passes(GATED_WALK, LL128_FORCED, (GATED, RING), factor=gated)
    curves = points.curves(samples).curves
    told = times(curve_of(curves, GATED, LL128_FORCED))
    assert {nbytes: us / plain for nbytes, us in told.items()} == truth(GATED)
    # The anchor itself is known from plain launches.
    own = [curve.key.variant for curve in curves if curve.key.setting == RING]
    assert own == [DEFAULT_VARIANT]


def test_several_launches_of_either_are_told_in_turn() -> None:
    """Each by its own anchor, and none is lost."""
    samples = []
    for number, factor in enumerate((1.0, 1.4, 0.6)):
        walk, gated = f"a{number}", f"b{number}"
        if number < 2:
            samples += passes(walk, DEFAULT_VARIANT, (RING, SILENT), factor=factor)
        samples += passes(gated, LL128_FORCED, (GATED, RING), factor=1.5 * factor)
    curves = points.curves(samples).curves
    point = curve_of(curves, GATED, LL128_FORCED).points[0]
    slow = curve_of(curves, SILENT, DEFAULT_VARIANT).points[0]
    # Two are told in the first plain launch, one in the second, which is 1.4 times as slow; silence
    # of these launches is known by the same names.
    assert sorted(point.launch_times_us) == pytest.approx([20.1] * 6 + [1.4 * 20.1] * 3, rel=1e-3)
    assert {n.partition(".")[0] for n in point.launches} == {
        n.partition(".")[0] for n in slow.launches
    }


def test_a_pass_of_the_anchor_that_stood_still_moves_nobody_else() -> None:
    """One launch of each kind, one pass of each setting, as in a search's first round."""
    samples = passes(PLAIN_WALK, DEFAULT_VARIANT, (RING, SILENT))
    samples += passes(GATED_WALK, LL128_FORCED, (GATED, RING), factor=1.4)
    samples = [s for s in samples if s.launch.endswith(".1")]
    at = next(i for i, s in enumerate(samples) if s.key.setting == RING and s.nbytes == SIZES[2])
    samples[at] = replace(samples[at], time_us=1.3 * (samples[at].time_us or 0.0))
    told = times(curve_of(points.curves(samples).curves, GATED, LL128_FORCED))
    assert told == truth(GATED)


def test_sizes_that_the_anchor_lacks_stay_as_they_were_measured() -> None:
    """Nothing tells what the launch is worth there."""
    samples = passes(PLAIN_WALK, DEFAULT_VARIANT, (RING,), sizes=SIZES[:3])
    samples += passes(GATED_WALK, LL128_FORCED, (GATED, RING), factor=1.4)
    told = times(curve_of(points.curves(samples).curves, GATED, LL128_FORCED))
    for at, nbytes in enumerate(SIZES):
        wanted = TRUE_US[GATED] + nbytes / 1e4
        assert told[nbytes] == pytest.approx(wanted if at < 3 else 1.4 * wanted)


@pytest.mark.parametrize("how", ["processes of their own", "nothing in both", "wrong results"])
def test_without_a_setting_to_compare_by_nothing_is_told(how: str) -> None:
    """Runs of one table share a name and no launch; wrong results compare nothing."""
    apart = how == "processes of their own"
    both = (GATED,) if how == "nothing in both" else (GATED, RING)
    samples = passes(PLAIN_WALK, DEFAULT_VARIANT, (RING, SILENT), apart=apart)
    samples += passes(GATED_WALK, LL128_FORCED, both, factor=1.4, apart=apart)
    if how == "wrong results":
        samples.append(replace(samples[-1], doubt=Doubt.WRONG, n_wrong=2))
    found = points.curves(samples)
    told = times(curve_of(found.curves, GATED, LL128_FORCED))
    assert told == {n: pytest.approx(1.4 * (TRUE_US[GATED] + n / 1e4)) for n in SIZES}
    kept = [c.key.setting for c in found.curves if c.key.variant == LL128_FORCED]
    assert set(kept) == set(both)


def test_a_launch_that_stood_still_is_named_as_it_was_measured() -> None:
    """Its log lies under its own id."""
    samples = passes(PLAIN_WALK, DEFAULT_VARIANT, (RING,), noise=random.Random(1))
    for walk in (GATED_WALK, "cccc", "dddd"):
        samples += passes(walk, LL128_FORCED, (GATED, RING), noise=random.Random(2))
    at = next(i for i, s in enumerate(samples) if s.key.setting == GATED)
    samples[at] = replace(samples[at], time_us=9000.0)
    (notice,) = points.curves(samples).notices
    assert notice.caution is Caution.BURST
    assert notice.where == samples[at].launch
