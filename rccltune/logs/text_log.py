"""Text logs: a benchmark's tables among everything else that shares its output."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from rccltune.logs import rows
from rccltune.logs.commands import CHOOSING, TUNER, setting_of_mark
from rccltune.logs.facts import LogRun
from rccltune.logs.labels import LineLabels
from rccltune.logs.library import (
    NOISE,
    OUR_TUNER,
    collective_named,
    cut_log,
    setting_named,
    tuner_of,
)
from rccltune.logs.log_runs import LogFindings, RowTable, WriterRuns, numbers_of, rank_of, starting
from rccltune.model.errors import OutputError
from rccltune.model.vocabulary import DTYPE_BYTES, Placement

_FAILURE: Final = re.compile(
    r"Test (?:NCCL |CUDA |HIP )?failure|Test timeout|\[ERROR\]|Invalid number of GPUs"
)
_VERSION: Final = re.compile(
    r"(?:(?:n|r)ccl-tests|rccltune PyTorch runner)(?: version|:\s*Version)\s+\S"
)
# The library that runs, as a number: 22809 is 2.28.9 (NCCL_VERSION in nccl.h).
_LINKED: Final = re.compile(r"[nr]ccl-library=(\d{4,6})\b")
_LIBRARY: Final = re.compile(r"(?:RCCL|NCCL) version\s*:?\s*(\S+)")
_AVERAGE: Final = re.compile(r"Avg bus bandwidth\s*:\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)")
_BOUNDS: Final = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\s*(FAILED)?")
_REDUCED: Final = re.compile(r"Reducing maxBytes to (\d{1,19})")
_PLACEMENTS: Final = re.compile(r"out-of-place|in-place")
_SECTION: Final = re.compile(r"\s*(?:#{2,}\s*\w|={3,}.*\w)")
_ROW_START: Final = re.compile(r"\s*\d+\s+\d+\s+[A-Za-z]\w*(?=\s|$)")
_VALUE: Final = re.compile(r"-?\d[\d.]*(?:[eE][-+]?\d+)?\*?|N/A|-?nan|-?inf")
_NAME: Final = re.compile(r"[A-Za-z][\w-]*|-|N/A|-1")
# What a message may leave of a word of a row.
_PART: Final = re.compile(r"[-+\w./*]+")
# A size, a count and a time with its two bandwidths.
_ROW_NUMBERS: Final = 5
_MAX_ODD: Final = 64


class WriterText:
    """One writer's text."""

    def __init__(
        self, book: LogFindings, labels: LineLabels, latest: Callable[[], WriterRuns | None]
    ) -> None:
        """Begin with nothing read.

        Args:
            book: takes the findings.
            labels: of the log.
            latest: whose header holds for rows of a writer that printed none.
        """
        self._book = book
        self._labels = labels
        self._own = WriterRuns(book)
        self._latest = latest
        self._placements: list[Placement] = []
        self._begun: tuple[int, str] | None = None

    @property
    def jobs(self) -> WriterRuns:
        """Runs that this writer's rows belong to."""
        if self._own.layout is not None:
            return self._own
        return self._latest() or self._own

    def line(self, number: int, body: str, *, ended: bool, glued: bool) -> None:
        """Take one line without its prefixes.

        Args:
            number: in the file, from 1.
            body: its text.
            ended: a line end of the benchmark's own follows it.
            glued: a message of the library's log follows it.
        """
        words = body.split()
        if self._begun is not None and self._goes_on(body, ended=ended):
            self._go_on(*self._begun, body, ended=ended)
        elif _ROW_START.match(body) or (words[0].isdigit() and self._fits(words)):
            self.drop_begun()
            self._row(number, body, words, ended=ended, glued=glued)
        elif glued and self.jobs.open and all(map(str.isdigit, words)):
            # So little of a row may be a size and a count whose rest comes behind the message.
            self.drop_begun()
            self._wait_for((number, body))
        else:
            self._words(number, body)

    def _goes_on(self, body: str, *, ended: bool) -> bool:
        """Whether this is the rest of the row that was begun, or a part of it.

        The parts of a row are put together letter by letter, blanks too: a message may stand
        inside a number.
        """
        layout = self.jobs.layout
        words = ((self._begun[1] if self._begun is not None else "") + body).split()
        if layout is None:
            return all(_VALUE.fullmatch(word) for word in body.split())
        if len(words) > layout.most:
            return False
        whole = words if ended else words[:-1]
        return any(
            all(
                (_NAME if name in rows.NAMES else _VALUE).fullmatch(word)
                for word, name in zip(whole, shape.names, strict=False)
            )
            for shape in layout.whole
            if len(whole) <= len(shape.names)
        ) and (ended or _PART.fullmatch(words[-1]) is not None)

    def drop_begun(self) -> None:
        """A row whose rest never came."""
        if self._begun is not None:
            self._note(self._begun[0], "a row is cut in the middle; it is left out")
            self._wait_for(None)

    def _row(self, number: int, body: str, words: list[str], *, ended: bool, glued: bool) -> None:
        table = self._table(number, words)
        if table is None:
            self._odd(number, body)
            return
        text = body.encode()
        if table.rows.take(number, text):
            return
        plain = self._labels.inside(body)
        if plain != body and table.rows.take(number, plain.encode()):
            return
        if glued and len(words) < table.rows.layout.most:
            self._wait_for((number, body))
        elif not ended:
            self._note(number, "the last row is cut; it is left out")
        elif not table.rows.take(number, text, short=True) and words[2] in DTYPE_BYTES:
            self._odd(number, body)

    def _odd(self, number: int, body: str) -> None:
        """A line looks like a row and is none that is understood."""
        numbers = sum(_VALUE.fullmatch(word) is not None for word in body.split())
        if numbers >= _ROW_NUMBERS and len(self._book.odd) < _MAX_ODD:
            self._book.odd.append((number, body.strip()[:160]))

    def _go_on(self, number: int, begun: str, body: str, *, ended: bool) -> None:
        whole = begun + body
        words = whole.split()
        table = self._table(number, words)
        text = " ".join(words).encode()
        if table is not None and table.rows.take(number, text):
            self._wait_for(None)
        elif ended or table is None or len(words) >= table.rows.layout.most:
            if table is not None and ended and table.rows.take(number, text, short=True):
                self._wait_for(None)
            else:
                self.drop_begun()
        else:
            self._wait_for((number, whole))

    def _table(self, number: int, words: list[str]) -> RowTable | None:
        """The table that a row belongs to; None where nothing says that it is a row."""
        jobs = self.jobs
        size = int(words[0]) if words[0].isdecimal() and len(words[0]) < 20 else 0
        if jobs.open and self._book.late:
            # Late lines of the process whose table goes on are of all of its rows.
            if jobs.open[-1].below_header and size > jobs.open[-1].rows.last[1]:
                self._book.settle()
            else:
                self._book.new_process()
        if jobs.open:
            return jobs.whose(size)
        guessed = rows.guess(words)
        if jobs.layout is not None and (guessed is not None or self._fits(words)):
            return jobs.resume(number)
        return None if guessed is None else jobs.begin(number, guessed, below_header=False)

    def _fits(self, words: list[str]) -> bool:
        """Whether a header in force has rows of so many words; its columns may stand anyhow."""
        layout = self.jobs.layout
        return layout is not None and layout.has(len(words))

    def _wait_for(self, begun: tuple[int, str] | None) -> None:
        self._book.pending += (begun is not None) - (self._begun is not None)
        self._begun = begun

    def _words(self, number: int, body: str) -> None:
        text = body.lstrip("# \t>|*$")
        runs = self._own
        if _SECTION.match(body):
            self.drop_begun()
            runs.section(number, body)
            if setting_of_mark(body) is not None:
                return
        if text.startswith("Rank"):
            self._rank(number, text)
        elif text.startswith("nThread"):
            numbers = numbers_of(text)
            runs.preamble(number, lambda each: not each.numbers).numbers = numbers
        elif (started := starting(text)) is not None:
            each = runs.preamble(number, lambda each: each.collective is None)
            each.collective, each.collective_line = started, number
        elif "algbw" in text or "busbw" in text:
            self._header(number, text)
        elif words := _PLACEMENTS.findall(text):
            self._placements = placements(words)
        else:
            self._other(number, text, comment=not body.lstrip()[:1].isalnum())

    def _other(self, number: int, text: str, *, comment: bool) -> None:
        book = self._book
        if (match := _AVERAGE.match(text)) is not None:
            self._summary(number, float(match[1]))
        elif (match := _BOUNDS.match(text)) is not None:
            book.out_of_bounds = int(match[1]) if match[2] else 0
            self.jobs.ended(book.out_of_bounds)
        elif (match := _REDUCED.match(text)) is not None:
            self._note(number, f"the largest size was lowered to {match[1]} for want of memory")
        elif _FAILURE.search(text) is not None:
            book.failures.append((number, text.strip()[:200]))
            self._own.failed()
        elif _VERSION.match(text) is not None:
            each = self._own.preamble(number, lambda each: each.version is None)
            each.version = book.benchmark = text.strip()
            each.simulated = each.simulated or "SIMULATED" in text
            linked = _linked(text)
            book.library = book.library or linked
            if linked is not None:
                book.libraries.setdefault(linked, number)
        elif (match := _LIBRARY.match(text)) is not None:
            book.library = match[1]
            book.libraries.setdefault(match[1], number)
        elif "SIMULATED" in text:
            self._own.simulated(number)
        else:
            self._command(number, text, comment=comment)

    def _command(self, number: int, text: str, *, comment: bool) -> None:
        if text.startswith("rccltune: comm=") and " schedule=" in text:
            # Plugins of 0.1 could try one setting after the other.
            self._book.library_says(TUNER, "our plugin's schedule")
        elif self._book.who.see(number, text, comment=comment):
            self.drop_begun()
            self._book.changed()

    def _rank(self, number: int, text: str) -> None:
        rank = rank_of(text, number)
        if rank is not None:
            key = (rank.group, rank.rank)
            self._book.hosts.add(rank.host)
            self._own.preamble(number, lambda each: key not in each.ranks).ranks[key] = rank

    def _header(self, number: int, text: str) -> None:
        words, named = rows.header(text)
        if not words:
            return
        self.drop_begun()
        table_layout = rows.layout(tuple(words), tuple(placements(named) or self._placements))
        if table_layout is None:
            raise OutputError(
                "the header has one block of columns and nothing says in which placement",
                where=f"{self._book.name}:{number}",
                hint="put '# out-of-place' or '# in-place' on the line above the header.",
            )
        self._book.headers.append(number)
        self._own.begin(number, table_layout)

    def _summary(self, number: int, average: float) -> None:
        self.drop_begun()
        run = self.jobs.summed_up(number, average)
        if run is not None:
            run.out_of_bounds, self._book.out_of_bounds = self._book.out_of_bounds, 0

    def _note(self, number: int, text: str) -> None:
        self._book.notes.append((number, text))


