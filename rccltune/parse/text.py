"""Text logs: finding the benchmark's tables among everything else that shares its output."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rccltune.model import Setting
from rccltune.parse.book import Book
from rccltune.parse.draft import Run
from rccltune.parse.jobs import Jobs
from rccltune.parse.prefix import NOISE, cut_log, strip
from rccltune.parse.stream import Stream
from rccltune.vocab import Algorithm, Collective, Protocol

_CHOICE: Final = re.compile(
    rb"NCCL INFO (\w+): (?:opCount \w+ )?(\d{1,19}) Bytes -> Algo(?:rithm)? (\w+) "
    rb"proto(?:col)? (\w+)(?: .*?channel\{Lo\.\.Hi\}=\{(\d{1,6})\.\.(\d{1,6})\})?"
)
_FORCED: Final = re.compile(rb"NCCL_(ALGO|PROTO) set by environment to (\S+)")
_ALGORITHMS: Final = frozenset(str(number) for number in range(len(Algorithm)))
_PROTOCOLS: Final = frozenset(str(number) for number in range(len(Protocol)))
# Bounds on what noise alone may pile up.
_MAX_HOSTS: Final = 4096
_MAX_CHOICES: Final = 65536
_MAX_STREAMS: Final = 4096


class TextReader:
    """Takes a log line by line."""

    def __init__(self, name: str) -> None:
        """Nothing was read yet.

        Args:
            name: file name for messages.
        """
        self.book = Book(name)
        self._streams: dict[str, Stream] = {}
        self._hosts: set[bytes] = set()
        self._latest: Jobs | None = None

    def read(self, lines: Iterable[bytes]) -> list[Run]:
        """Take all lines and give the runs that have rows, in the order of their headers."""
        noise = NOISE.match
        table = None
        for number, raw in enumerate(lines, 1):
            if (match := noise(raw)) is not None:
                self._message(raw, match[1])
                continue
            text = raw.decode("utf-8", "replace")
            # The usual case first: one table, and a whole row of it.
            if table is not None and raw[-1:] == b"\n" and table.row(number, text.split()):
                continue
            self._line(number, text)
            table = self.book.only_table
        for stream in self._streams.values():
            stream.drop_begun()
        self._died()
        return [run for run in self.book.runs if run.drafts]

    def _line(self, number: int, text: str) -> None:
        label, rest = strip(text)
        body, glued = cut_log(rest, self.book.hosts)
        if glued:
            self._message(rest.encode("utf-8", "replace"), b"")
        if not body.strip():
            return
        self._remember(number, text)
        stream = self._stream(label)
        stream.line(number, body, ended=text.endswith("\n") and not glued, glued=glued)
        if stream.jobs.layout is not None:
            self._latest = stream.jobs

    def _stream(self, label: str) -> Stream:
        if len(self._streams) >= _MAX_STREAMS:
            label = ""
        found = self._streams.get(label)
        if found is None:
            found = self._streams[label] = Stream(self.book, lambda: self._latest)
        return found

    def _remember(self, number: int, text: str) -> None:
        line = (number, text.strip()[:160])
        self.book.first = self.book.first or line
        self.book.last = line

    def _died(self) -> None:
        """Tables without a summary that end well before the size they were asked for."""
        for table in self.book.tables:
            largest = table.numbers.get("maxBytes")
            ended = table.run.ended or not table.n_rows
            if largest and not ended and table.run.last_size < largest / 2:
                table.run.max_size = largest

    def _message(self, raw: bytes, host: bytes) -> None:
        """Take what one message of the library's log tells."""
        if host and host not in self._hosts and len(self._hosts) < _MAX_HOSTS:
            self._hosts.add(host)
            self.book.hosts.add(host.decode("utf-8", "replace"))
        if b" -> Algo" in raw:
            self._choice(raw)
        elif b" nranks " in raw:
            self.book.communicators.see(raw, host)
        elif b"set by environment to" in raw and (match := _FORCED.search(raw)) is not None:
            what, value = (each.decode("ascii", "replace") for each in match.groups())
            self.book.forced[what] = value

    def _choice(self, raw: bytes) -> None:
        match = _CHOICE.search(raw)
        if match is None or len(self.book.executed) >= _MAX_CHOICES:
            return
        words = [each.decode("ascii", "replace") for each in match.groups(b"")]
        channels = int(words[5]) - int(words[4]) + 1 if words[5] else 0
        try:
            key = (Collective.parse(words[0]), int(words[1]))
            chosen = Setting(
                algorithm=_algorithm(words[2]),
                protocol=_protocol(words[3]),
                channels=channels if channels > 0 else None,
            )
        except ValueError:
            return
        self.book.executed.setdefault(key, set()).add(chosen)


def _algorithm(word: str) -> Algorithm:
    """Older releases print the number."""
    return tuple(Algorithm)[int(word)] if word in _ALGORITHMS else Algorithm.parse(word)


def _protocol(word: str) -> Protocol:
    return tuple(Protocol)[int(word)] if word in _PROTOCOLS else Protocol.parse(word)
