"""What one writer printed: facts, headers, rows and pieces of rows, in the order they came."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rccltune.errors import OutputError
from rccltune.parse import layout as layouts
from rccltune.parse import preamble
from rccltune.parse.book import Book
from rccltune.parse.jobs import Jobs
from rccltune.parse.table import Table
from rccltune.vocab import DTYPE_BYTES, Placement

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
# Where the out-of-place numbers would be, a benchmark that measured none prints 32 blanks.
_GAP: Final = re.compile(r"\S {28,}-?\d")


class Stream:
    """One writer's text."""

    def __init__(self, book: Book, latest: Callable[[], Jobs | None]) -> None:
        """Nothing was read yet.

        Args:
            book: takes the findings.
            latest: whose header holds for rows of a writer that printed none.
        """
        self._book = book
        self._own = Jobs(book)
        self._latest = latest
        self._placements: list[Placement] = []
        self._begun: tuple[int, list[str]] | None = None

    @property
    def jobs(self) -> Jobs:
        """Where this writer's rows belong."""
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
        if self._begun is not None and self._goes_on(words):
            self._go_on(self._begun[0], self._begun[1] + words, ended=ended)
        elif _ROW_START.match(body) or (words[0].isdigit() and self._fits(words)):
            self.drop_begun()
            self._row(number, body, words, ended=ended, glued=glued)
        else:
            self._words(number, body)

    def _goes_on(self, words: list[str]) -> bool:
        """Whether these are the rest of the row that was begun: numbers, or what completes it.

        With -A a row ends in words, which are only taken where they fit the header exactly.
        """
        if all(_VALUE.fullmatch(word) for word in words):
            return True
        layout = self.jobs.layout
        begun = self._begun[1] if self._begun is not None else []
        whole = layout is not None and len(begun) + len(words) in layout.whole
        return whole and _VALUE.fullmatch(words[0]) is not None

    def drop_begun(self) -> None:
        """A row whose rest never came."""
        if self._begun is not None:
            self._note(self._begun[0], "a row is cut in the middle; it is left out")
            self._wait_for(None)

    def _row(self, number: int, body: str, words: list[str], *, ended: bool, glued: bool) -> None:
        table = self._table(number, words)
        if table is None:
            return
        if table.row(number, words):
            return
        if glued and len(words) < max(table.layout.whole):
            self._wait_for((number, words))
        elif not ended:
            self._note(number, "the last row is cut; it is left out")
        elif (
            not table.short_row(number, words, gap=_GAP.search(body) is not None)
            and words[2] in DTYPE_BYTES
        ):
            self._note(number, "a row does not fit its header; it is left out")

    def _go_on(self, number: int, words: list[str], *, ended: bool) -> None:
        table = self._table(number, words)
        if table is not None and table.row(number, words):
            self._wait_for(None)
        elif ended or table is None or len(words) >= max(table.layout.whole):
            short = table is not None and ended and table.short_row(number, words, gap=False)
            if short:
                self._wait_for(None)
            else:
                self.drop_begun()
        else:
            self._wait_for((number, words))

    def _table(self, number: int, words: list[str]) -> Table | None:
        """The table that a row belongs to; None where nothing says that it is a row."""
        jobs = self.jobs
        if jobs.open:
            size = words[0]
            return jobs.whose(int(size) if size.isdecimal() and len(size) < 20 else 0)
        guessed = layouts.guess(words)
        if jobs.layout is not None and (guessed is not None or self._fits(words)):
            return jobs.resume(number)
        return None if guessed is None else jobs.begin(number, guessed, below_header=False)

    def _fits(self, words: list[str]) -> bool:
        """Whether a header in force has rows of so many words; its columns may stand anyhow."""
        layout = self.jobs.layout
        return layout is not None and (len(words) in layout.whole or len(words) in layout.halves)

    def _wait_for(self, begun: tuple[int, list[str]] | None) -> None:
        self._book.pending += (begun is not None) - (self._begun is not None)
        self._begun = begun

    def _words(self, number: int, body: str) -> None:
        if _SECTION.match(body):
            self.drop_begun()
            self._own.section(number, body)
        text = body.lstrip("# \t>|*")
        own = self._own
        if text.startswith("Rank"):
            self._rank(number, text)
        elif text.startswith("nThread"):
            numbers = preamble.numbers_of(text)
            own.preamble(number, lambda each: not each.numbers).numbers = numbers
        elif (started := preamble.starting(text)) is not None:
            each = own.preamble(number, lambda each: each.collective is None)
            each.collective, each.collective_line = started, number
        elif "algbw" in text or "busbw" in text:
            self._header(number, text)
        elif words := _PLACEMENTS.findall(text):
            self._placements = [
                Placement.IN_PLACE if word == "in-place" else Placement.OUT_OF_PLACE
                for word in words
            ]
        else:
            self._other(number, text)

    def _other(self, number: int, text: str) -> None:
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
            book.library = book.library or _linked(text)
        elif (match := _LIBRARY.match(text)) is not None:
            book.library = match[1]
        elif "SIMULATED" in text:
            self._own.simulated(number)
        elif "_perf" in text and not text.startswith("Collective test"):
            book.commanded = preamble.commanded(text) or book.commanded

    def _rank(self, number: int, text: str) -> None:
        rank = preamble.rank_of(text, number)
        if rank is not None:
            key = (rank.group, rank.rank)
            self._book.hosts.add(rank.host)
            self._own.preamble(number, lambda each: key not in each.ranks).ranks[key] = rank

    def _header(self, number: int, text: str) -> None:
        words = text.replace("|", " ").split()
        if not layouts.is_header(words):
            return
        self.drop_begun()
        found = layouts.from_names(words, self._placements)
        if found is None:
            raise OutputError(
                "the header has one block of columns and nothing says in which placement",
                where=f"{self._book.name}:{number}",
                hint="put '# out-of-place' or '# in-place' on the line above the header.",
            )
        self._book.headers.append(number)
        self._own.begin(number, found)

    def _summary(self, number: int, average: float) -> None:
        self.drop_begun()
        run = self.jobs.summed_up(number, average)
        if run is not None:
            run.out_of_bounds, self._book.out_of_bounds = self._book.out_of_bounds, 0

    def _note(self, number: int, text: str) -> None:
        self._book.notes.append((number, text))


def _linked(text: str) -> str | None:
    """Version of the library in a benchmark's version line."""
    match = _LINKED.search(text)
    if match is None:
        return None
    number = int(match[1])
    # Four digits up to 2.8, five since (NCCL 2.30.7 src/nccl.h.in, NCCL_VERSION).
    thousand = 10_000 if number >= 10_000 else 1_000
    return f"{number // thousand}.{number % thousand // 100}.{number % 100}"
