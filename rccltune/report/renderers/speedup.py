"""Draws the speed-up figure: everything above the line at 1 beats the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rccltune.report.figures.look import BLACK
from rccltune.report.figures.shapes import Polyline, axis_range, bands, doubts_noted
from rccltune.report.figures.speedup import HIGHEST, LOWEST, SpeedupData, SpeedupLine, SpeedupPoint
from rccltune.report.figures.ticks import ratio_ticks
from rccltune.report.renderers.parts import (
    RIBBON,
    End,
    borders,
    end_labels,
    faint,
    halo,
    label_column,
    log_axis,
    ribbon,
    series_end,
    series_look,
    size_axis,
    strong,
)
from rccltune.report.renderers.sheet import FOOT, HEAD, LEFT, Sheet

_WIDTH: Final = 9.0
_MAIN: Final = 3.9


def draw_speedup(data: SpeedupData) -> Figure:
    """The figure."""
    limits_y = _limits(data)
    notes = []
    if data.chosen:
        notes.append("broad stroke: chosen")
    if any(p.low is not None for line in data.leads for p in line.points):
        notes.append("bands: intervals")
    if data.faint:
        notes.append("thin: other channel counts")
    notes += [*doubts_noted(data.scene.zones), *_cut_off(data)]
    ribbon_height = RIBBON + 0.06 if data.scene.zones else 0.0
    height = HEAD + ribbon_height + _MAIN + 0.5 + FOOT
    title = f"speed-up over {data.baseline.label}"
    sheet = Sheet(data.scene, _WIDTH, height, title, ", ".join(notes))
    width = _WIDTH - LEFT - label_column([_end(line, limits_y).text for line in data.leads])
    limits = axis_range(data.scene.sizes)
    axes = sheet.axes(LEFT, FOOT + 0.5, width, _MAIN)
    size_axis(axes, limits, width)
    ticks = ratio_ticks(*limits_y)
    log_axis(axes, limits_y, ticks, [f"{tick:g}×" for tick in ticks])
    axes.set_ylabel("baseline time / time  (above 1 is faster)")
    cut = bands(data.scene.zones, *limits)
    borders(axes, cut)
    _lines(axes, data, limits_y)
    if cut:
        ribbon(sheet.axes(LEFT, FOOT + 0.5 + _MAIN + 0.06, width, RIBBON), limits, width, cut)
    return sheet.figure


def _limits(data: SpeedupData) -> tuple[float, float]:
    """Axis limits: the data's reach and a margin, unless it was cut there."""
    low, high = data.reach
    wide = axis_range([low, high], margin=0.05)
    return (low if low == LOWEST else wide[0], high if high == HIGHEST else wide[1])


def _cut_off(data: SpeedupData) -> list[str]:
    ratios = [p.ratio for line in (*data.leads, *data.faint) for p in line.points]
    cut = [f"below {LOWEST:g}×"] if min(ratios) < LOWEST else []
    cut += [f"above {HIGHEST:g}×"] if max(ratios) > data.reach[1] else []
    return [f"cut {' and '.join(cut)}"] if cut else []


def _lines(axes: Axes, data: SpeedupData, limits: tuple[float, float]) -> None:
    axes.axhline(1.0, color=BLACK, linewidth=1.3, zorder=3)
    for chosen in data.chosen:
        halo(axes, chosen.series, _polyline(chosen.points))
    for line in data.faint:
        faint(axes, line.series, _polyline(line.points))
    for line in data.leads:
        strong(axes, line.series, _polyline(line.points))
        _band(axes, line)
    ends = [_end(line, limits) for line in data.leads]
    ends.append(End(data.baseline.label, BLACK, axes.get_xlim()[1], 1.0))
    end_labels(axes, ends)


def _end(line: SpeedupLine, limits: tuple[float, float]) -> End:
    """A line that has left the panel says where it went."""
    last = line.points[-1]
    text = line.series.label
    inside = min(max(last.ratio, limits[0]), limits[1])
    if last.ratio != inside:
        text += f" {'↓' if last.ratio < inside else '↑'} {last.ratio:.2g}×"
    return series_end(line.series, text, (float(last.nbytes), inside))


def _polyline(points: Sequence[SpeedupPoint]) -> Polyline:
    return tuple((float(p.nbytes), p.ratio) for p in points)


def _band(axes: Axes, line: SpeedupLine) -> None:
    known = [p for p in line.points if p.low is not None and p.high is not None]
    xs = [p.nbytes for p in known]
    lows, highs = [p.low or 0.0 for p in known], [p.high or 0.0 for p in known]
    colour = series_look(line.series).colour
    axes.fill_between(xs, lows, highs, color=colour, alpha=0.15, linewidth=0, zorder=2)
