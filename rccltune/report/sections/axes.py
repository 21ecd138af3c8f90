"""What all figures of the page share: axes with ticks, a setting's colour, stamps, tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model import Protocol, Role, Setting, format_size, format_time
from rccltune.report.figure import Axis, Band, Figure, Ink, Line, Marker, Point
from rccltune.report.figures.channels import evenly
from rccltune.report.figures.look import look
from rccltune.report.figures.scene import Scene, Series
from rccltune.report.figures.shapes import axis_range, bands
from rccltune.report.figures.ticks import linear_ticks, log_ticks, ratio_ticks, size_ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What every figure of a target carries.

    Attributes:
        stem: start of its name on the page.
        about: target in words.
        stamp: whether it was measured.
        source: where its figures are from.
        most_points: of one figure.
    """

    stem: str
    about: str
    stamp: str
    loud: bool
    source: str
    most_points: int


def figure(
    frame: Frame,
    kind: str,
    *,
    title: str,
    words: str,
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    rows: tuple[tuple[str, ...], ...],
    header: tuple[str, ...],
    more: str = "",
    bands: tuple[tuple[str, tuple[Band, ...]], ...] = (),
    level: float | None = None,
) -> Figure:
    """A figure under a target's name, with its stamp and source."""
    return Figure(
        name=f"{frame.stem}-{kind}",
        title=f"{frame.about}: {title}",
        words=words,
        stamp=frame.stamp,
        loud=frame.loud,
        x=x,
        y=y,
        lines=tuple(lines),
        header=header,
        rows=rows,
        source=f"{frame.source} {more}".strip(),
        bands=bands,
        level=level,
    )


PALETTE: Final[tuple[Ink, ...]] = ("p1", "p2", "p3", "p4", "p5", "p6")
MARKERS: Final[tuple[Marker, ...]] = ("circle", "square", "triangle", "diamond", "cross")
_INK: Final[Mapping[Protocol, Ink]] = {
    Protocol.LL: "ll",
    Protocol.LL128: "ll128",
    Protocol.SIMPLE: "simple",
}
_MARKER: Final[Mapping[str, Marker]] = {
    "o": "circle",
    "s": "square",
    "^": "triangle",
    "X": "cross",
    "P": "cross",
    "D": "diamond",
    "d": "diamond",
    "v": "triangle",
}


def ink_of(setting: Setting) -> Ink:
    """By protocol, as in the figures of ``rccltune plot``; the site's own is black or white."""
    if setting.protocol is not None:
        return _INK[setting.protocol]
    return "site" if str(setting) == "baseline" else "grey"


def line_of(
    series: Series,
    points: Iterable[Point],
    *,
    shown: Iterable[float] | None = None,
    joined: bool = True,
) -> Line:
    """A setting's line with its points, looking as it does in every figure.

    Args:
        series: the setting.
        points: of the line.
        shown: sizes whose points can be read off; None for all.
        joined: draw the line between them.
    """
    wanted = None if shown is None else set(shown)
    style = look(series.setting, graph=bool(series.curve.key.graph))
    return Line(
        name=series.label,
        points=tuple(p for p in points if wanted is None or p.x in wanted),
        ink=ink_of(series.setting),
        marker=_MARKER[style.marker],
        dashes=style.dashes,
        filled=style.filled,
        joined=joined,
    )


def is_read_off(series: Series, scene: Scene) -> bool:
    """Whether values of a setting are worth reading.

    Our plugin answering nothing is the untouched site once more, for each environment.
    """
    told = series is scene.baseline or series.setting.role is not Role.SILENT
    return told or scene.baseline is None


def thin(
    name: str, ink: Ink, pairs: Iterable[tuple[float, float]], dashes: tuple[float, ...] = ()
) -> Line:
    """A line in the background, without anything to be read off."""
    return Line(name=name, points=_bare(pairs), ink=ink, marker="none", faint=True, dashes=dashes)


def broad(name: str, ink: Ink, pairs: Iterable[tuple[float, float]]) -> Line:
    """The broad stroke of what rules choose."""
    return Line(name=name, points=_bare(pairs), ink=ink, marker="none", chosen=True)


def _bare(pairs: Iterable[tuple[float, float]]) -> tuple[Point, ...]:
    return tuple(Point(x=x, y=y, words="") for x, y in pairs)


def sizes_axis(sizes: Sequence[int]) -> Axis:
    """Message sizes, at powers of two."""
    low, high = axis_range(sizes)
    ticks = size_ticks(low, high, at_most=10)
    return Axis(
        label="message size",
        low=low,
        high=high,
        ticks=tuple((float(tick), format_size(tick)) for tick in ticks if low <= tick <= high),
    )


def ratios_axis(values: Sequence[float], label: str) -> Axis:
    """How many times as fast, 1 among them."""
    low, high = axis_range([min([1.0, *values]), max([1.0, *values])], margin=0.05)
    ticks = tuple((tick, f"{tick:g}×") for tick in ratio_ticks(low, high))
    return Axis(label=label, low=low, high=high, ticks=ticks)


def times_axis(times: Sequence[float]) -> Axis:
    """Times in µs, said in the unit that is shortest."""
    low, high = axis_range(times)
    ticks = tuple((tick, format_time(tick)) for tick in log_ticks(low, high))
    return Axis(label="time per call", low=low, high=high, ticks=ticks)


def straight_axis(values: Sequence[float], label: str, unit: str) -> Axis:
    """A linear axis from the least, or 0, to the greatest value."""
    low, high = min([0.0, *values]), max([0.0, *values])
    pad = (high - low) * 0.05 or 1.0
    low, high = low - (pad if low < 0 else 0.0), high + pad
    ticks = tuple((tick, f"{tick:g}{unit}") for tick in linear_ticks(low, high))
    return Axis(label=label, low=low, high=high, ticks=ticks, logarithmic=False)


def zone_bands(scene: Scene, axis: Axis) -> tuple[tuple[str, tuple[Band, ...]], ...]:
    """What the rules choose, over the panel."""
    found = tuple(
        Band(
            low=band.low,
            high=band.high,
            name=band.labels[0],
            ink=ink_of(band.setting) if band.setting else None,
        )
        for band in bands(scene.zones, axis.low, axis.high)
    )
    return (("rules", found),) if found else ()


def shown_sizes(sizes: Sequence[int], n_lines: int, most_points: int) -> tuple[int, ...]:
    """The sizes whose points have room in a figure, evenly spread, both ends among them."""
    return evenly(sorted(sizes), max(8, most_points // max(1, n_lines)))


def value_rows(
    sizes: Sequence[int], columns: Sequence[Mapping[int, str]]
) -> tuple[tuple[str, ...], ...]:
    """A row for each size that any column has."""
    return tuple(
        (format_size(nbytes), *(column.get(nbytes, "–") for column in columns))
        for nbytes in sizes
        if any(nbytes in column for column in columns)
    )


def left_out(sizes: Sequence[int], shown: Sequence[int], n_faint: int = 0) -> str:
    """What a figure does not show, in words; empty where it shows all."""
    said = []
    if len(shown) < len(sizes):
        said.append(f"{len(shown)} of {len(sizes)} sizes are shown, evenly spread")
    if n_faint:
        lines = "line is" if n_faint == 1 else "lines are"
        said.append(
            f"{n_faint} thin {lines} drawn without values: other channel counts, the plugin idle"
        )
    return ("; ".join(said) + "; samples.csv and fit.json have all.") if said else ""
