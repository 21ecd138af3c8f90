"""Samples become curves: known latency and bandwidth come back, and the points are the choice's."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sample_rows import Sample, frame

from rccltune.analyse.candidates import candidates_of_targets
from rccltune.analyse.choose import Choice
from rccltune.analyse.crossovers import crossovers
from rccltune.analyse.session_fit import fit_session
from rccltune.cli import run
from rccltune.model.curves import Curve, Model
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE, IDLE, CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement, UnusableReason

KIB, MIB = 1024, 1 << 20
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SIZES = tuple(1 << n for n in range(10, 28))
MakeSamples = Callable[..., list[Sample]]
FitCurves = Callable[[Sequence[Sample]], tuple[Curve, ...]]
ChooseFrom = Callable[..., Choice]
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


@pytest.mark.parametrize("setting", [Setting.parse("ring/ll"), BASELINE, IDLE])
def test_latency_and_bandwidth_are_recovered_exactly(
    fit_curves: FitCurves, setting: Setting
) -> None:
    """20 µs and 50 GB/s in, the same out, of forced settings, the baseline and the idle plugin."""
    key = replace(KEY, setting=setting)
    curves = fit_curves([sample(n, 20 + n / 50_000, key=key) for n in SIZES])
    # Where the site was not timed the idle plugin stands for it.
    assert {one.key.setting for one in curves} == {
        setting,
        *([BASELINE] if setting == IDLE else []),
    }
    curve = next(one for one in curves if one.key.setting == setting)
    line = curve.fit(Model.LINEAR)
    assert line is not None
    assert line.segments[0].latency_us == pytest.approx(20)
    assert line.segments[0].us_per_byte == pytest.approx(1 / 50_000)
    # Times have four decimals.
    assert line.held_out_error == pytest.approx(0, abs=5e-6)
    assert (curve.chosen, curve.fit(Model.SEGMENTED)) == (Model.LINEAR, None)


def test_the_error_shown_is_what_an_unseen_size_is_off_by(fit_curves: FitCurves) -> None:
    """Noise of 5 % a size: the error is above 0 and near what fresh draws of the noise give."""
    rng = np.random.default_rng(4)
    shown, true = [], []
    for _ in range(12):
        drawn = (20 + np.array(SIZES) / 5e4) * np.exp(rng.normal(0, 0.05, len(SIZES)))
        (curve,) = fit_curves([sample(n, t) for n, t in zip(SIZES, drawn, strict=True)])
        fit = curve.fit(curve.chosen)
        assert fit is not None
        assert fit.held_out_error is not None
        assert fit.held_out_error > 0
        shown.append(fit.held_out_error)
        line = curve.fit(Model.LINEAR)
        assert line is not None
        again = (20 + np.array(SIZES) / 5e4) * np.exp(rng.normal(0, 0.05, len(SIZES)))
        off = [abs(line.segments[0].predict(n) / t - 1) for n, t in zip(SIZES, again, strict=True)]
        true.append(float(np.mean(off)))
    assert float(np.mean(shown)) == pytest.approx(float(np.mean(true)), rel=0.15)


def test_wrong_results_mark_the_setting_in_every_view(fit_curves: FitCurves) -> None:
    """One wrong sample in place marks the out-of-place curve too: same kernel, same mistake."""
    inside = replace(KEY, placement=Placement.IN_PLACE)
    other = replace(KEY, setting=Setting.parse("tree/ll"))
    made = fit_curves(
        [
            sample(64, 10.0),
            sample(64, 10.0, key=inside, doubt=UnusableReason.WRONG, n_wrong=3),
            sample(64, 10.0, key=other),
        ]
    )
    assert {str(c.key.setting): c.n_wrong for c in made} == {"ring/ll": 1, "tree/ll": 0}


def test_a_stalled_communicator_changes_no_time(fit_curves: FitCurves) -> None:
    """400 times as slow at three sizes of one of two: left out there, and counted."""
    calm = [sample(n, 20 + n / 1e4, "a") for n in SIZES]
    slow = [sample(n, (20 + n / 1e4) * (400 if i < 3 else 1), "b") for i, n in enumerate(SIZES)]
    (alone,), (both,) = fit_curves(calm), fit_curves([*calm, *slow])
    assert [p.time_us for p in both.points] == pytest.approx([p.time_us for p in alone.points])
    assert [p.n_left_out for p in both.points] == [1] * 3 + [0] * (len(SIZES) - 3)


def test_every_part_of_a_key_but_the_clock_makes_a_curve_of_its_own(fit_curves: FitCurves) -> None:
    """The timing is one for all settings of a size, as in the choice: a replayed graph up to 4 MiB."""
    keys = [
        KEY,
        replace(KEY, setting=BASELINE),
        replace(KEY, dtype="half"),
        replace(KEY, rank_placement="one-oam"),
    ]
    made = fit_curves([sample(64, 10.0, key=key) for key in keys])
    assert {curve.key for curve in made} == {replace(key, graph=False) for key in keys}

    replayed = replace(KEY, graph=True)
    both = [sample(n, 12.0) for n in (MIB, 8 * MIB)] + [sample(MIB, 9.0, key=replayed)]
    (curve,) = fit_curves(both)
    assert [p.time_us for p in curve.points] == pytest.approx([9.0, 12.0])
    assert curve.key.graph is None
    assert fit_curves([sample(MIB, 9.0, key=replayed)])[0].key.graph is True


def test_amds_table_is_told_as_it_was_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Points are AMD's times; the crossing of tree/ll128 and ring/simple lies between 1 and 4 MiB."""
    source = EXAMPLES / "mi300x-cpx-nps4/all_reduce.csv"
    assert run(["import", str(source), "-o", str(tmp_path / "S"), "-q"]) == 0
    capsys.readouterr()
    done = fit_session(tmp_path / "S", reporter=Reporter())
    with source.open(encoding="utf-8") as lines:
        published = {
            (row["setting"], int(row["nbytes"])): float(row["time_us"])
            for row in csv.DictReader(line for line in lines if not line.startswith("#"))
        }
    ours = {
        (str(curve.key.setting), point.nbytes): point.time_us
        for curve in done.curves
        for point in curve.points
    }
    assert ours == pytest.approx(published)
    last = max(done.crossovers, key=lambda one: one.at_nbytes)
    assert (str(last.below), str(last.above)) == ("tree/ll128", "ring/simple")
    assert MIB < last.at_nbytes < 4 * MIB
    assert fit_session(tmp_path / "S", reporter=Reporter()) == done


