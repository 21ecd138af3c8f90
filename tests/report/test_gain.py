"""What was gained: the first figure of a page, from the verification or else from the sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure as Picture

from rccltune.model.chosen import Judgement, Verdict
from rccltune.model.curves import Curve
from rccltune.model.settings import BASELINE, Setting
from rccltune.model.vocabulary import Collective
from rccltune.report.figures.axes import frame_of
from rccltune.report.figures.cast import scenes
from rccltune.report.figures.gain import gained
from rccltune.report.figures.pictures import figures_of
from rccltune.report.figures.scene import PlotInput
from rccltune.report.renderers.replay import draw_figure
from rccltune.report.renderers.sheet import house_style
from rccltune.report.verified import Stood, Verification
from rccltune.verify.verdict import Cut, Ratio, RuleVerdict, State

SIZES = (8, 16, 32, 64)


def verdict(curve: Curve, nbytes: int, ratio: float) -> Verdict:
    """Of one size, within 10 %."""
    return Verdict(
        target=curve.key.target,
        view=curve.key.view,
        nbytes=nbytes,
        baseline_us=20.0,
        tuned_us=20.0 / ratio,
        ratio=ratio,
        low=ratio * 0.9,
        high=ratio * 1.1,
        n_wrong=0,
        judgement=Judgement.BETTER if ratio > 1 else Judgement.SAME,
    )


@pytest.fixture
def two(make: SimpleNamespace) -> PlotInput:
    """ring/ll is twice as fast up to 32 bytes, and has a rule there."""
    base = make.curve(BASELINE, dict.fromkeys(SIZES, 20.0))
    ring = make.curve("ring/ll", dict.fromkeys(SIZES, 10.0))
    return PlotInput(
        curves=(base, ring), zones=make.zones(base, (32, "ring/ll"), (2**63 - 1, None))
    )


def verified(two: PlotInput, *cuts: Cut, is_current: bool = True) -> PlotInput:
    """The same, verified: 1.8, 1.6, 1.4 times as fast where it has a rule, 1.0 where not."""
    curve = two.curves[0]
    verdicts = tuple(
        verdict(curve, n, ratio) for n, ratio in zip(SIZES, (1.8, 1.6, 1.4, 1.0), strict=True)
    )
    rule = RuleVerdict(
        collective=Collective.ALL_REDUCE,
        min_nbytes=0,
        max_nbytes=32,
        setting=Setting.parse("ring/ll"),
        n_nodes=1,
        n_ranks=64,
        state=State.KEPT,
        gain=Ratio(ratio=1.6, low=1.4, high=1.8, n=8),
        n_sizes=3,
    )
    known = Verification(
        path="rccl_tuner.csv",
        name="rccl_tuner.csv",
        needs={},
        is_current=is_current,
        simulated=False,
        n_before=1,
        n_after=1,
        replicate="communicator",
        n_replicates=8,
        n_processes=2,
        verdicts=verdicts,
        stood=(Stood(verdict=rule, verdicts=verdicts[:3]),),
        cuts=cuts,
    )
    return replace(two, verified=(known,))


def values(given: PlotInput) -> list[tuple[float, float]]:
    """Of the one line."""
    figure = gained(scenes(given), 1000)
    assert figure is not None
    [line] = figure.lines
    return [(p.x, p.y) for p in line.points]


def test_without_a_verification_it_is_what_the_sweep_saw(two: PlotInput) -> None:
    """20 µs over 10 µs where a rule is, 1 where none is; and it says that nobody verified it."""
    assert values(two) == [(8, 2.0), (16, 2.0), (32, 2.0), (64, 1.0)]
    figure = gained(scenes(two), 1000)
    assert figure is not None
    assert "not verified" in figure.words


def test_with_one_it_is_what_that_found(two: PlotInput) -> None:
    """And no word of the sweep; one that was of other rules counts for nothing."""
    assert values(verified(two)) == [(8, 1.8), (16, 1.6), (32, 1.4), (64, 1.0)]
    assert values(verified(two, is_current=False)) == values(two)


def test_where_a_rule_was_taken_away_nothing_is_gained(two: PlotInput) -> None:
    """Whatever was measured with it; the band says why there is no rule."""
    cut = Cut(collective=Collective.ALL_REDUCE, min_nbytes=9, max_nbytes=16, reason="undecided")
    given = verified(two, cut)
    assert values(given) == [(8, 1.8), (16, 1.0), (32, 1.4), (64, 1.0)]
    other = replace(cut, collective=Collective.BROADCAST)
    assert values(verified(two, other)) == values(verified(two))


def test_where_the_rules_end_the_reason_of_the_sweep_stands(two: PlotInput) -> None:
    """The zone's own."""
    figure = gained(scenes(verified(two)), 1000)
    assert figure is not None
    [(_, bands)] = figure.bands
    assert [band.name for band in bands] == ["ring/ll", "no rule: baseline not beaten"]


def test_nothing_gained_no_figure(two: PlotInput, make: SimpleNamespace) -> None:
    """Without a rule, and without a baseline to hold it against."""
    assert gained(scenes(replace(two, zones=())), 1000) is None
    alone = replace(two, curves=two.curves[1:])
    assert gained(scenes(alone), 1000) is None


def test_several_targets_have_a_line_each(
    two: PlotInput, make: SimpleNamespace, tidy: Callable[[Picture], None]
) -> None:
    """By their collective where all have one scale."""
    far = [
        make.curve(c.key.setting, dict.fromkeys(SIZES, 5.0 * n), collective=Collective.BROADCAST)
        for n, c in enumerate(reversed(two.curves), 1)
    ]
    zones = make.zones(far[1], (64, "ring/ll"))
    both = replace(two, curves=(*two.curves, *far), zones=(*two.zones, *zones))
    figure = gained(scenes(both), 1000)
    assert figure is not None
    assert [line.name for line in figure.lines] == ["all_reduce", "broadcast"]
    assert figure.bands == ()
    with house_style():
        tidy(draw_figure(figure))


@pytest.mark.parametrize("name", ["published", "swept"])
def test_no_text_of_any_figure_overlaps_or_leaves(
    name: str, request: pytest.FixtureRequest, tidy: Callable[[Picture], None]
) -> None:
    """All figures of a target, as files."""
    given: PlotInput = request.getfixturevalue(name)
    given = replace(given, baseline=Setting.parse("ring/simple")) if name == "published" else given
    [scene] = scenes(given)
    with house_style():
        for figure in figures_of(scene, frame_of(scene, "x", 1000)):
            tidy(draw_figure(figure))
