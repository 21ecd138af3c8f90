"""Parts that several figures share: axes of sizes and times, lines, end labels, zone ribbons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

from rccltune.model import format_size, format_time
from rccltune.report.figures.labels import capacity, first_that_fits, spread
from rccltune.report.figures.look import BLACK, GREY, Look, look
from rccltune.report.figures.scene import Series
from rccltune.report.figures.shapes import Band, Polyline
from rccltune.report.figures.ticks import log_ticks, size_ticks
from rccltune.report.renderers.sheet import POINTS_PER_INCH, SMALL, text_width

RIBBON: Final = 0.42
_LINE_HEIGHT: Final = 1.22
# Inches between the end of a line and its label, room for a leader.
_GAP: Final = 0.22
# More markers on one line run into each other.
_MARKERS: Final = 32
_TICK_INCHES: Final = 0.62
_HATCHING: Final = "#dedede"
_LEADER: Final = {
    "arrowstyle": "-",
    "color": GREY,
    "linewidth": 0.5,
    "shrinkA": 1,
    "shrinkB": 4,
    "relpos": (0.0, 0.5),
}


class End(NamedTuple):
    """The end of a line, in data units, and what to write beside it."""

    text: str
    ink: str
    x: float
    y: float


def series_end(series: Series, text: str, end: tuple[float, float]) -> End:
    """The end of a series' line."""
    return End(text, series_look(series).ink, *end)


def series_look(series: Series) -> Look:
    """The look of a series."""
    return look(series.setting, graph=bool(series.curve.key.graph))


def label_column(labels: Sequence[str], size: float = SMALL) -> float:
    """Inches to leave at the right of axes for their end labels."""
    widest = max((text_width(label, size, "bold") for label in labels), default=0.0)
    return _GAP + widest / POINTS_PER_INCH + 0.2


