"""Figures as pictures, by what can be checked, and their values against the session's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rccltune.model.defaults import FIGURES
from rccltune.report import by_name, figures, style
from rccltune.report.tables import FigureTables

FULL = ("CPX", "h200x4-nccl-2.28.9", "two scales")
FEW = ("holes", "one setting", "nothing to win")
SESSIONS = (*FULL, *FEW)
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


@pytest.mark.parametrize(
    ("session", "name"),
    [(session, name) for name, without in NOTHING.items() for session in sorted(without)],
)
def test_nothing_is_drawn_of_nothing(
    tables: Callable[[str], FigureTables], session: str, name: str
) -> None:
    """No gain where there is no rule, no speedup where there is no baseline."""
    assert drawn(name, tables(session)) is None


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    "session", [*FULL, *(pytest.param(one, marks=pytest.mark.long) for one in FEW)]
)
def test_no_text_leaves_a_figure_or_covers_another(
    tables: Callable[[str], FigureTables], tidy: Callable[[Figure], None], session: str, name: str
) -> None:
    """In files, and at the size that a page draws."""
    whole = tables(session)
    for one in (whole, whole.of(whole.panels[0], SMALL)):
        figure = drawn(name, one)
        assert (figure is None) == (session in NOTHING.get(name, ()))
        if figure is not None:
            with style.applied():
                tidy(figure)


def test_curve_errors_are_drawn_by_name(
    tables: Callable[[str], FigureTables], tidy: Callable[[Figure], None]
) -> None:
    """And what was not measured is not."""
    figure = drawn("residuals", tables("CPX"))
    assert figure is not None
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
    found["is_decided"] = found["ratio"] != 0.99
    return replace(
        tables, verdicts=found.assign(low=found["ratio"] - 0.1, high=found["ratio"] + 0.1, **rows)
    )


def test_a_verified_gain_shows_both_placements_and_the_worse_ones_interval(
    tables: Callable[[str], FigureTables],
) -> None:
    """At one size, a ring around a dot; what is decided without a rule is a grey cross."""
    figure = drawn("gain", verified(tables("holes")))
    assert figure is not None
    [axes] = figure.axes
    by_label = {line.get_label(): line for line in axes.lines}
    out, inside = by_label["out-of-place"], by_label["in-place"]
    assert list(out.get_ydata()) == [1.5, 1.3]
    assert list(inside.get_ydata()) == [1.4, 1.35]
    assert list(out.get_xdata()) == list(inside.get_xdata())
    assert inside.get_markerfacecolor() == "none"
    assert inside.get_markersize() > out.get_markersize() + 2
    assert list(by_label["no rule"].get_ydata()) == [1.01]
    joined = [line for line in axes.lines if list(line.get_ydata()) == [1.4, 1.3]]
    assert len(joined) == 1
    assert "verified" in axes.get_title(loc="left")


def test_an_unverified_gain_is_what_the_choice_says(
    tables: Callable[[str], FigureTables], sessions: Callable[[str], Path]
) -> None:
    """Each rule's mean is a level line at the number of choice.json."""
    said = json.loads((sessions("holes") / "choice.json").read_text())
    wanted = [z["gain"]["value"] for z in said["zones"] if z["setting"]]
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


def test_a_simulated_figure_says_so(tables: Callable[[str], FigureTables]) -> None:
    """In the picture, and a measured one does not."""
    whole = tables("holes")
    for simulated in (True, False):
        figure = drawn("time", replace(whole, simulated=simulated))
        assert figure is not None
        said = " ".join(text.get_text() for text in figure.texts)
        assert said.startswith("SIMULATED: ") == simulated


@pytest.mark.parametrize(
    ("wide", "name"),
    [
        ((1 << 10, 1 << 20), "ring/simple"),
        ((1 << 10, 3 << 10), "ring/\nsimple"),
        ((60 << 10, 64 << 10), "ring/simple"),
    ],
)
def test_a_rule_has_its_name_however_short_its_bar_is(wide: tuple[int, int], name: str) -> None:
    """In it, on two lines, or beside it; neighbours of one setting have one name."""
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
    assert [text.get_text() for text in axes.texts] == [name]
    assert len(axes.collections) == 1


def test_rules_that_meet_are_told_apart() -> None:
    """Of two with one algorithm, and so one colour, the bars do not touch."""
    ends = ((1 << 10, (1 << 16) - 1, "ring/ll"), (1 << 16, 1 << 20, "ring/ll128"))
    rules = pd.DataFrame(
        [
            {"min_nbytes": a, "max_nbytes": b, "setting": setting, "algorithm": "ring"}
            for a, b, setting in ends
        ]
    )
    with style.applied():
        axes = Figure(figsize=(5.6, 3.3)).add_axes((0.13, 0.15, 0.7, 0.69))
        style.sizes_axis(axes, pd.Series([1 << 10, 1 << 27]))
        style.rule_bar(axes, rules)
    first, second = (one.get_paths()[0].get_extents() for one in axes.collections)
    assert first.x1 < 0.98 * second.x0
    assert second.x0 == 1 << 16


def test_lines_of_two_clocks_do_not_meet(tables: Callable[[str], FigureTables]) -> None:
    """Up to 4 MiB graphs are timed, and above calls that are launched one by one."""
    two = replace(tables("CPX"), timing_changes=4 << 20)
    for name in ("time", "bandwidth"):
        figure = drawn(name, two)
        assert figure is not None
        [axes] = figure.axes
        sizes = [line.get_xdata() for line in axes.lines if line.get_linestyle() != "None"]
        lines = [found for found in map(np.asarray, sizes) if len(found) > 1]
        assert not any(found.min() <= 4 << 20 < found.max() for found in lines if found.max() > 1)
        assert "one by one" in {text.get_text() for text in axes.texts}
