"""The report room: what a page shows, as records, to one HTML file that needs nothing else.

The room reads no session and decides nothing. Figures are drawn as SVG whose colours are the
page's own, so that they follow a dark screen and white paper; what can be read off them stands
in a table too, for who has no pointer and no script.
"""

from rccltune.report.figure import Axis, Band, Figure, Ink, Line, Marker, Point
from rccltune.report.page import LIMIT_NBYTES, render
from rccltune.report.records import (
    Block,
    Code,
    Column,
    Fact,
    Facts,
    Headline,
    Items,
    LaunchEntry,
    Launches,
    Mark,
    Page,
    Part,
    Plot,
    Section,
    Table,
    Words,
)

__all__ = [
    "LIMIT_NBYTES",
    "Axis",
    "Band",
    "Block",
    "Code",
    "Column",
    "Fact",
    "Facts",
    "Figure",
    "Headline",
    "Ink",
    "Items",
    "LaunchEntry",
    "Launches",
    "Line",
    "Mark",
    "Marker",
    "Page",
    "Part",
    "Plot",
    "Point",
    "Section",
    "Table",
    "Words",
    "render",
]