def test_curves_and_crossovers_have_the_points_of_the_choice(fit_curves: FitCurves) -> None:
    """Two settings that cross at 1 MiB, one with a stall: both read one table."""
    truth = {"tree/ll": lambda n: 10 + n / 1e4, "ring/simple": lambda n: 61.8 + n / 2e4}
    samples = [
        sample(n, time_us(n) * (30 if n == 4 * KIB and launch == "b" else 1), f"{name}-{launch}")
        if name == "tree/ll"
        else sample(n, time_us(n), f"{name}-{launch}")
        for name, time_us in truth.items()
        for launch in "ab"
        for n in SIZES
    ]
    keyed = [
        replace(one, key=replace(KEY, setting=Setting.parse(one.launch.rpartition("-")[0])))
        for one in samples
    ]
    (found,) = candidates_of_targets(frame(keyed))
    by_setting = {str(curve.key.setting): curve for curve in fit_curves(keyed)}
    for name, row in zip(found.grid.candidates, found.grid.median[0], strict=True):
        times = [p.time_us for p in by_setting[name].points]
        assert times == pytest.approx(np.exp(row).tolist())
    (change,) = crossovers(found)
    assert change.at_nbytes == pytest.approx(MIB, rel=0.02)


def test_a_crossover_is_the_number_at_which_the_rule_ends(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """In and out of place the times meet at two sizes; one rule serves both, and has one end."""
    samples = []
    for placement, later in ((Placement.IN_PLACE, 50.0), (Placement.OUT_OF_PLACE, 60.0)):
        table = {
            "baseline": [200.0] * 4,
            "tree/ll": [10.0, 20.0, later, 90.0],
            "ring/simple": [40.0] * 4,
        }
        samples += make_samples(table, placement=placement, launches="ab")
    (found,) = candidates_of_targets(frame(samples))
    changes = crossovers(found)
    assert {one.view.placement for one in changes} == set(Placement)
    (at,) = {one.at_nbytes for one in changes}
    first, *_ = (zone for zone in choose_from(samples).zones if zone.setting is not None)
    assert (str(first.setting), first.max_nbytes) == ("tree/ll", at)
