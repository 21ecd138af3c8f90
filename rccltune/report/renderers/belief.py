"""Draws the belief figure: what the library would choose, predicted times, what that loses."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rccltune.model import AS_GOOD, Protocol, format_time
from rccltune.report.figures.belief import BeliefData, BeliefLine
from rccltune.report.figures.look import BLACK, PALE, VERMILLION
from rccltune.report.figures.shapes import Band, axis_range
from rccltune.report.figures.ticks import linear_ticks
from rccltune.report.renderers.parts import (
    End,
    end_labels,
    label_column,
    ribbon,
    series_end,
    series_look,
    size_axis,
    strong,
    time_axis,
)
from rccltune.report.renderers.sheet import FOOT, HEAD, POINTS_PER_INCH, SMALL, Sheet

_WIDTH: Final = 9.5
_LEFT: Final = 1.05
_MAIN: Final = 4.2
_LOSS: Final = 1.0
_STRIP: Final = 0.36
_GAP: Final = 0.06
_DASH: Final = 2.2
# The model says the same of LL and LL128: shifted dashes leave both to be seen.
_SHIFT: Final = {Protocol.LL: 0.0, Protocol.LL128: _DASH, Protocol.SIMPLE: 0.0}
# Predictions further than this from everything measured would press it into a strip.
_REACH: Final = 4.0
# A loss panel that reaches to half a percent would make a drama of noise.
_LEAST_LOSS: Final = 10.0


def draw_belief(data: BeliefData) -> Figure:
    """The figure."""
    reach = _reach(data)
    strips = _strips(data)
    height = HEAD + len(strips) * (_STRIP + _GAP) + _MAIN + 0.14 + _LOSS + 0.5 + FOOT
    sheet = Sheet(
        data.scene, _WIDTH, height, "measured against what the library predicts", _notes(data)
    )
    width = _WIDTH - _LEFT - label_column([_predicted_label(line, reach) for line in data.lines])
    limits = axis_range([x for line in data.lines for x, _ in (*line.measured, *line.predicted)])
    low = FOOT + 0.5
    loss = sheet.axes(_LEFT, low, width, _LOSS)
    _loss(loss, data, width)
    size_axis(loss, limits, width)
    main = sheet.axes(_LEFT, low + _LOSS + 0.14, width, _MAIN)
    _main(main, data, limits, width)
    top = low + _LOSS + 0.14 + _MAIN + _GAP
    for name, bands in strips:
        cut = [
            replace(band, low=max(band.low, limits[0]), high=min(band.high, limits[1]))
            for band in bands
        ]
        ribbon(sheet.axes(_LEFT, top, width, _STRIP), limits, width, cut)
        sheet.text(_LEFT - 0.08, top + _STRIP / 2, name, SMALL, ha="right", va="center")
        top += _STRIP + _GAP
    return sheet.figure


def _strips(data: BeliefData) -> list[tuple[str, tuple[Band, ...]]]:
    """From below: who was fastest, what it chooses, and what its table says where that differs."""
    strips = [("fastest", data.fastest), ("its choice", data.chosen)]
    return [*strips, ("its table", data.table)] if data.table else strips


def _notes(data: BeliefData) -> str:
    notes = ["thin dashes: predicted"]
    if data.beaten:
        notes.append("circled: its choice, where another is faster")
    if data.variant != "default":
        notes.append(f"choice under {data.variant}")
    return ",  ".join(notes)


def _predicted_label(line: BeliefLine, reach: tuple[float, float]) -> str:
    text = f"{line.series.label} predicted"
    if not line.predicted or reach[0] <= line.predicted[-1][1] <= reach[1]:
        return text
    last = line.predicted[-1][1]
    return f"{text} {'↓' if last < reach[0] else '↑'} {format_time(last)}"


def _main(axes: Axes, data: BeliefData, limits: tuple[float, float], inches: float) -> None:
    size_axis(axes, limits, inches, labelled=False)
    reach = _reach(data)
    time_axis(axes, reach, _MAIN)
    ends = []
    for line in data.lines:
        style = series_look(line.series)
        strong(axes, line.series, line.measured)
        ends.append(series_end(line.series, line.series.label, line.measured[-1]))
        if line.predicted:
            axes.plot(
                *zip(*line.predicted, strict=True),
                color=style.colour,
                linewidth=1.1,
                linestyle=(_shift(line), (_DASH, _DASH)),
                marker="_" if len(line.predicted) == 1 else None,
                zorder=3,
            )
            ends.append(_predicted_end(line, reach))
    beaten = [(one.nbytes, one.choice_us) for one in data.beaten if one.choice_us is not None]
    if beaten:
        axes.plot(
            *zip(*beaten, strict=True),
            "o",
            markersize=10,
            markerfacecolor="none",
            markeredgecolor=VERMILLION,
            markeredgewidth=1.4,
            zorder=6,
        )
    end_labels(axes, ends)


def _reach(data: BeliefData) -> tuple[float, float]:
    """Everything measured, and of what is predicted as much as is near to it."""
    measured = [y for line in data.lines for _, y in line.measured]
    times = measured + [y for line in data.lines for _, y in line.predicted]
    low = max(min(times), min(measured) / _REACH)
    return axis_range([low, min(max(times), max(measured) * _REACH)])


def _shift(line: BeliefLine) -> float:
    protocol = line.series.setting.protocol
    return _SHIFT[protocol] if protocol else 0.0


def _predicted_end(line: BeliefLine, reach: tuple[float, float]) -> End:
    """A line that has left the panel says where it went."""
    x, y = line.predicted[-1]
    inside = min(max(y, reach[0]), reach[1])
    return End(_predicted_label(line, reach), series_look(line.series).ink, x, inside)


def _loss(axes: Axes, data: BeliefData, inches: float) -> None:
    """By how much its choice is slower than the fastest, a bar for each size."""
    known = [(one, 100 * one.loss) for one in data.held if one.loss is not None]
    worst = max((percent for _, percent in known), default=0.0)
    top = max(worst, _LEAST_LOSS) * 1.3
    axes.set_ylim(0, top)
    axes.set_yticks(linear_ticks(0, top, 5))
    axes.set_ylabel("its choice\nloses (%)")
    thick = min(9.0, 0.6 * inches * POINTS_PER_INCH / max(1, len(known)))
    for one, percent in known:
        colour = VERMILLION if one.is_beaten else PALE
        axes.vlines(one.nbytes, 0, percent, color=colour, linewidth=thick, zorder=3)
    if not data.beaten:
        words = f"nowhere more than {100 * AS_GOOD:.0f} %" if known else "not measured"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", size=SMALL)
    beaten = [(percent, one.nbytes) for one, percent in known if one.is_beaten]
    if beaten:
        percent, nbytes = max(beaten)
        axes.annotate(
            f"{percent:.0f} %",
            (nbytes, percent),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            size=SMALL,
            color=BLACK,
        )
