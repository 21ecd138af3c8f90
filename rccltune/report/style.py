"""Style of every figure: colours, markers, axes, names beside lines, rules above a panel.

An algorithm has a colour, a protocol a marker. The colours come from Okabe
and Ito's for people with any common colour blindness (jfly.uni-koeln.de/color), as dark as white
paper needs and as bright as a black screen does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from rccltune.model.units import format_size
from rccltune.report.tables import rows

# Of text and axes; a page puts its own colour in its place, which is white on a dark one.
INK: Final = "#1a1b1c"
# Behind text, and inside open markers; a page puts its own paper in its place.
PAPER: Final = "#fefdfc"
GREY: Final = "#808488"
LIKELY: Final = "#2b7bba"
ALERT: Final = "#c8500a"
_COLOURS: Final = {
    "tree": "#d1590a",
    "ring": "#1f77b8",
    "nvls": "#0b8f68",
    "nvls_tree": "#b9609a",
    "pat": "#a37500",
    "collnet_direct": "#8a6d5c",
    "collnet_chain": "#7a6fc4",
}
# Of lines that are no settings, as sizes.
SHADES: Final = tuple(_COLOURS.values())
_MARKERS: Final = {"ll": "o", "ll128": "s", "simple": "^"}
_RC: Final[dict[Any, Any]] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.0,
    "figure.facecolor": PAPER,
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "grid.alpha": 0.3,
    "grid.color": GREY,
    "grid.linewidth": 0.5,
    "legend.edgecolor": "none",
    "legend.facecolor": "none",
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,
    "savefig.dpi": 150,
    "svg.fonttype": "none",
    "svg.hashsalt": "rccltune",
    "text.color": INK,
    # A dollar in somebody's file name is no formula.
    "text.parse_math": False,
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.0,
}
# Of small print, in points.
SMALL: Final = 7.5
# Room for a figure's title, left of a panel for its axis, and for a row of a legend, in inches.
_HEAD: Final = 0.3
_ENTRIES: Final = 0.19
_LEFT: Final = 0.74
# Names beside lines stand at least so far apart, in points, and a letter has about this width.
_LINE: Final = 10.5
_LETTER: Final = 4.9
# Gap in points between the bars of two rules that meet.
_BETWEEN_BARS: Final = 2.0
# Entry of the legend for the bars of rules.
RULED: Final = "bar: sizes with a rule"
# Room that a marker and the gap behind its name take in a legend.
_ENTRY: Final = 40.0
# Room that the label of a size takes below an axis.
_SIZE_LABEL: Final = 42.0
# As many lines as have room for their names beside them.
MOST_NAMED: Final = 12
# More panels than this make a file that nobody looks at.
MOST_PANELS: Final = 24


@contextmanager
def applied() -> Iterator[None]:
    """Within it figures have this style and none of the user's matplotlibrc."""
    with mpl.rc_context(), warnings.catch_warnings():
        # Somebody's file name may have letters that no font here has.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        mpl.rcdefaults()
        for name, value in _RC.items():
            mpl.rcParams[name] = value
        yield


def framed(title: str, size: tuple[float, float], *, simulated: bool) -> Figure:
    """An empty figure of a size in inches, under its title, which says where it is SIMULATED."""
    words = f"{'SIMULATED: ' if simulated else ''}{title}"
    figure = Figure(figsize=size)
    points = min(10.0, 1.55 * size[0] * 72 / len(words))
    _write(figure, words, size[1] - 0.08, weight="bold", size=points)
    return figure


def caption(figure: Figure, words: str, height: float) -> None:
    """A line of small print, its top so many inches above the lower edge."""
    _write(figure, words, height, size=SMALL)


def _write(figure: Figure, words: str, height: float, **looks: Any) -> None:  # noqa: ANN401 - matplotlib's
    """A line of text at the left edge."""
    figure.text(0.08, height, words, va="top", transform=figure.dpi_scale_trans, **looks)


