"""Draws the bus bandwidth figure: linear above, for the plateau, and logarithmic below."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rccltune.report.figures.bandwidth import (
    BandwidthData,
    BandwidthLine,
    BandwidthPoint,
    CeilingLine,
)
from rccltune.report.figures.look import BLACK
from rccltune.report.figures.shapes import Polyline, axis_range
from rccltune.report.figures.ticks import linear_ticks, log_ticks
from rccltune.report.renderers.parts import (
    end_labels,
    faint,
    label_column,
    log_axis,
    series_end,
    series_look,
    size_axis,
    strong,
)
from rccltune.report.renderers.sheet import FOOT, HEAD, LEFT, SMALL, Sheet

_WIDTH = 9.0
_UPPER = 3.1
_LOWER = 2.5
_ROOM = 1.14


def draw_bandwidth(data: BandwidthData) -> Figure:
    """The figure."""
    thin = ["other channel counts"] if data.faint else []
    thin += ["the other placement"] if data.has_twins else []
    notes = "numbers: peak in GB/s" + (f",  thin: {' and '.join(thin)}" if thin else "")
    height = HEAD + _UPPER + 0.22 + _LOWER + 0.5 + FOOT
    sheet = Sheet(data.scene, _WIDTH, height, "bus bandwidth of every setting", notes)
    column = label_column([_peak(line) for line in data.leads])
    width = _WIDTH - LEFT - column
    limits = axis_range(data.scene.sizes)
    low = FOOT + 0.5
    lower = sheet.axes(LEFT, low, width, _LOWER)
    upper = sheet.axes(LEFT, low + _LOWER + 0.22, width, _UPPER)
    size_axis(lower, limits, width)
    size_axis(upper, limits, width, labelled=False)
    _linear(upper, data)
    _logarithmic(lower, data)
    if data.ceiling is not None:
        _ceiling_label(upper, data.ceiling)
    for axes, label in ((upper, _peak), (lower, _name)):
        _lines(axes, data)
        ends = [(line, line.points[-1]) for line in data.leads]
        end_labels(
            axes, [series_end(i.series, label(i), (float(p.nbytes), p.busbw)) for i, p in ends]
        )
    return sheet.figure


def _name(line: BandwidthLine) -> str:
    return line.series.label


def _peak(line: BandwidthLine) -> str:
    """Label with the greatest value, which is what people look for first."""
    peak = max(p.busbw for p in line.points)
    return f"{line.series.label}  {peak:.3g}" if peak < 1000 else f"{line.series.label}  {peak:.0f}"


def _all(data: BandwidthData) -> list[BandwidthPoint]:
    """What the axes must hold; faint lines may leave them."""
    return [p for line in data.leads for p in (*line.points, *line.twin)]


def _limits(data: BandwidthData) -> list[float]:
    return [] if data.ceiling is None else [data.ceiling.ceiling.gb_per_s]


def _linear(axes: Axes, data: BandwidthData) -> None:
    top = max(p.busbw for p in _all(data))
    limits = _limits(data)
    # Room for the ceiling's label above whatever is drawn.
    top = (_ROOM if limits else 1.05) * max([top, *limits])
    axes.set_ylim(0, top)
    axes.set_yticks(linear_ticks(0, top))
    axes.set_ylabel("bus bandwidth (GB/s), linear")


def _logarithmic(axes: Axes, data: BandwidthData) -> None:
    values = [*(p.busbw for p in _all(data)), *_limits(data)]
    limits = axis_range(values)
    ticks = log_ticks(*limits, at_most=8)
    log_axis(axes, limits, ticks, [f"{tick:g}" for tick in ticks])
    axes.set_ylabel("bus bandwidth (GB/s), logarithmic")


def _lines(axes: Axes, data: BandwidthData) -> None:
    for line in data.faint:
        faint(axes, line.series, _polyline(line.points))
    for line in data.leads:
        faint(axes, line.series, _polyline(line.twin))
        strong(axes, line.series, _polyline(line.points))
        _band(axes, line)
    for limit in _limits(data):
        axes.axhline(limit, color=BLACK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)


def _ceiling_label(axes: Axes, ceiling: CeilingLine) -> None:
    """Above all lines, whatever sizes they begin at."""
    axes.text(0.01, 0.99, ceiling.label, transform=axes.transAxes, va="top", size=SMALL, zorder=6)


def _polyline(points: Sequence[BandwidthPoint]) -> Polyline:
    return tuple((float(p.nbytes), p.busbw) for p in points)


def _band(axes: Axes, line: BandwidthLine) -> None:
    """Intervals of repeated points."""
    known = [p for p in line.points if p.low is not None and p.high is not None]
    xs = [p.nbytes for p in known]
    lows, highs = [p.low or 0.0 for p in known], [p.high or 0.0 for p in known]
    colour = series_look(line.series).colour
    axes.fill_between(xs, lows, highs, color=colour, alpha=0.15, linewidth=0, zorder=2)
