"""The five figures of a session: tables to matplotlib, a panel for each collective and scale.

Nothing is decided here: rules and their gains are those of the file and its verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rccltune.model.units import format_size, format_time, short_time
from rccltune.report import style
from rccltune.report.tables import FigureTables, rows

# More settings than this are drawn as the best number of channels of each algorithm and protocol.
_MOST_SETTINGS: Final = 10
# Slower settings stand at the lower edge, so that what matters is no thin strip.
_SLOWEST: Final = 0.25
# A model that misses a point by more is not drawn: the curve joins its points.
_MISSED: Final = 0.25
# Room for the rules between a panel and its title, in points.
_ABOVE: Final = 23.0
# Entries of the gain's legend.
_OUT: Final = "out-of-place"
_IN: Final = "in-place"
_TRIED: Final = "no rule"
_WITHOUT: Final = "time without / with rules"
_INTERVAL: Final = "interval of the slower"
# And of a line that a rule chooses.
_CHOSEN: Final = "chosen by a rule"
_FAMILY: Final = ["algorithm", "protocol"]


def gain(tables: FigureTables) -> Figure | None:
    """How many times as fast calls are with the rules, size by size, with its interval.

    From the verification where there is one of the rules; else as the sweep saw it. None where
    there is neither a rule nor a verification.
    """
    known = set(tables.verdicts["panel"]) | set(tables.rules.dropna(subset="gain")["panel"])
    names = [panel for panel in tables.panels if panel in known]
    if not names:
        return None
    figure, panels = style.panels(
        names,
        "How many times as fast with the rules",
        simulated=tables.simulated,
        size=tables.size,
        legend=(_OUT, _IN, _TRIED, _INTERVAL, style.RULED),
    )
    for panel, axes in panels:
        mine = tables.of(panel)
        is_verified = len(mine.verdicts) > 0
        ratios = _verified_gains(axes, mine) if is_verified else _swept_gains(axes, mine)
        style.sizes_axis(axes, ratios["nbytes"])
        low, high = (
            ratios[["ratio", "low"]].min(axis=None),
            ratios[["ratio", "high"]].max(axis=None),
        )
        # Turns are with the idle plugin, which is slower than the site where a rule restores.
        is_over_idle = is_verified and mine.rules["is_restoring"].any()
        without = "idle plugin's time / time with rules" if is_over_idle else _WITHOUT
        style.ratio_axis(axes, low, high, without)
        style.rule_bar(axes, mine.rules)
        how = "verified" if is_verified else "not verified"
        style.name_panel(axes, f"{panel}: {how}", _ABOVE)
    style.legend_below(figure)
    return figure


def _verified_gains(axes: Axes, tables: FigureTables) -> pd.DataFrame:
    """Draw what a verification found: both placements as points, the worse one with its band."""
    verdicts = tables.verdicts.sort_values("nbytes")
    is_ruled = pd.Series(False, index=verdicts.index)
    for rule in rows(tables.rules):
        inside = verdicts["nbytes"].between(rule.min_nbytes, rule.max_nbytes)
        is_ruled |= inside
        mine = verdicts[inside]
        if mine.empty:
            continue
        worst = mine.loc[mine.groupby("nbytes")["ratio"].idxmin()]
        shade = style.colour(rule.algorithm)
        # As arrays: matplotlib 3.10 over numpy 1.24 fills between no Series.
        band = (worst[name].to_numpy() for name in ("nbytes", "low", "high"))
        axes.fill_between(*band, color=shade, alpha=0.25, linewidth=0, label=_INTERVAL)
        axes.plot(worst["nbytes"], worst["ratio"], color=shade)
    # A ring around a dot, so that neither hides the other and one size is one place.
    for placement, name, width, face in (
        ("out", _OUT, 2.6, style.INK),
        ("in", _IN, 5.4, "none"),
    ):
        mine = verdicts[is_ruled & (verdicts["placement"] == placement)]
        if len(mine):
            axes.plot(
                mine["nbytes"],
                mine["ratio"],
                "o",
                markersize=width,
                markerfacecolor=face,
                markeredgecolor=style.INK,
                markeredgewidth=0.7,
                label=name,
            )
    # Two communicators that differ would show as a loss or a gain what is only undecided.
    is_shown = is_ruled | verdicts["is_decided"]
    rest = verdicts[~is_ruled & is_shown]
    if len(rest):
        axes.plot(
            rest["nbytes"],
            rest["ratio"],
            "x",
            color=style.GREY,
            markersize=3.5,
            label=_TRIED,
        )
    # What is no rule's has no band.
    inside = verdicts[["low", "high"]].where(is_ruled, axis=0)
    drawn: pd.DataFrame = verdicts.assign(ratio=verdicts["ratio"].where(is_shown), **inside)
    # The axis of sizes ends where the last point does.
    return drawn[is_shown] if is_shown.any() else drawn


def _swept_gains(axes: Axes, tables: FigureTables) -> pd.DataFrame:
    """Draw what the sweep saw: each rule's mean gain with its interval, and its points."""
    points = tables.points
    parts = []
    for rule in rows(tables.rules.dropna(subset="gain")):
        mine = points[
            (points["setting"] == rule.setting)
            & points["nbytes"].between(rule.min_nbytes, rule.max_nbytes)
            & points["base_us"].notna()
        ].sort_values("nbytes")
        ends = [
            max(rule.min_nbytes, points["nbytes"].min()),
            min(rule.max_nbytes, points["nbytes"].max()),
        ]
        shade = style.colour(rule.algorithm)
        # A rule for one size is drawn a little wider than it is.
        ends = [ends[0] / 1.1, ends[1] * 1.1] if ends[1] < 1.2 * ends[0] else ends
        axes.fill_between(ends, rule.low, rule.high, color=shade, alpha=0.25, linewidth=0)
        axes.plot(ends, [rule.gain, rule.gain], color=shade, linewidth=2)
        ratios = mine["base_us"] / mine["time_us"]
        axes.plot(mine["nbytes"], ratios, "o", color=shade, markersize=3.2)
        parts.append(mine.assign(ratio=ratios, low=rule.low, high=rule.high))
    # The whole range is shown, also where no rule is.
    rest = points.assign(ratio=1.0, low=1.0, high=1.0)
    axes.plot([], [], "o", color=style.GREY, markersize=3.2, label="one size")
    axes.plot([], [], color=style.GREY, linewidth=2, label="a rule's mean, interval shaded")
    drawn: pd.DataFrame = pd.concat([*parts, rest])
    return drawn


