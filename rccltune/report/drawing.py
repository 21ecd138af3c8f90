"""A figure's data as shapes of an SVG, in its own units; no text is made into markup here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.report.figure import Axis, Band, Figure, Ink, Line, Marker, Point

WIDTH: Final = 760.0
_LEFT: Final = 66.0
_RIGHT: Final = 14.0
_PANEL: Final = 320.0
_TOP: Final = 26.0
_BAND: Final = 20.0
_BAND_GAP: Final = 5.0
_BELOW: Final = 46.0
# Width of a letter of a band's label; who does not fit is left to its tooltip and the table.
_LETTER: Final = 6.4
_RADIUS: Final = 3.6


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick's place and label."""

    at: str
    label: str


@dataclass(frozen=True, slots=True)
class Spot:
    """A point's marker and its words."""

    x: str
    y: str
    shape: str
    words: str


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line: its path, its interval's outline, its points.

    Attributes:
        swatch: shape of its marker for the legend.
    """

    name: str
    ink: Ink
    path: str
    area: str
    dashes: str
    filled: bool
    faint: bool
    chosen: bool
    spots: tuple[Spot, ...]
    swatch: str


@dataclass(frozen=True, slots=True)
class Box:
    """A band's rectangle, with a label where there is room for one."""

    x: str
    width: str
    middle: str
    label: str
    name: str
    ink: Ink | None


@dataclass(frozen=True, slots=True)
class Row:
    """One row of bands."""

    name: str
    top: str
    text: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """All shapes of a figure; numbers are text already, so that the page stays small."""

    width: str
    height: str
    left: str
    right: str
    top: str
    bottom: str
    below: str
    middle: str
    centre: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    rows: tuple[Row, ...]
    borders: tuple[str, ...]
    level: str | None
    strokes: tuple[Stroke, ...]

    @property
    def legend(self) -> tuple[Stroke, ...]:
        """Lines that a reader tells apart."""
        return tuple(one for one in self.strokes if not one.faint and not one.chosen)


def draw(figure: Figure) -> Drawing:
    """Every shape of a figure."""
    top = _TOP + len(figure.bands) * (_BAND + _BAND_GAP)
    bottom = top + _PANEL
    place = _Place(figure.x, figure.y, top, bottom)
    return Drawing(
        width=_number(WIDTH),
        height=_number(bottom + _BELOW),
        left=_number(_LEFT),
        right=_number(WIDTH - _RIGHT),
        top=_number(top),
        bottom=_number(bottom),
        below=_number(bottom + 16),
        middle=_number((_LEFT + WIDTH - _RIGHT) / 2),
        centre=_number((top + bottom) / 2),
        x_label=figure.x.label,
        y_label=figure.y.label,
        x_ticks=tuple(Tick(_number(place.x(v)), label) for v, label in figure.x.ticks),
        y_ticks=tuple(Tick(_number(place.y(v)), label) for v, label in figure.y.ticks),
        rows=tuple(
            _row(name, bands, number, place) for number, (name, bands) in enumerate(figure.bands)
        ),
        borders=_borders(figure, place),
        level=None if figure.level is None else _number(place.y(figure.level)),
        # Broad strokes behind, then thin lines, then what is read off.
        strokes=tuple(
            _stroke(line, place)
            for line in sorted(figure.lines, key=lambda one: (not one.chosen, not one.faint))
        ),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Values to places on the paper."""

    across: Axis
    up: Axis
    top: float
    bottom: float

    def x(self, value: float) -> float:
        return _LEFT + self.across.share(value) * (WIDTH - _RIGHT - _LEFT)

    def y(self, value: float) -> float:
        return self.bottom - self.up.share(value) * (self.bottom - self.top)


def _number(value: float) -> str:
    """At most one decimal: a tenth of a unit is less than anybody sees."""
    return f"{value:.1f}".removesuffix(".0")


def _row(name: str, bands: Sequence[Band], number: int, place: _Place) -> Row:
    top = _TOP + number * (_BAND + _BAND_GAP)
    return Row(
        name=name,
        top=_number(top),
        text=_number(top + _BAND - 6),
        boxes=tuple(_box(band, place) for band in bands),
    )


def _box(band: Band, place: _Place) -> Box:
    left, right = place.x(band.low), place.x(band.high)
    room = int((right - left - 6) / _LETTER)
    fits = next((t for t in (band.name, band.name.partition(":")[0]) if len(t) <= room), "")
    return Box(
        x=_number(left),
        width=_number(max(right - left, 0.5)),
        middle=_number((left + right) / 2),
        label=fits,
        name=band.name,
        ink=band.ink,
    )


def _borders(figure: Figure, place: _Place) -> tuple[str, ...]:
    """Where a zone of the first row ends, inside the panel."""
    first = figure.bands[0][1] if figure.bands else ()
    return tuple(_number(place.x(band.low)) for band in first[1:])


def _stroke(line: Line, place: _Place) -> Stroke:
    bare = line.faint or line.chosen or line.marker == "none"
    return Stroke(
        name=line.name,
        ink=line.ink,
        path=_path(line.points, place) if line.joined else "",
        area="" if bare else _area(line.points, place),
        dashes=" ".join(_number(length) for length in line.dashes),
        filled=line.filled,
        faint=line.faint,
        chosen=line.chosen,
        spots=() if bare else _spots(line, place),
        swatch="" if bare else _shape(line.marker, 16.0, 7.0),
    )


def _path(points: Sequence[Point], place: _Place) -> str:
    pairs = [f"{_number(place.x(p.x))} {_number(place.y(p.y))}" for p in points]
    if len(pairs) == 1:
        # A path of one point shows its round ends alone.
        pairs = pairs * 2
    return "M" + "L".join(pairs) if pairs else ""


def _area(points: Iterable[Point], place: _Place) -> str:
    """The outline of all intervals, there and back."""
    known = [(p.x, p.low, p.high) for p in points if p.low is not None and p.high is not None]
    if len(known) < 2:
        return ""
    there = [f"{_number(place.x(x))} {_number(place.y(high))}" for x, _, high in known]
    back = [f"{_number(place.x(x))} {_number(place.y(low))}" for x, low, _ in reversed(known)]
    return "M" + "L".join((*there, *back)) + "Z"


def _spots(line: Line, place: _Place) -> tuple[Spot, ...]:
    return tuple(
        Spot(
            _number(place.x(p.x)),
            _number(place.y(p.y)),
            _shape(line.marker, place.x(p.x), place.y(p.y)),
            p.words,
        )
        for p in line.points
    )


def _shape(marker: Marker, x: float, y: float) -> str:
    """The path of a marker around a place."""
    r = _RADIUS
    at = f"M{_number(x - r)} {_number(y)}"
    match marker:
        case "circle":
            return f"{at}a{r} {r} 0 1 1 {2 * r} 0a{r} {r} 0 1 1 {-2 * r} 0z"
        case "square":
            return f"M{_number(x - 3.2)} {_number(y - 3.2)}h6.4v6.4h-6.4z"
        case "triangle":
            return f"M{_number(x)} {_number(y - 4.4)}l4.2 7.4h-8.4z"
        case "cross":
            return f"M{_number(x - 3.4)} {_number(y - 3.4)}l6.8 6.8m0 -6.8l-6.8 6.8"
        case "diamond":
            return f"{at}l{r} {-r}l{r} {r}l{-r} {r}z"
        case "none":
            return ""
