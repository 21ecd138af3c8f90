"""Draws the time figure: zones, times with fitted curves, crossovers, residuals, from top down."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rccltune.report.figures.labels import elide, first_that_fits
from rccltune.report.figures.look import BLACK, GREY
from rccltune.report.figures.scene import Series
from rccltune.report.figures.shapes import Polyline, axis_range, bands, doubts_noted, repeated
from rccltune.report.figures.ticks import linear_ticks
from rccltune.report.figures.timing import Crossing, ResidualPanel, TimeData
from rccltune.report.renderers.parts import (
    RIBBON,
    borders,
    end_labels,
    faint,
    halo,
    label_column,
    path,
    ribbon,
    series_end,
    series_look,
    size_axis,
    strong,
    time_axis,
)
from rccltune.report.renderers.sheet import (
    FOOT,
    HEAD,
    LEFT,
    POINTS_PER_INCH,
    SMALL,
    Sheet,
    text_width,
)

_WIDTH: Final = 9.5
_MAIN: Final = 4.0
_ROW: Final = 0.2
_PANEL: Final = 1.05
_PER_ROW: Final = 4


def draw_timing(data: TimeData) -> Figure:
    """The figure."""
    panel_rows = -(-len(data.residuals) // _PER_ROW)
    crossing_strip = _ROW * len(data.crossings) + (0.12 if data.crossings else 0)
    panels = panel_rows * (_PANEL + 0.42) + (0.28 if panel_rows else 0)
    ribbon_height = RIBBON + 0.06 if data.scene.zones else 0.0
    low = FOOT + panels + 0.5
    height = HEAD + ribbon_height + _MAIN + crossing_strip + low
    sheet = Sheet(data.scene, _WIDTH, height, "time, fitted curves and crossovers", _notes(data))
    width = _WIDTH - LEFT - label_column([line.series.label for line in data.leads])
    limits = axis_range(data.scene.sizes)
    cut = bands(data.scene.zones, *limits)
    main = sheet.axes(LEFT, low + crossing_strip, width, _MAIN)
    _main(main, data, limits, width)
    borders(main, cut)
    if cut:
        top = low + crossing_strip + _MAIN + 0.06
        ribbon(sheet.axes(LEFT, top, width, RIBBON), limits, width, cut)
    if data.crossings:
        strip = sheet.axes(LEFT, low, width, crossing_strip)
        _crossings(strip, data, limits, width)
        size_axis(main, limits, width, labelled=False)
    _residuals(sheet, data, limits, FOOT + panels)
    return sheet.figure


def _notes(data: TimeData) -> str:
    notes = ["broad stroke: chosen"] if data.chosen else []
    if data.faint:
        notes.append("thin: other channel counts")
    if any(line.textbook for line in data.leads):
        notes.append("grey: latency + bytes/bandwidth")
    if any(c.crossover.linear_nbytes is not None for c in data.crossings):
        notes.append("×: lines cross")
    if data.n_crossings_left_out:
        notes.append(f"{data.n_crossings_left_out} crossovers not shown")
    if data.n_residuals_left_out:
        notes.append(f"{data.n_residuals_left_out} residual panels not shown")
    return ", ".join([*notes, *doubts_noted(data.scene.zones)])


def _main(axes: Axes, data: TimeData, limits: tuple[float, float], inches: float) -> None:
    # Faint lines may leave the panel: sixteen-fold slower channel counts are not its subject.
    shown = [*data.scene.leads, *(series for _, series in data.scene.chosen)]
    times = [p.time_us for series in shown for p in series.curve.points]
    size_axis(axes, limits, inches)
    time_axis(axes, axis_range(times), _MAIN)
    for series in data.faint:
        faint(axes, series, _points(series.time_by_size))
    for series, points in data.chosen:
        halo(axes, series, points)
    for line in data.leads:
        for straight in line.textbook:
            axes.plot(*zip(*straight, strict=True), color="#9a9a9a", linewidth=0.6, zorder=2)
        for piece in line.paths:
            path(axes, line.series, piece)
        strong(axes, line.series, _points(line.series.time_by_size), line=False)
        _intervals(axes, line.series)
    leads = data.scene.leads
    end_labels(axes, [series_end(s, s.label, _points(s.time_by_size)[-1]) for s in leads])
    for crossing in data.crossings:
        _diamond(axes, crossing)


def _intervals(axes: Axes, series: Series) -> None:
    known = [p for p in series.curve.points if repeated(p)]
    lows, highs = [p.low_us for p in known], [p.high_us for p in known]
    colour = series_look(series).colour
    axes.vlines([p.nbytes for p in known], lows, highs, color=colour, linewidth=1.0, zorder=3)


def _points(times: dict[int, float]) -> Polyline:
    return tuple((float(nbytes), time_us) for nbytes, time_us in times.items())


def _diamond(axes: Axes, crossing: Crossing) -> None:
    if crossing.time_us is not None:
        axes.plot(
            crossing.crossover.at_nbytes,
            crossing.time_us,
            marker="D",
            markersize=7,
            markerfacecolor="none",
            markeredgecolor=BLACK,
            markeredgewidth=1.2,
            zorder=6,
        )


def _crossings(axes: Axes, data: TimeData, limits: tuple[float, float], inches: float) -> None:
    """One row for each crossover, so that no label can cover another."""
    size_axis(axes, limits, inches)
    axes.set_ylim(len(data.crossings) - 0.4, -0.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for row, crossing in enumerate(data.crossings):
        found = crossing.crossover
        axes.plot([found.low_nbytes, found.high_nbytes], [row, row], color=BLACK, linewidth=1.4)
        ends = [found.low_nbytes, found.high_nbytes]
        axes.plot(ends, [row, row], "|", color=BLACK, markersize=7, markeredgewidth=1.4)
        axes.plot(found.at_nbytes, row, "D", color=BLACK, markersize=4.5)
        if found.linear_nbytes is not None and limits[0] < found.linear_nbytes < limits[1]:
            axes.plot(found.linear_nbytes, row, "x", color=GREY, markersize=5.5)
        _row_label(axes, crossing, row, inches)


def _row_label(axes: Axes, crossing: Crossing, row: int, inches: float) -> None:
    """At the right of the bar, or at its left where there is more room."""
    found = crossing.crossover
    marks = [found.low_nbytes, found.high_nbytes, found.at_nbytes]
    if found.linear_nbytes is not None:
        marks.append(found.linear_nbytes)
    to_axes = axes.transData + axes.transAxes.inverted()
    fractions = [float(to_axes.transform((mark, row))[0]) for mark in marks]
    left, right = max(0.0, min(fractions)), min(1.0, max(fractions))
    at_right = 1 - right >= left
    room = (1 - right if at_right else left) * inches * POINTS_PER_INCH - 8
    axes.annotate(
        elide(crossing.label, room, lambda text: text_width(text, 7.0)),
        (right if at_right else left, row),
        xycoords=("axes fraction", "data"),
        xytext=(7 if at_right else -7, 0),
        textcoords="offset points",
        ha="left" if at_right else "right",
        va="center",
        size=7.0,
    )


def _residuals(sheet: Sheet, data: TimeData, limits: tuple[float, float], top: float) -> None:
    """Small panels with one scale, so that a bad fit looks bad beside a good one."""
    if not data.residuals:
        return
    sheet.text(
        0.2,
        top + 0.02,
        "Residuals (fitted − measured) / measured in %:  ○ straight line   ● segmented"
        "      in brackets: model used, its held-out error",
        SMALL,
    )
    values = [y for p in data.residuals for _, y in (*p.textbook, *p.segmented)]
    reach = max(1.0, *(abs(value) for value in values)) * 1.1
    width = (_WIDTH - LEFT - 0.2) / _PER_ROW
    for i, panel in enumerate(data.residuals):
        row, column = divmod(i, _PER_ROW)
        bottom = top - 0.42 - row * (_PANEL + 0.42) - _PANEL
        axes = sheet.axes(LEFT + column * width, bottom, width - 0.15, _PANEL)
        size_axis(axes, limits, width)
        axes.set_xlabel("")
        axes.set_ylim(-reach, reach)
        axes.set_yticks(linear_ticks(-reach, reach, 5))
        if column:
            axes.tick_params(labelleft=False)
        _residual(axes, panel, width)


def _residual(axes: Axes, panel: ResidualPanel, inches: float) -> None:
    style = series_look(panel.series)
    axes.axhline(0, color=GREY, linewidth=0.8)
    for points, filled in ((panel.textbook, False), (panel.segmented, True)):
        if points:
            axes.plot(
                *zip(*points, strict=True),
                color=style.colour,
                linewidth=1.0 if filled else 0.6,
                marker="o",
                markersize=3.2,
                markerfacecolor=style.colour if filled else "white",
            )
    label, room = panel.series.label, (inches - 0.2) * POINTS_PER_INCH
    titles = (f"{label} ({panel.note})", label)
    text = first_that_fits(titles, room, _bold_width) or elide(label, room, _bold_width)
    axes.set_title(text, size=7.0, color=style.ink, weight="bold", loc="left", pad=3)


def _bold_width(text: str) -> float:
    return text_width(text, 7.0, "bold")
