"""The figure of a link map: which devices are how near, what each class takes and carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from rccltune.model.link_map import LinkClass, LinkMap, LinkRow, Spread
from rccltune.model.units import format_size
from rccltune.report import style

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
_ORDER: Final = tuple(LinkClass)
# In inches: side of the map, width of the names of classes, width of a panel of bars.
_MAP: Final = 2.5
_NAMES: Final = 2.3
_BARS: Final = 2.3
# Room right of the longest bar for its number.
_REACH: Final = 1.6


def link_map(data: LinkMap) -> Figure:
    """Device against device by class; bars of the median of each class, a ring for each pair."""
    rows = data.rows
    tall = max(_MAP, 0.62 * len(rows))
    width, height = 0.7 + _MAP + _NAMES + 2 * _BARS + 0.6, tall + 1.75
    figure = style.framed(
        "sendrecv between pairs of devices", (width, height), simulated=data.simulated
    )

    def at(x: float, wide: float, high: float) -> Axes:
        y = 0.8 + tall - high
        return figure.add_axes((x / width, y / height, wide / width, high / height))

    style.caption(figure, _subject(data), height - 0.33)
    style.caption(figure, _source(data), 0.25)
    _draw_map(at(0.7, _MAP, _MAP), data)
    margin = 0.7 + _MAP + _NAMES
    small, large = format_size(data.small_nbytes), format_size(data.large_nbytes)
    latency, carried = at(margin, _BARS, tall), at(margin + _BARS + 0.35, _BARS, tall)
    _draw_bars(latency, rows, [row.latency_us for row in rows], "µs")
    _draw_bars(carried, rows, [row.gb_per_s for row in rows], "GB/s")
    latency.set_title(f"latency ({small})")
    carried.set_title(f"bandwidth, a direction ({large})")
    for y, row in enumerate(rows):
        failed = f", {row.n_failed} failed" if row.n_failed else ""
        words = f"{row.link.meaning}\n{row.n_measured} of {row.n_there} pairs{failed}"
        place = latency.get_yaxis_transform()
        latency.text(-0.04, y, words, ha="right", va="center", size=style.SMALL, transform=place)
    places = {row.link: y for y, row in enumerate(rows)}
    for pair in data.pairs:
        bandwidth = data.bandwidth(pair)
        if pair.latency_us is not None and bandwidth is not None:
            _draw_ring(latency, pair.latency_us, places[pair.link])
            _draw_ring(carried, bandwidth, places[pair.link])
    return figure


def _subject(data: LinkMap) -> str:
    measured = sum(row.n_measured for row in data.rows)
    there = sum(row.n_there for row in data.rows)
    return (
        f"{data.machine}, {len(data.devices)} devices, {measured} of {there} pairs, "
        f"{data.times_text}; bars: medians, rings: pairs, ×: over the first row"
    )


def _source(data: LinkMap) -> str:
    words = ["rccltune detect --links"]
    words += [data.library] if data.library else []
    words += [data.measured[:10]]
    words += [f"simulated node {data.node}"] if data.node is not None else []
    return ", ".join(words)


def _draw_map(axes: Axes, data: LinkMap) -> None:
    """Device against device in the class's shade; what was measured is ringed."""
    # The last colour is that of a device with itself.
    cells = [[len(_ORDER) if c == "-" else int(c) for c in line] for line in data.grid]
    shades = ListedColormap([*_SHADES, style.PAPER])
    axes.imshow(cells, cmap=shades, vmin=0, vmax=len(_ORDER), interpolation="nearest")
    places = {device: place for place, device in enumerate(data.devices)}
    for pair in data.pairs:
        _draw_ring(axes, places[pair.second], places[pair.first], "x" if pair.failure else "o")
    axes.grid(visible=False)
    ticks = list(range(0, len(data.devices), max(1, -(-len(data.devices) // 8))))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [str(data.devices[place]) for place in ticks])
    axes.set_xlabel("device")
    axes.set_ylabel("device")


def _draw_bars(
    axes: Axes, rows: Sequence[LinkRow], spreads: Sequence[Spread | None], unit: str
) -> None:
    """A bar for each class, its number behind it and the ratio to the nearest class."""
    most = max((spread.most for spread in spreads if spread), default=1.0)
    first = next((spread.median for spread in spreads if spread), 1.0)
    axes.set_xlim(0, most * _REACH)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(unit)
    for y, (row, spread) in enumerate(zip(rows, spreads, strict=True)):
        words, end = "failed" if row.n_failed else "not measured", 0.0
        if spread is not None:
            shade = _SHADES[_ORDER.index(row.link)]
            axes.barh(
                y, spread.median, height=0.5, color=shade, edgecolor=style.GREY, linewidth=0.5
            )
            over = f"\n{spread.median / first:.2f}×" if y and first else ""
            words, end = f"{spread.median:.1f} {unit}{over}", spread.most
        axes.text(end + most * 0.05, y, words, va="center", size=style.SMALL, linespacing=1.1)


def _draw_ring(axes: Axes, x: float, y: float, marker: str = "o") -> None:
    axes.plot(
        x,
        y,
        marker,
        markersize=3.5,
        markerfacecolor=style.PAPER,
        markeredgecolor=style.ALERT,
        markeredgewidth=0.9,
        clip_on=False,
        zorder=4,
    )
