"""Figures that are drawn when they are asked for by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from rccltune.model.units import format_size, short_time
from rccltune.report import style
from rccltune.report.tables import FigureTables

# As many sizes as lines can be told apart.
_MOST_SIZES: Final = 7
_RINGED: Final = "ringed: what the library took by itself"


def residuals(tables: FigureTables) -> Figure | None:
    """Errors of the fitted curves at each measured size, as a share of the time."""
    every = tables.residuals
    names = [panel for panel in tables.panels if panel in set(every["panel"])]
    if not names:
        return None
    figure, panels = style.panels(
        names,
        "How far fitted curves are off",
        simulated=tables.simulated,
        size=tables.size,
        legend=list(every["setting"].unique()),
    )
    for panel, axes in panels:
        mine = every[every["panel"] == panel]
        for setting, line in mine.groupby("setting", sort=False):
            looks = style.look(next(line.itertuples()))
            axes.plot(line["nbytes"], line["residual"], linewidth=1.0, label=setting, **looks)
        style.sizes_axis(axes, mine["nbytes"])
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.axhline(0.0, color=style.GREY, linewidth=1.0)
        axes.set_ylabel("(fitted − measured) / measured")
        style.name_panel(axes, panel, 6.0)
    style.legend_below(figure)
    return figure


def channels(tables: FigureTables) -> Figure | None:
    """Gain of more channels: the least time with so many, over the least time of all."""
    every = tables.points[(tables.points["channels"] > 0) & (tables.points["why_not"] == "")]
    counts = every.groupby("panel")["channels"].nunique()
    names = [panel for panel in tables.panels if counts.get(panel, 0) > 1]
    if not names:
        return None
    figure, panels = style.panels(
        names,
        "What more channels buy",
        simulated=tables.simulated,
        size=tables.size,
        legend=["1000 KiB"] * _MOST_SIZES,
    )
    for panel, axes in panels:
        best = every[every["panel"] == panel].pivot_table(
            index="channels", columns="nbytes", values="time_us", aggfunc="min"
        )
        sizes = best.columns[:: max(1, -(-len(best.columns) // _MOST_SIZES))]
        for number, nbytes in enumerate(sizes):
            shade = style.SHADES[number]
            ratio = best[nbytes] / best[nbytes].min()
            axes.plot(ratio.index, ratio, "o-", color=shade, label=format_size(nbytes))
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(_apart(best.index)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
        axes.set_xlabel("channels, each of which takes compute units from other kernels")
        highest = float((best[sizes] / best[sizes].min()).max(axis=None))
        style.ratio_axis(axes, 1.0, highest, "time / least time")
        style.name_panel(axes, panel, 6.0)
    style.legend_below(figure)
    return figure


def predictions(tables: FigureTables) -> Figure | None:
    """Times of all settings, with what the library takes by itself ringed."""
    names = [panel for panel in tables.panels if panel in set(tables.own["panel"])]
    if not names:
        return None
    figure, panels = style.panels(
        names,
        "What the library takes by itself",
        simulated=tables.simulated,
        size=tables.size,
        beside=int(tables.points["setting"].str.len().max()),
        legend=[_RINGED],
    )
    for panel, axes in panels:
        mine = tables.of(panel)
        ends = []
        for setting, line in mine.points.groupby("setting", sort=False):
            axes.plot(
                line["nbytes"],
                line["time_us"],
                linewidth=0.8,
                **style.look(next(line.itertuples())),
            )
            last = line.iloc[-1]
            ends.append((float(last["nbytes"]), float(last["time_us"]), str(setting)))
        points = mine.own.merge(mine.points, on=["panel", "nbytes", "setting"])
        style.ring(axes, points["nbytes"], points["time_us"], _RINGED)
        style.sizes_axis(axes, mine.points["nbytes"])
        style.log_axis(axes, "time of a call", short_time)
        if len(ends) <= style.MOST_NAMED:
            style.name_lines(axes, ends)
        style.name_panel(axes, panel, 6.0)
    style.legend_below(figure)
    return figure


def _apart(counts: Iterable[int]) -> list[int]:
    """Numbers of channels whose labels do not run into each other on a logarithmic axis."""
    places: list[int] = []
    for n in counts:
        places += [int(n)] if not places or n >= 1.3 * places[-1] else []
    return places