def speedup(tables: FigureTables) -> Figure | None:
    """How many times as fast as the baseline each setting is; what the rules choose is strong."""
    points = tables.points.dropna(subset="base_us")
    points = points[(points["setting"] != "baseline") & (points["setting"] != tables.baseline)]
    names = [panel for panel in tables.panels if panel in set(points["panel"])]
    if not names:
        return None
    figure, panels = style.panels(
        names,
        f"How many times as fast as {tables.baseline}",
        simulated=tables.simulated,
        size=tables.size,
        beside=_longest(points),
        legend=_legend(tables, _CHOSEN),
    )
    for panel, axes in panels:
        mine = points[points["panel"] == panel]
        mine = mine.assign(ratio=(mine["base_us"] / mine["time_us"]).clip(lower=_SLOWEST))
        _lines(axes, mine, "ratio", tables.of(panel).rules)
        style.sizes_axis(axes, mine["nbytes"])
        ratios = _few(mine)["ratio"]
        style.ratio_axis(axes, ratios.min(), ratios.max(), "baseline's time / time", least=_SLOWEST)
        _finish(axes, panel, mine, "ratio", tables)
    style.legend_below(figure)
    return figure


def time(tables: FigureTables) -> Figure | None:
    """Time of a call against its size: measured points, and the fitted curves through them."""
    figure, panels = style.panels(
        tables.panels,
        "Time of a call, measured and fitted",
        simulated=tables.simulated,
        size=tables.size,
        beside=_longest(tables.points),
        legend=_legend(tables),
    )
    for panel, axes in panels:
        mine = tables.of(panel)
        points = _few(mine.points)
        for _, line in points.groupby("setting", sort=False):
            looks = style.look(next(rows(line)))
            axes.plot(line["nbytes"], line["time_us"], **{**looks, "linestyle": ""})
            for x, y in _fitted(mine, line):
                axes.plot(x, y, color=looks["color"], linestyle=looks["linestyle"], linewidth=1.0)
        _mark_clocks(axes, mine)
        style.sizes_axis(axes, points["nbytes"])
        style.log_axis(axes, "time of a call", short_time)
        _finish(axes, panel, points, "time_us", tables)
    style.legend_below(figure)
    return figure


