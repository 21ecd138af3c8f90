"""The file of records: CSV that the plugin writes, one file or several of them in one.

Lines that begin with ``#@ comm`` say whose the calls are and how their recording ended; those of
``#@ aside`` what was seen that never asks a tuner. Of rows without such lines nobody says more
than they do.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from typing import Final

from rccltune.model import grammar
from rccltune.model.errors import OutputError
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective
from rccltune.workload.records import (
    CallCount,
    CallSource,
    CommunicatorCalls,
    RecordingEnd,
    Workload,
    merged_counts,
)

_WANTED: Final = ("collective", "nbytes", "nranks", "nnodes", "calls")
_FORMAT: Final = "1"
_BEGIN: Final = "#@ format"


def is_table(text: str) -> bool:
    """Whether a text looks like this format: its first line that is no comment is the header."""
    for line in grammar.lines(text[: text.rfind("\n") + 1] if _may_be_cut(text) else text):
        if grammar.trim(line) and not line.startswith("#"):
            names = {name.strip().lower() for name in line.split(",")}
            return "collective" in names or "nbytes" in names
    return _BEGIN in text or _may_be_cut(text)


def _may_be_cut(text: str) -> bool:
    """Whether it begins as the plugin's do, as far as it goes."""
    return text.startswith(_BEGIN) or _BEGIN.startswith(text)


def read_table(text: str, name: str) -> Workload:
    """Read a file of records, one that a full disk cut up to the cut.

    A line without its end is no line: a number in it may be cut too. Only a file that begins as
    the plugin's do is taken for a cut one.

    Args:
        text: the file's.
        name: its path, for messages.

    Raises:
        OutputError: another format, no such columns, a row that is no count, or rows in the midst
            of it that hold other calls than the lines in front of them say.
    """
    lines = grammar.lines(text)
    torn = _may_be_cut(text) and not text.endswith("\n")
    reader = _TableReader(name)
    for number, line in enumerate(lines[:-1] if torn else lines, start=1):
        reader.take(number, line)
    if not _may_be_cut(text):
        return reader.done()
    return reader.done_up_to(len(lines) + (not torn), torn=torn)


@dataclass(slots=True)
class _RecorderBlock:
    """Lines about recorders, and the rows that follow them.

    Attributes:
        first: of its recorders, by its place among all.
        told: calls, as the lines say.
        held: calls that the rows have.
    """

    first: int
    told: int = 0
    held: int = 0
    has_rows: bool = False


