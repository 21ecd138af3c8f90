"""Comma-separated files: lines to cells, comments to facts, the column rccl-tests forgets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from rccltune.errors import OutputError
from rccltune.model import Caution
from rccltune.parse.columns import facts_of
from rccltune.parse.draft import Run, Said
from rccltune.parse.form import separator_of
from rccltune.parse.records import RecordReader
from rccltune.parse.resolve import Resolver

_FACTS = "# rccltune:"


class DelimitedFile:
    """One table with a header."""

    def __init__(self, lines: Iterable[bytes], resolver: Resolver) -> None:
        """Nothing was read yet.

        Args:
            lines: with their line ends.
            resolver: the options.
        """
        self.origin: str | None = None
        self._lines = enumerate(lines, 1)
        self._resolver = resolver
        self._facts: dict[str, Any] = {}
        self._separator = ","
        self._cut = False

    def read(self) -> list[Run]:
        """Read all rows.

        Raises:
            OutputError: no row, or one that cannot be read.
            CommandLineError: an option contradicts a row.
        """
        texts = self._texts()
        header_line, header = next(texts)
        self._separator = separator_of(header) or ","
        names = self._split(header_line, header)
        first = next(texts, None)
        if first is None:
            raise OutputError(
                "the table has a header and no rows",
                where=self._resolver.where(header_line),
                hint="measure again; the program that wrote it stopped before its first result.",
            )
        names, unsure = _with_nodes(names, len(self._split(*first)))
        self.origin = self._facts.pop("origin", None)
        said = Said(line=header_line, **self._facts)
        reader = RecordReader(names, said, self._resolver, ordered=False)
        if unsure:
            reader.unsure_of_nodes()
        self._row(reader, *first, n_cells=len(names))
        for line, text in texts:
            self._row(reader, line, text, n_cells=len(names))
        return reader.finish()

    def _row(self, reader: RecordReader, line: int, text: str, *, n_cells: int) -> None:
        cells = self._split(line, text)
        if len(cells) == n_cells:
            reader.row(line, cells)
        elif self._cut and len(cells) < n_cells:
            self._resolver.notice(
                Caution.INCOMPLETE_LOG,
                "the last row is cut; it is left out",
                "give the whole file.",
                line,
            )
        else:
            raise OutputError(
                f"the row has {len(cells)} cells, the header {n_cells}",
                where=self._resolver.where(line),
                hint="correct the row; quote cells that hold a separator.",
            )

    def _texts(self) -> Iterator[tuple[int, str]]:
        """Lines that are no comments; facts in comments are kept."""
        for line, raw in self._lines:
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8", "replace")
            self._cut = not text.endswith("\n")
            text = text.strip("\r\n ")
            if text.startswith(_FACTS):
                found = facts_of(text.removeprefix(_FACTS), self._resolver.where(line))
                self._facts.update(found)
            elif text and not text.startswith("#"):
                yield line, text

    def _split(self, line: int, text: str) -> list[str]:
        if '"' not in text:
            return text.split(self._separator)
        try:
            return next(csv.reader(io.StringIO(text), delimiter=self._separator, strict=True))
        except (csv.Error, StopIteration) as error:
            raise OutputError(
                f"the row cannot be split into cells: {error}",
                where=self._resolver.where(line),
                hint="correct its quotes.",
            ) from error


def _with_nodes(names: list[str], n_cells: int) -> tuple[list[str], bool]:
    """The header with the column that rccl-tests' MPI builds write and do not name."""
    folded = [name.strip().lower() for name in names]
    is_theirs = "rankspernode" in folded and "collective" in folded and "nodes" not in folded
    if not is_theirs or n_cells != len(names) + 1:
        return names, False
    at = folded.index("collective") + 1
    return [*names[:at], "nodes", *names[at:]], True
