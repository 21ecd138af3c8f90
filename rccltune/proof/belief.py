"""The library's own table, read from a trace: what it offered and predicted before any answer.

The plugin notes the host's table as it came, so every launch that loads it shows the same belief,
whatever was answered. Most rows of a walk repeat one another; each is compared as text, and only
what is new is understood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rccltune import grammar
from rccltune.errors import OutputError
from rccltune.model import Belief, Setting, Target
from rccltune.proof.trace import _COLUMNS, _UNNAMED

_N_COLUMNS: Final = len(_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What one rank's trace shows of one target.

    Attributes:
        beliefs: by rising size, as they were at the first call.
        unsteady: sizes at which the table was not the same at every call.
    """

    beliefs: tuple[Belief, ...]
    unsteady: tuple[int, ...]


def read_beliefs(text: str, where: str, target: Target) -> Shown:
    """Read the beliefs of one target from one rank's trace, of one setting or of a walk.

    Args:
        text: the trace.
        where: its name, for messages.
        target: rows of other collectives and communicators are left out.

    Raises:
        OutputError: it is no trace of format 1, or a row is damaged.
    """
    lines = [line.rstrip("\r") for line in grammar.lines(text)]
    if lines[:2] != ["#@ format 1", ",".join(_COLUMNS)]:
        raise OutputError("this is no trace of format 1", where=where)
    scale = [str(target.scale.n_nodes), str(target.scale.n_ranks)]
    collectives = {target.collective.value, target.collective.csv_name}
    tables: dict[str, list[str]] = {}
    unsteady = set()
    for number, line in enumerate(lines[2:], start=3):
        if line.startswith("#@"):
            continue
        row = line.split(",")
        if len(row) != _N_COLUMNS:
            raise OutputError("the trace's row cannot be read", where=f"{where}:{number}")
        if row[2:4] != scale or row[6] not in collectives:
            continue
        table = row[10:13]
        if tables.setdefault(row[7], table) != table or row[9] != "0":
            unsteady.add(row[7])
    try:
        found = [_belief(target, nbytes, table) for nbytes, table in tables.items()]
        return Shown(
            beliefs=tuple(sorted(found, key=lambda belief: belief.nbytes)),
            unsteady=tuple(sorted(map(grammar.whole, unsteady))),
        )
    except ValueError as error:
        raise OutputError(f"the trace's table cannot be read: {error}", where=where) from error


def _belief(target: Target, nbytes: str, table: list[str]) -> Belief:
    """A belief from the columns ``selectable``, ``host_times_us`` and ``host_choice``."""
    cells, times, choice = (grammar.words(text) if text != "-" else [] for text in table)
    if times and len(times) != len(cells):
        raise ValueError(f"{len(times)} times for {len(cells)} cells")
    predicted: list[float | None] = [float(time) for time in times]
    predicted = predicted or [None] * len(cells)
    return Belief(
        target=target,
        nbytes=grammar.whole(nbytes),
        offered=tuple(
            (Setting.parse(cell), time)
            for cell, time in zip(cells, predicted, strict=True)
            if not _UNNAMED.search(cell)
        ),
        # A host with algorithms that have no name today may choose one of them.
        choice=Setting.parse(choice[0]) if choice and not _UNNAMED.search(choice[0]) else None,
    )
