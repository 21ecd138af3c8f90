"""What a page shows, before it is HTML: sections of a few kinds of blocks, and nothing of sessions.

All text is plain text: whatever comes from a log, a host or a file is escaped when it is rendered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rccltune.report.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list of sentences, or of steps in their order."""

    items: tuple[str, ...]
    ordered: bool = False
    kind: Literal["items"] = "items"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A paragraph.

    Attributes:
        loud: what nobody may overlook: simulated, extrapolated, failed.
    """

    text: str
    loud: bool = False
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
