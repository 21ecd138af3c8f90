"""The ceiling in the bandwidth figure: a level line that is inside, wherever the lines are."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from rccltune.model.links import Ceiling, Link
from rccltune.model.settings import Scale
from rccltune.report.drawing import draw
from rccltune.report.figures.axes import frame_of
from rccltune.report.figures.cast import scenes
from rccltune.report.figures.pictures import figures_of
from rccltune.report.figures.scene import PlotInput
from rccltune.report.renderers.replay import draw_figure
from rccltune.report.renderers.sheet import house_style

MIB = 1024**2
EIGHT = Scale(n_nodes=1, n_ranks=8)


@pytest.mark.parametrize("rate", [1.0, 45.095, 46.2, 60.0, 4000.0])
@pytest.mark.parametrize("smallest", [8, 256 * MIB])
def test_the_level_is_inside_and_named(
    make: SimpleNamespace, tidy: Callable[[Figure], None], rate: float, smallest: int
) -> None:
    """A ceiling far below, at and far above 316 GB/s of lines that begin small or flat out."""
    sizes = [smallest * 2**i for i in range(6 if smallest > MIB else 30)]
    times = {n: 12 + 1.75 * n / 316e3 for n in sizes}
    curves = tuple(
        make.curve(name, {n: t * slower for n, t in times.items()}, scale=EIGHT)
        for name, slower in (("ring/simple", 1.0), ("ring/ll128", 1.1), ("tree/ll", 1.7))
    )
    limit = Ceiling(
        collective=curves[0].key.collective,
        scale=EIGHT,
        rank_placement=None,
        n_links=7,
        slowest=Link(source=7, target=0, gb_per_s=rate),
        all_links_gb_per_s=8 * rate,
    )
    (scene,) = scenes(PlotInput(curves=curves, ceilings=(limit,)))
    figures = figures_of(scene, frame_of(scene, "x", 1000))
    (figure,) = [one for one in figures if one.name == "x-bandwidth"]
    assert f"ceiling {7 * rate:.3g} GB/s" in figure.words
    shapes = draw(figure)
    assert shapes.level is not None
    assert shapes.top < shapes.level < shapes.bottom
    assert shapes.level_label is not None
    with house_style():
        tidy(draw_figure(figure))
