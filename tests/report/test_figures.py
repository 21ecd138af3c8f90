"""Figures as pictures, by what can be checked, and their values against the session's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rccltune.model.defaults import FIGURES, MORE_FIGURES
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Algorithm, Protocol
from rccltune.report import by_name, figures, style
from rccltune.report.plots import inline_svg
from rccltune.report.tables import FigureTables

SESSIONS = (
    *("CPX", "h200x2-nccl-2.28.9", "h200x4-nccl-2.28.9", "h200x2-training-loop", "MI355X"),
    *("holes", "one setting", "nothing to win", "one size", "channels", "two scales"),
)
# What a session has nothing for is not drawn.
NOTHING = {
    "gain": {"one setting", "nothing to win"},
    "speedup": {"one setting"},
}
# As a page draws them, where several stand side by side.
SMALL = (4.2, 2.7)


def drawn(name: str, tables: FigureTables) -> Figure | None:
    """A figure by its name."""
    module = figures if name in FIGURES else by_name
    with style.applied():
        made: Figure | None = getattr(module, name)(tables)
    return made


@pytest.mark.parametrize("last", [10.0, np.nextafter(10.0, 11), 10.5, 1e9])
def test_times_make_a_logarithmic_axis_however_near_they_are(last: float) -> None:
    """A fit misses a single time by its last digit, which are no two numbers in logarithms."""
    axes = Figure().subplots()
    axes.plot([1, 2], [10.0, last])
    style.log_axis(axes, "time", str)
    low, high = axes.get_ylim()
    assert low < 10.0 <= last < high
    assert axes.get_yscale() == "log"


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("session", SESSIONS)
def test_no_text_leaves_a_figure_or_covers_another(
    tables: Callable[[str], FigureTables], tidy: Callable[[Figure], None], session: str, name: str
) -> None:
    """In files, and at the size that a page draws."""
    whole = tables(session)
    for one in (whole, whole.of(whole.panels[0], SMALL)):
        figure = drawn(name, one)
        if session in NOTHING.get(name, ()):
            assert figure is None
        elif figure is not None:
            with style.applied():
                tidy(figure)


@pytest.mark.parametrize("name", MORE_FIGURES)
@pytest.mark.parametrize("session", ["CPX", "channels", "two scales"])
def test_figures_by_name_are_as_tidy(
    tables: Callable[[str], FigureTables], tidy: Callable[[Figure], None], session: str, name: str
) -> None:
    """Where the session has what they draw."""
    figure = drawn(name, tables(session))
    assert (figure is not None) == (
        name == "residuals" or (name == "channels" and session == "channels")
    )
    if figure is not None:
        with style.applied():
            tidy(figure)


@pytest.mark.parametrize("name", ["gain", "speedup", "time", "bandwidth"])
@pytest.mark.parametrize("session", SESSIONS)
def test_every_measured_point_is_inside_its_panel(
    tables: Callable[[str], FigureTables], session: str, name: str
) -> None:
    """Lines and points, whatever their values."""
    figure = drawn(name, tables(session))
    for axes in figure.axes if figure else ():
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        inside = [line for line in axes.lines if line.get_transform() == axes.transData]
        assert inside
        for line in inside:
            x, y = (np.asarray(values, dtype=float) for values in line.get_data())
            assert ((left <= x) & (x <= right)).all(), line
            assert ((low <= y) & (y <= high)).all(), line


@pytest.mark.parametrize("session", SESSIONS)
def test_a_fitted_line_meets_its_points(
    tables: Callable[[str], FigureTables], session: str
) -> None:
    """By a quarter of the time at most: where no model comes as near, the points are joined."""
    whole = tables(session)
    for panel in whole.panels[:2]:
        figure = drawn("time", whole.of(panel))
        assert figure is not None
        [axes] = figure.axes
        lines = [line for line in axes.lines if line.get_transform() == axes.transData]
        groups: list[tuple[Line2D, list[Line2D]]] = []
        for line in lines:
            if line.get_linestyle() == "None":
                groups.append((line, []))
            else:
                groups[-1][1].append(line)
        for points, fits in groups:
            assert fits
            x = np.concatenate([fit.get_xdata() for fit in fits])
            y = np.concatenate([fit.get_ydata() for fit in fits])
            for nbytes, time_us in zip(*points.get_data(), strict=True):
                near = y[np.isclose(x, nbytes, rtol=1e-6)]
                if len(near):
                    assert np.abs(near / time_us - 1).min() <= 0.2501


def verified(tables: FigureTables, **rows: object) -> FigureTables:
    """The same with a verification at three sizes."""
    found = pd.DataFrame(
        [
            {"panel": tables.panels[0], "nbytes": n, "placement": p, "ratio": r}
            for n, ratios in ((1024, (1.5, 1.4)), (2048, (1.3, 1.35)), (1 << 20, (1.01, 0.99)))
            for p, r in zip(("out", "in"), ratios, strict=True)
        ]
    )
    return replace(
        tables, verdicts=found.assign(low=found["ratio"] - 0.1, high=found["ratio"] + 0.1, **rows)
    )


def test_a_verified_gain_shows_both_placements_and_the_worse_ones_interval(
    tables: Callable[[str], FigureTables],
) -> None:
    """Side by side, so that neither hides the other; what has no rule is a grey cross."""
    figure = drawn("gain", verified(tables("holes")))
    assert figure is not None
    [axes] = figure.axes
    by_label = {line.get_label(): line for line in axes.lines}
    out, inside = by_label["out-of-place"], by_label["in-place"]
    assert list(out.get_ydata()) == [1.5, 1.3]
    assert list(inside.get_ydata()) == [1.4, 1.35]
    assert not set(out.get_xdata()) & set(inside.get_xdata())
    assert list(by_label["no rule"].get_ydata()) == [1.01, 0.99]
    joined = [line for line in axes.lines if list(line.get_ydata()) == [1.4, 1.3]]
    assert len(joined) == 1
    assert "verified" in axes.get_title(loc="left")


def test_an_unverified_gain_is_what_the_choice_says(
    tables: Callable[[str], FigureTables], sessions: Callable[[str], Path]
) -> None:
    """Each rule's mean is a level line at the number of choice.json."""
    said = json.loads((sessions("holes") / "choice.json").read_text())
    wanted = [1 + z["gain"]["mean"] for z in said["zones"] if z["setting"]]
    figure = drawn("gain", tables("holes"))
    assert figure is not None
    [axes] = figure.axes
    levels = [
        line.get_ydata()[0]
        for line in axes.lines
        if len(line.get_ydata()) == 2 and line.get_linewidth() == 2
    ]
    assert levels == pytest.approx(wanted, abs=1e-4)
    assert "not verified" in axes.get_title(loc="left")