def placements(words: Sequence[str]) -> list[Placement]:
    """Placements of a table's blocks in the order in which they are named."""
    return [Placement.IN_PLACE if word == "in-place" else Placement.OUT_OF_PLACE for word in words]


def _linked(text: str) -> str | None:
    """Version of the library in a benchmark's version line."""
    match = _LINKED.search(text)
    if match is None:
        return None
    number = int(match[1])
    # Four digits up to 2.8, five since (NCCL 2.30.7 src/nccl.h.in, NCCL_VERSION).
    thousand = 10_000 if number >= 10_000 else 1_000
    return f"{number // thousand}.{number % thousand // 100}.{number % 100}"


_CHOICE: Final = re.compile(
    rb"NCCL INFO (\w+): (?:opCount \w+ )?(\d{1,19}) Bytes -> Algo(?:rithm)? (\w+) "
    rb"proto(?:col)? (\w+)(?: .*?channel\{Lo\.\.Hi\}=\{(\d{1,6})\.\.(\d{1,6})\})?"
)
_SET: Final = re.compile(rb"\b(%b) set (?:by environment )?to (\S+)" % CHOOSING.encode())
_OUR_RULES: Final = re.compile(rb"rccltune: comm=\S+ .*? rules=[1-9]\d* .*?file=(\S+)")
# So many show which labels a log has.
_FIRST_LINES: Final = 4096
# Bounds on what noise alone may pile up.
_MAX_HOSTS: Final = 4096
_MAX_CHOICES: Final = 65536
_MAX_STREAMS: Final = 4096