def size_axis(
    axes: Axes, limits: tuple[float, float], inches: float, *, labelled: bool = True
) -> None:
    """A logarithmic x axis with byte labels."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(*limits)
    ticks = size_ticks(*limits, at_most=max(2, int(inches / _TICK_INCHES)))
    labels = [format_size(tick) if labelled else "" for tick in ticks]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter(labels))
    fine = size_ticks(*limits, at_most=64)
    axes.xaxis.set_minor_locator(FixedLocator(fine))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if labelled:
        axes.set_xlabel("message size")


def time_axis(axes: Axes, limits: tuple[float, float], inches: float) -> None:
    """A logarithmic y axis of times."""
    ticks = log_ticks(*limits, at_most=max(3, int(inches / 0.3)))
    log_axis(axes, limits, ticks, [format_time(tick) for tick in ticks])
    axes.set_ylabel("time per call")


def log_axis(
    axes: Axes, limits: tuple[float, float], ticks: Sequence[float], labels: Sequence[str]
) -> None:
    """A logarithmic y axis with given ticks and no others."""
    axes.set_yscale("log")
    axes.set_ylim(*limits)
    axes.yaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.yaxis.set_major_formatter(FixedFormatter(list(labels)))
    axes.yaxis.set_minor_locator(NullLocator())


def strong(axes: Axes, series: Series, points: Polyline, *, line: bool = True) -> None:
    """A lead: markers, and its line unless a fitted curve takes the line's place."""
    style = series_look(series)
    axes.plot(
        [x for x, _ in points],
        [y for _, y in points],
        color=style.colour,
        linestyle=(0, style.dashes) if style.dashes else "-",
        linewidth=1.6 if line else 0,
        marker=style.marker,
        markersize=4.5,
        markevery=-(-len(points) // _MARKERS),
        markerfacecolor=style.colour if style.filled else "white",
        markeredgewidth=1.0,
        zorder=4,
    )


def path(axes: Axes, series: Series, points: Polyline, width: float = 1.6) -> None:
    """A line without markers."""
    style = series_look(series)
    axes.plot(
        [x for x, _ in points],
        [y for _, y in points],
        color=style.colour,
        linestyle=(0, style.dashes) if style.dashes else "-",
        linewidth=width,
        zorder=3,
    )


def faint(axes: Axes, series: Series, points: Polyline) -> None:
    """A line in the background."""
    style = series_look(series)
    xs, ys = [x for x, _ in points], [y for _, y in points]
    axes.plot(xs, ys, color=style.colour, linewidth=0.6, alpha=0.4, zorder=2)


def halo(axes: Axes, series: Series, points: Polyline) -> None:
    """A broad light stroke behind what the rules choose."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    axes.plot(
        xs,
        ys,
        color=series_look(series).colour,
        linewidth=9,
        alpha=0.28,
        marker="o" if len(points) == 1 else None,
        markersize=9,
        markeredgewidth=0,
        solid_capstyle="round",
        zorder=1.5,
    )


def end_labels(axes: Axes, ends: Sequence[End], size: float = SMALL) -> None:
    """Labels in a column at the right, each tied to the end of its line.

    Limits and scale of the axes must be set before. Labels for which there is no room are left
    out from the last on.
    """
    width, tall = _points(axes)
    height = size * _LINE_HEIGHT
    roof = tall + height / 2
    shown = list(ends)[: capacity(height, -height / 2, roof)]
    wanted = [_fraction(axes, end.x, end.y) * tall for end in shown]
    centres = spread(wanted, height, -height / 2, roof)
    for end, centre in zip(shown, centres, strict=True):
        axes.annotate(
            end.text,
            xy=(end.x, end.y),
            xytext=(1 + _GAP * POINTS_PER_INCH / width, centre / tall),
            textcoords="axes fraction",
            va="center",
            ha="left",
            size=size,
            weight="bold",
            color=end.ink,
            annotation_clip=False,
            arrowprops=_LEADER,
        )


def _points(axes: Axes) -> tuple[float, float]:
    """Width and height of the axes in points."""
    box, figure = axes.get_position(), axes.get_figure(root=True)
    width, height = figure.get_size_inches() * POINTS_PER_INCH if figure else (1.0, 1.0)
    return float(box.width * width), float(box.height * height)


def _fraction(axes: Axes, x: float, y: float) -> float:
    """Height of a data point in the axes, from 0 to 1 and not beyond."""
    pixels = axes.transData.transform((x, y))
    return float(min(max(axes.transAxes.inverted().transform(pixels)[1], 0.0), 1.0))


def ribbon(axes: Axes, limits: tuple[float, float], inches: float, bands: Sequence[Band]) -> None:
    """Zones as labelled boxes over another panel; holes are hatched, what is unproven is dashed."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(*limits)
    axes.set_ylim(0, 1)
    axes.axis("off")
    for band in bands:
        left, right = (_fraction_x(axes, x) for x in (band.low, band.high))
        style = look(band.setting) if band.setting else None
        box = Rectangle(
            (left, 0),
            right - left,
            1,
            transform=axes.transAxes,
            facecolor=_tint(style.colour) if style else "white",
            edgecolor=GREY,
            linewidth=0.8,
            linestyle="--" if band.is_doubted else "-",
            hatch=None if style else "////",
        )
        axes.add_patch(box)
        room = (right - left) * inches * POINTS_PER_INCH - 3
        text = first_that_fits(band.labels, room, lambda t: text_width(t, 7.0, "bold"))
        if text is not None:
            axes.text(
                (left + right) / 2,
                0.5,
                text,
                transform=axes.transAxes,
                ha="center",
                va="center",
                size=7.0,
                weight="bold",
                linespacing=1.05,
                color=style.ink if style else BLACK,
                bbox=None if style else {"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            )


def _fraction_x(axes: Axes, x: float) -> float:
    pixels = axes.transData.transform((x, 0.5))
    return float(axes.transAxes.inverted().transform(pixels)[0])


def _tint(colour: str) -> str:
    """The colour at a fifth of its strength on white, opaque so that PDF needs no blending."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * 0.22):02x}" for part in parts)


def borders(axes: Axes, bands: Sequence[Band]) -> None:
    """Thin vertical lines where one zone ends, hatching where there is no rule."""
    for band in bands:
        if band.setting is None:
            hole = axes.axvspan(band.low, band.high, facecolor="none", linewidth=0, zorder=0)
            hole.set(hatch="//", edgecolor=_HATCHING)
            # Since matplotlib 3.11 hatching has a colour of its own.
            if hasattr(hole, "set_hatchcolor"):
                hole.set_hatchcolor(_HATCHING)
    for band in bands[1:]:
        axes.axvline(band.low, color=GREY, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
