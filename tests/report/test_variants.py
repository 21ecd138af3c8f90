"""The variants figure: ratios against the site with its rules, thresholds, what is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure as Picture

from rccltune.model.chosen import Environment, GainRange, VariantGain
from rccltune.model.settings import Variant
from rccltune.report.figures.axes import frame_of
from rccltune.report.figures.cast import scenes
from rccltune.report.figures.lines import VariantData, variant_data
from rccltune.report.figures.pictures import figures_of
from rccltune.report.figures.scene import PlotInput
from rccltune.report.renderers.replay import draw_figure
from rccltune.report.renderers.sheet import house_style

SIZES = [1 << power for power in range(10, 27)]
NOTHING: tuple[GainRange, ...] = ()


def environment(
    target: object, name: str, gain: float, threshold: int | None = None, **more: object
) -> Environment:
    """One that gains this much at every size."""
    found = VariantGain(
        target=target,
        better=NOTHING,
        worse=NOTHING,
        points=tuple((n, gain) for n in SIZES),
    )
    return Environment(
        variant=Variant(name=name, lossy=bool(more.pop("lossy", False))),
        threshold_nbytes=threshold,
        gains=(found,),
        **more,
    )


@pytest.fixture
def given(make: SimpleNamespace) -> PlotInput:
    """A site with two variants, one confined and lossy."""
    curves = [make.curve("baseline", dict.fromkeys(SIZES, 10.0)), make.curve("ring/ll", {8: 1.0})]
    target = curves[0].key.target
    return PlotInput(
        curves=tuple(curves),
        environments=(
            environment(target, "channels-32", 1.0, chosen=True),
            environment(target, "low-precision", -0.5, 1 << 20, lossy=True),
        ),
        source="a source " * 30,
        machine="a machine " * 9,
        simulated=True,
    )


def data_of(given: PlotInput) -> VariantData | None:
    """Of its one scene."""
    (scene,) = scenes(given)
    return variant_data(scene)


def test_gains_are_drawn_as_ratios(given: PlotInput) -> None:
    """Twice as fast is 2, half as fast 0.5."""
    data = data_of(given)
    assert data is not None
    assert [line.label for line in data.lines] == [
        "channels-32, chosen",
        "low-precision up to 1 MiB, lossy",
    ]
    assert [{y for _, y in line.points} for line in data.lines] == [{2.0}, {0.5}]
    assert [line.threshold_nbytes for line in data.lines] == [None, 1 << 20]


def test_variants_of_another_collective_are_not_drawn(
    given: PlotInput, make: SimpleNamespace
) -> None:
    """And without any there is no figure."""
    far = [
        replace(one, gains=tuple(replace(g, target=_elsewhere(g)) for g in one.gains))
        for one in given.environments
    ]
    assert data_of(replace(given, environments=tuple(far))) is None
    assert data_of(replace(given, environments=())) is None


def _elsewhere(gain: VariantGain) -> object:
    return replace(gain.target, scale=replace(gain.target.scale, n_ranks=8))


@pytest.mark.parametrize("n", [1, 12])
def test_no_text_overlaps_or_leaves(
    given: PlotInput, tidy: Callable[[Picture], None], n: int
) -> None:
    """With one variant and with a dozen."""
    target = given.environments[0].gains[0].target
    many = [environment(target, f"variant-{k}", 0.1 * k, 1 << (12 + k)) for k in range(n)]
    (scene,) = scenes(replace(given, environments=tuple(many)))
    figures = figures_of(scene, frame_of(scene, "x", 1000))
    (figure,) = [one for one in figures if one.name == "x-variants"]
    with house_style():
        tidy(draw_figure(figure))
