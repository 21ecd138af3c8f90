"""Which preamble belongs to which table, and which row to which of several open tables.

Normally one follows the other. Two independent jobs that share a log print both preambles, then
both headers, and then their rows as they come; a job that died leaves its preamble behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rccltune.model import Setting
from rccltune.parse.book import Book
from rccltune.parse.draft import Run
from rccltune.parse.layout import Layout
from rccltune.parse.preamble import Preamble, marked
from rccltune.parse.table import Table

# More than ever wait or run side by side; what noise piles up beyond is forgotten.
_MAX_PREAMBLES: Final = 64
_MAX_OPEN: Final = 16


# Each job's first rank names its device; a job that reads on in cycles names it once.
_FIRST_RANK: Final = re.compile(rb"^#\s+Rank\s+0\s+(?:Group|Pid)\b", re.MULTILINE)


def jobs_in(log: bytes) -> int:
    """How many benchmarks wrote into one log: more than one where ranks did not meet."""
    return len(_FIRST_RANK.findall(log))


class Jobs:
    """Runs of one writer."""

    def __init__(self, book: Book) -> None:
        """None has begun."""
        self.layout: Layout | None = None
        self.open: list[Table] = []
        self._book = book
        self._waiting: list[Preamble] = []
        self._last = Preamble(line=0)
        self._mark: Setting | None = None
        self._interleaved = False

    def preamble(self, line: int, lacks: Callable[[Preamble], bool]) -> Preamble:
        """Newest preamble that lacks the fact just met; a new one where all have it."""
        for each in reversed(self._waiting):
            if lacks(each):
                return each
        new = Preamble(line=line)
        self._book.started = line
        # Only a run that begins while none is open cannot belong to interleaved jobs.
        if not self._waiting or not self.open:
            self._book.new_run()
        self._waiting = [*self._waiting[-_MAX_PREAMBLES:], new]
        return new

    def simulated(self, line: int) -> None:
        """A line says so. The stand-in says it several times, so it begins no run of its own."""
        silent = [each for each in self._waiting if not each.simulated]
        told = silent or self._waiting[-1:] or [self.preamble(line, lambda _: True)]
        told[0].simulated = True

    def section(self, line: int, text: str) -> None:
        """A script's mark: what was open is over, and the mark may name what runs below it."""
        mark = marked(text)
        if self._waiting and mark is None:
            # A line of somebody's decoration between a run's facts and its table.
            return
        for table in tuple(self.open):
            self._close(table)
        self.layout = None
        self._waiting = []
        self._last = Preamble(line=line)
        self._mark = mark
        self._book.new_run()

    def begin(self, line: int, layout: Layout, *, below_header: bool = True) -> Table:
        """A header, or the first row of a run that has none: a table opens."""
        book = self._book
        preamble = self._take_preamble(line, below_header=below_header)
        if preamble.collective is None:
            preamble.collective, book.commanded = book.commanded, None
        if preamble.setting is None:
            forced = " ".join(f"{name}={value}" for name, value in book.forced.items())
            preamble.setting = self._mark or marked(forced)
        run = Run(
            said=preamble.said(),
            header=line,
            executed=book.executed,
            scale=book.communicators.scale,
        )
        table = Table(run, layout, book.name)
        table.numbers = preamble.numbers
        if len(self.open) >= _MAX_OPEN:
            self._close(self.open[0])
        self.layout = layout
        self.open.append(table)
        book.tables.append(table)
        book.runs.append(run)
        return table

    def resume(self, line: int) -> Table | None:
        """Table for a row without a header of its own, below one that is already summed up."""
        return None if self.layout is None else self.begin(line, self.layout, below_header=False)

    def whose(self, nbytes: int) -> Table:
        """The open table that a row of this size continues best."""
        tables = self.open
        if len(tables) == 1:
            return tables[0]
        willing = [table.expects(nbytes) for table in tables]
        best = max(willing)
        if best == 0:
            return tables[-1]
        fit = [table for table, how in zip(tables, willing, strict=True) if how == best]
        # Jobs that run side by side take turns; a job that died is never heard of again.
        chosen = min(fit, key=lambda table: table.last_line) if self._interleaved else fit[-1]
        self._interleaved |= chosen is not tables[-1]
        return chosen

    def summed_up(self, line: int, average: float) -> Run | None:
        """The summary of a table came: of the one whose rows it fits best."""
        filled = [table for table in self.open if table.n_rows]
        if not filled:
            return None
        table = min(filled, key=lambda each: abs(each.run.mean_busbw - average))
        table.run.average, table.run.average_line = average, line
        self._close(table)
        return table.run

    def ended(self, out_of_bounds: int) -> None:
        """The first line of a summary came; which table's, only one that is alone tells."""
        if len(self.open) == 1:
            run = self.open[0].run
            run.ended, run.out_of_bounds = True, out_of_bounds

    def failed(self) -> None:
        """The benchmark gave up: rows already printed stand, a table without any is dropped."""
        empty = [table for table in self.open if not table.n_rows]
        if empty:
            self._close(empty[-1])
        elif self._waiting:
            self._waiting.pop()

    def _close(self, table: Table) -> None:
        self.open.remove(table)
        self._book.tables.remove(table)

    def _take_preamble(self, line: int, *, below_header: bool) -> Preamble:
        """The oldest waiting one of the newest command; older ones of another have died."""
        if self._waiting:
            command = self._waiting[-1].command
            same = [each for each in self._waiting if each.command == command]
            self._last = same[0]
            self._waiting = same[1:]
            return self._last
        if below_header:
            # Nothing is known about it; above all not that it is like the one before.
            return Preamble(line=line)
        before = self._last
        return Preamble(
            line=line,
            collective=before.collective,
            collective_line=before.collective_line,
            numbers=before.numbers,
            setting=before.setting,
            ranks=before.ranks,
            simulated=before.simulated,
        )