def panels(
    names: Sequence[str],
    title: str,
    *,
    simulated: bool,
    size: tuple[float, float],
    beside: int = 0,
    above: float = 0.52,
    below: float = 0.48,
    legend: Sequence[str] = (),
) -> tuple[Figure, Iterator[tuple[str, Axes]]]:
    """An empty figure with a panel for each name, two beside each other.

    Room is set aside rather than found out by drawing everything twice, which takes longer than
    all else.

    Args:
        names: of the panels, ``all_reduce, 64 ranks on 1 node``.
        title: of the whole.
        simulated: the title begins with SIMULATED.
        size: width and height of a panel in inches.
        beside: letters of the longest name right of a panel.
        above: room for rules and a panel's title, in inches.
        below: room for its axis, in inches.
        legend: entries of the one below all panels, if any.
    """
    drawn_names = names[:MOST_PANELS]
    columns = min(2, len(drawn_names))
    n_rows = math.ceil(len(drawn_names) / columns)
    width = size[0] * columns
    foot = 0.12 + _ENTRIES * math.ceil(len(legend) / _across(width, legend)) if legend else 0.0
    height = size[1] * n_rows + _HEAD + foot
    left_out = len(names) - len(drawn_names)
    more = f" ({left_out} more are not drawn)" if left_out else ""
    figure = framed(f"{title}{more}", (width, height), simulated=simulated)
    right = 0.24 + (0.1 + beside * _LETTER / 72 if beside else 0.0)

    def made() -> Iterator[tuple[str, Axes]]:
        for number, name in enumerate(drawn_names):
            row, column = divmod(number, columns)
            x = column * size[0] + _LEFT
            y = foot + (n_rows - 1 - row) * size[1] + below
            wide, high = size[0] - _LEFT - right, size[1] - above - below
            yield name, figure.add_axes((x / width, y / height, wide / width, high / height))

    return figure, made()


def _points(axes: Axes) -> tuple[float, float]:
    """Width and height of axes in points."""
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("these axes are in no figure")
    box = axes.get_position()
    return 72 * box.width * figure.get_figwidth(), 72 * box.height * figure.get_figheight()


def colour(algorithm: str) -> str:
    """Colour of an algorithm; INK of what is no forced setting, such as the baseline."""
    return _COLOURS.get(algorithm, INK)


def look(row: Any) -> dict[str, Any]:  # noqa: ANN401 - a row of pandas
    """Colour and marker of a setting: of a row with ``algorithm`` and ``protocol``."""
    return {
        "color": colour(row.algorithm),
        "marker": _MARKERS.get(row.protocol, "X" if not row.algorithm else "D"),
        "linestyle": "-",
    }


def ring(axes: Axes, across: pd.Series[Any], up: pd.Series[Any], label: str) -> None:
    """Draw a ring around points that are drawn already."""
    axes.plot(
        across,
        up,
        "o",
        markersize=11,
        markerfacecolor="none",
        markeredgecolor=INK,
        label=label,
    )


def name_panel(axes: Axes, words: str, above: float) -> None:
    """A panel's title so many points above it, as small as its width asks for."""
    wide = _points(axes)[0] + 72 * (_LEFT - 0.4)
    size = min(9.0, wide / (0.6 * len(words)))
    axes.set_title(words, pad=above, x=0.0, size=size)


