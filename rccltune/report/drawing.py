"""A figure's data as shapes in pixels, for the page and for files; no text is markup here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Final

from rccltune.model.vocabulary import format_size, format_span
from rccltune.report.figures.look import capacity, spread
from rccltune.report.records import Axis, Band, Figure, Line, Marker, Point
from rccltune.report.renderers.sheet import text_width

WIDTH: Final = 900.0
TEXT: Final = 12.0
BAND_TEXT: Final = 11.0
_LEFT: Final = 70.0
_MARGIN: Final = 8.0
# Between a line's end and its name, room for a leader.
_GAP: Final = 20.0
_LINE: Final = 15.0
_PANEL: Final = 340.0
# Room for the stamp, which on the page is a part of the picture.
TOP: Final = 22.0
BAND: Final = 20.0
_BAND_GAP: Final = 5.0
_BELOW: Final = 44.0
# Ends of names' leaders and of thin lines may lie so many panels outside.
_BEYOND: Final = 1.0

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick's place and label; ``fine`` ones are for who looks at a part of the axis."""

    at: float
    label: str
    fine: bool = False


@dataclass(frozen=True, slots=True)
class Spot:
    """A point's marker and its words.

    Attributes:
        beyond: 1 or -1 for a value above or below the panel, on whose edge it stands.
    """

    x: float
    y: float
    words: str
    beyond: int = 0


@dataclass(frozen=True, slots=True)
class Label:
    """A line's name at its end: where it stands, and where its leader begins."""

    text: str
    x: float
    y: float
    end: Place


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line: its path, its interval's outline there and back, its points, its name.

    Attributes:
        key: its entry in the legend.
    """

    line: Line
    key: str
    path: tuple[Place, ...]
    area: tuple[Place, ...]
    spots: tuple[Spot, ...]
    label: Label | None


@dataclass(frozen=True, slots=True)
class Box:
    """A band's rectangle, with what there is room for: its name, a short one, a letter, nothing."""

    left: float
    right: float
    label: str
    band: Band


