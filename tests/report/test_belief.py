"""The belief figure: who is held against what, and nothing clipped or covered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure as Picture
from wording import lacks

from rccltune.model.belief import Belief
from rccltune.model.curves import Curve
from rccltune.model.settings import BASELINE, LL128_FORCED, TREE_SIMPLE_PATCHED, Setting, Variant
from rccltune.report.figures import files
from rccltune.report.figures.axes import frame_of
from rccltune.report.figures.cast import scenes
from rccltune.report.figures.files import draw_figures, omissions
from rccltune.report.figures.pictures import figures_of
from rccltune.report.figures.scene import PlotInput
from rccltune.report.figures.table import BeliefData, belief_data
from rccltune.report.records import Figure
from rccltune.report.renderers.replay import draw_figure
from rccltune.report.renderers.sheet import house_style

KIB, MIB = 1024, 1024**2
SVG = ("svg",)
SIZES = [2**k for k in range(5, 28)]


def belief(
    curve: Curve, nbytes: int, times: dict[str, float | None], ran: str | None = None
) -> Belief:
    """What the library believes about a curve's target at one size."""
    known = {name: time for name, time in times.items() if time is not None}
    least = min(known, key=lambda name: known[name], default=None)
    return Belief(
        target=curve.key.target,
        nbytes=nbytes,
        offered=tuple((Setting.parse(name), time) for name, time in times.items()),
        choice=Setting.parse(least) if least else None,
        ran=Setting.parse(ran) if ran else None,
    )


def only(given: PlotInput) -> BeliefData:
    """The data of the one scene."""
    (scene,) = scenes(given)
    data = belief_data(scene)
    assert data is not None
    return data


@pytest.fixture
def two(make: SimpleNamespace) -> PlotInput:
    """Two settings at four sizes: ring wins above 16 bytes, and the library never sees it."""
    tree = make.curve("tree/ll", {8: 10.0, 16: 10.1, 32: 15.0, 64: 20.0})
    ring = make.curve("ring/ll", {8: 20.0, 16: 10.0, 32: 10.0, 64: 10.0})
    base = make.curve(BASELINE, {8: 10.0, 16: 10.1, 32: 15.0, 64: 20.0})
    beliefs = tuple(belief(tree, n, {"tree/ll": 5.0, "ring/ll": 6.0}) for n in (8, 16, 32, 64))
    return PlotInput(curves=(base, tree, ring), beliefs=beliefs)


def test_its_choice_is_held_against_the_fastest(two: PlotInput) -> None:
    """Losses of 0, 1, 50 and 100 %; up to 2 % pass for none."""
    data = only(two)
    losses = [held.loss for held in data.held]
    assert losses == pytest.approx([0.0, 0.01, 0.5, 1.0])
    assert [held.nbytes for held in data.beaten] == [32, 64]
    assert [held.optimism for held in data.held] == pytest.approx([0.5, 5 / 10.1, 1 / 3, 0.25])


def test_stretches_meet_halfway_between_sizes(two: PlotInput) -> None:
    """One for its choice, two for who was fastest; halfway on a logarithmic axis."""
    data = only(two)
    assert [(b.low, b.high, str(b.setting)) for b in data.chosen] == [(4, 128, "tree/ll")]
    (first, second) = data.fastest
    assert (str(first.setting), str(second.setting)) == ("tree/ll", "ring/ll")
    assert first.high == second.low == pytest.approx((16 * 32) ** 0.5)
    assert data.table == ()


def test_the_untouched_site_has_no_cell_and_no_line(two: PlotInput) -> None:
    """Each setting has its measured points and its predictions."""
    data = only(two)
    assert [line.series.label for line in data.lines] == ["tree/ll", "ring/ll"]
    assert data.lines[0].predicted == ((8.0, 5.0), (16.0, 5.0), (32.0, 5.0), (64.0, 5.0))
    assert data.lines[1].measured[0] == (8.0, 20.0)


def test_what_ran_goes_before_what_the_table_says(two: PlotInput) -> None:
    """A correction behind the table is shown as a strip of its own."""
    ran = tuple(replace(b, ran=Setting.parse("ring/ll")) for b in two.beliefs)
    data = only(replace(two, beliefs=ran))
    assert [str(band.setting) for band in data.chosen] == ["ring/ll"]
    assert [str(band.setting) for band in data.table] == ["tree/ll"]
    assert [held.nbytes for held in data.beaten] == [8]
    assert data.held[0].optimism == pytest.approx(6 / 20)


def test_what_only_the_untouched_site_ran_has_its_time(make: SimpleNamespace) -> None:
    """As where NCCL takes NVLS and the sweep forces ring: known only where something said so."""
    ring = make.curve("ring/ll", {8: 10.0, 16: 10.0})
    base = make.curve(BASELINE, {8: 15.0, 16: 5.0})
    times = {"nvls/simple": 1.0, "ring/ll": 2.0}
    seen = tuple(belief(ring, n, times, ran="nvls/simple") for n in (8, 16))
    data = only(PlotInput(curves=(base, ring), beliefs=seen))
    assert [held.loss for held in data.held] == pytest.approx([0.5, 0.0])
    assert [str(held.best) for held in data.held] == ["ring/ll", "nvls/simple"]
    unseen = tuple(replace(b, ran=None) for b in seen)
    assert [held.loss for held in only(PlotInput(curves=(base, ring), beliefs=unseen)).held] == [
        None,
        None,
    ]


