"""The figure of a comparison: time of B over time of A against the size, with its interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.compare.results import FIGURE_FILE, ComparisonResult
from rccltune.model.verdict import Verdict
from rccltune.report import plots, style
from rccltune.session import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE: Final = (6.4, 3.0)
_LOOKS: Final = {
    Verdict.EQUAL: ("o", style.GREY),
    Verdict.FASTER: ("v", "#0b8f68"),
    Verdict.SLOWER: ("^", style.ALERT),
    Verdict.UNDECIDED: ("x", style.GREY),
}


def draw(done: ComparisonResult, folder: Path) -> Path | None:
    """Draw a comparison into its folder; None where nothing was timed.

    Raises:
        SessionError: the disk refuses.
    """
    with style.applied():
        figure = figure_of(done)
        if figure is None:
            return None
        content = plots.encoded(figure, "png", "compare", simulated=done.simulated)
    files.write_atomically(folder / FIGURE_FILE, content)
    return folder / FIGURE_FILE


def figure_of(done: ComparisonResult) -> Figure | None:
    """A panel for each collective; None where nothing was timed."""
    timed = done.table[done.table["low"].notna()]
    names = list(dict.fromkeys(timed["collective"]))
    if not names:
        return None
    figure, panels = style.panels(
        names,
        f"Time of {done.b} over time of {done.a}",
        simulated=done.simulated,
        size=_SIZE,
        legend=[one.value for one in _LOOKS],
    )
    for name, axes in panels:
        points = timed[timed["collective"] == name].sort_values("nbytes")
        axes.axhspan(1 - done.margin, 1 + done.margin, color=style.GREY, alpha=0.15, linewidth=0)
        axes.fill_between(
            *(points[column].to_numpy() for column in ("nbytes", "low", "high")),
            color=style.LIKELY,
            alpha=0.25,
            linewidth=0,
        )
        axes.plot(points["nbytes"], points["ratio"], color=style.LIKELY)
        for verdict, (marker, shade) in _LOOKS.items():
            some = points[points["verdict"] == verdict.value]
            axes.plot(
                some["nbytes"], some["ratio"], marker, color=shade, label=verdict.value, zorder=3
            )
        style.sizes_axis(axes, points["nbytes"])
        low, high = float(points["low"].min()), float(points["high"].max())
        style.ratio_axis(axes, min(low, 1.0), max(high, 1.0), "time B / time A")
        style.name_panel(axes, name, 6.0)
    style.legend_below(figure)
    return figure
