"""The paper every figure is drawn on: title, source, the word for its origin, and text widths.

matplotlib's object interface only (no pyplot, no global figure), with the house's own style and
none of the user's matplotlibrc, so that the same data gives the same bytes everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from rccltune.report.figures.labels import elide
from rccltune.report.figures.look import BLACK, GREY, VERMILLION
from rccltune.report.figures.scene import Scene

POINTS_PER_INCH: Final = 72
SMALL: Final = 8.0
LEFT: Final = 0.75
HEAD: Final = 0.72
FOOT: Final = 0.34
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
    with mpl.rc_context(), warnings.catch_warnings():
        # A source text in a script that the bundled font lacks shows boxes; that is no failure.
        warnings.filterwarnings("ignore", message="(?s)Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


@cache
def text_width(text: str, size: float = SMALL, weight: str = "normal") -> float:
    """Width of one line in points, from the font's own metrics."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)


class Paper:
    """A figure with its head and foot; axes are placed in inches from the lower left corner."""

    def __init__(
        self, width: float, height: float, *, title: str, second: str, source: str, origin: str
    ) -> None:
        """Start a figure.

        Args:
            width: inches.
            height: inches.
            title: what is shown.
            second: the line below it.
            source: where the numbers come from, for the foot; may be empty.
            origin: ``simulated``, ``published`` or ``measured``, or extrapolated from that.
        """
        self.width = width
        self.height = height
        self.figure = Figure(figsize=(width, height))
        FigureCanvasAgg(self.figure)
        self._origin(origin)
        room = (width - 0.4) * POINTS_PER_INCH
        self.text(0.2, height - 0.17, title, 11.5, weight="bold")
        self.text(0.2, height - 0.44, elide(second, room, text_width), SMALL, GREY)
        source = " ".join(source.split())
        if source:
            self.text(0.2, 0.19, elide(f"Source: {source}", room - 60, text_width), 7.0, GREY)
        self.text(width - 0.2, 0.19, "rccltune", 7.0, GREY, ha="right")

    def _origin(self, origin: str) -> None:
        """The word in the corner; a simulated figure must not be taken for a measurement."""
        simulated = origin.endswith("simulated")
        extrapolated = origin.startswith("extrapolated")
        word = "SIMULATED, no hardware" if simulated else origin
        if extrapolated:
            word = "SIMULATED, EXTRAPOLATED" if simulated else "EXTRAPOLATED, not measured"
        simulated = simulated or extrapolated
        self.figure.text(
            1 - 0.2 / self.width,
            1 - 0.17 / self.height,
            word,
            ha="right",
            va="top",
            size=10.0 if simulated else SMALL,
            weight="bold",
            color="white" if simulated else BLACK,
            bbox={
                "boxstyle": "round,pad=0.3",
                "facecolor": VERMILLION if simulated else "white",
                "edgecolor": VERMILLION if simulated else GREY,
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


class Sheet(Paper):
    """The paper of a target's figure."""

    def __init__(self, scene: Scene, width: float, height: float, title: str, notes: str) -> None:
        """Start a figure; ``notes`` follow machine, scale and view in the second line."""
        super().__init__(
            width,
            height,
            title=f"{scene.collective.value}: {title}",
            second=_subtitle(scene, notes, (width - 0.4) * POINTS_PER_INCH / 3),
            source=scene.given.source,
            origin=scene.given.origin,
        )


def _subtitle(scene: Scene, notes: str, room: float) -> str:
    """Machine (in so many points), scale, view and notes in one line."""
    machine = " ".join(scene.given.machine.split())
    words = [elide(machine, room, text_width)]
    if str(scene.scale) not in machine:
        words.append(str(scene.scale))
    if scene.rank_placement not in (None, "node"):
        words.append(f"placement {scene.rank_placement}")
    if scene.extrapolated is not None:
        words.append(str(scene.extrapolated))
    words.append(str(scene.view))
    if scene.views_left_out:
        first, *others = scene.views_left_out
        more = f" and {len(others)} more" if others else ""
        words.append(f"also measured: {first}{more}")
    words.append(notes)
    return "  ·  ".join(word for word in words if word)