def _fitted(tables: FigureTables, points: pd.DataFrame) -> Iterator[tuple[Any, Any]]:
    """Lines of one setting's fit, as sizes and times; without a model they join the points."""
    fits = tables.fits
    mine = fits[fits["setting"] == points["setting"].iloc[0]]
    is_joined = mine["latency_us"].isna().all() or mine["worst"].max() > _MISSED
    # Two timing modes are not one line: graphs cost the host nothing.
    for part in _by_timing(points, tables.timing_changes):
        if is_joined:
            yield part["nbytes"], part["time_us"]
            continue
        for piece in rows(mine):
            low = max(piece.min_nbytes, part["nbytes"].min())
            high = min(piece.max_nbytes, part["nbytes"].max())
            if low <= high:
                x = np.geomspace(low, high, 24)
                yield x, piece.latency_us + x * piece.us_per_byte


def _by_timing(points: pd.DataFrame, ends: int | None) -> list[pd.DataFrame]:
    """Points of each timing mode; all together where there is one."""
    if ends is None:
        return [points]
    parts = (points[points["nbytes"] <= ends], points[points["nbytes"] > ends])
    return [one for one in parts if len(one)]


def _mark_clocks(axes: Axes, tables: FigureTables) -> None:
    """A thin line between what graphs were timed for and what was launched one by one."""
    ends = tables.timing_changes
    nbytes = tables.points["nbytes"]
    if ends is None or not len(_by_timing(tables.points, ends)) > 1:
        return
    beyond = nbytes[nbytes > ends].min()
    middle = float(np.sqrt(ends * beyond))
    axes.axvline(middle, color=style.GREY, linewidth=0.8, linestyle=":", zorder=1)
    place = axes.get_xaxis_transform()
    words: dict[str, Any] = {"transform": place, "size": 6.5, "va": "bottom"}
    axes.text(middle / 1.12, 0.015, "in graphs", ha="right", **words)
    axes.text(middle * 1.12, 0.015, "one by one", ha="left", **words)


def bandwidth(tables: FigureTables) -> Figure | None:
    """Bus bandwidth of each setting, and the ceiling that TransferBench's rates give."""
    names = [panel for panel in tables.panels if (tables.of(panel).points["busbw"] > 0).any()]
    if not names:
        return None
    figure, panels = style.panels(
        names,
        "Bus bandwidth",
        simulated=tables.simulated,
        size=tables.size,
        beside=_longest(tables.points),
        legend=_legend(tables, _CHOSEN),
    )
    for panel, axes in panels:
        mine = tables.of(panel)
        _lines(axes, mine.points, "busbw", mine.rules, mine.timing_changes)
        _mark_clocks(axes, mine)
        style.sizes_axis(axes, mine.points["nbytes"])
        axes.set_ylim(0, 1.1 * max(mine.points["busbw"].max(), *mine.ceilings["busbw"], 0.0))
        axes.set_ylabel("bus bandwidth in GB/s")
        for ceiling in rows(mine.ceilings):
            axes.axhline(ceiling.busbw, color=style.GREY, linestyle="--")
            place = axes.get_yaxis_transform()
            axes.text(0.01, ceiling.busbw, ceiling.words, va="bottom", size=7.0, transform=place)
        _finish(axes, panel, mine.points, "busbw", tables)
    style.legend_below(figure)
    return figure


def table(tables: FigureTables) -> Figure | None:
    """Times of all settings, a row an octave; darker is nearer to the fastest, which is bold."""
    times_by_panel = {panel: _octaves(tables.of(panel).points) for panel in tables.panels}
    width = max(0.9 + 0.74 * len(one.columns) for one in times_by_panel.values())
    above = 0.2 + max(
        0.15 * _wrapped(c).count("\n") for one in times_by_panel.values() for c in one.columns
    )
    height = max(above + 0.3 + 0.2 * len(one) for one in times_by_panel.values())
    figure, panels = style.panels(
        tables.panels,
        "Time of a call, one size an octave: bold is fastest, darker nearer to it",
        simulated=tables.simulated,
        size=(max(width, 3.6), height + 0.12),
        above=above + 0.24,
        below=0.06,
    )
    for panel, axes in panels:
        times = times_by_panel[panel]
        _cells(axes, times)
        axes.set_xticks(
            [n + 0.5 for n in range(len(times.columns))],
            [_wrapped(name) for name in times.columns],
        )
        axes.set_yticks([n + 0.5 for n in range(len(times))], [format_size(n) for n in times.index])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for edge in axes.spines.values():
            edge.set_visible(False)
        style.name_panel(axes, panel, 8.0)
    return figure


