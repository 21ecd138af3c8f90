"""Readers of rule files other than our plugin, and what they make of its lines.

A file may be read without our plugin: by RCCL's built-in CSV tuner, or by NVIDIA's example plugin.
They split at commas as ``strtok`` does, so that a field with nothing in it moves those behind it
to the left, and know neither modes nor what a line of ours beginning with ``#@`` asks. Where they
part from each other and from the plugin stands with each form below; read in RCCL's
``src/plugin/tuner/csv_tuner.cc`` of ROCm/rocm-systems at 96a02418 (the first form) and 22af4d53
(the newest seen), and in NVIDIA/nccl's ``plugins/tuner/example/plugin.c`` at 35512d6f.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rccltune.model.rule import Rule
from rccltune.model.settings import Setting
from rccltune.model.text import printable
from rccltune.model.units import format_last, format_size
from rccltune.model.vocabulary import TUNABLE, Algorithm, Collective, Protocol
from rccltune.rules.rule_file import RuleFile

_COLLECTIVES: Final = {one.csv_name: one for one in TUNABLE}
_ALGORITHMS: Final = {one.value: one for one in Algorithm}
_PROTOCOLS: Final = {one.value: one for one in Protocol}
_NUMBER: Final = re.compile(r"[ \t]*([+-]?\d+)", re.ASCII)
# A row in which no reader finds anything to read otherwise; most rows of a long file are such.
_COUNT: Final = r",(?:-1|[1-9]\d{0,5})"
_PLAIN: Final = re.compile(
    ",".join(
        (
            "|".join(_COLLECTIVES).join(("(?:", ")")),
            r"\d{1,18}",
            r"\d{1,18}",
            "|".join(_ALGORITHMS).join(("(?:", ")")),
            "|".join(_PROTOCOLS).join(("(?:", ")")),
        )
    )
    + f"{_COUNT * 3}(?:{_COUNT}(?:,(?:-1|0|1))?)?",
    re.ASCII,
)
_OURS: Final = re.compile(rb"^#@ format ", re.MULTILINE)
_LEAST, _MOST = 8, 10
# Both buffers have 256 bytes, one of them for the end.
_LINE: Final = 255
_LARGEST: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFileReader:
    """One way of reading.

    Attributes:
        guesses: an unknown collective is allreduce, an unknown algorithm ring and an unknown
            protocol simple; else the line is skipped.
        indents: a comment may have blanks before it, and a field of blanks alone spoils its line.
    """

    name: str
    guesses: bool
    indents: bool


_FIRST: Final = RuleFileReader(name="RCCL's first CSV tuner", guesses=True, indents=False)
_NEWEST: Final = RuleFileReader(name="RCCL's newest CSV tuner", guesses=False, indents=True)
_EXAMPLE: Final = RuleFileReader(name="NVIDIA's example plugin", guesses=True, indents=False)
READERS: Final = (_FIRST, _NEWEST, _EXAMPLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MisreadLine:
    """One line that is not read alike.

    Attributes:
        said: what each reader makes of it, in a sentence.
    """

    line: int
    said: str

    def __str__(self) -> str:
        """Sentence for people."""
        return f"line {self.line}: {self.said}"


def find_misread(content: bytes, file: RuleFile) -> tuple[MisreadLine, ...]:
    """Lines that some other reader takes for something else than our plugin does.

    Args:
        content: of the file.
        file: as our plugin reads it; of one that it refuses, lines without mistakes are left out.
    """
    wrong = {one.line for one in file.errors}
    ours: dict[int, list[Rule]] = {}
    for rule in file.rules:
        ours.setdefault(rule.line or 0, []).append(rule)
    misread_lines = []
    for number, line in enumerate(content.decode("latin-1").split("\n"), start=1):
        mine = ours.get(number, [])
        if wrong and number not in wrong:
            continue
        if len(mine) == 1 and _PLAIN.fullmatch(line):
            continue
        readings = {one.name: read_line(line, one) for one in READERS}
        if any(_answers(rules) != _answers(mine) for rules in readings.values()):
            us = "refuses the file" if wrong else _made(mine)
            misread_lines.append(MisreadLine(line=number, said=_said(us, readings)))
    return tuple(misread_lines)


def beside_lines(content: bytes) -> tuple[str, ...]:
    """Say what other readers do where no line says it, of a file that is not ours.

    NVIDIA's example sets one channel before it looks for a line (``plugins/tuner/example``,
    pluginGetCollInfo), so that a line with -1 channels has one, too.
    """
    if _OURS.search(content):
        return ()
    sentence = (
        "NVIDIA's example plugin gives one channel to every call that no line matches, and to "
        "lines with -1 channels; RCCL's own reader and our plugin leave both to the library"
    )
    return (sentence,)


def read_line(line: str, reader: RuleFileReader) -> list[Rule]:
    """The rules that a reader makes of a line without its end, as far as they can match a call.

    A line that is longer than the buffer is several lines.
    """
    whole = line + "\n"
    parts = [whole[at : at + _LINE] for at in range(0, len(whole), _LINE)]
    return [rule for part in parts for rule in _rules(part.rstrip("\n"), reader)]


def _rules(line: str, reader: RuleFileReader) -> Iterator[Rule]:
    if (line.strip(" \t") if reader.indents else line).startswith("#"):
        return
    text = line.removesuffix("\r") if reader.indents else line
    fields = [one for one in text.split(",") if one][:_MOST]
    fields = [one.strip(" \t") for one in fields]
    if len(fields) < _LEAST or (reader.indents and "" in fields):
        return
    guesses = reader.guesses
    collective = _COLLECTIVES.get(fields[0], Collective.ALL_REDUCE if guesses else None)
    algorithm = _ALGORITHMS.get(fields[3], Algorithm.RING if guesses else None)
    protocol = _PROTOCOLS.get(fields[4], Protocol.SIMPLE if guesses else None)
    if collective is None or algorithm is None or protocol is None:
        return
    low, high = _bytes(fields[1]), _bytes(fields[2])
    channels, n_nodes, n_ranks, *rest = (_count(one) for one in fields[5:])
    pipe, registered = (*rest, -1, -1)[:2]
    # What no communicator has matches nothing, as the line of a table's header.
    if low > high or not _matches(n_nodes) or not _matches(n_ranks):
        return
    yield Rule(
        collective=collective,
        min_nbytes=low,
        max_nbytes=high,
        setting=Setting(
            algorithm=algorithm, protocol=protocol, channels=channels if channels > 0 else None
        ),
        n_nodes=_any(n_nodes),
        n_ranks=_any(n_ranks),
        num_pipe_ops=_any(pipe),
        reg_buff=_any(registered),
    )


def _bytes(text: str) -> int:
    """Read a number as strtoull does: as many digits as there are; a minus counts from 2^64."""
    match = _NUMBER.match(text)
    value = int(match[1]) if match else 0
    return min(value, _LARGEST) if value >= 0 else max(value + _LARGEST + 1, 0)


def _count(text: str) -> int:
    """Read a number as atoi does."""
    match = _NUMBER.match(text)
    return int(match[1]) if match else 0


def _matches(number: int) -> bool:
    return number == -1 or number > 0


def _any(number: int) -> int | None:
    return None if number == -1 else number


def _answers(rules: Sequence[Rule]) -> list[Rule]:
    """Answers of rules, whoever read them; one for a tree that no library has does nothing."""
    return [
        replace(rule, line=None, fallback=False)
        for rule in rules
        if rule.setting.algorithm is not Algorithm.TREE or rule.collective.has_tree
    ]


def _said(ours: str, taken: Mapping[str, Sequence[Rule]]) -> str:
    by_words: dict[str, list[str]] = {ours: ["our plugin"]}
    for name, rules in taken.items():
        by_words.setdefault(_made(rules), []).append(name)
    return "; ".join(f"{_listed(names)}: {words}" for words, names in by_words.items())


def _made(rules: Sequence[Rule]) -> str:
    return " and ".join(map(_words, rules)) or "nothing"


def _words(rule: Rule) -> str:
    span = f"{format_size(rule.min_nbytes)} to {format_last(rule.max_nbytes)}"
    cell = "the library's choice" if rule.setting.algorithm is None else str(rule.setting)
    more = [
        f"{name} {value}"
        for name, value in (
            ("nodes", rule.n_nodes),
            ("ranks", rule.n_ranks),
            ("numPipeOps", rule.num_pipe_ops),
            ("regBuff", rule.reg_buff),
        )
        if value is not None
    ]
    if rule.only_mode is not None:
        more.append(f"in {rule.only_mode} alone")
    return printable(" ".join((rule.collective.csv_name, span, cell, *more)))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
