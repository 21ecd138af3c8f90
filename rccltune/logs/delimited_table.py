"""Tables of cells between separators, in CSV, Markdown or columns of blanks, to runs."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import Any, Final

from rccltune.logs import columns
from rccltune.logs.columns import is_bandwidth_header, parse_facts
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.file_kinds import find_separator
from rccltune.logs.long_table import make_runs
from rccltune.logs.resolver import Resolver
from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution
from rccltune.model.text import printable

_FACT_LINE: Final = "# rccltune:"
# What stands between header and rows of a table in Markdown.
_RULED: Final = re.compile(r"[|:\s-]*-[|:\s-]*")


def read_table(lines: Iterable[bytes], resolver: Resolver) -> tuple[list[LogRun], str | None]:
    """Runs of one table with a header, and whose measurement it says to be.

    Args:
        lines: with their line ends.
        resolver: the options.

    Raises:
        OutputError: no row, or one that cannot be read.
        CommandLineError: an option contradicts a row.
    """
    facts: dict[str, Any] = {}
    texts: list[tuple[int, str]] = []
    is_whole = True
    for line, raw in enumerate(lines, 1):
        text = raw.decode("utf-8", "replace")
        is_whole = text.endswith("\n")
        text = text.strip("\r\n ")
        if text.startswith(_FACT_LINE):
            facts.update(parse_facts(text.removeprefix(_FACT_LINE), resolver.where(line)))
        elif not texts and is_bandwidth_header(text):
            texts.append((line, columns.strip_units(text)))
        elif text and not text.startswith("#") and not _RULED.fullmatch(text):
            texts.append((line, text.strip("| ") if text.startswith("|") else text))
    header_line, header = texts[0]
    separator = None if is_bandwidth_header(header) else find_separator(header) or ","
    rows = [(line, _split(text, separator, resolver.where(line))) for line, text in texts]
    names, unsure = _name_nodes(rows.pop(0)[1], len(rows[0][1]) if rows else 0)
    if rows and not is_whole and len(rows[-1][1]) < len(names):
        resolver.notice(
            Caution.INCOMPLETE_LOG,
            "the last row is cut; it is left out",
            "give the whole file.",
            rows.pop()[0],
        )
    for line, cells in rows:
        if len(cells) != len(names):
            raise OutputError(
                f"the row has {len(cells)} cells, the header {len(names)}",
                where=resolver.where(line),
                hint="correct the row; quote cells that hold a separator.",
            )
    odd = columns.find_misspelt_columns(names)
    if odd:
        resolver.notice(
            Caution.INCOMPLETE_LOG,
            f"columns that mean nothing here are left out: {printable(', '.join(odd))}",
            f"if they are {', '.join(odd.values())}, name them so and import again.",
            header_line,
        )
    origin = facts.pop("origin", None)
    table_facts = LogFacts(line=header_line, **facts)
    return make_runs(names, rows, table_facts, resolver, ordered=False, unsure=unsure), origin


def _split(text: str, separator: str | None, where: str) -> list[str]:
    """Cells of a row; None separates at any blanks."""
    if '"' not in text:
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator or " ", strict=True))
    except (csv.Error, StopIteration) as error:
        raise OutputError(
            f"the row cannot be split into cells: {error}", where=where, hint="correct its quotes."
        ) from error


def _name_nodes(names: list[str], n_cells: int) -> tuple[list[str], bool]:
    """The header with the column that rccl-tests' MPI builds write and do not name."""
    folded = [name.strip().lower() for name in names]
    is_theirs = "rankspernode" in folded and "collective" in folded and "nodes" not in folded
    if not is_theirs or n_cells != len(names) + 1:
        return names, False
    at = folded.index("collective") + 1
    return [*names[:at], "nodes", *names[at:]], True
