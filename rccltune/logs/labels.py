"""Labels that launchers and loggers put before lines, known by what their removal leaves.

mpirun, prte, srun, torchrun, pdsh, clush, Ray, SkyPilot, stern, kubectl, compose and loggers each
have labels of their own, which stand before a benchmark's line or a message of the library's. So
none is listed: what stands before a line that is known is a label. Time stamps and numbers that
only grow tell no writers apart, nor does a label that all labelled lines have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from rccltune.logs.library import LOG_HEAD, LOG_LEVELS
from rccltune.model.vocabulary import DTYPE_BYTES

_TYPES: Final = "|".join(sorted(DTYPE_BYTES, key=len, reverse=True))
_ROW: Final = rf"\d+[ \t]+\d+[ \t]+(?:{_TYPES})(?=\s)"
_OWN: Final = (
    r"[# \t]*(?:nThread\s+\d|Rank\s+\d+\s+(?:Group|Pid)\s|Using devices|size\s+count\s"
    r"|Collective test starting|Out of bounds values|Avg bus bandwidth)"
)
_KNOWN: Final = re.compile(rf"{_OWN}|(?<![\w.,-]){_ROW}|{LOG_HEAD}(?:{LOG_LEVELS})|rccltune: comm=")
_PLAIN: Final = re.compile(rf"\s*(?:#|{_ROW})|rccltune: |{LOG_HEAD}(?:{LOG_LEVELS})")
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TIME: Final = re.compile(
    r"\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ,]?)?\d\d:\d\d:\d\d(?:[.,]\d+)? ?(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"|\[? *\d{4,}\.\d{3,}\]?|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2}(?= )"
)
# Words of a row that is cut in two are no label.
_NUMBERS: Final = re.compile(r"[\s\d.eE+*-]*|\s*\d+\s+(?:\d+|[a-z]+\d?)\s.*", re.DOTALL)
_LONGEST: Final = 200
_MOST: Final = 4096
# The begin of a message's own head, which another writer's line cut.
_TORN: Final = re.compile(r"[\w.-]+|[^\s:]+:\d+:?\d*(?: \[.*)?")
# What brackets or a name make a label, so that anything may follow it.
_NAMED: Final = re.compile(r"[A-Za-z\[(<|>]")


class LineLabels:
    """Labels that stand before the lines of one log."""

    def __init__(self) -> None:
        """Begin with no label seen."""
        self._shapes: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self._writers: frozenset[str] = frozenset()

    def learn(self, lines: Iterable[str]) -> None:
        """Look at the first lines of a log: which labels they have, and whether these are writers.

        Args:
            lines: of the log, in its order.
        """
        shapes: dict[str, list[str]] = {}
        for line in lines:
            label = _before(_ANSI.sub("", line))
            if label:
                shapes.setdefault(_shape(label), []).append(label)
        several: set[str] = set()
        for shape, labels in shapes.items():
            names = Counter(map(_name, labels))
            grows = _grow(labels)
            # One line alone may be a row glued to what was printed before it.
            if len(labels) > 1 or "" in names or _NAMED.search(labels[0]):
                self._add(shape)
            if not grows:
                several |= {
                    name
                    for name, count in names.items()
                    if name and count > 1 and _TORN.fullmatch(name) is None
                }
        self._writers = frozenset(several if len(several) > 1 else ())

    def cut(self, text: str) -> tuple[str, str]:
        """Label of the writer ('' where it tells none apart) and the text behind all labels."""
        if "\x1b" in text:
            text = _ANSI.sub("", text)
        if _PLAIN.match(text) is not None:
            return "", text
        match = self._pattern.match(text) if self._pattern is not None else None
        if match is None:
            label = _before(text)
            # A number alone may be the begin of a row that a message cut.
            if _NAMED.search(label):
                self._add(_shape(label))
            else:
                label = ""
        else:
            label = match[0]
        if not label:
            match = _TIME.match(text)
            return "", text if match is None else text[match.end() :]
        return self._writer(label), text[len(label) :]

    def inside(self, row: str) -> str:
        """A row without the labels that stand in the middle of it."""
        return _INSIDE.sub(" ", row)

    def _writer(self, label: str) -> str:
        name = _name(label)
        return name if name in self._writers else ""

    def _add(self, shape: str) -> None:
        if shape not in self._shapes and len(self._shapes) < _MOST:
            self._shapes[shape] = None
            longest = sorted(self._shapes, key=len, reverse=True)
            self._pattern = re.compile(rf"\s*(?:{'|'.join(longest)})")


_INSIDE: Final = re.compile(r"\[[^\]\s]*\](?:<\w+>)?:?|\([A-Za-z][^)]*\)|(?<=\s)[A-Za-z][\w.-]*: ")


def _before(text: str) -> str:
    """Label before a line that is known; empty where there is none or it is a row's part."""
    match = _KNOWN.search(text[:_LONGEST])
    if match is None:
        return ""
    label = text[: match.start()].rstrip(" \t")
    if label.lstrip().startswith("rccltune"):
        # The plugin's own line, which another one cut.
        return ""
    if label and _NUMBERS.fullmatch(label) is not None and _TIME.fullmatch(label.strip()) is None:
        whole = label.strip()
        return label if whole.isdigit() else ""
    return label if label.strip() else ""


def _name(label: str) -> str:
    """A label without time stamps."""
    return _TIME.sub("", label).strip()


def _shape(label: str) -> str:
    """Expression that matches a label with any numbers and times."""
    parts = []
    for part in re.split(f"({_TIME.pattern})", label.strip()):
        if part and _TIME.fullmatch(part):
            parts.append(f"(?:{_TIME.pattern})")
        elif part:
            words = re.sub(r"\d+", r"\\d+", re.escape(part).replace(r"\ ", " "))
            parts.append(re.sub(r"\s+", r"\\s+", words))
    behind = "" if _NAMED.search(_name(label)) else r"(?=[\s#]|$)"
    return "".join(parts) + behind


def _grow(labels: Sequence[str]) -> bool:
    """Whether the numbers of labels grow from line to line."""
    numbers = [tuple(map(int, re.findall(r"\d+", one))) for one in labels]
    return len(numbers) > 2 and all(one < other for one, other in pairwise(numbers))