def test_rules_stand_above_every_figure_of_sizes(tables: Callable[[str], FigureTables]) -> None:
    """As the file has them."""
    for name in ("gain", "speedup", "time", "bandwidth"):
        figure = drawn(name, tables("h200x2-nccl-2.28.9"))
        assert figure is not None
        [axes] = figure.axes
        assert {"ring/ll", "ring/ll128"} & {text.get_text() for text in axes.texts} or len(
            axes.collections
        ) >= len(tables("h200x2-nccl-2.28.9").rules)


def test_a_speedup_is_the_baselines_time_over_the_settings(
    tables: Callable[[str], FigureTables],
) -> None:
    """15 µs against 10 µs at each size."""
    figure = drawn("speedup", tables("nothing to win"))
    assert figure is not None
    [axes] = figure.axes
    lines = [line for line in axes.lines if len(line.get_xdata()) == 8]
    assert len(lines) == 1
    assert list(lines[0].get_ydata()) == pytest.approx([10 / 15] * 8, rel=1e-3)


def test_what_is_far_slower_stands_at_the_lower_edge(tables: Callable[[str], FigureTables]) -> None:
    """So that gains are no thin strip; the axis says so."""
    whole = tables("nothing to win")
    slow = whole.points.assign(
        time_us=whole.points["time_us"].where(whole.points["setting"] == "baseline", 900.0)
    )
    figure = drawn("speedup", replace(whole, points=slow))
    assert figure is not None
    [axes] = figure.axes
    assert min(min(line.get_ydata()) for line in axes.lines) == 0.25
    assert axes.get_yticklabels()[0].get_text() == "≤0.25×"


def test_the_ceiling_is_a_named_level_inside_the_panel(
    tables: Callable[[str], FigureTables], tidy: Callable[[Figure], None]
) -> None:
    """Far below, at and far above what was reached."""
    whole = tables("h200x2-nccl-2.28.9")
    for rate in (0.5, 200.0, 4000.0):
        words = f"ceiling {rate:.4g} GB/s = 7 × 35 (GPU 2 -> GPU 5), reached 0.96 at 1 GiB"
        ceilings = pd.DataFrame([{"panel": whole.panels[0], "busbw": rate, "words": words}])
        figure = drawn("bandwidth", replace(whole, ceilings=ceilings))
        assert figure is not None
        [axes] = figure.axes
        low, high = axes.get_ylim()
        assert low < rate < high
        assert words in {text.get_text() for text in axes.texts}
        with style.applied():
            tidy(figure)


def test_the_table_prints_each_time_and_marks_the_best(
    tables: Callable[[str], FigureTables],
) -> None:
    """A row an octave, the least time of a row bold, nothing where nothing was measured."""
    figure = drawn("table", tables("holes"))
    assert figure is not None
    [axes] = figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()][:4] == [
        "1 KiB",
        "2 KiB",
        "4 KiB",
        "512 KiB",
    ]
    cells = [text for text in axes.texts if text.get_text()]
    assert len(cells) == 8 * 2 + 4
    assert sum(text.get_weight() == "bold" for text in cells) == 8
    [drawn_cells] = [one for one in axes.collections if isinstance(one, PatchCollection)]
    assert len(drawn_cells.get_paths()) == len(cells)