class TextReader:
    """Takes a log line by line."""

    def __init__(self, name: str) -> None:
        """Begin with nothing read.

        Args:
            name: file name for messages.
        """
        self.book = LogFindings(name)
        self._labels = LineLabels()
        self._streams: dict[str, WriterText] = {}
        self._hosts: set[bytes] = set()
        self._latest: WriterRuns | None = None

    def read(self, lines: Iterable[bytes]) -> list[LogRun]:
        """Take all lines and give the runs that have rows, in the order of their headers."""
        noise = NOISE.match
        lines = iter(lines)
        first = list(islice(lines, _FIRST_LINES))
        self._labels.learn(raw.decode("utf-8", "replace") for raw in first)
        take = None
        for number, raw in enumerate(chain(first, lines), 1):
            # The usual case first: one table, and a whole row of it.
            if take is not None and raw[-1:] == b"\n" and take(number, raw):
                continue
            if (match := noise(raw)) is not None:
                self._message(raw, match[1])
                if self.book.late:
                    take = None
                continue
            self._line(number, raw.decode("utf-8", "replace"))
            table = self.book.only_table
            take = table.rows.take_usual if table is not None else None
        for stream in self._streams.values():
            stream.drop_begun()
        self.book.settle()
        tables = [table for table in self.book.all if table.rows]
        for each in tables:
            each.finish(self.book.name)
            self._died(each)
        return [each.run for each in tables]

    def _line(self, number: int, text: str) -> None:
        label, rest = self._labels.cut(text)
        if rest != text:
            plain = rest.lstrip().encode("utf-8", "replace")
            if (match := NOISE.match(plain)) is not None:
                self._message(plain, match[1])
                return
        body, glued = cut_log(rest, self.book.hosts)
        if glued:
            self._message(rest.encode("utf-8", "replace"), b"")
        if not body.strip():
            return
        self.book.first = self.book.first or (number, text.strip()[:160])
        stream = self._stream(label)
        stream.line(number, body, ended=text.endswith("\n") and not glued, glued=glued)
        if stream.jobs.layout is not None:
            self._latest = stream.jobs

    def _stream(self, label: str) -> WriterText:
        if len(self._streams) >= _MAX_STREAMS:
            label = ""
        stream = self._streams.get(label)
        if stream is None:
            stream = self._streams[label] = WriterText(
                self.book, self._labels, lambda: self._latest
            )
        return stream

    def _died(self, table: RowTable) -> None:
        """Say that a table without a summary ends before the size it was asked for, or misses some.

        Benchmarks round sizes down to whole elements of every rank: of k such units the next size
        has at most k times the factor and the factor less one.
        """
        run, step, (_, last) = table.run, table.increment, table.rows.last
        if table.ended or table not in self.book.tables:
            return
        largest = table.numbers.get("maxBytes", 0)
        if last * max(step, 1) + max(-step, 0) <= largest:
            run.max_size = largest
        if "step:" not in table.numbers:
            return
        lines, sizes = run.timings["line"], run.timings["nbytes"]
        low = sizes.shift(fill_value=0)
        most = low - 1.5 * step if step < 0 else low * (2 * step - 1)
        said = [line for line, _ in self.book.notes]
        for at in sizes.index[(low > 0) & (most < sizes)]:
            before, line = int(lines[at - 1]), int(lines[at])
            if not any(before <= each <= line for each in said):
                self.book.notes.append(
                    (
                        line,
                        f"no row of the sizes between {low[at]} and {sizes[at]} bytes can be read",
                    )
                )

    def _message(self, raw: bytes, host: bytes) -> None:
        """Take what one message of the library's log tells."""
        if host and host not in self._hosts and len(self._hosts) < _MAX_HOSTS:
            self._hosts.add(host)
            self.book.hosts.add(host.decode("utf-8", "replace"))
        if b" -> Algo" in raw:
            self._choice(raw)
        elif b" nranks " in raw or b" nRanks" in raw:
            self.book.communicators.see(raw, host)
        elif b" set " in raw and (match := _SET.search(raw)) is not None:
            what, value = (each.decode("ascii", "replace") for each in match.groups())
            self.book.library_says(what, value)
        elif (match := _OUR_RULES.search(raw)) is not None:
            self.book.library_says(TUNER, f"our plugin with {match[1].decode('ascii', 'replace')}")
        elif b"tuner" in raw.lower():
            named = tuner_of(raw.decode("utf-8", "replace"))
            # Ours answers nothing until it says that it has rules.
            if named not in ("none", "unknown", "plugin internal", OUR_TUNER):
                self.book.library_says(TUNER, named)

    def _choice(self, raw: bytes) -> None:
        match = _CHOICE.search(raw)
        if match is None or len(self.book.executed) >= _MAX_CHOICES:
            return
        words = [each.decode("ascii", "replace") for each in match.groups(b"")]
        collective, ran = collective_named(words[0]), setting_named(words[2], words[3])
        if collective is None or ran is None:
            return
        channels = int(words[5]) - int(words[4]) + 1 if words[5] else 0
        chosen = replace(ran, channels=channels if channels > 0 else None)
        self.book.executed.setdefault((collective, int(words[1])), set()).add(chosen)
