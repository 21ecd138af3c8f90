"""Several jobs in one log: their preambles, and which table and row is whose.

Normally one follows the other. Two independent jobs that share a log print both preambles, then
both headers, and then their rows as they come; a job that died leaves its preamble behind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from rccltune.logs.commands import CommandContext, choice_facts, setting_of_mark
from rccltune.logs.facts import LogFacts, LogRun, mean_busbw
from rccltune.logs.rows import TableLayout, TableRows
from rccltune.logs.timings import fill
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective

_RANK: Final = re.compile(
    r"Rank\s+(\d{1,9})\s+(?:Group\s+(\d{1,9})\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)"
    r"\s+\[([^\]]*)\]\s*(.*)"
)
_NUMBERS: Final = re.compile(r"(nThread|nGpus|minBytes|maxBytes|step:|graph:)\s*(\d+)(\(\w+\))?")
_STARTING: Final = re.compile(r"Collective test starting:\s*(\S+)")
_COMM: Final = re.compile(rb" rank (\d+) nranks (\d+) .*?commId (0x[0-9a-f]+)")
# "comm 0x1 rank 0 nRanks 2 nNodes 2 …" and "comm:0x1, nRanks:4, nNodes:1, coll channels:8 …".
_SCALE: Final = re.compile(rb" nRanks[ :](\d{1,9}),? nNodes[ :](\d{1,9})")
_MAX_COMMS: Final = 4096


class RankLine(NamedTuple):
    """One line of the rank list."""

    group: int
    rank: int
    host: str
    device: str
    product: str
    line: int


@dataclass(slots=True)
class Preamble:
    """Facts about one run, gathered line by line."""

    line: int
    collective: Collective | None = None
    collective_line: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    version: str | None = None
    setting: Setting | None = None
    ranks: dict[tuple[int, int], RankLine] = field(default_factory=dict)
    simulated: bool = False
    # By the command that started it, on one node; a rank list says it better.
    n_ranks: int | None = None

    @property
    def command(self) -> tuple[Collective | None, tuple[tuple[str, int], ...]]:
        """Facts that tell two runs of the same command from two different ones."""
        return self.collective, tuple(sorted(self.numbers.items()))

    def said(self) -> LogFacts:
        """The facts that samples need; an incomplete rank list says nothing."""
        numbers = self.numbers
        ranks = sorted(self.ranks.values())
        groups = Counter(each.group for each in ranks)
        # NCCL_TESTS_SPLIT makes communicators of equal size; a list with a gap says nothing.
        whole = [each.rank for each in sorted(ranks, key=lambda each: each.rank)] == list(
            range(len(ranks))
        ) and len(set(groups.values())) == 1
        first = [each for each in ranks if whole and each.group == ranks[0].group]
        products = sorted({each.product for each in ranks if each.product})
        hosts = tuple(dict.fromkeys(each.host for each in ranks))
        return LogFacts(
            line=self.line,
            said_at=(
                ("n_ranks", ranks[0].line if ranks else self.line),
                ("collective", self.collective_line or self.line),
            ),
            collective=self.collective,
            setting=self.setting,
            n_ranks=len(first) or (None if ranks else self.n_ranks),
            n_nodes=len({each.host for each in first})
            or (1 if self.n_ranks and not ranks else None),
            graph=numbers["graph:"] > 0 if "graph:" in numbers else None,
            product=" + ".join(products) or None,
            hosts=hosts,
            devices=tuple(f"{each.host} {each.device}" for each in ranks),
            ranks_per_process=numbers.get("nThread", 0) * numbers.get("nGpus", 0) or None,
            simulated=self.simulated,
        )


def rank_of(body: str, line: int) -> RankLine | None:
    """One line of the rank list, None where it is none."""
    match = _RANK.match(body)
    if match is None:
        return None
    rank, group, host, device, bus, product = match.groups()
    return RankLine(int(group or 0), int(rank), host, f"{device} [{bus}]", product.strip(), line)


def buses_in(log: bytes) -> dict[int, str]:
    """Bus address of each rank's device, as the rank list of a log has it."""
    found = (match.groups() for match in _RANK.finditer(log.decode("utf-8", "replace")))
    return {int(rank): bus for rank, _, _, _, bus, _ in found}