def test_of_many_channels_the_best_is_drawn(tables: Callable[[str], FigureTables]) -> None:
    """Fifteen settings of three families are three lines; what a rule chose is named in full."""
    whole = tables("channels")
    figure = drawn("speedup", whole)
    assert figure is not None
    [axes] = figure.axes
    names = {text.get_text() for text in axes.texts}
    beside = {name for name in names if name not in set(whole.rules["setting"])}
    assert beside | set(whole.rules["setting"]) == {"tree/ll/56", "ring/ll/56", "ring/simple/56"}


def test_settings_are_told_apart_by_colour_marker_and_dash() -> None:
    """Algorithm, protocol, environment: no two look the same."""
    variants = ("default", "ll128-forced", "channels-32")
    looks = {
        tuple(map(str, style.look(row, variants).values()))
        for row in pd.DataFrame(
            [
                {"algorithm": a.value, "protocol": p.value, "variant": v}
                for a in Algorithm
                for p in Protocol
                for v in variants
            ]
        ).itertuples()
    }
    assert len(looks) == len(Algorithm) * len(Protocol) * len(variants)


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance of sRGB."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [*style.SHADES, style.GREY])
def test_a_colour_stands_out_on_white_and_on_a_dark_page(colour: str) -> None:
    """WCAG 2.2: 3 to 1 for what is drawn."""
    mine = luminance(colour)
    assert (1.0 + 0.05) / (mine + 0.05) >= 3
    assert (mine + 0.05) / (luminance("#14171a") + 0.05) >= 3


def test_an_embedded_figure_is_a_pages_own(tables: Callable[[str], FigureTables]) -> None:
    """Its ids begin with its name, its ink is the page's, and no style attribute is in it."""
    figure = drawn("speedup", tables("CPX"))
    assert figure is not None
    with style.applied():
        svg = inline_svg(figure, "first", 'all "of" <it>')
    assert ' style="' not in svg
    assert style.INK not in svg
    assert style.PAPER not in svg
    assert "currentColor" in svg
    assert 'aria-label="all &quot;of&quot; &lt;it&gt;"' in svg
    ids = [part.partition('"')[0] for part in svg.split(' id="')[1:]]
    assert ids
    assert all(one.startswith("first-") for one in ids)
    links = [part.partition('"')[0] for part in svg.split('href="#')[1:]]
    assert set(links) <= set(ids)


def test_a_simulated_figure_says_so(tables: Callable[[str], FigureTables]) -> None:
    """In the picture, and a measured one does not."""
    whole = tables("holes")
    for simulated in (True, False):
        figure = drawn("time", replace(whole, simulated=simulated))
        assert figure is not None
        said = " ".join(text.get_text() for text in figure.texts)
        assert said.startswith("SIMULATED: ") == simulated


def test_a_setting_that_no_rule_can_have_is_named_so(tables: Callable[[str], FigureTables]) -> None:
    """The patched library's in AMD's table."""
    figure = drawn("time", tables("CPX"))
    assert figure is not None
    [axes] = figure.axes
    names = {text.get_text() for text in axes.texts}
    assert "tree/simple, not selectable" in names
    assert str(Setting.parse("tree/ll")) in names


@pytest.mark.parametrize("wide", [(1 << 10, 1 << 20), (1 << 10, 3 << 10), (60 << 10, 64 << 10)])
def test_a_rule_has_its_name_however_short_its_bar_is(wide: tuple[int, int]) -> None:
    """In it, beside it, or on two lines; neighbours of one setting have one name."""
    low, high = wide
    middle = (low + high) // 2
    ends = ((low, middle), (middle + 1, high))
    rules = pd.DataFrame(
        [
            {"min_nbytes": a, "max_nbytes": b, "setting": "ring/simple", "algorithm": "ring"}
            for a, b in ends
        ]
    )
    with style.applied():
        figure = Figure(figsize=(5.6, 3.3))
        axes = figure.add_axes((0.13, 0.15, 0.7, 0.69))
        style.sizes_axis(axes, pd.Series([1 << 10, 1 << 27]))
        style.rule_bar(axes, rules)
    assert [text.get_text() for text in axes.texts] == ["ring/simple"]
    assert len(axes.collections) == 1


def test_lines_of_two_clocks_do_not_meet(tables: Callable[[str], FigureTables]) -> None:
    """Up to 4 MiB graphs are timed, and above calls that are launched one by one."""
    two = replace(tables("CPX"), clock_ends=4 << 20)
    for name in ("time", "bandwidth"):
        figure = drawn(name, two)
        assert figure is not None
        [axes] = figure.axes
        sizes = [line.get_xdata() for line in axes.lines if line.get_linestyle() != "None"]
        lines = [found for found in map(np.asarray, sizes) if len(found) > 1]
        assert not any(found.min() <= 4 << 20 < found.max() for found in lines if found.max() > 1)
        assert "one by one" in {text.get_text() for text in axes.texts}
