"""What all figures of the page share: axes with ticks, a setting's colour, stamps, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Protocol, format_size, format_time
from rccltune.report.figures.lines import evenly
from rccltune.report.figures.look import (
    axis_range,
    bands,
    linear_ticks,
    log_ticks,
    look,
    ratio_ticks,
    size_ticks,
)
from rccltune.report.figures.scene import Scene, Series
from rccltune.report.records import Axis, Band, Figure, Ink, Line, Marker, Point, Ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What every figure of a target carries.

    Attributes:
        stem: start of its name.
        about: target in words.
        subject: machine in words.
        stamp: whether it was measured.
        source: where its figures are from.
        most_points: of one figure.
    """

    stem: str
    about: str
    subject: str
    stamp: str
    loud: bool
    source: str
    most_points: int


def frame_of(scene: Scene, stem: str, most_points: int) -> Frame:
    """The frame of a target's figures, on the page and in files."""
    given = scene.given
    word, loud = given.stamp
    said = f"From fit.json, made of samples.csv ({scene.view}); source: {given.source}."
    if scene.views_left_out:
        said += f" Also measured and not drawn: {', '.join(map(str, scene.views_left_out[:4]))}."
    return Frame(
        stem=stem,
        about=scene.about,
        subject=given.machine,
        stamp=word,
        loud=loud,
        source=f"SIMULATED. {said}" if given.simulated else said,
        most_points=most_points,
    )


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
    level: tuple[float, str] | None = None,
) -> Figure:
    """A figure under a target's name, with its stamp and source."""
    return Figure(
        name=f"{frame.stem}-{kind}",
        title=f"{frame.about}: {title}",
        words=words,
        subject=frame.subject,
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


def thin(
    name: str,
    ink: Ink,
    pairs: Iterable[tuple[float, float]],
    *,
    dashes: tuple[float, ...] = (),
    key: str,
) -> Line:
    """A line in the background, without anything to be read off; ``key`` names it and its like."""
    return Line(
        name=name, points=_bare(pairs), ink=ink, marker="none", faint=True, dashes=dashes, key=key
    )


def broad(ink: Ink, pairs: Iterable[tuple[float, float]]) -> Line:
    """The broad stroke of what rules choose."""
    name = "what the rules choose"
    return Line(name=name, points=_bare(pairs), ink=ink, marker="none", chosen=True)


def _bare(pairs: Iterable[tuple[float, float]]) -> tuple[Point, ...]:
    return tuple(Point(x=x, y=y, words="") for x, y in pairs)


# So many more ticks for who looks at a part of an axis.
_FINE: Final = 60


def sizes_axis(sizes: Sequence[int]) -> Axis:
    """Message sizes, at powers of two."""
    low, high = axis_range(sizes)

    def ticks(at_most: int) -> Ticks:
        found = size_ticks(low, high, at_most)
        return tuple((float(n), format_size(n)) for n in found if low <= n <= high)

    return Axis(label="message size", low=low, high=high, ticks=ticks(9), fine=ticks(_FINE))


def ratios_axis(values: Sequence[float], label: str) -> Axis:
    """How many times as fast, 1 among them."""
    low, high = axis_range([min([1.0, *values]), max([1.0, *values])], margin=0.05)
    return _axis(label, low, high, ratio_ticks, lambda tick: f"{tick:.4g}×")


def times_axis(times: Sequence[float]) -> Axis:
    """Times in µs, said in the unit that is shortest."""
    return _axis("time per call", *axis_range(times), log_ticks, format_time)


def straight_axis(values: Sequence[float], label: str, unit: str) -> Axis:
    """A linear axis from the least, or 0, to the greatest value."""
    low, high = min([0.0, *values]), max([0.0, *values])
    pad = (high - low) * 0.05 or 1.0
    low, high = low - (pad if low < 0 else 0.0), high + pad
    return _axis(label, low, high, linear_ticks, lambda tick: f"{tick:g}{unit}", logarithmic=False)


def _axis(
    label: str,
    low: float,
    high: float,
    ticks: Callable[[float, float], tuple[float, ...]],
    said: Callable[[float], str],
    *,
    logarithmic: bool = True,
) -> Axis:
    """An axis whose fine ticks are evenly spaced values."""
    fine = linear_ticks(low, high, _FINE)
    return Axis(
        label=label,
        low=low,
        high=high,
        ticks=tuple((tick, said(tick)) for tick in ticks(low, high)),
        fine=tuple((tick, said(tick)) for tick in fine),
        logarithmic=logarithmic,
    )


def zone_bands(scene: Scene, axis: Axis) -> tuple[tuple[str, tuple[Band, ...]], ...]:
    """What the rules choose, over the panel."""
    found = tuple(
        Band(
            low=band.low,
            high=band.high,
            name=band.labels[0],
            short=band.labels[-1],
            ink=ink_of(band.setting) if band.setting else None,
            doubted=band.is_doubted,
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


def left_out(sizes: Sequence[int], shown: Sequence[int]) -> str:
    """How many sizes a figure does not show; empty where it shows all."""
    if len(shown) == len(sizes):
        return ""
    many = f"{len(shown)} of {len(sizes)} sizes are shown, evenly spread"
    return f"{many}; samples.csv and fit.json have all."