class _TableReader:
    """Reads line by line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns: dict[str, int] = {}
        self.counts: list[CallCount] = []
        self.recorders: list[CommunicatorCalls] = []
        self.aside: dict[str, int] = {}
        self.blocks: list[_RecorderBlock] = []

    def take(self, number: int, line: str) -> None:
        if line.startswith("#@"):
            self._note(number, grammar.words(line.removeprefix("#@")))
        elif grammar.trim(line) and not line.startswith("#"):
            cells = self._cells(number, grammar.trim(line))
            if not self.columns:
                self._header(number, cells)
            elif [c.strip().lower() for c in cells[:1]] != ["collective"]:
                self._row(number, cells)

    def done(self) -> Workload:
        if not self.columns:
            raise OutputError(
                "the workload is empty", where=self.name, hint="record a job that communicates."
            )
        self._check(self.blocks)
        return self._workload()

    def done_up_to(self, line: int, *, torn: bool) -> Workload:
        """Workload read so far, where the file may have been cut at a line: in it, or before it."""
        self._check(self.blocks[:-1])
        last = self.blocks[-1] if self.blocks else _RecorderBlock(first=0)
        if last.held > last.told:
            self._check(self.blocks)
        # Rows alone do not say how many they were.
        missing = last.told - last.held if self.recorders else 0
        if self.columns and not torn and not missing:
            return self._workload()
        what = (
            f"{missing} of {last.told} calls of its last recording" if missing else "what followed"
        )
        cut = f"{self.name}:{line}: the file was cut here; left out: {what}"
        self._shorten(last, missing)
        return replace(self._workload(), cuts=(cut,))

    def _workload(self) -> Workload:
        return Workload(
            counts=merged_counts(self.counts), recorders=tuple(self.recorders), aside=self.aside
        )

    def _check(self, blocks: list[_RecorderBlock]) -> None:
        told = sum(one.told for one in blocks)
        held = sum(one.held for one in blocks)
        if self.recorders and any(one.told != one.held for one in blocks):
            raise OutputError(
                f"the lines in front say {told} calls and the rows hold {held}: the file was "
                "changed",
                where=self.name,
                hint="take the file as the plugin wrote it; a job that ended without room on its "
                "disk left what it could beside it, in *.part.",
            )

    def _shorten(self, block: _RecorderBlock, missing: int) -> None:
        """Let its recorders say as many calls as its rows have; the last ones wrote last."""
        for at in range(len(self.recorders) - 1, block.first - 1, -1):
            recorder = self.recorders[at]
            less = min(recorder.calls, missing)
            if less:
                missing -= less
                calls = recorder.calls - less
                self.recorders[at] = replace(
                    recorder,
                    calls=calls,
                    beyond=min(recorder.beyond, calls),
                    state=RecordingEnd.UNFINISHED,
                )

    def _bad(self, number: int, what: str) -> OutputError:
        return OutputError(
            what,
            where=f"{self.name}:{number}",
            hint="give a file as the plugin wrote it under RCCLTUNE_RECORD.",
        )

    def _cells(self, number: int, line: str) -> list[str]:
        try:
            return next(csv.reader([line]))
        except csv.Error as error:
            raise self._bad(number, f"this is no row of a workload: {error}") from error

    def _header(self, number: int, cells: list[str]) -> None:
        self.columns = {name.strip().lower(): at for at, name in enumerate(cells)}
        missing = [name for name in _WANTED if name not in self.columns]
        if missing:
            raise self._bad(number, f"the workload's header has no column {', '.join(missing)}")

    def _row(self, number: int, cells: list[str]) -> None:
        def whole(name: str, default: int | None = None) -> int:
            at = self.columns.get(name)
            if at is None and default is not None:
                return default
            text = grammar.trim(cells[at if at is not None else len(cells)])
            if text.startswith("-"):
                raise ValueError(f"{name} {text} is below 0")
            return grammar.whole(text)

        try:
            least, calls = whole("nbytes"), whole("calls")
            most = whole("maxbytes", least)
            count = CallCount(
                collective=Collective.parse(cells[self.columns["collective"]]),
                scale=Scale(n_nodes=whole("nnodes"), n_ranks=whole("nranks")),
                min_nbytes=least,
                max_nbytes=most,
                calls=calls,
                total_nbytes=whole("totalbytes", least * calls),
            )
        except (ValueError, IndexError) as error:
            raise self._bad(number, f"this is no row of a workload: {error}") from error
        self.counts.append(count)
        if not self.blocks:
            self.blocks.append(_RecorderBlock(first=0))
        self.blocks[-1].held += count.calls
        self.blocks[-1].has_rows = True

    def _note(self, number: int, words: list[str]) -> None:
        kind = words[0] if words else ""
        if kind == "format" and words[1:] != [_FORMAT]:
            raise self._bad(number, f"this is format {' '.join(words[1:])}, and not 1")
        if kind not in ("comm", "aside"):
            return
        fields = dict(word.partition("=")[::2] for word in words[1:])
        try:
            if kind == "aside":
                self.aside[fields["name"]] = self.aside.get(fields["name"], 0) + grammar.whole(
                    fields["calls"]
                )
            else:
                self._add(_recorder(fields))
        except (KeyError, ValueError) as error:
            raise self._bad(number, f"this line is not understood: {error}") from error

    def _add(self, one: CommunicatorCalls) -> None:
        if not self.blocks or self.blocks[-1].has_rows:
            self.blocks.append(_RecorderBlock(first=len(self.recorders)))
        self.blocks[-1].told += one.calls
        self.recorders.append(one)


def _recorder(fields: dict[str, str]) -> CommunicatorCalls:
    source = fields.get("source", CallSource.RECORD.value)
    known = fields["nRanks"] != "?"
    return CommunicatorCalls(
        source=CallSource(source),
        host=fields["host"],
        pid=grammar.whole(fields["pid"]),
        comm=fields["id"],
        context=grammar.whole(fields["context"]),
        since=fields["since"],
        scale=Scale(
            n_nodes=grammar.whole(fields["nNodes"]),
            n_ranks=grammar.whole(fields["nRanks"]),
        )
        if known
        else None,
        calls=grammar.whole(fields["calls"]),
        beyond=grammar.whole(fields.get("beyond", "0")),
        unknown=grammar.whole(fields.get("unknown", "0")),
        state=RecordingEnd(fields["state"]),
        missing=grammar.whole(fields.get("missing", "0")),
    )