def sizes_axis(axes: Axes, nbytes: pd.Series[int]) -> None:
    """A logarithmic axis of message sizes, its labels powers of two in KiB, MiB and GiB."""
    low, high = float(nbytes.min()), float(nbytes.max())
    axes.set_xscale("log", base=2)
    axes.set_xlim(low / 1.25, high * 1.25)
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    octave = _points(axes)[0] / math.log2(high * 1.25**2 / low)
    step = next((n for n in (1, 2, 4, 5, 10) if n * octave > _SIZE_LABEL), 20)
    ticks = [2.0**e for e in range(first, last + 1) if e % step == 0] or [low]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_size(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("message size")


def log_axis(axes: Axes, label: str, words: Callable[[float], str]) -> None:
    """A logarithmic axis upwards with round values that are labelled by ``words``."""
    low, high = max(axes.dataLim.y0, axes.dataLim.minposy), axes.dataLim.y1
    # Values that differ in their last digit alone make limits that are one number in logarithms.
    margin = max((high / low) ** 0.05, 1.02)
    low, high = low / margin, high * margin
    axes.set_ylim(low, high)
    axes.set_yscale("log")
    octaves = math.log10(high / low)
    subs = (1.0, 2.0, 5.0) if octaves < 2.5 else (1.0, 3.0) if octaves < 4 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=subs))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel(label)


def ratio_axis(
    axes: Axes, low: float, high: float, label: str, *, least: float | None = None
) -> None:
    """A logarithmic axis of ratios with 1 in it; equal steps where it is short.

    Args:
        axes: to set.
        low: of what is drawn.
        high: of what is drawn.
        label: of the axis.
        least: what is lower is drawn here, and the tick says so.
    """

    def words(value: float, _: object) -> str:
        return f"≤{value:.3g}×" if value == least else f"{value:.3g}×"

    low, high = min(low, 1.0) / 1.06, max(high, 1.0) * 1.06
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    wide = (0.1, 0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50)
    ticks = [one for one in wide if low <= one <= high]
    if len(ticks) < 4:
        step = next((s for s in (0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / s < 8), 0.5)
        ticks = [1 + n * step for n in range(-50, 51) if low <= 1 + n * step <= high]
    while len(ticks) > 9:
        ticks = [one for n, one in enumerate(ticks) if n % 2 == ticks.index(1) % 2]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FuncFormatter(words))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel(label, labelpad=2)
    axes.axhline(1.0, color=GREY, linewidth=1.0, zorder=1)


def name_lines(axes: Axes, ends: Sequence[tuple[float, float, str]]) -> None:
    """Names right of a panel, none over another, each with a thin line to the end of its own.

    Args:
        axes: with its limits set.
        ends: (size in bytes, value, name) of each line's end.
    """
    wide, tall = _points(axes)
    low, high = axes.get_ylim()
    is_log = axes.get_yscale() == "log"

    def share(value: float) -> float:
        at = (
            math.log(value / low) / math.log(high / low) if is_log else (value - low) / (high - low)
        )
        return min(max(at, 0.0), 1.0)

    apart = _LINE / tall
    rising = sorted(ends, key=lambda end: end[1])
    places: list[float] = []
    for _, value, _ in rising:
        places.append(max(share(value), places[-1] + apart if places else 0.0))
    # What was pushed over the top comes back, and pushes those below it.
    top = 1.0
    for number in reversed(range(len(places))):
        places[number] = min(places[number], top)
        top = places[number] - apart
    for (nbytes, value, name), place in zip(rising, places, strict=True):
        axes.annotate(
            name,
            (nbytes, value),
            (1 + 12 / wide, place),
            textcoords="axes fraction",
            va="center",
            size=8.0,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "relpos": (0, 0.5)},
        )


