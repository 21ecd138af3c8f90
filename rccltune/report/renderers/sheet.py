"""The paper every figure is drawn on: title, source, the word for its origin, and text widths.

matplotlib's object interface only (no pyplot, no global figure), with the house's own style and
none of the user's matplotlibrc, so that the same data gives the same bytes everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from rccltune.report.figures.look import BLACK, GREY, wrap

POINTS_PER_INCH: Final = 72
SMALL: Final = 8.0
_TITLE: Final = 11.5
_FOOT: Final = 7.0
_EDGE: Final = 0.2
_LINE: Final = 0.15
_STYLE: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": SMALL,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": BLACK,
    "ytick.labelcolor": BLACK,
    "lines.scale_dashes": False,
    "hatch.linewidth": 0.5,
    "hatch.color": "#9a9a9a",
    "svg.hashsalt": "rccltune",
    "pdf.fonttype": 42,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Within it matplotlib has the house's style alone; afterwards what it had before."""
    with mpl.rc_context(), _missing_glyphs_allowed():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


@cache
def text_width(text: str, size: float = SMALL, weight: str = "normal") -> float:
    """Width of one line in points, from the font's own metrics."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    # Half a character of two is none that a font could measure.
    text = text.encode(errors="replace").decode()
    with _missing_glyphs_allowed():
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)


@contextmanager
def _missing_glyphs_allowed() -> Iterator[None]:
    """A text in a script that the bundled font lacks shows boxes; that is no failure."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s)Glyph .* missing from font")
        yield


class Paper:
    """A figure with its head and foot; axes are placed in inches from the lower left corner.

    Attributes:
        foot: inches below the body.
    """

    def __init__(
        self,
        width: float,
        body: float,
        *,
        title: str,
        second: Sequence[str],
        source: str,
        stamp: tuple[str, bool],
    ) -> None:
        """Start a figure.

        Args:
            width: inches.
            body: height in inches between head and foot.
            title: what is shown.
            second: what stands below it, each on lines of its own.
            source: where the numbers come from, for the foot; may be empty.
            stamp: whether it was measured, and whether that is said loudly.
        """
        room = (width - 2 * _EDGE) * POINTS_PER_INCH
        below = [line for text in second for line in wrap(text, room, text_width, 4)]
        feet = wrap(source, room, _small_width, 4)
        titles = wrap(title, room - _small_width(stamp[0]) * 1.7, _title_width, 2)
        self.width = width
        self.foot = 0.16 + _LINE * max(1, len(feet))
        self.height = 0.3 + 0.22 * len(titles) + _LINE * len(below) + body + self.foot
        self.figure = Figure(figsize=(width, self.height))
        FigureCanvasAgg(self.figure)
        self._stamp(*stamp)
        at = self.height - 0.14
        for line in titles:
            self.text(_EDGE, at, line, _TITLE, weight="bold")
            at -= 0.22
        for line in below:
            self.text(_EDGE, at - 0.06, line, SMALL, GREY)
            at -= _LINE
        for number, line in enumerate(reversed(feet)):
            self.text(_EDGE, 0.2 + _LINE * number, line, _FOOT, GREY)
        if not feet:
            self.text(width - _EDGE, 0.2, "rccltune", _FOOT, GREY, ha="right")

    def _stamp(self, word: str, loud: bool) -> None:
        """The word in the corner; a simulated figure must not be taken for a measurement."""
        self.figure.text(
            1 - _EDGE / self.width,
            1 - 0.15 / self.height,
            word,
            ha="right",
            va="top",
            size=SMALL,
            weight="bold",
            color="white" if loud else BLACK,
            bbox={
                "boxstyle": "round,pad=0.3",
                "facecolor": "#a33b00" if loud else "white",
                "edgecolor": "#a33b00" if loud else GREY,
                "linewidth": 0.8,
            },
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float = SMALL,
        color: str = BLACK,
        **more: Any,  # noqa: ANN401 - whatever matplotlib's text takes
    ) -> None:
        """Write one line with its upper left corner at (x, y) inches."""
        how: dict[str, Any] = {"ha": "left", "va": "top"} | more
        self.figure.text(x / self.width, y / self.height, words, size=size, color=color, **how)

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Axes at a place given in inches."""
        return self.figure.add_axes(
            (left / self.width, bottom / self.height, width / self.width, height / self.height)
        )


def _title_width(text: str) -> float:
    return text_width(text, _TITLE, "bold")


def _small_width(text: str) -> float:
    return text_width(text, _FOOT)
