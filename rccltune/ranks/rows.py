"""Rows that runs of the rank program measured, as one table.

Columns of the table, a row a step that every rank has finished:

=================  ================================================================
run                number of the run's folder
process            random word of the run's processes: one start of all ranks
line               of its plan.txt, from 1
step               communicator, check, call, measure or order
communicator       from 0 in this run
collective         ``all_reduce`` …
dtype, op          rccl-tests' words
placement          out or in
asked_nbytes       bytes as planned
nbytes             bytes as called
timing             loop, graph, one-root or registered of a measure, loop or graph of an order
setting            what was asked for: ``ring/ll``, ``idle`` (the plugin answers nothing),
                   ``baseline`` (no plugin)
purpose            what its communicator is for: first, second, asked or site of a sweep,
                   orders or verify
number             of the communicators for that purpose, from 0
rules              digest of the rule file that rules are answered by; empty where none is
calls              timed calls
time_us            µs a call, mean over ranks
slowest_us         µs a call of the slowest rank
made, asked        collective calls made, and questions about them that count (docs/plugin.md)
library            what the library would take without us
answer             what the plugin answered
registered         whether the tuner was told that buffers are registered, 0 or 1; empty where
                   nobody was asked
selectable         mask of settings that the library lets be chosen, None where it asked nothing
ran                what the library said that it ran at a check, call or order of the same kind
checked, wrong     elements compared and wrong ones, over all ranks: of a check, and of the
                   last replay of a graph that was timed; of an order, those with a known tree
                   and those of them with other bits than it predicts
trees              of an order: how many trees an element has, by its place
tree               of an order: number of its tree, or of all its trees
signature          of an order: number of where in the result which tree stands
bits               of an order: number of the bits that random numbers gave
first_end          of an order: elements before the first one with another tree
note               why there is no time
unusable           why the time must not be used (``unusable_rows.py``); empty where it may, and
                   of steps that time nothing
=================  ================================================================
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rccltune.model.errors import OutputError
from rccltune.model.settings import RULES
from rccltune.ranks import plan
from rccltune.ranks.plan import NOTHING_SAID, PlacedStep
from rccltune.ranks.runs import COLUMNS, Run, unreadable_row
from rccltune.ranks.unusable_rows import why_unusable_rows

if TYPE_CHECKING:
    import pandas as pd

_COUNTS: Final = ("line", "communicator", "nbytes", "calls", "made", "asked", "told_bytes")
_NUMBERS: Final = (*_COUNTS, "time_us", "checked", "wrong", "trees")
_NAMES: Final = COLUMNS.split(",")
# What all ranks must agree on: a library that answers them differently hangs or computes rubbish.
_COMMON: Final = ("step", "nbytes", "made", "asked", "told_bytes", "answer")
_COLUMNS: Final = (
    *("run", "process", "line", "step", "communicator", "collective", "dtype", "op", "placement"),
    *("asked_nbytes", "nbytes", "timing", "setting", "purpose", "number", "rules"),
    *("calls", "time_us", "slowest_us", "made", "asked", "library", "answer", "registered"),
    *("selectable", "ran", "checked", "wrong", "trees", "tree", "signature", "bits", "first_end"),
    *("note", "unusable"),
)


def rows_of_runs(
    runs: Iterable[Run], tables: dict[int, pd.DataFrame] | None = None
) -> pd.DataFrame:
    """Rows of runs, with what stands against their times; see this module for the columns.

    Args:
        runs: those in which a configuration file chose are left out.
        tables: rows of runs that were read before, by number; filled with those of the others.

    Raises:
        OutputError: a row that cannot be read, or ranks that were told or answered differently.
    """
    import pandas as pd

    tables = {} if tables is None else tables
    parts = []
    for run in runs:
        if run.n_done and not run.hidden_choices:
            # A run under way grows.
            if len(tables.get(run.number, ())) != run.n_done:
                tables[run.number] = _read_rows(run)
            parts.append(tables[run.number])
    table: pd.DataFrame = pd.concat([*parts, _empty_table()], ignore_index=True)
    settings = _executed_settings(table)
    table["ran"] = [settings.get(key, "") for key in _keys(table)]
    table["unusable"] = why_unusable_rows(table)
    ordered: pd.DataFrame = table[list(_COLUMNS)]
    return ordered


@cache
def _empty_table() -> pd.DataFrame:
    """A table without rows, with the kinds of columns that all have."""
    import pandas as pd

    whole = ("run", "line", "communicator", "number", "asked_nbytes", "nbytes", "calls")
    other = ("time_us", "slowest_us", "made", "asked", "checked", "wrong", "trees", "first_end")
    kinds = {**dict.fromkeys(whole, "int64"), **dict.fromkeys(other, "float64")}
    table: pd.DataFrame = pd.DataFrame({name: [] for name in _COLUMNS}).astype(kinds)
    return table


def has_wrong_results(run: Run) -> bool:
    """Whether any row of a run counts wrong elements, without making a table of them."""
    at = _NAMES.index("wrong")
    lines = (row.split(",") for rank in run.ranks for _, row in rank)
    return any(fields[at] not in ("", "0") for fields in lines if len(fields) == len(_NAMES))


def _read_rows(run: Run) -> pd.DataFrame:
    """Rows of a run that every rank has, ranks joined."""
    import pandas as pd

    raw = _parse_rows(run)
    # One rank tells what the library said.
    raw["ran"] = raw["ran"].where(~raw["ran"].isin(NOTHING_SAID))
    by_line = raw.groupby("line", sort=False)
    table = by_line.first().reset_index()
    table["ran"] = table["ran"].fillna("")
    times = by_line["time_us"]
    table["time_us"] = times.mean().where(times.count() == len(run.ranks)).to_numpy()
    table["slowest_us"] = times.max().to_numpy()
    for column in ("checked", "wrong"):
        table[column] = by_line[column].sum(min_count=1).to_numpy()
    steps = pd.DataFrame([_describe_step(one) for one in run.steps[: run.n_done]])
    table = table.drop(columns=["step", "communicator"]).merge(steps, on="line")
    ends = {line: _end_of(words[0]) for line, words in run.remarks.orders}
    table["first_end"] = table["line"].map(ends).astype(float)
    table["run"], table["process"] = run.number, run.file.process
    joined: pd.DataFrame = table
    return joined


def _end_of(word: str) -> float:
    """The elements of ``TREE:END``."""
    end = word.partition(":")[2]
    return float(end) if end.isdigit() else 0.0


def _describe_step(one: PlacedStep) -> dict[str, Any]:
    step = one.step
    where = {
        "line": one.line,
        "communicator": one.communicator,
        "purpose": one.label.purpose,
        "number": one.label.number,
        "rules": one.label.rules,
    }
    if step is None:
        none = dict.fromkeys(("collective", "dtype", "op", "placement", "timing", "setting"), "")
        return {**none, **where, "step": plan.COMMUNICATOR, "asked_nbytes": 0}
    return {
        **where,
        "step": step.kind,
        "collective": step.call.collective.value,
        "dtype": step.call.dtype,
        "op": step.call.op,
        "placement": step.call.placement.value,
        "asked_nbytes": step.call.nbytes,
        "timing": step.timing,
        "setting": str(step.setting),
    }


def _parse_rows(run: Run) -> pd.DataFrame:
    """Rows of all ranks, one rank after the other.

    Raises:
        OutputError: the first row that cannot be read, that is not the plan's next one, or in which
            a rank differs from rank 0.
    """
    import pandas as pd

    n_done = run.n_done
    places = [
        (rank, line, row) for rank, rows in enumerate(run.ranks) for line, row in rows[:n_done]
    ]

    def refuse(odd: pd.Series, why: str) -> None:
        if odd.any():
            rank, line, row = places[int(odd.to_numpy().argmax())]
            raise unreadable_row(run.folder / f"rank-{rank}.csv", line, f"{why}: '{row[:120]}'")

    whole = pd.Series([row.count(",") == len(_NAMES) - 1 for *_, row in places])
    refuse(~whole, "it has other columns")
    text = "".join(f"{row}\n" for *_, row in places)
    raw: pd.DataFrame = pd.read_csv(
        io.StringIO(text),
        names=_NAMES,
        dtype=object,
        keep_default_na=False,
        quoting=csv.QUOTE_NONE,
        lineterminator="\n",
    )
    common = raw[list(_COMMON)]
    for column in _NUMBERS:
        numbers = pd.to_numeric(raw[column], errors="coerce")
        refuse(numbers.isna() & (raw[column] != ""), f"{column} is no number")
        raw[column] = numbers
    refuse(raw["nbytes"].isna() | (raw["time_us"] < 0), "a number is missing or below 0")
    planned = dict(enumerate(one.line for one in run.steps))
    refuse(raw["line"] != (raw.index % n_done).map(planned), "another line of the plan comes here")
    for column in _COMMON:
        words = common[column].to_numpy().reshape(-1, n_done)
        differs = words != words[0]
        if differs.any():
            rank, step = divmod(int(differs.argmax()), n_done)
            _, line, _ = places[rank * n_done + step]
            others = f" and {n - 1} more" if (n := int(differs[:, step].sum())) > 1 else ""
            raise OutputError(
                f"ranks were told or answered differently at line {run.steps[step].line} of the "
                f"plan: {column} is '{words[rank, step]}' on rank {rank}{others} and "
                f"'{words[0, step]}' on rank 0",
                where=f"{run.folder / f'rank-{rank}.csv'}:{line}",
                hint="ranks that choose differently hang or compute rubbish: all must load one "
                f"plugin and see one environment. Then {plan.ANEW}",
            )
    return raw


Key: TypeAlias = "tuple[str, str, str, str, int]"
Executed: TypeAlias = Mapping[Key, str]


def _keys(table: pd.DataFrame) -> list[Key]:
    rules = table["rules"].where(table["setting"] == str(RULES), "")
    names = ("setting", "collective", "dtype", "nbytes")
    return list(zip(rules, *(table[name] for name in names), strict=True))


def _executed_settings(table: pd.DataFrame) -> Executed:
    """Settings that the library said it ran, by rule file, setting, collective, type and size."""
    asking = (plan.CHECK, plan.CALL, plan.ORDER)
    logged = table[table["step"].isin(asking) & ~table["ran"].isin(NOTHING_SAID)]
    return dict(zip(_keys(logged), logged["ran"], strict=True))