def _cells(axes: Axes, times: pd.DataFrame) -> None:
    """Draw a cell for each time that is known."""
    cells, strengths = [], []
    for row, values in enumerate(times.to_numpy()):
        best = np.nanmin(values)
        for column, value in enumerate(values):
            if np.isfinite(value):
                cells.append(Rectangle((column + 0.03, row + 0.05), 0.94, 0.9))
                strengths.append(0.62 * float(best / value) ** 1.5)
                axes.text(
                    column + 0.5,
                    row + 0.5,
                    format_time(value),
                    ha="center",
                    va="center_baseline",
                    size=7.5,
                    weight="bold" if value == best else "normal",
                    in_layout=False,
                )
    # A collection of rectangles stays vectors, as an image would not.
    drawn = PatchCollection(cells, facecolor=style.LIKELY, edgecolor="none")
    drawn.set_alpha(strengths)
    axes.add_collection(drawn)
    axes.set_xlim(0, len(times.columns))
    axes.set_ylim(len(times), 0)


def _wrapped(name: str) -> str:
    """A setting's name in lines that a column has room for."""
    return "\n".join(wrap(name.replace("/", "/ "), 11)).replace("/ ", "/")


def _octaves(points: pd.DataFrame) -> pd.DataFrame:
    """Times by size and setting, of the first measured size of each octave."""
    few = _few(points)
    with_names = few.assign(name=_names(few))
    order = list(dict.fromkeys(with_names["name"]))
    times = with_names.pivot_table(index="nbytes", columns="name", values="time_us", aggfunc="min")
    octave = pd.Series([int(nbytes).bit_length() for nbytes in times.index], index=times.index)
    first: pd.DataFrame = times[order][~octave.duplicated()]
    return first


def _few(points: pd.DataFrame) -> pd.DataFrame:
    """Keep, of many settings, the best number of channels of each family at each size."""
    rising: pd.DataFrame = points.sort_values(["algorithm", "protocol", "channels", "nbytes"])
    if rising["setting"].nunique() <= _MOST_SETTINGS:
        return rising
    best = rising.groupby([*_FAMILY, "nbytes"], sort=False)["time_us"].idxmin()
    few: pd.DataFrame = rising.loc[best]
    is_one = few.groupby(_FAMILY)["channels"].transform("nunique") == 1
    plain = few["algorithm"] + "/" + few["protocol"] + "/best"
    few["setting"] = few["setting"].where(is_one, plain)
    return few


def _names(points: pd.DataFrame) -> pd.Series[str]:
    """Of settings, with those marked that no rule can choose."""
    settings = points["setting"]
    names: pd.Series[str] = settings.where(points["why_not"] == "", settings + ", not selectable")
    return names


def _legend(tables: FigureTables, *further: str) -> tuple[str, ...]:
    """Entries that say what marks the rules, where there are any."""
    return (style.RULED, *further) if len(tables.rules) else ()


def _longest(points: pd.DataFrame) -> int:
    """Letters of the longest name beside a panel."""
    return max(int(_names(_few(mine)).str.len().max()) for _, mine in points.groupby("panel"))


def _lines(
    axes: Axes, points: pd.DataFrame, value: str, rules: pd.DataFrame, ends: int | None = None
) -> None:
    """Draw a line for each setting; where a rule chooses it, a broad one behind it.

    Args:
        axes: to draw in.
        points: of the settings.
        value: column to draw.
        rules: of the panel.
        ends: where the timing mode changes, which what is no ratio shows.
    """
    for rule in rows(rules):
        inside = points["nbytes"].between(rule.min_nbytes, rule.max_nbytes)
        mine = points[(points["setting"] == rule.setting) & inside].sort_values("nbytes")
        shade = style.colour(rule.algorithm)
        for part in _by_timing(mine, ends):
            broad: dict[str, Any] = {"color": shade, "alpha": 0.3, "linewidth": 7, "zorder": 1.5}
            if len(part) == 1:
                # One point makes no line.
                broad |= {"marker": "s", "markersize": 10, "markeredgewidth": 0, "linestyle": ""}
            axes.plot(part["nbytes"], part[value], label=_CHOSEN, **broad)
    for _, line in _few(points).groupby("setting", sort=False):
        looks = style.look(next(rows(line)))
        for part in _by_timing(line, ends):
            axes.plot(part["nbytes"], part[value], linewidth=1.0, **looks)


def _finish(axes: Axes, panel: str, points: pd.DataFrame, value: str, tables: FigureTables) -> None:
    """The panel's title, the rules above it, and the names of its lines beside it."""
    few = _few(points)
    few = few.assign(name=_names(few))
    ends = few.loc[few.groupby("name", sort=False)["nbytes"].idxmax()]
    style.rule_bar(axes, tables.of(panel).rules)
    style.name_panel(axes, panel, _ABOVE)
    if len(ends) <= style.MOST_NAMED:
        style.name_lines(axes, list(zip(ends["nbytes"], ends[value], ends["name"], strict=True)))
