"""Text logs: a benchmark's tables among everything else that shares its output.

A job's own lines stand above its table, a summary below it. Whatever names another environment, a
heading behind rows, or another header ends a table. What two jobs write into one log at once is
not taken apart: their sizes then stand twice in one table, which is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import log
from typing import Final

from rccltune.logs import table_rows
from rccltune.logs.benchmark_job import BenchmarkJob, parse_numbers, parse_rank
from rccltune.logs.commands import Commands
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.forced_variables import TUNER
from rccltune.logs.library_log import (
    MESSAGE,
    NOISE,
    OUR_TUNER,
    find_tuner,
    parse_cell,
    parse_collective,
)
from rccltune.logs.timings import fill_run
from rccltune.model.errors import OutputError
from rccltune.model.settings import Vendor
from rccltune.model.vocabulary import DTYPE_BYTES, Placement

_TEST: Final = re.compile(r"Collective test (starting|concluded):\s*(\S+)")
_FAILURE: Final = re.compile(
    r"Test (?:NCCL |CUDA |HIP )?failure|Test timeout|\[ERROR\]|Invalid number of GPUs"
)
_VERSION: Final = re.compile(r"(n|r)ccl-tests(?: version|:\s*Version)\s+\S")
# The library that runs, as a number: 22809 is 2.28.9 (NCCL_VERSION in nccl.h).
_LINKED: Final = re.compile(r"[nr]ccl-library=(\d{4,6})\b")
_LIBRARY: Final = re.compile(r"(RCCL|NCCL) version\s*:?\s*(\S+)")
_AVERAGE: Final = re.compile(r"Avg bus bandwidth\s*:\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)")
_BOUNDS: Final = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\s*(FAILED)?")
_REDUCED: Final = re.compile(r"Reducing maxBytes to (\d{1,19})")
# Of a section of somebody's script or page.
_HEADING: Final = re.compile(r"\s*(?:#{2,}\s*\w|={3,}.*\w)")
_ELIDED: Final = re.compile(r"\W*(?:\.\.\.|…|\[?snip)")
_CHOICE: Final = re.compile(
    rb"NCCL INFO (\w+): (?:opCount \w+ )?(\d{1,19}) Bytes -> Algo(?:rithm)? (\w+) "
    rb"proto(?:col)? (\w+)(?: .*?channel\{Lo\.\.Hi\}=\{(\d{1,6})\.\.(\d{1,6})\})?"
)
_SET: Final = re.compile(rb"\b([A-Z]+_[A-Z0-9_]+) set (?:by environment )?to (\S+)")
_OUR_RULES: Final = re.compile(rb"rccltune: comm=\S+ .*? rules=[1-9]\d* .*?file=(\S+)")
# Bounds on what noise alone may pile up.
_MAX_BAD_ROWS: Final = 64
_MAX_CHOICES: Final = 65536
_MAX_VARIABLES: Final = 512


@dataclass(slots=True, eq=False)
class RowTable:
    """Rows below one header, under one set of variables."""

    job: BenchmarkJob
    run: LogRun
    layout: table_rows.Layout
    rows: table_rows.TableRows
    variables: dict[str, str]
    header: int


class TextReader:
    """Takes a log line by line.

    Attributes:
        tables: one for each header, or for rows without one.
        notes: (line, text) of what makes the log incomplete.
        failures: (line, text) of the benchmark's own errors.
        bad_rows: the first lines that look like rows and are none; ``n_bad_rows`` counts all.
        headers: lines of table headers.
        libraries: versions of the library, with the line that first names each.
        vendor: whose GPUs the benchmark or its library serves.
        start_line: line where the last job began.
        first_line: number and text of the first line with text that was looked at.
    """

    def __init__(self, name: str) -> None:
        """Begin with nothing read.

        Args:
            name: file name for messages.
        """
        self.name = name
        self.tables: list[RowTable] = []
        self.notes: list[tuple[int, str]] = []
        self.failures: list[tuple[int, str]] = []
        self.bad_rows: list[tuple[int, str]] = []
        self.n_bad_rows = 0
        self.headers: list[int] = []
        self.libraries: dict[str, int] = {}
        self.benchmark: str | None = None
        self.library: str | None = None
        self.family: str | None = None
        self.vendor: Vendor | None = None
        self.start_line: int | None = None
        self.first_line: tuple[int, str] | None = None
        self._commands = Commands()
        self._job = BenchmarkJob(line=0)
        self._table: RowTable | None = None
        self._layout: table_rows.Layout | None = None
        self._above: tuple[Placement, ...] = ()

    def read(self, lines: Iterable[bytes]) -> list[LogRun]:
        """Take all lines and give the runs that have rows, in the order of their headers.

        Raises:
            OutputError: a size is repeated where no new pass begins, or a header is ambiguous.
        """
        noise = NOISE.match
        take = None
        joined = ""
        for number, raw in enumerate(lines, 1):
            # The usual case first: one table, and a whole row of it.
            if take is not None and take(number, raw):
                continue
            if (match := noise(raw)) is not None:
                self._read_message(raw, match[1] or b"")
                continue
            text = raw.decode("utf-8", "replace").rstrip("\r\n")
            if text.endswith("\\") and not text.endswith("\\\\"):
                joined += text[:-1] + " "
                continue
            self._read_line(number, joined + text, raw)
            joined = ""
            take = self._table.rows.take_usual if self._table is not None else None
        if joined:
            self._read_line(0, joined, b"")
        return [self._finish_table(table) for table in self.tables if len(table.rows)]

    def _finish_table(self, table: RowTable) -> LogRun:
        run, job = table.run, table.job
        commands = self._commands
        library = f"{self.family} {self.library}" if self.family and self.library else None
        late = LogFacts(
            line=job.line,
            variables={**table.variables, **job.variables},
            names_environment=commands.names_environment or bool(job.variables),
            mention=commands.mention,
            library=library,
            vendor=self.vendor.value if self.vendor else None,
        )
        run.facts = job.facts().or_else(late)
        run.executed_settings = job.executed_settings
        for line, text in table.rows.find_misfits():
            self._note_bad_row(line, text)
        cells = table.rows.table()
        # A number was cut in two: no call has more elements than bytes.
        torn = cells["count"] * cells["dtype"].map(DTYPE_BYTES) > cells["nbytes"]
        for line in cells["line"][torn].drop_duplicates().tolist():
            self._note_bad_row(line, "its size is less than its elements'")
        fill_run(run, cells[~torn].reset_index(drop=True), self.name)
        if sum(one.job is job for one in self.tables) == 1:
            self._look_for_missing(run, job.numbers)
        return run

    def _look_for_missing(self, run: LogRun, numbers: dict[str, int]) -> None:
        """Say that the benchmark was asked for more sizes than stand here."""
        least, most, step = (numbers.get(name, 0) for name in ("minBytes", "maxBytes", "step:"))
        if not (0 < least <= most) or step in (0, 1):
            return
        wanted = (most - least) // -step if step < 0 else int(log(most / least, step) + 1e-9)
        n_rows = run.timings["line"].nunique()
        if n_rows <= wanted:
            last = run.timings[["line", "nbytes"]].iloc[-1]
            text = (
                f"the benchmark was asked for {wanted + 1} sizes from {least} to {most} bytes, and "
                f"{n_rows} can be read, the last of {last['nbytes']} bytes"
            )
            self.notes.append((int(last["line"]), text))

    def _note_bad_row(self, number: int, text: str) -> None:
        """Count a row that is not whole, and keep the first ones."""
        self.n_bad_rows += 1
        if len(self.bad_rows) < _MAX_BAD_ROWS:
            self.bad_rows.append((number, text.strip()[:160]))

    # --- lines ------------------------------------------------------------------------------------

    def _read_line(self, number: int, text: str, raw: bytes) -> None:
        message = MESSAGE.search(text) if "NCCL" in text else None
        body = text if message is None else text[: message.start()]
        if message is not None:
            self._read_message(text[message.start() :].encode("utf-8", "replace"), b"")
        if not body.strip():
            return
        self.first_line = self.first_line or (number, text.strip()[:160])
        if body[:1].isdigit() or body.lstrip()[:1].isdigit():
            words = body.split()
            if message is None and self._read_row(number, words, raw):
                return
            if table_rows.ROW_LIKE.match(body) is not None:
                self._note_bad_row(number, text)
                return
        self._read_words(number, body)

    def _read_row(self, number: int, words: list[str], raw: bytes) -> bool:
        if self._table is None:
            layout = self._layout
            if layout is None and table_rows.ROW_LIKE.match(" ".join(words)) is not None:
                layout = table_rows.guess_layout(words)
            if layout is None:
                return False
            table = self._new_table(number, layout)
            if not table.rows.take(number, raw):
                return False
            self._open_table(table)
            return True
        return self._table.rows.take(number, raw)

    def _read_words(self, number: int, body: str) -> None:
        text = body.lstrip("# \t>|*$")
        if _HEADING.match(body) is not None:
            self._end_table()
            self._commands.begin_section()
        if (rank := parse_rank(text, number)) is not None:
            job = self._job_above_table(number, has=(rank.group, rank.rank) in self._job.ranks)
            job.ranks[rank.group, rank.rank] = rank
        elif text.startswith("nThread"):
            job = self._job_above_table(number, has=bool(self._job.numbers))
            job.numbers = parse_numbers(text)
        elif (test := _TEST.match(text)) is not None:
            self._name_collective(number, test[1], test[2])
        elif "algbw" in text or "busbw" in text:
            self._read_header(number, text)
        elif above := table_rows.find_placements(text):
            self._above = above
        elif _ELIDED.match(body) is not None:
            self._job.is_cut = self._job.is_cut or bool(self._job.ranks and not self._job.has_table)
        elif not self._read_summary(number, text):
            self._read_other(number, body, text)

    def _name_collective(self, number: int, when: str, name: str) -> None:
        collective = parse_collective(name)
        if when == "starting":
            job = self._job_above_table(number, has=self._job.collective is not None)
        else:
            # The last line of a job names what stands above it.
            self._end_table()
            job = self._job
        if collective is not None and (when == "starting" or job.has_table):
            job.collective = job.collective or collective
            job.collective_line = job.collective_line or number

    def _read_summary(self, number: int, text: str) -> bool:
        """Take a line of the summary; False where it is none."""
        if (match := _AVERAGE.match(text)) is not None:
            if self._table is not None and len(self._table.rows):
                run = self._table.run
                run.average, run.average_line = float(match[1]), number
                self._end_table()
        elif (match := _BOUNDS.match(text)) is not None:
            if self._table is not None:
                self._table.run.out_of_bounds = int(match[1]) if match[2] else 0
        elif (match := _REDUCED.match(text)) is not None:
            self.notes.append((number, f"the largest size was lowered to {match[1]} bytes"))
            self._job.numbers["maxBytes"] = int(match[1])
        else:
            return False
        return True

    def _read_other(self, number: int, body: str, text: str) -> None:
        if _FAILURE.search(text) is not None:
            self.failures.append((number, text.strip()[:200]))
            if self._table is not None and not len(self._table.rows):
                self.tables.remove(self._table)
            self._table = None
        elif (match := _VERSION.match(text)) is not None:
            job = self._job_above_table(number, has=self._job.version is not None)
            job.version = self.benchmark = text.strip()
            job.simulated = job.simulated or "SIMULATED" in text
            self._note_library(number, _find_linked_library(text), None)
            if match[1] == "r":
                self.vendor = Vendor.AMD
        elif (match := _LIBRARY.match(text)) is not None:
            self._note_library(number, match[2], match[1])
        elif "SIMULATED" in text:
            self._job.simulated = True
        else:
            self._read_command(number, body)

    def _note_library(self, number: int, version: str | None, family: str | None) -> None:
        if version is None:
            return
        self.library, self.family = version if family else self.library or version, family
        self.libraries.setdefault(version, number)
        if family is not None:
            self.vendor = Vendor.AMD if family == "RCCL" else Vendor.NVIDIA

    def _read_command(self, number: int, body: str) -> None:
        """Take somebody's command or any other text; another environment ends a table."""
        before = self._commands.variables
        if body.lstrip().startswith("rccltune: "):
            self._read_message(body.encode("utf-8", "replace"), b"")
        else:
            self._commands.read_line(number, body)
        if self._commands.variables != before:
            self._end_table()

    # --- jobs and tables --------------------------------------------------------------------------

    def _job_above_table(self, number: int, *, has: bool) -> BenchmarkJob:
        """The job that a line above its table is of: another one where this one has had its own."""
        if self._job.has_table or has:
            self._end_table()
            self._job = BenchmarkJob(line=number)
        self._job.line = self._job.line or number
        self.start_line = self._job.line
        return self._job

    def _read_header(self, number: int, text: str) -> None:
        try:
            layout = table_rows.parse_header(text, self._above)
        except ValueError as error:
            raise OutputError(
                str(error),
                where=f"{self.name}:{number}",
                hint="put '# out-of-place' or '# in-place' on the line above the header.",
            ) from error
        if layout is None:
            return
        self._end_table()
        if self._job.has_table:
            # Nothing is known about it; above all not that it is like the one before.
            self._job = BenchmarkJob(line=number)
        self.headers.append(number)
        self._open_table(self._new_table(number, layout))

    def _new_table(self, number: int, layout: table_rows.Layout) -> RowTable:
        job, commands = self._job, self._commands
        job.line = job.line or number
        run = LogRun(facts=LogFacts(line=number))
        return RowTable(job, run, layout, table_rows.TableRows(layout), commands.variables, number)

    def _open_table(self, table: RowTable) -> None:
        job, commands = self._job, self._commands
        if not job.has_table:
            job.collective = job.collective or commands.collective
            job.n_ranks, job.is_alone = commands.n_ranks, commands.is_alone
            commands.collective, commands.n_ranks, commands.is_alone = None, None, False
        job.has_table = True
        commands.begin_table()
        self._table, self._layout = table, table.layout
        self.tables.append(table)

    def _end_table(self) -> None:
        """End the table; one that has no row yet goes on under what is set now."""
        if self._table is not None and not len(self._table.rows):
            self._table.variables = self._commands.variables
        else:
            self._table = None

    # --- the library's messages -------------------------------------------------------------------

    def _read_message(self, raw: bytes, host: bytes) -> None:
        """Take what one message of the library's log tells."""
        job = self._job
        if b" -> Algo" in raw:
            self._note_choice(raw)
        elif b" nranks " in raw or b" nRanks" in raw:
            job.note_communicator(raw, host)
        elif b" set " in raw and (match := _SET.search(raw)) is not None:
            name, value = (each.decode("ascii", "replace") for each in match.groups())
            self._note_variable(
                name, value[:-1] if value[:-1].isdigit() and value[-1] == "." else value
            )
        elif (match := _OUR_RULES.search(raw)) is not None:
            self._note_variable(TUNER, f"our plugin with {match[1].decode('ascii', 'replace')}")
        elif b"tuner" in raw.lower():
            tuner = find_tuner(raw.decode("utf-8", "replace"))
            # Ours answers nothing until it says that it has rules.
            if tuner not in ("none", "unknown", "plugin internal", OUR_TUNER):
                self._note_variable(TUNER, tuner)
        elif b" version" in raw and (version := _LIBRARY.search(raw.decode("utf-8", "replace"))):
            self._note_library(0, version[2], version[1])

    def _note_variable(self, name: str, value: str) -> None:
        """A process named a variable or its tuner; where ranks differ, both values are kept."""
        known = self._job.variables
        if name in known and known[name] != value:
            value = f"{known[name]}|{value}" if value not in known[name].split("|") else known[name]
        if name in known or len(known) < _MAX_VARIABLES:
            known[name] = value[:256]

    def _note_choice(self, raw: bytes) -> None:
        match = _CHOICE.search(raw)
        executed = self._job.executed_settings
        if match is None or len(executed) >= _MAX_CHOICES:
            return
        words = [each.decode("ascii", "replace") for each in match.groups(b"")]
        collective, ran = (
            parse_collective(words[0]),
            parse_cell(words[2], words[3]),
        )
        if collective is None or ran is None:
            return
        channels = int(words[5]) - int(words[4]) + 1 if words[5] else 0
        setting = replace(ran, channels=channels if channels > 0 else None)
        executed.setdefault((collective, int(words[1])), set()).add(setting)


def _find_linked_library(text: str) -> str | None:
    """Version of the library in a benchmark's version line."""
    match = _LINKED.search(text)
    if match is None:
        return None
    number = int(match[1])
    # Four digits up to 2.8, five since (NCCL 2.30.7 src/nccl.h.in, NCCL_VERSION).
    thousand = 10_000 if number >= 10_000 else 1_000
    return f"{number // thousand}.{number % thousand // 100}.{number % 100}"
