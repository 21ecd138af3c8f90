"""Draws the table figure: sizes down, settings across, darker where slower."""

from __future__ import annotations

import math
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rccltune.model.vocabulary import format_size, format_time
from rccltune.report.figures.look import BLACK, GREY, look, wrap
from rccltune.report.figures.scene import Series
from rccltune.report.figures.table import Cell, TableData
from rccltune.report.renderers.sheet import POINTS_PER_INCH, SMALL, Paper, text_width

_ROW: Final = 0.34
_COLUMN: Final = 0.86
_HEADER_LINE: Final = 0.14
_LEGEND_LINE: Final = 0.15
# White to dark blue, one hue and falling lightness: the same order in greyscale and for anyone.
_LIGHT: Final = (255, 255, 255)
_DARK: Final = (8, 48, 107)
_WORST: Final = 4.0


def shade(ratio: float) -> tuple[str, str]:
    """Fill of a cell and the colour of its text: white at the best, dark at four times and more.

    Logarithmic, so that 2× lies halfway; text is always dark on light or white on dark.
    """
    share = min(math.log(ratio) / math.log(_WORST), 1.0)
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(_LIGHT, _DARK, strict=True))
    # WCAG's relative luminance; at 0.18 black and white text have the same contrast.
    linear = [(part / 255) ** 2.2 for part in (red, green, blue)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return f"#{red:02x}{green:02x}{blue:02x}", BLACK if luminance > 0.18 else "white"


def draw_table(data: TableData) -> Figure:
    """The figure."""
    notes = [f"{data.n_sizes} sizes measured"] if data.n_sizes > len(data.sizes) else []
    if data.n_settings > len(data.columns):
        notes.append(f"{len(data.columns)} of {data.n_settings} settings shown")
    scene = data.scene
    body_width, body_height = _COLUMN * len(data.columns), _ROW * len(data.sizes)
    names = [format_size(nbytes) for nbytes in data.sizes]
    left = max(text_width(name) for name in names) / POINTS_PER_INCH + 0.3
    header = _HEADER_LINE * max(_heading(c).count("\n") + 1 for c in data.columns) + 0.12
    width = max(6.5, left + body_width + 0.3)
    legend = _legend(data, (width - 0.4) * POINTS_PER_INCH)
    below = 0.32 + _LEGEND_LINE * len(legend) + 0.12
    paper = Paper(
        width,
        header + body_height + below,
        title=f"{scene.about}: time by size and setting",
        second=["  ·  ".join([scene.given.machine, str(scene.view), *notes])],
        source=f"Source: {scene.given.source}" if scene.given.source else "",
        stamp=scene.given.stamp,
    )
    foot = paper.foot + below
    axes = paper.axes(left, foot, body_width, body_height + header)
    axes.axis("off")
    axes.set_xlim(0, len(data.columns))
    axes.set_ylim(len(data.sizes), -header / _ROW)
    for x, column in enumerate(data.columns):
        _header(axes, x, column)
    for y, (name, row) in enumerate(zip(names, data.rows, strict=True)):
        axes.text(-0.1, y + 0.5, name, ha="right", va="center", size=SMALL)
        for x, cell in enumerate(row):
            _cell(axes, x, y, cell)
    _key(paper, foot, legend)
    return paper.figure


def _header(axes: Axes, x: int, column: Series) -> None:
    words = _heading(column)
    axes.text(
        x + 0.5,
        -0.15,
        words,
        ha="center",
        va="bottom",
        size=SMALL if text_width(max(words.split("\n"), key=len)) < 56 else 6.5,
        weight="bold",
        linespacing=1.1,
        color=look(column.setting).ink if column.unselectable is None else GREY,
    )


def _heading(column: Series) -> str:
    words = column.label.replace(" ", "\n").replace("/", "/\n", 1)
    return words if column.unselectable is None else f"{words} †"


def _cell(axes: Axes, x: int, y: int, cell: Cell) -> None:
    if cell.time_us is None or cell.ratio is None:
        axes.text(x + 0.5, y + 0.5, "–", ha="center", va="center", size=SMALL, color=GREY)
        return
    fill, ink = shade(cell.ratio)
    place = (x + 0.03, y + 0.04)
    axes.add_patch(Rectangle(place, 0.94, 0.92, facecolor=fill, linewidth=0))
    weight = "bold" if cell.best else "normal"
    time = format_time(cell.time_us)
    how: dict[str, Any] = {"ha": "center", "va": "center", "color": ink}
    axes.text(x + 0.5, y + 0.34, time, size=SMALL, weight=weight, **how)
    below = "best" if cell.best else _ratio(cell.ratio)
    axes.text(x + 0.5, y + 0.76, below, size=6.0, weight=weight, **how)
    if cell.best or cell.best_selectable:
        dashes = "-" if cell.best else (0, (2, 1.2))
        axes.add_patch(
            Rectangle(place, 0.94, 0.92, fill=False, edgecolor=BLACK, lw=1.6, ls=dashes, zorder=5)
        )
    if cell.chosen:
        filled = "none" if cell.is_doubted else ink
        star: dict[str, Any] = {"color": ink, "ms": 6, "mew": 0.7, "mfc": filled}
        axes.plot(x + 0.12, y + 0.26, "*", zorder=6, clip_on=False, **star)


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


def _legend(data: TableData, room: float) -> list[str]:
    """What frames, stars and daggers mean; only what occurs."""
    cells = [cell for row in data.rows for cell in row]
    words = ["Below each time: how many times the row's best.  Framed: best measured."]
    if any(cell.best_selectable for cell in cells):
        words[0] += "  Dashed: best that a rule can choose."
    chosen = [cell for cell in cells if cell.chosen]
    if not all(cell.is_doubted for cell in chosen):
        words[0] += "  ★ Chosen by the rules."
    if any(cell.is_doubted for cell in chosen):
        words[0] += "  ☆ Chosen, not proven by the sweep."
    words += [f"† Not selectable: {note}" for note in data.footnotes]
    words += [f"Not measured: {note}" for note in data.missing]
    return [line for text in words for line in wrap(text, room, _note_width, 3)]


def _note_width(text: str) -> float:
    return text_width(text, 7.0)


def _key(paper: Paper, top: float, legend: list[str]) -> None:
    """The shades, and the legend below them."""
    left = 0.2
    for ratio in (1.0, 1.2, 1.5, 2.0, 3.0, 4.0):
        fill, ink = shade(ratio)
        patch = Rectangle(
            (left / paper.width, (top - 0.29) / paper.height),
            0.5 / paper.width,
            0.18 / paper.height,
            facecolor=fill,
            edgecolor=GREY,
            linewidth=0.5,
        )
        paper.figure.add_artist(patch)
        label = f"≥ {ratio:g}×" if ratio == _WORST else f"{ratio:g}×"
        paper.text(left + 0.25, top - 0.2, label, 6.5, ink, ha="center", va="center_baseline")
        left += 0.5
    for number, line in enumerate(legend):
        paper.text(0.2, top - 0.36 - _LEGEND_LINE * number, line, 7.0)