def rule_bar(axes: Axes, rules: pd.DataFrame) -> None:
    """The rules as a bar above a panel, each with its setting's name.

    A name that has no room in its bar stands in it on two lines of small letters, or beside it.

    Args:
        axes: with its sizes set.
        rules: ``min_nbytes``, ``max_nbytes`` (both inclusive), ``setting``, ``algorithm``.
    """
    low, high = axes.get_xlim()
    wide, tall = _points(axes)
    room = wide / math.log(high / low)
    bottom, top = 1 + 3 / tall, 1 + 15 / tall
    where = axes.get_xaxis_transform()
    bars = _bars(rules, low, high, 3 / room)
    # Points from the panel's left edge; a name beside a bar takes room from the next one.
    spans = [(room * math.log(a / low), room * math.log(b / low)) for a, b, *_ in bars]
    free = 0.0
    for number, (left, right, name, algorithm) in enumerate(bars):
        # Neighbours of one colour are two rules.
        meets = number + 1 < len(bars) and bars[number + 1][0] <= right * (1 + 1e-9)
        drawn_to = right * math.exp(-_BETWEEN_BARS / room) if meets else right
        bar: dict[str, Any] = {"color": colour(algorithm), "alpha": 0.35, "linewidth": 0}
        bar["label"] = RULED
        axes.fill_between([left, drawn_to], bottom, top, transform=where, clip_on=False, **bar)
        begin, end = spans[number]
        after = spans[number + 1][0] if number + 1 < len(bars) else wide
        at, text, size = _place_name(name, (max(free, 0.0), begin, end, after))
        free = end
        if size:
            aligned: dict[str, Any] = {"ha": "center", "va": "center", "linespacing": 0.9}
            if "\n" not in text:
                aligned["va"] = "center_baseline"
            if at > end:
                free = 2 * at - end
            place = low * math.exp(at / room)
            axes.text(
                place,
                (bottom + top) / 2,
                text,
                transform=where,
                size=size,
                clip_on=False,
                **aligned,
            )


def _bars(
    rules: pd.DataFrame, low: float, high: float, least: float
) -> list[tuple[float, float, str, str]]:
    """Ends, setting and algorithm of each bar; neighbours with one setting are one.

    Args:
        rules: as of :func:`rule_bar`.
        low: end of the axis.
        high: its other end.
        least: log of the width that can be seen; a rule for one size is drawn as broad.
    """
    bars: list[tuple[float, float, str, str]] = []
    for row in rows(rules.sort_values("min_nbytes")):
        left, right = max(float(row.min_nbytes), low), min(float(row.max_nbytes) + 1.0, high)
        if left >= right:
            continue
        right = max(right, left * math.exp(least))
        last = bars[-1] if bars else None
        if last is not None and last[2] == row.setting and left <= last[1] * (1 + 1e-9):
            bars[-1] = (last[0], max(last[1], right), *last[2:])
        else:
            bars.append((left, right, row.setting, row.algorithm))
    return bars


def _place_name(name: str, around: tuple[float, float, float, float]) -> tuple[float, str, float]:
    """Middle of a bar's name in points, its text and its size, 0 where it has no room.

    Args:
        name: of the setting.
        around: end of what is left of the bar, its own ends, begin of what is right of it.
    """
    before, begin, end, after = around

    def width(text: str, size: float) -> float:
        return _LETTER * 0.92 * len(text) * size / 7.5 + 5

    two = "/\n".join(name.split("/", 1))
    longest = max(two.split("\n"), key=len)
    for size in (7.5, 6.5):
        if width(name, size) <= end - begin:
            return (begin + end) / 2, name, size
    if width(longest, 5.2) - 3 <= end - begin:
        return (begin + end) / 2, two, 5.2
    # Only what has no room at all: a name beside its bar is above sizes without that rule.
    for size in (7.5, 6.5):
        if width(name, size) <= after - end:
            return end + width(name, size) / 2, name, size
        if width(name, size) <= begin - before:
            return begin - width(name, size) / 2, name, size
    return 0.0, "", 0.0


def legend_below(figure: Figure) -> None:
    """Draw the legend of lines and points, once for all panels."""
    known: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    if known:
        across = _across(figure.get_figwidth(), list(known))
        figure.legend(known.values(), known.keys(), loc="lower center", ncols=across)


def _across(inches: float, names: Sequence[str]) -> int:
    """Entries of a legend that have room beside each other."""
    room, wide = 72 * inches, [_LETTER * len(name) + _ENTRY for name in names]
    return len(names) if sum(wide) <= room else max(1, int(room / max(wide)))
