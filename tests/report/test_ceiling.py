"""The ceiling in the bandwidth figure: its label covers nothing, wherever the lines are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from rccltune.model import Ceiling, Link, Scale
from rccltune.report import PlotInput, bandwidth_data, draw_bandwidth, house_style, scenes

MIB = 1024**2
EIGHT = Scale(n_nodes=1, n_ranks=8)


@pytest.mark.parametrize("rate", [1.0, 45.095, 46.2, 60.0, 4000.0])
@pytest.mark.parametrize("smallest", [8, 256 * MIB])
def test_the_label_is_clear_of_lines_and_words(
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
    given = PlotInput(curves=curves)
    (scene,) = scenes(replace(given, ceilings=(limit,)))
    data = bandwidth_data(scene)
    assert data is not None
    assert data.ceiling is not None
    with house_style():
        figure = draw_bandwidth(data)
        tidy(figure)
        upper = figure.axes[1]
        (label,) = [text for text in upper.texts if "ceiling" in text.get_text()]
        box = label.get_window_extent()
        highest = max(max(line.get_ydata(), default=0.0) for line in upper.lines)
        assert box.y0 > upper.transData.transform((sizes[0], highest))[1]
        assert box.x1 < upper.get_window_extent().x1