def numbers_of(body: str) -> dict[str, int]:
    """Numbers of the ``# nThread …`` line; ``step:`` is negative where it is added."""
    numbers: dict[str, int] = {}
    for name, digits, kind in _NUMBERS.findall(body):
        value = int(digits[:20])
        numbers[name] = -value if name == "step:" and kind == "(bytes)" else value
    return numbers


def starting(body: str) -> Collective | None:
    """Collective of a ``Collective test starting`` line."""
    match = _STARTING.match(body)
    return None if match is None else _collective(match[1])


class CommunicatorScales:
    """Scale of the communicators that the library's own log tells of."""

    def __init__(self) -> None:
        """Begin with no communicator seen."""
        self._hosts: dict[bytes, dict[int, bytes]] = {}
        self._sizes: set[int] = set()
        self._scales: set[tuple[int, int]] = set()

    def see(self, message: bytes, host: bytes) -> None:
        """Take a message that tells the ranks of a communicator, or its ranks and nodes."""
        scale = _SCALE.search(message)
        if scale is not None:
            self._scales.add((int(scale[1]), int(scale[2])))
        match = _COMM.search(message)
        if match is None:
            return
        rank, size, comm = match.groups()
        self._sizes.add(int(size[:9]))
        if comm in self._hosts or len(self._hosts) < _MAX_COMMS:
            self._hosts.setdefault(comm, {})[int(rank[:9])] = host

    def scale(self) -> tuple[int | None, int | None]:
        """Ranks and nodes, None where communicators disagree or no one was seen whole."""
        if len(self._scales) == 1 and self._sizes <= {size for size, _ in self._scales}:
            return next(iter(self._scales))
        if len(self._sizes) != 1:
            return None, None
        size = next(iter(self._sizes))
        # One whose messages are not all there says nothing about nodes; the others may.
        whole = [hosts for hosts in self._hosts.values() if len(hosts) == size]
        nodes = {len(set(hosts.values())) for hosts in whole}
        return size, nodes.pop() if len(nodes) == 1 else None


def _collective(name: str) -> Collective | None:
    try:
        return Collective.parse(name)
    except ValueError:
        return None


Choices = dict[tuple[Collective, int], set[Setting]]


@dataclass(slots=True, eq=False)
class RowTable:
    """Rows below one header.

    Attributes:
        numbers: those of the line ``# nThread …``.
        header: line of the table's header, or its first row.
        below_header: its rows stand below a header of their own, so that one process printed all.
        ordered: variables that choose, by the command that started it.
        forced: the same by the library's log, and its tuner, once all of it was read.
        scale: ranks and nodes as the library's log tells them, once all of it was read.
        ended: the benchmark came to its summary.
    """

    run: LogRun
    rows: TableRows
    numbers: dict[str, int]
    header: int
    below_header: bool
    ordered: dict[str, str]
    forced: dict[str, str]
    scale: Callable[[], tuple[int | None, int | None]]
    ended: bool = False

    @property
    def increment(self) -> int:
        """Factor from size to size, or bytes where below 0."""
        return self.numbers.get("step:", 2)

    def expects(self, nbytes: int) -> int:
        """Grade how well a size continues this table: 2 exactly, 1 possibly, 0 not at all."""
        smallest = self.numbers.get("minBytes")
        if not self.rows:
            return 1 if smallest is None else 2 * (nbytes <= smallest)
        _, last = self.rows.last
        increment = self.increment
        following = last - increment if increment < 0 else last * increment
        # A quarter of slack: all_gather and its kin round sizes down.
        return 2 if last < nbytes <= max(following * 1.25, 1024 if last == 0 else 0) else 0

    def finish(self, name: str) -> None:
        """Give its run the timings, and what only the whole file tells of it.

        Raises:
            OutputError: a size is repeated where no new pass begins.
        """
        n_ranks, n_nodes = self.scale()
        known = choice_facts(self.ordered | self.forced)
        late = LogFacts(line=self.run.said.line, n_ranks=n_ranks, n_nodes=n_nodes, **known)
        self.run.said = self.run.said.or_else(late)
        fill(self.run, self.rows.table(), name)

    def distance(self, average: float) -> float:
        """Distance of the mean of its bus bandwidths from what a benchmark sums up."""
        mean = mean_busbw(self.rows.table())
        return inf if mean is None else abs(mean - average)


