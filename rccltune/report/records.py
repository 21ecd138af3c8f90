"""A page and its figures as data: sections of a few kinds of blocks, axes, lines, bands.

All text is plain text: whatever comes from a log, a host or a file is escaped when it is rendered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Ink = Literal["ll", "ll128", "simple", "site", "grey", "bad", "p1", "p2", "p3", "p4", "p5", "p6"]
Marker = Literal["circle", "square", "triangle", "cross", "diamond", "ring", "none"]
Ticks = tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis.

    Attributes:
        low: of what is shown; above 0 on a logarithmic axis.
        ticks: (value, label) pairs inside it.
        fine: more of them, for who looks at a part of the axis.
    """

    label: str
    low: float
    high: float
    ticks: Ticks
    fine: Ticks = ()
    logarithmic: bool = True

    def __post_init__(self) -> None:
        """An axis has a length."""
        if not self.low < self.high or (self.logarithmic and self.low <= 0):
            raise ValueError(f"an axis cannot reach from {self.low} to {self.high}")

    def share(self, value: float, beyond: float = 0.0) -> float:
        """Where a value lies between the ends, 0 to 1, and further out by ``beyond`` at most."""
        if self.logarithmic:
            at = -math.inf
            if value > 0:
                at = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            at = (value - self.low) / (self.high - self.low)
        return min(max(at, -beyond), 1 + beyond)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value that can be read off.

    Attributes:
        words: what is said of it, without the line's name: ``64 KiB: 1.42×``.
        low: lower end of its interval, None without one.
        high: upper end.
    """

    x: float
    y: float
    words: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of points, or a bare path.

    Attributes:
        ink: its colour, by name: the page knows a light and a dark one.
        dashes: lengths on and off in points; empty for a solid line.
        filled: whether its markers are filled.
        faint: thin, behind the others, its points without words.
        chosen: a broad stroke: what the rules choose.
        joined: whether a line goes through the points.
        key: what it is called in the legend, where several lines share an entry.
        labelled: whether its name stands at its end.
    """

    name: str
    points: tuple[Point, ...]
    ink: Ink
    marker: Marker = "circle"
    dashes: tuple[float, ...] = ()
    filled: bool = True
    faint: bool = False
    chosen: bool = False
    joined: bool = True
    key: str = ""
    labelled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A range of the x axis with one name.

    Attributes:
        ink: None where no rule holds.
        short: what stands on it where there is no room for its name.
        doubted: a choice that the sweep does not prove.
    """

    low: float
    high: float
    name: str
    ink: Ink | None
    short: str = ""
    doubted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure.

    Attributes:
        name: unique on the page; letters, digits and hyphens.
        title: what is shown.
        words: what it says, in a sentence or two, for everybody and for who cannot see it.
        subject: machine that it is of, for a figure that stands alone.
        stamp: ``SIMULATED, no hardware``, ``measured`` …, on the figure itself.
        loud: whether the stamp speaks against taking it as measured.
        bands: rows of bands over the panel, each with what it shows.
        level: a horizontal line that means something, and its name; None without one.
        header: of the table of values: the first column is that of x.
        rows: of it.
        source: where its figures are from, and what was left out.
    """

    name: str
    title: str
    words: str
    stamp: str
    loud: bool
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: str
    subject: str = ""
    bands: tuple[tuple[str, tuple[Band, ...]], ...] = ()
    level: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list of sentences, or of steps in their order."""

    items: tuple[str, ...]
    ordered: bool = False
    kind: Literal["items"] = "items"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A paragraph."""

    text: str
    kind: Literal["words"] = "words"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's heading; numbers stand at the right."""

    name: str
    numeric: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text; the first cell of each is the row's heading.

    Attributes:
        caption: what it shows.
        source: where its figures come from, and what was left out.
        folded: shown when it is asked for, and in print.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    source: str = ""
    folded: bool = False
    kind: Literal["table"] = "table"

    def __post_init__(self) -> None:
        """Every row has a cell for each column."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(row)} cells under {len(self.columns)} columns: {row}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A value with where it is from."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of something, each with its source."""

    caption: str
    facts: tuple[Fact, ...]
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Text to be copied, or of a file.

    Attributes:
        source: which file it is, empty where it is none.
    """

    caption: str
    text: str
    source: str = ""
    folded: bool = False
    kind: Literal["code"] = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEntry:
    """One launch.

    Attributes:
        name: its id.
        summary: what it measured and how it ended, in a line.
        bad: it did not end well.
        facts: (name, value) pairs.
        command: as a shell would take it, empty for an imported file.
        environment: what was set for it, (name, value) pairs.
        excerpt: lines of its log, numbered where that is known.
        log: name of the whole log.
    """

    name: str
    summary: str
    bad: bool
    facts: tuple[tuple[str, str], ...]
    command: str
    environment: tuple[tuple[str, str], ...]
    excerpt: tuple[str, ...]
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """Launches with their excerpts."""

    entries: tuple[LaunchEntry, ...]
    kind: Literal["launches"] = "launches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A figure in its place among other blocks."""

    figure: Figure
    kind: Literal["plot"] = "plot"


Block = Items | Words | Table | Facts | Code | Launches | Plot


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Blocks under a smaller heading; without one they belong to the section itself.

    Attributes:
        folded: shown when it is asked for, and in print.
    """

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page that the table of contents names.

    Attributes:
        name: unique on the page; lower-case letters and hyphens.
    """

    name: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What every reader must know of the figures before reading them.

    Attributes:
        word: ``SIMULATED``.
        sentence: what that means here.
        loud: it speaks against taking the figures as measured.
    """

    word: str
    sentence: str
    loud: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The answer in one look.

    Attributes:
        claim: the one sentence.
        points: what it rests on.
        tiles: (figure, what it is, where it is from).
        plots: what was gained.
    """

    claim: str
    points: tuple[str, ...]
    tiles: tuple[tuple[str, str, str], ...] = ()
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The whole page.

    Attributes:
        title: of the window.
        subject: machine and library, under the title.
        footer: what made the page, of what.
    """

    title: str
    subject: str
    marks: tuple[Mark, ...]
    headline: Headline
    sections: tuple[Section, ...]
    footer: str
