"""Choosing at a scale that nobody measured: only what beats the baseline beyond both errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune import zones
from rccltune.model import (
    BASELINE,
    Caution,
    Collective,
    Curve,
    CurveKey,
    CurvePoint,
    Extrapolation,
    Model,
    Placement,
    Proof,
    Scale,
    Setting,
)

SIZES = [1024 << power for power in range(10)]
MARK = Extrapolation(scales=(Scale(n_nodes=1, n_ranks=8),), error=0.1)


def predicted(name: str, times: Sequence[float], error: float) -> Curve:
    """A predicted curve whose points may each be off by a factor of 1 + error."""
    setting = BASELINE if name == "baseline" else Setting.parse(name)
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=setting,
        placement=Placement.OUT_OF_PLACE,
        scale=Scale(n_nodes=1, n_ranks=64),
    )
    return Curve(
        key=key,
        points=tuple(
            CurvePoint(
                nbytes=nbytes,
                time_us=time,
                low_us=time / (1 + error),
                high_us=time * (1 + error),
                n_samples=0,
                n_launches=0,
            )
            for nbytes, time in zip(SIZES, times, strict=True)
        ),
        fits=(),
        chosen=Model.LOGLOG,
        extrapolated=replace(MARK, error=error),
    )


@pytest.mark.parametrize(("gain", "chosen"), [(1.30, False), (1.43, False), (1.47, True)])
def test_a_gain_must_exceed_both_errors_and_the_wanted_gain(gain: float, chosen: bool) -> None:
    """20 % of error on each side eat a gain of 44 %, and 2 % more must be left."""
    curves = [
        predicted("baseline", [100 * gain] * 10, 0.2),
        predicted("ring/ll", [100] * 10, 0.2),
    ]
    found = zones.choose(curves).zones
    rules = [zone for zone in found if zone.setting is not None]
    assert bool(rules) == chosen
    for rule in rules:
        assert rule.proof is Proof.EXTRAPOLATED
        assert rule.extrapolated is not None
        assert rule.extrapolated.error == pytest.approx(0.2)
        assert rule.extrapolated.scales == MARK.scales


def test_a_measured_curve_of_the_same_times_needs_no_such_gain() -> None:
    """What was measured is judged as ever: one run, and a gain of 30 % at all sizes."""
    curves = [
        replace(predicted(name, [time] * 10, 0.2), extrapolated=None)
        for name, time in (("baseline", 130.0), ("ring/ll", 100.0))
    ]
    assert any(zone.setting is not None for zone in zones.choose(curves).zones)


@given(
    st.lists(st.floats(0.6, 2.0), min_size=10, max_size=10),
    st.floats(0.03, 0.3),
    st.floats(0.03, 0.3),
)
def test_no_rule_at_a_size_whose_gain_the_errors_eat(
    gains: list[float], ours: float, theirs: float
) -> None:
    """Whatever the neighbours gain: sizes are bridged where they were measured, and never here."""
    curves = [
        predicted("baseline", [100 * gain for gain in gains], theirs),
        predicted("ring/ll", [100.0] * 10, ours),
        predicted("tree/ll", [150.0] * 10, ours),
    ]
    for zone in zones.choose(curves).zones:
        inside = [
            gain
            for nbytes, gain in zip(SIZES, gains, strict=True)
            if zone.min_nbytes <= nbytes <= zone.max_nbytes
        ]
        if zone.setting is not None:
            assert min(inside) / (1 + ours) / (1 + theirs) > 1


def test_a_rule_beside_a_hole_ends_at_the_last_size_that_proves_it() -> None:
    """Between that and the next size nothing is certain."""
    baseline = [300.0] * 5 + [100.0] * 5
    curves = [predicted("baseline", baseline, 0.1), predicted("ring/ll", [100.0] * 10, 0.1)]
    rule = next(zone for zone in zones.choose(curves).zones if zone.setting is not None)
    assert rule.max_nbytes == SIZES[4]


def test_that_there_was_one_run_is_not_said_of_what_never_ran() -> None:
    """The notice about single launches would be about nothing."""
    curves = [predicted("baseline", [300.0] * 10, 0.1), predicted("ring/ll", [100.0] * 10, 0.1)]
    assert Caution.ONE_RUN not in {notice.caution for notice in zones.choose(curves).notices}
