"""The file of records: CSV that the plugin writes and ``workload merge`` writes again.

Lines that begin with ``#@ comm`` say whose the calls are and how their recording ended; those of
``#@ aside`` what was seen that never asks a tuner. Of rows without such lines nobody says more
than they do.
"""

from __future__ import annotations

import csv
from typing import Final

from rccltune import grammar
from rccltune.errors import OutputError
from rccltune.model import Scale
from rccltune.vocab import Collective
from rccltune.workload.merging import gathered
from rccltune.workload.records import Count, Recorder, Source, State, Workload

HEADER: Final = "collective,nBytes,nRanks,nNodes,calls,maxBytes,totalBytes"
_WANTED: Final = ("collective", "nbytes", "nranks", "nnodes", "calls")
_FORMAT: Final = "1"
_BLIND: Final = (
    "# Calls that asked a tuner, of all ranks together.  Not in here: replays of captured graphs,\n"
    "# point-to-point, paths that ask no tuner, and how grouped calls were split.\n"
)


def is_table(text: str) -> bool:
    """Whether a text looks like this format: its first line that is no comment is the header."""
    for line in grammar.lines(text):
        if grammar.trim(line) and not line.startswith("#"):
            names = {name.strip().lower() for name in line.split(",")}
            return "collective" in names or "nbytes" in names
    return "#@ format" in text


def read_table(text: str, name: str) -> Workload:
    """Read a file of records.

    Args:
        text: the file's.
        name: its path, for messages.

    Raises:
        OutputError: another format, no such columns, a row that is no count, or a file that was
            cut: its rows hold other calls than its lines in front say.
    """
    reader = _Table(name)
    for number, line in enumerate(grammar.lines(text), start=1):
        reader.take(number, line)
    return reader.done()


def write_table(workload: Workload) -> str:
    """The same format, one row for each size."""
    lines = [f"#@ format {_FORMAT}\n{_BLIND.rstrip()}"]
    lines += [_recorder_line(one) for one in workload.recorders]
    lines += [f"#@ aside name={name} calls={n}" for name, n in workload.aside.items()]
    lines.append(HEADER)
    lines += [
        f"{one.collective.csv_name},{one.min_nbytes},{one.scale.n_ranks},{one.scale.n_nodes},"
        f"{one.calls},{one.max_nbytes},{one.total_nbytes}"
        for one in workload.counts
    ]
    return "\n".join(lines) + "\n"


def _recorder_line(one: Recorder) -> str:
    scale = one.scale
    pairs = {
        "source": one.source.value,
        "id": one.comm,
        "host": one.host,
        "pid": one.pid,
        "context": one.context,
        "since": one.since,
        "nRanks": scale.n_ranks if scale else "?",
        "nNodes": scale.n_nodes if scale else "?",
        "calls": one.calls,
        "beyond": one.beyond,
        "unknown": one.unknown,
        "state": one.state.value,
        "capturedTimes": one.captured_times,
    }
    return "#@ comm " + " ".join(f"{key}={value}" for key, value in pairs.items())


class _Table:
    """Reads line by line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns: dict[str, int] = {}
        self.counts: list[Count] = []
        self.recorders: list[Recorder] = []
        self.aside: dict[str, int] = {}

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
        told = sum(one.calls for one in self.recorders)
        held = sum(one.calls for one in self.counts)
        if self.recorders and told != held:
            raise OutputError(
                f"the lines in front say {told} calls and the rows hold {held}: the file was cut "
                "or changed",
                where=self.name,
                hint="take the file as the plugin wrote it; a job that ended without room on its "
                "disk left what it could beside it, in *.part.",
            )
        return Workload(
            counts=gathered(self.counts), recorders=tuple(self.recorders), aside=self.aside
        )

    def _bad(self, number: int, what: str) -> OutputError:
        return OutputError(
            what,
            where=f"{self.name}:{number}",
            hint="give a file that the plugin wrote under RCCLTUNE_RECORD, or workload merge.",
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
            one = Count(
                collective=Collective.parse(cells[self.columns["collective"]]),
                scale=Scale(n_nodes=whole("nnodes"), n_ranks=whole("nranks")),
                min_nbytes=least,
                max_nbytes=most,
                calls=calls,
                total_nbytes=whole("totalbytes", least * calls),
            )
        except (ValueError, IndexError) as error:
            raise self._bad(number, f"this is no row of a workload: {error}") from error
        self.counts.append(one)

    def _note(self, number: int, words: list[str]) -> None:
        kind = words[0] if words else ""
        if kind == "format" and words[1:] != [_FORMAT]:
            raise self._bad(number, f"this is format {' '.join(words[1:])}, and not 1")
        if kind not in ("comm", "aside"):
            return
        said = dict(word.partition("=")[::2] for word in words[1:])
        try:
            if kind == "aside":
                self.aside[said["name"]] = self.aside.get(said["name"], 0) + grammar.whole(
                    said["calls"]
                )
            else:
                self.recorders.append(_recorder(said))
        except (KeyError, ValueError) as error:
            raise self._bad(number, f"this line is not understood: {error}") from error


def _recorder(said: dict[str, str]) -> Recorder:
    known = said["nRanks"] != "?"
    return Recorder(
        source=Source(said.get("source", Source.RECORD.value)),
        host=said["host"],
        pid=grammar.whole(said["pid"]),
        comm=said["id"],
        context=grammar.whole(said["context"]),
        since=said["since"],
        scale=Scale(n_nodes=grammar.whole(said["nNodes"]), n_ranks=grammar.whole(said["nRanks"]))
        if known
        else None,
        calls=grammar.whole(said["calls"]),
        beyond=grammar.whole(said.get("beyond", "0")),
        unknown=grammar.whole(said.get("unknown", "0")),
        state=State(said["state"]),
        captured_times=grammar.whole(said.get("capturedTimes", "1")),
    )
