"""Draws a link map: which devices are how near, and what each class of links takes and carries."""

from __future__ import annotations

from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from rccltune.model.links import LinkClass, LinkMap, LinkRow, Spread
from rccltune.model.vocabulary import format_size
from rccltune.report.figures.look import BLACK, GREY, PALE, VERMILLION, linear_ticks
from rccltune.report.renderers.sheet import POINTS_PER_INCH, SMALL, Paper, text_width

# Near is dark and far is light, one hue, so that the order is there in greyscale too.
_SHADES: Final = (
    "#08306b",
    "#2a6fb3",
    "#5b9bd0",
    "#a9cce8",
    "#c6dcef",
    "#d9e6f2",
    "#e6ebf0",
    "#a9cce8",
)
_MAP: Final = 2.5
_LEAST_ROW: Final = 0.62
_MOST_ROW: Final = 0.85
_PANEL: Final = 2.35
_GAP: Final = 0.35
# Room right of the longest bar for its figure.
_REACH: Final = 1.55


def draw_link_map(data: LinkMap) -> Figure:
    """The figure."""
    rows = data.rows
    names = max(text_width(row.link.meaning, SMALL, "bold") for row in rows) / POINTS_PER_INCH + 0.3
    row = min(_MOST_ROW, max(_LEAST_ROW, _MAP / len(rows)))
    tall = row * len(rows)
    body = max(_MAP, tall)
    left = 0.75 + _MAP + 0.35
    width = left + names + 2 * _PANEL + _GAP + 0.25
    paper = Paper(
        width,
        0.25 + body + 0.55,
        title="sendrecv between pairs of devices",
        second=[_second(data)],
        source=f"Source: {_source(data)}",
        stamp=("SIMULATED, no hardware", True) if data.simulated else ("measured", False),
    )
    bottom = paper.foot + 0.55
    _draw_grid(paper.axes(0.75, bottom + body - _MAP, _MAP, _MAP), data)
    at = bottom + body - tall
    latency = paper.axes(left + names, at, _PANEL, tall)
    _draw_bars(latency, rows, [row.latency_us for row in rows], "µs")
    latency.set_title(f"latency ({format_size(data.small_nbytes)})", size=SMALL, loc="left")
    _name_rows(latency, rows)
    carried = paper.axes(left + names + _PANEL + _GAP, at, _PANEL, tall)
    _draw_bars(carried, rows, [row.gb_per_s for row in rows], "GB/s")
    carried.set_title(
        f"bandwidth, a direction ({format_size(data.large_nbytes)})", size=SMALL, loc="left"
    )
    dots = {row.link: position for position, row in enumerate(rows)}
    for pair in data.pairs:
        bandwidth = data.bandwidth(pair)
        if pair.latency_us is not None and bandwidth is not None:
            _dot(latency, pair.latency_us, dots[pair.link])
            _dot(carried, bandwidth, dots[pair.link])
    return paper.figure


def _second(data: LinkMap) -> str:
    measured = sum(row.n_measured for row in data.rows)
    there = sum(row.n_there for row in data.rows)
    words = [
        data.machine,
        f"{len(data.devices)} devices",
        f"{measured} of {there} pairs, {data.times_text}",
        "bars: medians, rings: pairs, ×: against the first row",
    ]
    return "  ·  ".join(words)


def _source(data: LinkMap) -> str:
    words = [f"rccltune detect --links, {data.benchmark}"]
    words += [f"library {data.library}"] if data.library else []
    words.append(data.measured[:10])
    if data.node is not None:
        words.append(f"simulated node {data.node}")
    return ", ".join(words)


def _draw_grid(axes: Axes, data: LinkMap) -> None:
    """Device against device in the class's shade; what was measured is ringed."""
    n = len(data.devices)
    order = tuple(LinkClass)
    # The last colour is that of a device with itself.
    cells = [[len(order) if c == "-" else int(c) for c in line] for line in data.grid]
    axes.imshow(
        cells,
        cmap=ListedColormap([*_SHADES, "white"]),
        vmin=0,
        vmax=len(order),
        interpolation="nearest",
        origin="upper",
        extent=(-0.5, n - 0.5, n - 0.5, -0.5),
    )
    places = {device: place for place, device in enumerate(data.devices)}
    for pair in data.pairs:
        x, y = places[pair.second], places[pair.first]
        axes.plot(
            x,
            y,
            marker="x" if pair.failure else "o",
            markersize=4,
            markerfacecolor="white",
            markeredgecolor=VERMILLION,
            markeredgewidth=1.0,
            linestyle="",
            clip_on=False,
        )
    axes.grid(visible=False)
    step = max(1, -(-n // 8))
    shown = list(range(0, n, step))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(shown, [str(data.devices[place]) for place in shown])
    axes.set_xlabel("device")
    axes.set_ylabel("device")


def _draw_bars(
    axes: Axes, rows: tuple[LinkRow, ...], figures: list[Spread | None], unit: str
) -> None:
    """One bar for each class, its figure behind it and the ratio to the nearest class."""
    most = max((spread.most for spread in figures if spread), default=1.0)
    first = next((spread.median for spread in figures if spread), 1.0)
    axes.set_xlim(0, most * _REACH)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    ticks = linear_ticks(0, most, at_most=5)
    axes.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
    axes.set_xlabel(unit)
    for y, (row, spread) in enumerate(zip(rows, figures, strict=True)):
        if spread is None:
            words = "failed" if row.n_failed else "not measured"
            axes.text(most * 0.03, y, words, va="center", size=SMALL, color=GREY)
            continue
        shade = _SHADES[tuple(LinkClass).index(row.link)]
        axes.barh(y, spread.median, height=0.5, color=shade, edgecolor=PALE, linewidth=0.6)
        words = f"{spread.median:.1f} {unit}"
        if y and first:
            words += f"\n{spread.median / first:.2f}×"
        axes.text(spread.most + most * 0.05, y, words, va="center", size=SMALL, linespacing=1.1)


def _name_rows(axes: Axes, rows: tuple[LinkRow, ...]) -> None:
    for y, row in enumerate(rows):
        failed = f", {row.n_failed} failed" if row.n_failed else ""
        how: dict[str, Any] = {"ha": "right", "va": "center"}
        x = -0.04 * axes.get_xlim()[1]
        axes.text(x, y - 0.12, row.link.meaning, size=SMALL, weight="bold", color=BLACK, **how)
        axes.text(
            x,
            y + 0.16,
            f"{row.n_measured} of {row.n_there} pairs{failed}",
            size=7.0,
            color=VERMILLION if row.n_failed else GREY,
            **how,
        )


def _dot(axes: Axes, value: float, y: int) -> None:
    axes.plot(
        value,
        y,
        marker="o",
        markersize=3.5,
        markerfacecolor="white",
        markeredgecolor=VERMILLION,
        markeredgewidth=0.8,
        linestyle="",
        zorder=4,
    )
