"""The plugin's trace: what ran, and the library's own table beside it.

The plugin notes the host's table as it came, so every launch that loads it shows the same
prediction, whatever was answered. Most rows of a combined launch repeat one another; each is
compared as text, and only what is new is understood.

The trace's format is in docs/plugin.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from rccltune.model import grammar
from rccltune.model.errors import OutputError
from rccltune.model.measured import Sample
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Doubt, Protocol

_COLUMNS: Final = (
    *("comm", "abi", "n_nodes", "n_ranks", "step", "setting", "collective", "nbytes", "calls"),
    *("changed", "selectable", "host_times_us", "host_choice", "answer", "line"),
)
# Cells of hosts with more algorithms or protocols than have names today.
_UNNAMED: Final = re.compile(r"algorithm\d|protocol\d")
# What a row says, its communicator and line left out: there all ranks' traces are alike.
_SAID: Final = slice(_COLUMNS.index("step"), _COLUMNS.index("line"))
Cell = tuple[Algorithm, Protocol]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One row of a trace: what a rank's plugin was asked at one size, and what it said.

    Attributes:
        changed: calls at this size whose table or answer differed from the first one's.
        offered: cells that the library would have taken, with its own times in µs.
        host_choice: what the library would have chosen by itself.
        answer: what the plugin said, None where it said nothing.
    """

    step: int
    collective: Collective
    nbytes: int
    calls: int
    changed: int
    offered: tuple[tuple[Cell, float], ...]
    host_choice: Setting | None
    answer: Setting | None


Key = tuple[int, Collective, int]


def read_trace(text: str, where: str) -> tuple[Asked, ...]:
    """Read one rank's trace file.

    Raises:
        OutputError: it is no trace of format 1, or a row is damaged.
    """
    lines = [line.rstrip("\r") for line in grammar.lines(text)]
    if not lines or lines[0] != "#@ format 1":
        raise OutputError("this is no trace of format 1", where=where)
    if "\0" in text:
        # A machine that went down leaves zeros where the file was not on the disk yet.
        raise OutputError("the trace is damaged: it holds a zero byte", where=where)
    if lines[1:2] != [",".join(_COLUMNS)]:
        raise OutputError("the trace has other columns than this version's", where=f"{where}:2")
    found = []
    for number, line in enumerate(lines[2:], start=3):
        row = line.split(",") if line else []
        if row and row[0].startswith(("#@ begin", "#@ end")):
            continue
        if row and row[0].startswith("#@"):
            raise OutputError(
                f"the trace is incomplete: {row[0].removeprefix('#@').strip()}",
                where=f"{where}:{number}",
                hint="trace fewer sizes at a time.",
            )
        try:
            found.append(_asked(tuple(row[_SAID])))
        except (ValueError, IndexError) as error:
            raise OutputError(
                f"the trace's row cannot be read: {error}", where=f"{where}:{number}"
            ) from error
    return tuple(found)


@lru_cache(maxsize=1 << 16)
def _asked(said: tuple[str, ...]) -> Asked:
    """One row; 64 ranks write the same ones, so that most are read once for all of them."""
    step, _, collective, nbytes, calls, changed, selectable, host_times, host_choice, answer = said
    cells = grammar.words(selectable) if selectable != "-" else []
    times = [float(text) for text in grammar.words(host_times)] if host_times != "-" else []
    offered = [
        (_cell(cell), time)
        for cell, time in zip(cells, times, strict=False)
        if not _UNNAMED.search(cell)
    ]
    unknown = host_choice == "-" or _UNNAMED.search(host_choice)
    return Asked(
        step=grammar.whole(step),
        collective=Collective.parse(collective),
        nbytes=grammar.whole(nbytes),
        calls=grammar.whole(calls),
        changed=grammar.whole(changed),
        offered=tuple(offered),
        host_choice=None if unknown else Setting.parse(host_choice),
        answer=_answer(answer),
    )


def _cell(text: str) -> Cell:
    algorithm, _, protocol = text.partition("/")
    return Algorithm.parse(algorithm), Protocol.parse(protocol)


def _answer(text: str) -> Setting | None:
    if text == "none":
        return None
    return Setting.parse(re.sub(r"^-1/-1", "-/-", text))


def agree(traces: Mapping[str, Sequence[Asked]]) -> str | None:
    """Whether all ranks were asked and answered alike; None when they were.

    Args:
        traces: rows by file name; every rank writes its own.

    Returns:
        What differs first, in words.
    """
    names = sorted(traces)
    for name in names[1:]:
        mine = {_key(row): row for row in traces[names[0]]}
        theirs = {_key(row): row for row in traces[name]}
        for key in sorted(set(mine) ^ set(theirs), key=str)[:1]:
            return f"only one of {names[0]} and {name} was asked at {key[2]} bytes"
        for key, row in mine.items():
            if row.answer != theirs[key].answer:
                return (
                    f"at {key[2]} bytes {names[0]} was told {row.answer} "
                    f"and {name} {theirs[key].answer}"
                )
    return None


def _key(row: Asked) -> Key:
    return row.step, row.collective, row.nbytes


def prove(
    samples: Iterable[Sample], trace: Sequence[Asked], asked: Setting, *, step: int = 0
) -> tuple[Sample, ...]:
    """Say of each sample what ran.

    A flag that the benchmark's own columns raised stays: they see what happened after the
    plugin.

    Args:
        samples: of one launch or one step of it.
        trace: one rank's rows; all ranks' are alike (:func:`agree`).
        asked: the setting that was wanted.
        step: of the trace.
    """
    rows = {_key(row): row for row in trace}
    return tuple(
        sample
        if sample.doubt is not None
        else _proven(sample, rows.get((step, sample.key.collective, sample.nbytes)), asked)
        for sample in samples
    )


def _proven(sample: Sample, row: Asked | None, asked: Setting) -> Sample:
    if row is None:
        return replace(sample, doubt=Doubt.BYPASSED)
    # A silent step is one in which the plugin says nothing; what rules say is the file's affair.
    wanted_answer = {Role.SILENT: None, Role.RULES: row.answer}.get(asked.role, asked)
    if row.answer == wanted_answer and not row.changed:
        if sample.executed or not row.answer:
            # As it is: copies of tens of thousands of samples take their time.
            return sample
        return replace(sample, executed=row.answer)
    offered = {cell for cell, _ in row.offered}
    wanted = (asked.algorithm, asked.protocol)
    doubt = Doubt.SUBSTITUTED if wanted in offered or not offered else Doubt.INELIGIBLE
    return replace(sample, doubt=doubt, executed=row.answer or row.host_choice)
