"""Draws the variants figure: what lies above the line at 1 beats the untouched site."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rccltune.report.figures.look import GREY, PALETTE
from rccltune.report.figures.shapes import axis_range
from rccltune.report.figures.ticks import ratio_ticks
from rccltune.report.figures.variants import VariantData, VariantLine
from rccltune.report.renderers.parts import End, end_labels, label_column, log_axis, size_axis
from rccltune.report.renderers.sheet import FOOT, HEAD, LEFT, Sheet

_WIDTH: Final = 9.0
_MAIN: Final = 3.9
_MARKERS: Final = "osD^vP*X"
_UNTOUCHED: Final = "the library's own choice"


def draw_variants(data: VariantData) -> Figure:
    """The figure."""
    height = HEAD + _MAIN + 0.5 + FOOT
    sheet = Sheet(
        data.scene, _WIDTH, height, "variants against the library's own choice", _notes(data)
    )
    labels = [_UNTOUCHED, *(line.label for line in data.lines)]
    width = _WIDTH - LEFT - label_column(labels)
    limits = axis_range(data.scene.sizes)
    axes = sheet.axes(LEFT, FOOT + 0.5, width, _MAIN)
    size_axis(axes, limits, width)
    reach = axis_range(data.ratios, margin=0.06)
    ticks = ratio_ticks(*reach)
    log_axis(axes, reach, ticks, [f"{tick:g}×" for tick in ticks])
    axes.set_ylabel("baseline time / time  (above 1 is faster)")
    axes.axhline(1.0, color=GREY, linewidth=1.3, zorder=2)
    ends = [End(_UNTOUCHED, GREY, limits[1], 1.0)]
    ends += [_drawn(axes, line, number) for number, line in enumerate(data.lines)]
    end_labels(axes, ends)
    return sheet.figure


def _notes(data: VariantData) -> str:
    notes = ["each with the rules that belong to it"]
    if any(line.threshold_nbytes is not None for line in data.lines):
        notes.append("dotted: threshold")
    return ", ".join(notes)


def _drawn(axes: Axes, line: VariantLine, number: int) -> End:
    """The line, its threshold, and where it ends."""
    colour, ink = PALETTE[number % len(PALETTE)]
    axes.plot(
        [x for x, _ in line.points],
        [y for _, y in line.points],
        color=colour,
        linewidth=2.6 if line.chosen else 1.4,
        linestyle=(0, (2, 1.5)) if line.lossy else "-",
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=4.5,
        markerfacecolor=colour if line.chosen else "white",
        zorder=5 if line.chosen else 4,
    )
    if line.threshold_nbytes is not None:
        axes.axvline(line.threshold_nbytes, color=colour, linewidth=1.0, linestyle=(0, (1, 1.5)))
    x, y = line.points[-1]
    return End(line.label, ink, x, y)