@dataclass(slots=True)
class LogFindings:
    """Findings in one log.

    Attributes:
        name: file name for messages.
        all: tables, one for each header, or for each section of rows without one.
        tables: those whose summary has not come yet.
        pending: how many rows are waiting for their rest.
        hosts: names met in rank lists and in the library's messages.
        notes: (line, text) of what makes the log incomplete.
        failures: (line, text) of the benchmark's own errors.
        headers: lines of table headers.
        executed: what the library's log says it ran, since the last run began.
        forced: variables that choose, and the tuner, by the library's log.
        late: the same, said while a table with rows is open: its own, or of what comes next.
        who: command lines, exports, comments and section heads.
        jobs: of every writer.
        odd: lines that look like rows and are not understood, the first ones.
        out_of_bounds: wrong timings by the summary whose average is still to come.
        libraries: versions of the library, with the line that first names each.
        started: line where the last run began.
        first: first line with text that was looked at.
    """

    name: str
    all: list[RowTable] = field(default_factory=list)
    tables: list[RowTable] = field(default_factory=list)
    pending: int = 0
    hosts: set[str] = field(default_factory=set)
    notes: list[tuple[int, str]] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    headers: list[int] = field(default_factory=list)
    executed: Choices = field(default_factory=dict)
    forced: dict[str, str] = field(default_factory=dict)
    communicators: CommunicatorScales = field(default_factory=CommunicatorScales)
    late: dict[str, str] = field(default_factory=dict)
    who: CommandContext = field(default_factory=CommandContext)
    jobs: list[WriterRuns] = field(default_factory=list)
    odd: list[tuple[int, str]] = field(default_factory=list)
    out_of_bounds: int = 0
    benchmark: str | None = None
    library: str | None = None
    libraries: dict[str, int] = field(default_factory=dict)
    started: int | None = None
    first: tuple[int, str] | None = None

    def new_run(self) -> None:
        """Begin another run for what the library's log says from here on."""
        self.settle()
        self.executed = {}
        self.forced = {}
        self.communicators = CommunicatorScales()

    def settle(self) -> None:
        """Give late lines of the library to the run whose table was open."""
        self.forced.update(self.late)
        self.late.clear()

    def library_says(self, name: str, value: str) -> None:
        """A process of the library's named a variable that chooses, or its tuner."""
        if any(table.rows for table in self.tables):
            if self.forced.get(name) != value:
                self.late[name] = value
        else:
            self.forced[name] = value

    def changed(self) -> None:
        """Begin another run: what follows runs otherwise than what stands above."""
        for jobs in self.jobs:
            jobs.part()

    def new_process(self) -> None:
        """The library's late lines were those of another process, which the next row is of."""
        late, self.late = self.late, {}
        before = self.forced
        self.changed()
        self.forced = {**before, **late}

    @property
    def only_table(self) -> RowTable | None:
        """The table that any row must belong to, None where that has to be found out."""
        if len(self.tables) != 1 or self.pending or self.late:
            return None
        return self.tables[0]


# More than ever wait or run side by side; what noise piles up beyond is forgotten.
_MAX_PREAMBLES: Final = 64
_MAX_OPEN: Final = 16
# Each job's first rank names its device; a job that reads on in cycles names it once.
_FIRST_RANK: Final = re.compile(rb"^#\s+Rank\s+0\s+(?:Group|Pid)\b", re.MULTILINE)


def n_benchmarks_in(log: bytes) -> int:
    """Number of benchmarks that wrote into one log: more than one where ranks did not meet."""
    return len(_FIRST_RANK.findall(log))


