"""Draws the channels figure: one small panel for each size, the Pareto front ringed."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from rccltune.model import format_size, format_time
from rccltune.report.figures.channels import ChannelData, ChannelPanel, ChannelPoint
from rccltune.report.figures.look import BLACK, look
from rccltune.report.figures.shapes import axis_range
from rccltune.report.figures.ticks import log_ticks
from rccltune.report.renderers.parts import End, end_labels, label_column, log_axis
from rccltune.report.renderers.sheet import FOOT, HEAD, LEFT, Sheet

_PANEL_WIDTH: Final = 2.0
_PANEL_HEIGHT: Final = 2.2
_ABOVE: Final = 0.3
_BELOW: Final = 0.55
_NAME: Final = 7.0


def draw_channels(data: ChannelData) -> Figure:
    """The figure."""
    columns = min(3, len(data.panels))
    rows = -(-len(data.panels) // columns)
    cell = _PANEL_HEIGHT + _ABOVE + _BELOW
    names = {_name(line[0]) for panel in data.panels for line in panel.lines}
    step = LEFT + _PANEL_WIDTH + label_column(sorted(names | {"baseline"}), _NAME)
    width = max(7.5, columns * step)
    height = HEAD + rows * cell + FOOT
    notes = "circled: Pareto front, nothing is as fast with as few channels"
    if any(p.chosen for panel in data.panels for line in panel.lines for p in line):
        notes += ",  ★ chosen by the rules"
    sheet = Sheet(data.scene, width, height, "time against channels", notes)
    counts = sorted({p.channels for panel in data.panels for line in panel.lines for p in line})
    for i, panel in enumerate(data.panels):
        row, column = divmod(i, columns)
        left = LEFT + column * step
        bottom = height - HEAD - row * cell - _ABOVE - _PANEL_HEIGHT
        axes = sheet.axes(left, bottom, _PANEL_WIDTH, _PANEL_HEIGHT)
        _axes(axes, panel, counts)
        _panel(axes, panel)
    return sheet.figure


def _axes(axes: Axes, panel: ChannelPanel, counts: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlim(*axis_range(counts, margin=0.06))
    shown = [c for c in counts if c & (c - 1) == 0 or c == counts[-1]]
    if len(shown) > 1 and shown[-1] < shown[-2] * 1.5:
        del shown[-2]
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FixedFormatter([str(c) for c in shown]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("channels")
    times = [p.time_us for line in panel.lines for p in line]
    limits = axis_range([*times, *([panel.baseline_us] if panel.baseline_us else [])], 0.08)
    ticks = log_ticks(*limits, at_most=6)
    log_axis(axes, limits, ticks, [format_time(tick) for tick in ticks])
    axes.set_title(format_size(panel.nbytes), loc="left", size=9.0, weight="bold", pad=4)


def _panel(axes: Axes, panel: ChannelPanel) -> None:
    for line in panel.lines:
        _line(axes, line)
    steps = [(p.channels, p.time_us) for p in panel.front]
    last = axes.get_xlim()[1]
    axes.step(
        [*(x for x, _ in steps), last],
        [*(y for _, y in steps), steps[-1][1]],
        where="post",
        color=BLACK,
        linewidth=0.8,
        linestyle=(0, (1, 1.5)),
        zorder=3,
    )
    axes.plot(*zip(*steps, strict=True), "o", color=BLACK, mfc="none", ms=8.5, mew=0.9, zorder=5)
    for point in (p for line in panel.lines for p in line if p.chosen):
        axes.plot(point.channels, point.time_us, "*", color=BLACK, ms=11, mec="white", zorder=6)
    names = [(line[-1], _name(line[-1])) for line in panel.lines]
    ends = [End(name, look(p.setting).ink, p.channels, p.time_us) for p, name in names]
    if panel.baseline_us is not None:
        axes.axhline(panel.baseline_us, color=BLACK, linewidth=1.2, zorder=2)
        ends.append(End("baseline", BLACK, axes.get_xlim()[1], panel.baseline_us))
    end_labels(axes, ends, _NAME)


def _name(point: ChannelPoint) -> str:
    return str(point.setting).rsplit("/", 1)[0]


def _line(axes: Axes, line: tuple[ChannelPoint, ...]) -> None:
    style = look(line[0].setting)
    axes.plot(
        [p.channels for p in line],
        [p.time_us for p in line],
        color=style.colour,
        linestyle=(0, style.dashes) if style.dashes else "-",
        linewidth=1.3,
        marker=style.marker,
        markersize=4,
        markerfacecolor=style.colour if style.filled else "white",
        zorder=4,
    )
