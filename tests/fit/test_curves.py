"""Samples become curves: what counts, what is left out, and what is said about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rccltune.fit import models, points
from rccltune.model.curves import Model
from rccltune.model.errors import TooLittleDataError
from rccltune.model.measured import Caution, Sample
from rccltune.model.settings import BASELINE, CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Doubt, Placement

KEY = CurveKey(
    collective=Collective.ALL_REDUCE,
    setting=Setting.parse("ring/ll"),
    placement=Placement.OUT_OF_PLACE,
    scale=Scale(n_nodes=1, n_ranks=8),
)


def sample(nbytes: int, time_us: float, launch: str = "a", **changes: object) -> Sample:
    """A good sample of one curve unless changed."""
    plain = Sample(key=KEY, launch=launch, nbytes=nbytes, time_us=time_us)
    return replace(plain, **changes)


def test_a_launch_counts_once_with_the_median_of_its_cycles() -> None:
    """Fifty cycles of one launch weigh no more than two of another: only launches repeat."""
    samples = [sample(1024, t, "a", cycle=i) for i, t in enumerate([10.0, 10.2, 10.4, 10.2, 10.2])]
    samples += [sample(1024, t, "b", cycle=i) for i, t in enumerate([11.0, 11.0])]
    (curve,) = points.curves(samples).curves
    (point,) = curve.points
    assert point.time_us == pytest.approx((10.2 + 11.0) / 2)
    assert (point.n_samples, point.n_launches) == (7, 2)
    assert (point.launches, point.launch_times_us) == (("a", "b"), (10.2, 11.0))
    assert (point.low_us, point.high_us) == (10.2, 11.0)


def test_order_of_samples_changes_nothing() -> None:
    """The same samples in any order give the same curve."""
    samples = [
        sample(n, 5 + n / 1000 + i, launch)
        for n in (64, 1024, 4096)
        for i, launch in enumerate("cab")
    ]
    assert points.curves(samples).curves == points.curves(samples[::-1]).curves


def test_equal_keys_are_one_curve_whether_or_not_they_are_one_object() -> None:
    """Keys are recognised by identity for speed and by value for truth."""
    copies = [
        sample(2**n, 10.0 + n, key=replace(KEY, setting=Setting.parse("ring/ll")))
        for n in range(6, 12)
    ]
    (curve,) = points.curves([*copies, sample(32, 9.0)]).curves
    assert len(curve.points) == 7


@pytest.mark.parametrize("doubt", list(Doubt))
def test_doubted_samples_are_never_used(doubt: Doubt) -> None:
    """Whatever the reason, the number does not reach the curve, and an unexpected one is told."""
    good = [sample(n, 10.0) for n in (64, 128, 256)]
    fitted = points.curves([*good, sample(64, 0.001, doubt=doubt)])
    assert fitted.curves[0].points[0].time_us == 10.0
    # Each launch throws its first pass away: that is no news.
    told = {Doubt.CONNECTING: [], Doubt.WRONG: [Caution.WRONG_RESULTS]}
    assert [n.caution for n in fitted.notices] == told.get(doubt, [Caution.DOUBTED_SAMPLES])


def test_wrong_results_mark_the_setting_in_every_view() -> None:
    """One wrong sample in place marks the out-of-place curve too: same kernel, same mistake."""
    inside = replace(KEY, placement=Placement.IN_PLACE)
    other = replace(KEY, setting=Setting.parse("tree/ll"))
    fitted = points.curves(
        [
            sample(64, 10.0),
            sample(64, 10.0, key=inside, doubt=Doubt.WRONG, n_wrong=3),
            sample(64, 10.0, key=other),
        ]
    )
    assert {str(c.key.setting): c.n_wrong for c in fitted.curves} == {"ring/ll": 1, "tree/ll": 0}
    assert "WRONG RESULTS" in fitted.notices[0].message


def burst(launch: str, sizes: range, factor: float) -> list[Sample]:
    """Thirteen sizes of 20 µs + bytes at 10 GB/s, some of them ``factor`` times as slow."""
    return [
        sample(2**n, (20 + 2**n / 1e4) * (factor if n in sizes else 1), launch)
        for n in range(12, 25)
    ]


@pytest.mark.parametrize("sizes", [range(12, 15), range(16, 20), range(22, 25)])
def test_a_burst_beside_a_good_launch_changes_no_time(sizes: range) -> None:
    """A stalled job is left out at the sizes at which it stalled, and named once."""
    calm = points.curves(burst("a", range(0), 1)).curves[0]
    fitted = points.curves(burst("a", range(0), 1) + burst("b", sizes, 400))
    (curve,) = fitted.curves
    assert [p.time_us for p in curve.points] == [p.time_us for p in calm.points]
    assert sum(p.n_left_out for p in curve.points) == len(sizes)
    assert [(n.caution, n.where) for n in fitted.notices] == [(Caution.BURST, "b")]


def first_pass(samples: list[Sample], factor: float) -> list[Sample]:
    """The passes before these, which pay for connections."""
    return [
        replace(one, time_us=one.time_us * factor if one.time_us else None, doubt=Doubt.CONNECTING)
        for one in samples
    ]


def test_a_burst_in_most_launches_is_told_by_their_first_passes() -> None:
    """Connections only add time: what is far above its own first pass stood still there."""
    calm = {name: burst(name, range(0), 1) for name in "abc"}
    slow = burst("a", range(16, 18), 20) + burst("b", range(16, 18), 21) + calm["c"]
    expected = [point.time_us for point in points.curves(calm["c"]).curves[0].points]

    told = [sample for launch in calm.values() for sample in first_pass(launch, 1.3)]
    (curve,) = points.curves([*told, *slow]).curves
    assert [point.time_us for point in curve.points] == expected
    assert [point.n_left_out for point in curve.points if point.n_left_out] == [2, 2]

    # Without them two of three launches are the majority.
    (curve,) = points.curves(slow).curves
    assert (
        max(point.time_us / good for point, good in zip(curve.points, expected, strict=True)) > 19
    )


def test_what_is_always_slower_than_its_first_pass_takes_that_long() -> None:
    """A clock that goes down, a cache that fills: then no launch is left that shows otherwise."""
    slow = burst("a", range(16, 18), 20) + burst("b", range(16, 18), 20)
    told = first_pass(burst("a", range(0), 1) + burst("b", range(0), 1), 1.0)
    (curve,) = points.curves([*told, *slow]).curves
    assert [point.time_us for point in curve.points] == [
        point.time_us for point in points.curves(slow).curves[0].points
    ]


@pytest.mark.parametrize("sizes", [range(12, 15), range(16, 20), range(22, 25)])
def test_a_burst_without_a_repeat_is_named_and_its_sizes_count_as_not_measured(
    sizes: range,
) -> None:
    """Nothing says what is normal there, but no larger size needs such a time."""
    fitted = points.curves(burst("a", sizes, 400))
    measured = {point.nbytes for point in fitted.curves[0].points}
    assert measured == {2**n for n in range(12, 25) if n not in sizes}
    (notice,) = fitted.notices
    assert notice.caution is Caution.BURST
    assert "measure it again" in notice.remedy


def test_a_step_of_a_real_curve_is_no_burst() -> None:
    """Times double at 128 KiB on public data, and a bad default is slow at some sizes."""
    times = [13, 13, 15, 16, 17, 38, 49, 51, 25, 26, 38, 62]
    fitted = points.curves([sample(4096 << i, float(t)) for i, t in enumerate(times)])
    assert len(fitted.curves[0].points) == len(times)
    assert not fitted.notices


def test_baseline_and_forced_settings_are_curves_of_their_own() -> None:
    """The key decides, and every part of it."""
    keys = [
        KEY,
        replace(KEY, setting=BASELINE),
        replace(KEY, dtype="half"),
        replace(KEY, graph=True),
        replace(KEY, rank_placement="one-oam"),
    ]
    fitted = points.curves([sample(64, 10.0, key=key) for key in keys])
    assert [curve.key for curve in fitted.curves] == keys


def test_one_size_is_a_curve_that_predicts_there_and_nowhere_else() -> None:
    """The smallest possible input is not an error."""
    (curve,) = points.curves([sample(64, 10.0)]).curves
    assert models.predict(curve, 64) == 10.0
    with pytest.raises(TooLittleDataError, match="lies outside"):
        models.predict(curve, 65)


def test_no_samples_are_no_curves() -> None:
    """Nothing in, nothing out."""
    assert points.curves([]).curves == ()


def test_prediction_refuses_a_model_that_the_curve_lacks() -> None:
    """The error says which one to use instead."""
    (curve,) = points.curves([sample(64, 10.0), sample(128, 11.0)]).curves
    with pytest.raises(TooLittleDataError, match="segmented") as caught:
        models.predict(curve, 100, Model.SEGMENTED)
    assert "log-log" in str(caught.value)
