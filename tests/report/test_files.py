"""Figures as files: complete, repeatable, never over somebody's own."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import pytest
from PIL import Image

from rccltune.model.errors import CommandLineError, SessionError
from rccltune.model.links import Ceiling, Link
from rccltune.model.settings import BASELINE, Scale, Setting
from rccltune.model.vocabulary import Placement
from rccltune.report.figures.files import draw_figures, omissions
from rccltune.report.figures.scene import PlotInput

MIB = 1024**2
FIGURES = ("speedup", "bandwidth", "time", "residuals", "channels", "table")


def test_every_figure_in_every_format(swept: PlotInput, tmp_path: Path) -> None:
    """What was gained, then all of the target; each is of its kind and says it is simulated."""
    paths = draw_figures(swept, tmp_path / "plots", ("png", "svg", "pdf"))
    stems = ["gained", *(f"all_reduce-1n64r-{figure}" for figure in FIGURES)]
    names = [f"{stem}.{kind}" for stem in stems for kind in ("png", "svg", "pdf")]
    assert [path.name for path in paths] == names
    heads = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for path in paths:
        assert path.read_bytes().startswith(heads[path.suffix[1:]])
        assert b"simulated" in path.read_bytes()
    assert sorted(p.name for p in (tmp_path / "plots").iterdir()) == sorted(names)


def test_the_same_input_gives_the_same_bytes(published: PlotInput, tmp_path: Path) -> None:
    """No dates, no random ids; and none of the user's own style."""
    first = draw_figures(published, tmp_path / "a", ("svg", "pdf"))
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 20}):
        second = draw_figures(published, tmp_path / "b", ("svg", "pdf"))
        assert mpl.rcParams["font.size"] == 20
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_nothing_is_overwritten_unasked(published: PlotInput, tmp_path: Path) -> None:
    """One figure in the way stops all of them; --force goes over it."""
    mine = tmp_path / "all_reduce-1n64r-time.png"
    mine.write_text("mine")
    with pytest.raises(CommandLineError) as caught:
        draw_figures(published, tmp_path)
    assert mine.name in caught.value.message
    assert "--force" in (caught.value.hint or "")
    assert [p.name for p in tmp_path.iterdir()] == [mine.name]
    assert mine.read_text() == "mine"
    assert mine in draw_figures(published, tmp_path, overwrite=True)
    assert mine.read_bytes().startswith(b"\x89PNG")


def test_an_unknown_format_is_refused_before_anything(swept: PlotInput, tmp_path: Path) -> None:
    """With the formats that exist."""
    with pytest.raises(CommandLineError, match=r"gif") as caught:
        draw_figures(swept, tmp_path / "new", ("png", "gif"))
    assert "png, svg, pdf" in (caught.value.hint or "")
    assert not (tmp_path / "new").exists()


def test_a_figure_that_cannot_be_written_leaves_no_part(
    swept: PlotInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old content stays, the temporary file goes, and the error names the figure."""
    path = draw_figures(swept, tmp_path, ("svg",))[0]
    path.write_bytes(b"old")
    there = sorted(tmp_path.iterdir())

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rccltune.session.files.os.replace", fail)
    with pytest.raises(SessionError, match=f"cannot write {path.name}: No space"):
        draw_figures(swept, tmp_path, ("svg",), overwrite=True)
    assert sorted(tmp_path.iterdir()) == there
    assert path.read_bytes() == b"old"


def test_what_is_left_out_is_said(published: PlotInput, swept: PlotInput) -> None:
    """So that nobody looks for a figure that the data cannot give."""
    said = omissions(published)
    assert len(said) == 2
    assert "--baseline" in said[0]
    assert omissions(swept) == ()


def test_no_curves_no_figures(tmp_path: Path) -> None:
    """And no folder."""
    assert draw_figures(PlotInput(curves=()), tmp_path / "plots") == ()
    assert not (tmp_path / "plots").exists()


class TestOddInput:
    """Small, strange and large inputs draw without a warning (warnings are errors here)."""

    def test_one_size(self, make: SimpleNamespace, tmp_path: Path) -> None:
        """One point on each line."""
        curves = (make.curve(BASELINE, {MIB: 50.0}), make.curve("ring/ll", {MIB: 40.0}))
        zones = make.zones(curves[0], (2**63 - 1, "ring/ll"))
        assert len(draw_figures(PlotInput(curves=curves, zones=zones), tmp_path)) == 6

    def test_one_rank(self, make: SimpleNamespace, tmp_path: Path) -> None:
        """Its bus bandwidth is 0, which no logarithmic axis holds."""
        curve = make.curve(BASELINE, {96: 2.0, 480: 2.1}, scale=Scale(n_nodes=1, n_ranks=1))
        given_input = PlotInput(curves=(curve,))
        assert len(draw_figures(given_input, tmp_path)) == 3
        assert any("one rank" in line for line in omissions(given_input))

    def test_baseline_with_and_without_graph_in_both_placements(
        self, make: SimpleNamespace, tmp_path: Path
    ) -> None:
        """Seed 2's session."""
        times = {8 * 4**i: 12 + 8 * 4**i / 3e5 for i in range(14)}
        curves = tuple(
            make.curve(BASELINE, times, graph=graph, placement=placement)
            for graph in (False, True)
            for placement in Placement
        )
        assert len(draw_figures(PlotInput(curves=curves), tmp_path)) == 5

    def test_strange_words(self, published: PlotInput, tmp_path: Path) -> None:
        """Line breaks, dollars, a script that the font lacks, and no end."""
        odd = replace(published, source="来源\n$x_1$ " * 60, machine="机器 " * 90)
        key = odd.curves[0].key
        limit = Ceiling(
            collective=key.collective,
            scale=key.scale,
            rank_placement=key.rank_placement,
            n_links=127,
            slowest=Link(source=127, target=126, gb_per_s=1234.5),
            all_links_gb_per_s=2e5,
        )
        odd = replace(odd, ceilings=(limit,))
        assert draw_figures(odd, tmp_path)

    def test_zones_whose_setting_was_not_drawn(self, make: SimpleNamespace, tmp_path: Path) -> None:
        """A rule for a setting without a curve has no stroke and no failure."""
        curve = make.curve("ring/ll", {8: 1.0, 4096: 2.0})
        zones = make.zones(curve, (100, None), (200, "tree/simple"), (2**63 - 1, "ring/ll"))
        crossover = make.crossover(curve, "nvls/ll", "ring/ll", 150.0)
        given_input = PlotInput(curves=(curve,), zones=zones, crossovers=(crossover,))
        assert draw_figures(given_input, tmp_path)


def test_thirty_settings_in_five_seconds(real_sweep: PlotInput, tmp_path: Path) -> None:
    """Six figures of the largest public sweep; a loaded machine gets twice the time."""
    start = time.process_time()
    assert len(draw_figures(real_sweep, tmp_path)) == 6
    assert time.process_time() - start < 10


def test_text_keeps_clear_of_the_papers_edge(swept: PlotInput, tmp_path: Path) -> None:
    """The outermost pixels are white: nothing is cut off."""
    long_names = replace(
        swept,
        curves=(
            *swept.curves,
            *(
                replace(c, key=replace(c.key, setting=Setting.parse("collnet_direct/ll128/56")))
                for c in swept.curves[1:2]
            ),
        ),
    )
    for path in draw_figures(long_names, tmp_path):
        with Image.open(path) as image:
            grey = image.convert("L")
        width, height = grey.size
        for box in ((0, 0, 3, height), (width - 3, 0, width, height), (0, 0, width, 3)):
            assert grey.crop(box).getextrema() == (255, 255), f"{path.name} {box}"
