"""Puts a figure's shapes, which the page shows as SVG, on paper: PNG, SVG and PDF files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.patches import Polygon, Rectangle

from rccltune.report.drawing import BAND, BAND_TEXT, TEXT, TOP, WIDTH, Drawing, Label, Stroke, draw
from rccltune.report.figures.look import BLACK, GREY, PALE, VERMILLION, wrap
from rccltune.report.records import Figure, Ink, Marker
from rccltune.report.renderers.sheet import POINTS_PER_INCH, Paper, text_width

_PER_INCH: Final = 100.0
# Pixels to points.
_POINT: Final = POINTS_PER_INCH / _PER_INCH
_GRID: Final = "#e5e8eb"
# Dark enough to be read on white, as on a light page.
_INK: Final[Mapping[Ink, str]] = {
    "ll": "#0072b2",
    "ll128": "#a86400",
    "simple": "#00795a",
    "site": BLACK,
    "grey": GREY,
    "bad": VERMILLION,
    "p1": "#0072b2",
    "p2": "#b84a00",
    "p3": "#00795a",
    "p4": "#a94d82",
    "p5": "#8f6200",
    "p6": "#6a51a3",
}
_MARKER: Final[Mapping[Marker, tuple[str, float]]] = {
    "circle": ("o", 7.2),
    "square": ("s", 6.4),
    "triangle": ("^", 7.8),
    "cross": ("x", 6.8),
    "diamond": ("D", 7.0),
    "ring": ("o", 16.0),
    "none": ("", 0.0),
}
_ARROW: Final = {1: ("^", 8.0), -1: ("v", 8.0)}


def draw_figure(figure: Figure) -> Picture:
    """The picture, with head and foot."""
    shapes = draw(figure)
    keys = wrap(";  ".join(shapes.keys), WIDTH - 40, lambda t: text_width(t, BAND_TEXT), 6)
    height = shapes.height - TOP + 6 + 15 * len(keys)
    paper = Paper(
        WIDTH / _PER_INCH,
        height / _PER_INCH,
        title=figure.title,
        second=[figure.subject, figure.words],
        source=figure.source,
        stamp=(figure.stamp, figure.loud),
    )
    axes = paper.axes(0, paper.foot, WIDTH / _PER_INCH, height / _PER_INCH)
    axes.axis("off")
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(TOP - 6 + height, TOP - 6)
    _panel(axes, figure, shapes)
    _bands(axes, shapes)
    panel = Rectangle(
        (shapes.left, shapes.top),
        shapes.right - shapes.left,
        shapes.bottom - shapes.top,
        transform=axes.transData,
    )
    for depth, stroke in enumerate(shapes.strokes):
        _stroke(axes, stroke, panel, depth)
    for line, text in enumerate(keys):
        _text(axes, 20, shapes.height + 12 + 15 * line, text, BAND_TEXT, va="center")
    return paper.figure


def _text(axes: Axes, x: float, y: float, text: str, size: float = TEXT, **how: Any) -> None:  # noqa: ANN401 - whatever matplotlib's text takes
    axes.text(x, y, text, size=size * _POINT, **how)


def _panel(axes: Axes, figure: Figure, shapes: Drawing) -> None:
    left, right, top, bottom = shapes.left, shapes.right, shapes.top, shapes.bottom
    across = [tick for tick in shapes.x_ticks if not tick.fine]
    up = [tick for tick in shapes.y_ticks if not tick.fine]
    grid: dict[str, Any] = {"color": _GRID, "lw": 0.6, "capstyle": "projecting", "zorder": 0}
    axes.vlines([tick.at for tick in across], top, bottom, **grid)
    axes.hlines([tick.at for tick in up], left, right, **grid)
    for tick in across:
        _text(axes, tick.at, bottom + 6, tick.label, ha="center", va="top")
    for tick in up:
        _text(axes, left - 6, tick.at, tick.label, ha="right", va="center_baseline")
    axes.vlines(shapes.borders, top, bottom, color=GREY, lw=0.6, linestyle=(0, (1, 2.5)))
    axes.plot([left, left, right], [top, bottom, bottom], color=GREY, linewidth=0.8, zorder=1)
    middle = (left + right) / 2
    _text(axes, middle, bottom + 26, figure.x.label, color=GREY, ha="center", va="top")
    how: dict[str, Any] = {"color": GREY, "ha": "center", "va": "center", "rotation": 90}
    _text(axes, 12, (top + bottom) / 2, figure.y.label, **how)
    if shapes.level is not None:
        axes.plot([left, right], [shapes.level] * 2, color=BLACK, linewidth=1.2, zorder=1)
    if shapes.level_label is not None:
        _label(axes, shapes.level_label, BLACK)


def _bands(axes: Axes, shapes: Drawing) -> None:
    for row in shapes.rows:
        middle = row.top + BAND / 2
        how: dict[str, Any] = {"ha": "right", "va": "center_baseline", "color": GREY}
        _text(axes, shapes.left - 6, middle, row.name, BAND_TEXT, **how)
        for box in row.boxes:
            ink = box.band.ink
            axes.add_patch(
                Rectangle(
                    (box.left, row.top),
                    box.right - box.left,
                    BAND,
                    facecolor=_tint(_INK[ink]) if ink else "#f5f6f8",
                    edgecolor=_INK[ink] if ink else PALE,
                    linewidth=0.7,
                    linestyle="--" if box.band.doubted else "-",
                    zorder=3 if ink else 2,
                )
            )
            how = {"ha": "center", "va": "center_baseline", "zorder": 4}
            _text(axes, (box.left + box.right) / 2, middle, box.label, BAND_TEXT, **how)


def _stroke(axes: Axes, stroke: Stroke, panel: Rectangle, depth: int) -> None:
    line, colour = stroke.line, _INK[stroke.line.ink]
    if stroke.area:
        axes.add_patch(Polygon(stroke.area, facecolor=colour, alpha=0.14, linewidth=0, zorder=2))
    width = 7.0 if line.chosen else 0.6 if line.faint else 1.3
    if stroke.path:
        (drawn,) = axes.plot(
            *zip(*(stroke.path * 2 if len(stroke.path) == 1 else stroke.path), strict=True),
            color=colour,
            linewidth=width,
            alpha=0.22 if line.chosen else 0.5 if line.faint else 1.0,
            linestyle=(0, tuple(d * _POINT for d in line.dashes)) if line.dashes else "-",
            solid_capstyle="round",
            zorder=5 + depth / 100,
        )
        drawn.set_clip_path(panel)
    # All that look alike by one call: each takes matplotlib as long as a hundred markers.
    for beyond in sorted({spot.beyond for spot in stroke.spots}):
        marker, size = _ARROW.get(beyond) or _MARKER[line.marker]
        alike = [spot for spot in stroke.spots if spot.beyond == beyond]
        axes.plot(
            [spot.x for spot in alike],
            [spot.y for spot in alike],
            linestyle="",
            marker=marker,
            markersize=size * _POINT,
            markeredgecolor=colour,
            markeredgewidth=1.3 if line.marker == "ring" else 0.9,
            markerfacecolor=_face(line.marker, colour, filled=line.filled),
            clip_on=False,
            zorder=7 + depth / 100,
        )
    if stroke.label is not None:
        _label(axes, stroke.label, colour)


def _face(marker: Marker, colour: str, *, filled: bool) -> str:
    return "none" if marker == "ring" else colour if filled else "white"


def _label(axes: Axes, label: Label, colour: str) -> None:
    ends = [label.end[0] + 6, label.x - 4], [label.end[1], label.y]
    axes.plot(*ends, color=GREY, linewidth=0.5, zorder=1)
    how: dict[str, Any] = {"color": colour, "weight": "bold", "va": "center_baseline"}
    _text(axes, label.x, label.y, label.text, **how)


def _tint(colour: str) -> str:
    """The colour at a fifth of its strength on white, opaque so that PDF needs no blending."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * 0.2):02x}" for part in parts)
