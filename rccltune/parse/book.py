"""What all writers of one log share: the runs found, the tables open, the facts met so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from rccltune.model import Setting
from rccltune.parse.draft import Run
from rccltune.parse.preamble import Communicators
from rccltune.parse.table import Table
from rccltune.vocab import Collective

Choices = dict[tuple[Collective, int], set[Setting]]


@dataclass(slots=True)
class Book:
    """Findings in one log.

    Attributes:
        name: file name for messages.
        runs: one for each header, or for each section of rows without one.
        tables: those whose summary has not come yet.
        pending: how many rows are waiting for their rest.
        hosts: names met in rank lists and in the library's messages.
        notes: (line, text) of what makes the log incomplete.
        failures: (line, text) of the benchmark's own errors.
        headers: lines of table headers.
        executed: what the library's log says it ran, since the last run began.
        forced: NCCL_ALGO and NCCL_PROTO by the library's log.
        commanded: collective of the last benchmark command line.
        out_of_bounds: wrong half-rows by the summary whose average is still to come.
        started: line where the last run began.
        first: first line with text that was looked at.
        last: last line with text that was looked at.
    """

    name: str
    runs: list[Run] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pending: int = 0
    hosts: set[str] = field(default_factory=set)
    notes: list[tuple[int, str]] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    headers: list[int] = field(default_factory=list)
    executed: Choices = field(default_factory=dict)
    forced: dict[str, str] = field(default_factory=dict)
    communicators: Communicators = field(default_factory=Communicators)
    commanded: Collective | None = None
    out_of_bounds: int = 0
    benchmark: str | None = None
    library: str | None = None
    started: int | None = None
    first: tuple[int, str] | None = None
    last: tuple[int, str] | None = None

    def new_run(self) -> None:
        """What the library's log says from here on belongs to another run."""
        self.executed = {}
        self.forced = {}
        self.communicators = Communicators()

    @property
    def only_table(self) -> Table | None:
        """The table that any row must belong to, None where that has to be found out."""
        return self.tables[0] if len(self.tables) == 1 and not self.pending else None