class WriterRuns:
    """Runs of one writer."""

    def __init__(self, book: LogFindings) -> None:
        """Begin with no run."""
        self.layout: TableLayout | None = None
        self.open: list[RowTable] = []
        self._book = book
        self._waiting: list[Preamble] = []
        self._last = Preamble(line=0)
        self._interleaved = False
        book.jobs.append(self)

    def preamble(self, line: int, lacks: Callable[[Preamble], bool]) -> Preamble:
        """Newest preamble that lacks the fact just met; a new one where all have it."""
        for each in reversed(self._waiting):
            if lacks(each):
                return each
        new = Preamble(line=line)
        is_first, self._book.started = self._book.started is None, line
        # Only a run that begins while none is open cannot belong to interleaved jobs. What stands
        # above the first is its own: other ranks may speak before the one that prints.
        if not is_first and not (self._waiting and self.open):
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
        mark = setting_of_mark(text)
        if self._waiting and mark is None:
            # A line of somebody's decoration between a run's facts and its table.
            return
        for table in tuple(self.open):
            self._close(table)
        self.layout = None
        self._waiting = []
        self._last = Preamble(line=line)
        self._book.new_run()
        self._book.who.section(mark)

    def part(self) -> None:
        """Rows that follow are of another run, whose columns and facts are the same."""
        book = self._book
        for table in tuple(self.open):
            if table.rows:
                self._close(table)
            else:
                table.ordered = book.who.variables
        # What ran, and what forced it, was the last one's.
        book.settle()
        book.executed, book.forced = {}, {}

    def begin(self, line: int, layout: TableLayout, *, below_header: bool = True) -> RowTable:
        """A header, or the first row of a run that has none: a table opens."""
        book = self._book
        if below_header and not self._waiting and book.late:
            book.new_process()
        preamble = self._take_preamble(line, below_header=below_header)
        commanded, preamble.n_ranks = book.who.take_command()
        if preamble.collective is None:
            preamble.collective = commanded
        preamble.setting = book.who.mark
        table = RowTable(
            run=LogRun(said=preamble.said(), executed=book.executed),
            rows=TableRows(layout),
            numbers=preamble.numbers,
            header=line,
            below_header=below_header,
            ordered=book.who.variables,
            forced=book.forced,
            scale=book.communicators.scale,
        )
        if len(self.open) >= _MAX_OPEN:
            self._close(self.open[0])
        self.layout = layout
        self.open.append(table)
        book.tables.append(table)
        book.all.append(table)
        return table

    def resume(self, line: int) -> RowTable | None:
        """Table for a row without a header of its own, below one that is already summed up."""
        return None if self.layout is None else self.begin(line, self.layout, below_header=False)

    def whose(self, nbytes: int) -> RowTable:
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
        chosen = min(fit, key=lambda table: table.rows.last) if self._interleaved else fit[-1]
        self._interleaved |= chosen is not tables[-1]
        return chosen

    def summed_up(self, line: int, average: float) -> LogRun | None:
        """The summary of a table came: of the one whose rows it fits best."""
        self._book.settle()
        filled = [table for table in self.open if table.rows]
        if not filled:
            return None
        table = filled[0]
        if len(filled) > 1:
            table = min(filled, key=lambda each: each.distance(average))
        table.run.average, table.run.average_line = average, line
        self._close(table)
        return table.run

    def ended(self, out_of_bounds: int) -> None:
        """The first line of a summary came; which table's, only one that is alone tells."""
        if len(self.open) == 1:
            self.open[0].ended = True
            self.open[0].run.out_of_bounds = out_of_bounds

    def failed(self) -> None:
        """The benchmark gave up: rows already printed stand, a table without any is dropped."""
        empty = [table for table in self.open if not table.rows]
        if empty:
            self._close(empty[-1])
        elif self._waiting:
            self._waiting.pop()

    def _close(self, table: RowTable) -> None:
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
            ranks=before.ranks,
            simulated=before.simulated,
        )