def test_a_variant_that_only_widens_may_be_the_fastest(make: SimpleNamespace) -> None:
    """LL128 under its variable counts; what needs a patched library does not."""
    tree = make.curve("tree/ll", {8: 10.0})
    wide = make.curve("ring/ll128", {8: 5.0}, variant=LL128_FORCED)
    patched = make.curve("tree/simple", {8: 1.0}, variant=TREE_SIMPLE_PATCHED)
    beliefs = (
        belief(wide, 8, {"tree/ll": 7.0, "ring/ll128": 8.0}),
        belief(tree, 8, {"tree/ll": 9.0}),
    )
    data = only(PlotInput(curves=(tree, wide, patched), beliefs=beliefs))
    assert data.variant == "default"
    assert data.held[0].loss == pytest.approx(1.0)
    assert data.held[0].best_variant == LL128_FORCED
    predicted = {line.series.label: line.predicted for line in data.lines}
    # Each in its own variant's table; the patched library was not traced and has no such cell.
    assert predicted["tree/ll"] == ((8.0, 9.0),)
    assert predicted["ring/ll128"] == ((8.0, 8.0),)
    assert predicted["tree/simple [patched]"] == ()


def test_without_times_there_is_no_figure(make: SimpleNamespace) -> None:
    """Hosts of version 2 show cells alone; without any trace nothing is said at all."""
    curve = make.curve("ring/ll", {8: 10.0})
    given = PlotInput(curves=(curve,), beliefs=(belief(curve, 8, {"ring/ll": None}),))
    (scene,) = scenes(given)
    assert belief_data(scene) is None
    assert any("predicted" in sentence for sentence in omissions(given))
    assert not any("predicted" in one for one in omissions(replace(given, beliefs=())))


def test_beliefs_of_other_targets_are_not_drawn(two: PlotInput, make: SimpleNamespace) -> None:
    """A scene has its own collective's."""
    other = make.curve("ring/ll", {8: 1.0}, variant=Variant(name="other"))
    far = replace(other.key.target, scale=replace(other.key.scale, n_ranks=8))
    beliefs = tuple(replace(b, target=far) for b in two.beliefs)
    (scene,) = scenes(replace(two, beliefs=beliefs))
    assert belief_data(scene) is None


def crowded(make: SimpleNamespace) -> PlotInput:
    """Ten settings, predictions that are alike and far away, many changes of choice."""
    names = [f"{a}/{p}" for a in ("tree", "ring", "nvls") for p in ("ll", "ll128", "simple")]
    curves = [
        make.curve(name, {n: 10.0 + i + n / (1e3 + 300 * i) for n in SIZES}, spread=0.02)
        for i, name in enumerate(names)
    ]
    curves.append(make.curve("tree/simple", dict.fromkeys(SIZES, 3e4), variant=TREE_SIMPLE_PATCHED))
    beliefs = [
        belief(
            curves[0],
            n,
            {
                name: (1e-2 if i == n.bit_length() % 9 else 50.0 * 9**i)
                for i, name in enumerate(names)
            },
            ran="tree/ll" if n > MIB else None,
        )
        for n in SIZES
    ]
    return PlotInput(
        curves=tuple(curves),
        beliefs=tuple(beliefs),
        source="a source " * 30,
        machine="a machine with a long name " * 5,
        simulated=True,
    )


def unbeaten(make: SimpleNamespace) -> PlotInput:
    """One size, one setting."""
    curve = make.curve("ring/ll", {1024: 10.0})
    return PlotInput(curves=(curve,), beliefs=(belief(curve, 1024, {"ring/ll": 10.0}),))


@pytest.mark.parametrize("many", [False, True])
def test_no_text_overlaps_or_leaves(
    make: SimpleNamespace, tidy: Callable[[Picture], None], *, many: bool
) -> None:
    """Every label is inside the figure, and none covers another."""
    with house_style():
        tidy(draw_figure(drawn(crowded(make) if many else unbeaten(make))))


def test_its_choice_is_circled_where_another_is_faster(two: PlotInput) -> None:
    """At 32 and 64 bytes, and each says what it loses there."""
    lines = {line.name: line for line in drawn(two).lines}
    circled = lines["its choice, where another is faster"]
    assert [(p.x, p.y) for p in circled.points] == [(32, 15.0), (64, 20.0)]
    assert lacks(circled.points[0].words, "32 B", "tree/ll", "50 %", "ring/ll") == []


def test_the_figure_says_where_it_is_from_and_repeats(make: SimpleNamespace) -> None:
    """Simulated in picture and metadata, and the same bytes twice."""
    given = crowded(make)
    for kind in ("svg", "png"):
        assert encoded(given, kind) == encoded(given, kind)
    assert b"SIMULATED, no hardware" in encoded(given, "svg")
    assert b"simulated" in encoded(given, "png")
    assert b"SIMULATED" not in encoded(replace(given, simulated=False), "svg")


def encoded(given: PlotInput, kind: str) -> bytes:
    """The figure's file."""
    with house_style():
        return files.encode(draw_figure(drawn(given)), kind, "belief", given.origin)


def drawn(given: PlotInput) -> Figure:
    """The figure of the one scene."""
    (scene,) = scenes(given)
    figures = figures_of(scene, frame_of(scene, "x", 1000))
    return next(one for one in figures if one.name == "x-predictions")


def test_without_beliefs_every_file_is_as_before(two: PlotInput, tmp_path: Path) -> None:
    """Not one byte of the other figures depends on them."""
    with_them = {p.name: p.read_bytes() for p in draw_figures(two, tmp_path / "a", SVG)}
    without = {
        p.name: p.read_bytes() for p in draw_figures(replace(two, beliefs=()), tmp_path / "b", SVG)
    }
    (extra,) = with_them.keys() - without.keys()
    assert extra == "all_reduce-1n64r-predictions.svg"
    assert {name: with_them[name] for name in without} == without