@dataclass(frozen=True, slots=True)
class Row:
    """One row of bands.

    Attributes:
        keys: what a letter stands for, and what has no room for one.
    """

    name: str
    top: float
    boxes: tuple[Box, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """All shapes of a figure; x to the right and y down, from the upper left corner."""

    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    rows: tuple[Row, ...]
    borders: tuple[float, ...]
    level: float | None
    level_label: Label | None
    strokes: tuple[Stroke, ...]
    width: float = WIDTH

    @property
    def legend(self) -> tuple[Stroke, ...]:
        """An entry for each key, shown as the line that carries values where one does."""
        found: dict[str, Stroke] = {}
        for one in sorted(self.strokes, key=lambda s: not s.spots):
            found.setdefault(one.key, one)
        order = list(dict.fromkeys(one.key for one in self.strokes if one.spots))
        rest = [key for key in found if key not in order]
        return tuple(found[key] for key in (*order, *rest))

    @property
    def keys(self) -> tuple[str, ...]:
        """What the letters on the bands stand for."""
        return tuple(key for row in self.rows for key in row.keys)


def draw(figure: Figure) -> Drawing:
    """Every shape of a figure."""
    top = TOP + len(figure.bands) * (BAND + _BAND_GAP)
    named = [line for line in figure.lines if _is_named(line)]
    names = [_end_name(figure.y, line) for line in named]
    names += [figure.level[1]] if figure.level and figure.level[1] else []
    widest = max((text_width(name, TEXT, "bold") for name in names), default=0.0)
    right = WIDTH - _MARGIN - (widest + _GAP if names else 0.0)
    place = _Place(figure.x, figure.y, right, top, top + _PANEL)
    labels = _labels(figure, named, names, place)
    letters = iter(ascii_lowercase)
    return Drawing(
        height=top + _PANEL + _BELOW,
        left=_LEFT,
        right=right,
        top=top,
        bottom=top + _PANEL,
        x_ticks=tuple(Tick(place.x(at), text, fine) for at, text, fine in _ticks(figure.x)),
        y_ticks=tuple(Tick(place.y(at), text, fine) for at, text, fine in _ticks(figure.y)),
        rows=tuple(
            _row(name, bands, number, place, letters)
            for number, (name, bands) in enumerate(figure.bands)
        ),
        borders=tuple(place.x(b.low) for b in (figure.bands[0][1][1:] if figure.bands else ())),
        level=None if figure.level is None else place.y(figure.level[0]),
        level_label=labels[len(named)] if len(labels) > len(named) else None,
        # Broad strokes behind, then thin lines, then what is read off.
        strokes=tuple(
            _stroke(line, labels[named.index(line)] if line in named else None, place)
            for line in sorted(figure.lines, key=lambda one: (not one.chosen, not one.faint))
        ),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Values to places on the paper."""

    across: Axis
    up: Axis
    right: float
    top: float
    bottom: float

    def x(self, value: float) -> float:
        return _LEFT + self.across.share(value) * (self.right - _LEFT)

    def y(self, value: float, beyond: float = 0.0) -> float:
        return self.bottom - self.up.share(value, beyond) * (self.bottom - self.top)


def _ticks(axis: Axis) -> Iterator[tuple[float, str, bool]]:
    coarse = {value for value, _ in axis.ticks}
    yield from ((value, text, False) for value, text in axis.ticks)
    yield from ((value, text, True) for value, text in axis.fine if value not in coarse)


def _is_named(line: Line) -> bool:
    return line.labelled and bool(line.points) and not (line.faint or line.chosen)


def _end_name(axis: Axis, line: Line) -> str:
    """A line that has left the panel says so."""
    last = line.points[-1].y
    return f"{line.name} {'↓' if last < axis.low else '↑'}" if _beyond(axis, last) else line.name


def _beyond(axis: Axis, value: float) -> int:
    return (value > axis.high) - (value < axis.low)


def _labels(
    figure: Figure, named: Sequence[Line], names: Sequence[str], place: _Place
) -> list[Label | None]:
    """Names beside the ends of their lines, none over another; the last stand back for room."""
    ends = [(place.x(line.points[-1].x), place.y(line.points[-1].y)) for line in named]
    if figure.level is not None and len(names) > len(named):
        ends.append((place.right, place.y(figure.level[0])))
    low, high = place.top - _LINE / 2, place.bottom + _LINE / 2
    shown = ends[: capacity(_LINE, low, high)]
    centres = spread([y for _, y in shown], _LINE, low, high)
    made: list[Label | None] = [
        Label(name, place.right + _GAP, centre, end)
        for name, centre, end in zip(names, centres, shown, strict=False)
    ]
    return made + [None] * (len(ends) - len(shown))


def _row(
    name: str, bands: Sequence[Band], number: int, place: _Place, letters: Iterator[str]
) -> Row:
    boxes, keys = [], []
    for band in bands:
        left, right = place.x(band.low), place.x(band.high)
        known = [text for text in (band.name, band.short) if text]
        label = next((t for t in known if text_width(t, BAND_TEXT) <= right - left - 4), None)
        if label is None:
            span = _span(band, place.across)
            label = (next(letters, "") or "…") if right - left >= BAND_TEXT else ""
            # A letter stays with what it stands for.
            keys.append(f"{label or '·'}:\N{NO-BREAK SPACE}{band.name}, {span}")
        boxes.append(Box(left, max(right, left + 0.5), label, band))
    return Row(name, TOP + number * (BAND + _BAND_GAP), tuple(boxes), tuple(keys))


def _span(band: Band, axis: Axis) -> str:
    """Its sizes; a band that ends with the axis has no end of its own."""
    low, last = round(band.low), max(round(band.low), round(band.high) - 1)
    if band.low <= axis.low:
        return f"up to {format_size(last)}"
    return f"above {format_size(low - 1)}" if band.high >= axis.high else format_span(low, last)


def _stroke(line: Line, label: Label | None, place: _Place) -> Stroke:
    bare = line.faint or line.chosen or line.marker == "none"
    # What is read off stays on the panel; a bare line is cut at its edge.
    beyond = _BEYOND if bare else 0.0
    path = tuple((place.x(p.x), place.y(p.y, beyond)) for p in line.points)
    return Stroke(
        line=line,
        key=line.key or line.name,
        path=path if line.joined else (),
        area=() if bare else _area(line.points, place),
        spots=() if bare else tuple(_spots(line, place)),
        label=label,
    )


def _area(points: Sequence[Point], place: _Place) -> tuple[Place, ...]:
    known = [(p.x, p.low, p.high) for p in points if p.low is not None and p.high is not None]
    if len(known) < 2:
        return ()
    there = [(place.x(x), place.y(high)) for x, _, high in known]
    back = [(place.x(x), place.y(low)) for x, low, _ in reversed(known)]
    return (*there, *back)


def _spots(line: Line, place: _Place) -> Iterator[Spot]:
    for point in line.points:
        yield Spot(place.x(point.x), place.y(point.y), point.words, _beyond(place.up, point.y))


def number(value: float) -> str:
    """At most one decimal: a tenth of a pixel is less than anybody sees."""
    return f"{value:.1f}".removesuffix(".0")


def svg_path(places: Sequence[Place], *, closed: bool = False) -> str:
    """The places as an SVG path; one place alone shows its round ends."""
    pairs = [f"{number(x)} {number(y)}" for x, y in places]
    pairs = pairs * 2 if len(pairs) == 1 else pairs
    return "M" + "L".join(pairs) + ("Z" if closed else "") if pairs else ""


_ARC: Final = "M-{r} 0a{r} {r} 0 1 1 {d} 0a{r} {r} 0 1 1 -{d} 0z"
_SHAPES: Final[Mapping[Marker, str]] = {
    "circle": _ARC.format(r=3.6, d=7.2),
    "ring": _ARC.format(r=8, d=16),
    "square": "M-3.2 -3.2h6.4v6.4h-6.4z",
    "triangle": "M0 -4.4l4.2 7.4h-8.4z",
    "cross": "M-3.4 -3.4l6.8 6.8m0 -6.8l-6.8 6.8",
    "diamond": "M-4.6 0l4.6 -4.6l4.6 4.6l-4.6 4.6z",
    "none": "",
}


def svg_marker(marker: Marker, beyond: int = 0) -> str:
    """The SVG path of a marker around the origin; an arrow for what lies beyond the panel."""
    return f"M0 {-5 * beyond}l4.2 {8 * beyond}h-8.4z" if beyond else _SHAPES[marker]
