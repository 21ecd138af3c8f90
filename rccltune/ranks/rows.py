"""What runs of the rank program measured: their files as one table.

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
timing              loop, graph, one-root or registered of a measure, loop or graph of an order
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
unusable           why the time is not its setting's own (see below); empty where it is, and of
                   steps that time nothing
=================  ================================================================

A time is its setting's own where the library asked about every call, was answered what was asked
for, and said at a check or call of the same setting, collective, type and size that it ran just
that; otherwise ``unusable`` has a :class:`rccltune.model.vocabulary.UnusableReason`. Baseline and
idle are whatever the library does by itself.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rccltune.model.errors import OutputError
from rccltune.model.settings import RULES, Role, Setting
from rccltune.model.vocabulary import UnusableReason
from rccltune.ranks import plan, runs
from rccltune.ranks.plan import PlacedStep
from rccltune.ranks.runs import Run, unreadable_row

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS: Final = ("line", "communicator", "nbytes", "calls", "made", "asked", "told_bytes")
_NAMES: Final = runs.COLUMNS.split(",")
# What all ranks must agree on: a library that answers them differently hangs or computes rubbish.
_ALIKE: Final = ("step", "nbytes", "made", "asked", "told_bytes", "answer")
NOTHING_SAID: Final = ("", "?")


def rows_of_runs(
    measured: Iterable[Run], kept: dict[int, pd.DataFrame] | None = None
) -> pd.DataFrame:
    """Rows of runs, with what stands against their times; see this module for the columns.

    Args:
        measured: runs; those in which a configuration file chose are left out.
        kept: rows of runs that were read before, by number; filled with those of the others.

    Raises:
        OutputError: a row that cannot be read, or ranks that were told or answered differently.
    """
    import pandas as pd

    known = {} if kept is None else kept
    parts = []
    for run in measured:
        if run.n_done and not run.hidden_choices:
            # A run under way grows.
            if len(known.get(run.number, ())) != run.n_done:
                known[run.number] = _rows(run)
            parts.append(known[run.number])
    # What no run has yet is a table without rows, of the same kinds of columns.
    found: pd.DataFrame = pd.concat([*parts, _nothing()], ignore_index=True)
    ran = executed_settings(found)
    found["unusable"] = _reasons(found, ran)
    found["ran"] = [ran.get(key, "") for key in _keys(found)]
    ordered: pd.DataFrame = found[list(_COLUMNS)]
    return ordered


def _nothing() -> pd.DataFrame:
    import pandas as pd

    whole = ("run", "line", "communicator", "number", "asked_nbytes", "nbytes", "calls")
    other = ("time_us", "slowest_us", "made", "asked", "checked", "wrong", "trees", "first_end")
    kinds = {**dict.fromkeys(whole, "int64"), **dict.fromkeys(other, "float64")}
    made: pd.DataFrame = pd.DataFrame({name: [] for name in _COLUMNS}).astype(kinds)
    return made


_COLUMNS: Final = (
    *("run", "process", "line", "step", "communicator", "collective", "dtype", "op", "placement"),
    *("asked_nbytes", "nbytes", "timing", "setting", "purpose", "number", "rules"),
    *("calls", "time_us"),
    *("slowest_us", "made", "asked", "library", "answer", "registered", "selectable", "ran"),
    *(
        "checked",
        "wrong",
        "trees",
        "tree",
        "signature",
        "bits",
        "first_end",
        "note",
        "unusable",
    ),
)


def _rows(run: Run) -> pd.DataFrame:
    """Rows of a run that every rank has, ranks joined."""
    import pandas as pd

    n_done = run.n_done
    ranks = [rows[:n_done] for rows in run.ranks]
    raw = _parsed(run, ranks)
    # One rank tells what the library said.
    raw["ran"] = raw["ran"].where(~raw["ran"].isin(NOTHING_SAID))
    by_line = raw.groupby("line", sort=False)
    found = by_line.first().drop(columns="rank").reset_index()
    if list(found["line"]) != [one.line for one in run.steps[:n_done]]:
        raise _out_of_order(run, ranks)
    for column in _ALIKE:
        if len(raw[["line", column]].drop_duplicates()) > n_done:
            raise _differing(run, raw, column)
    found["ran"] = found["ran"].fillna("")
    times = by_line["time_us"]
    found["time_us"] = times.mean().where(times.count() == len(ranks)).to_numpy()
    found["slowest_us"] = times.max().to_numpy()
    for column in ("checked", "wrong"):
        found[column] = by_line[column].sum(min_count=1).to_numpy()
    steps = pd.DataFrame([_described(one) for one in run.steps[:n_done]])
    found = found.drop(columns=["step", "communicator"]).merge(steps, on="line")
    ends = {line: _end_of(words[0]) for line, words in run.remarks.orders}
    found["first_end"] = found["line"].map(ends).astype(float)
    found["run"], found["process"] = run.number, run.file.process
    joined: pd.DataFrame = found
    return joined


def _end_of(word: str) -> float:
    """The elements of ``TREE:END``."""
    end = word.partition(":")[2]
    return float(end) if end.isdigit() else 0.0


def _described(one: PlacedStep) -> dict[str, Any]:
    step = one.step
    where = {
        "line": one.line,
        "communicator": one.communicator,
        "purpose": one.label.purpose,
        "number": one.label.number,
        "rules": one.label.rules,
    }
    if step is None:
        known: dict[str, Any] = dict.fromkeys(
            ("collective", "dtype", "op", "placement", "timing", "setting"), ""
        )
        return {**known, **where, "step": plan.COMMUNICATOR, "asked_nbytes": 0}
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


def _parsed(run: Run, ranks: Sequence[Sequence[tuple[int, str]]]) -> pd.DataFrame:
    """Rows of all ranks with the number of their rank."""
    import pandas as pd

    text = "".join(f"{rank},{row}\n" for rank, rows in enumerate(ranks) for _, row in rows)
    names = ["rank", *_NAMES]
    try:
        raw: pd.DataFrame = pd.read_csv(
            io.StringIO(text),
            names=names,
            index_col=False,
            dtype=str,
            keep_default_na=False,
            on_bad_lines="error",
        )
        for column in (*_NUMBERS, "time_us", "rank", "checked", "wrong", "trees"):
            raw[column] = pd.to_numeric(raw[column].replace("", None))
    except ValueError as error:
        raise _unreadable(run, ranks, str(error)) from error
    if raw[["line", "nbytes"]].isna().any().any() or (raw["time_us"] < 0).any():
        raise _unreadable(run, ranks, "a number is missing or below 0")
    return raw


def _unreadable(run: Run, ranks: Sequence[Sequence[tuple[int, str]]], why: str) -> OutputError:
    """The first row that cannot be read, by its place."""
    for rank, rows in enumerate(ranks):
        for number, row in rows:
            fields = _fields(row)
            fits = len(fields) == len(_NAMES) and all(
                _is_number(fields[_NAMES.index(name)]) for name in (*_NUMBERS, "time_us")
            )
            is_below = fits and fields[_NAMES.index("time_us")].startswith("-")
            if not fits or not fields[0] or is_below:
                return unreadable_row(run.folder / f"rank-{rank}.csv", number, f"'{row[:120]}'")
    return unreadable_row(run.folder / "rank-0.csv", 1, why)


def _fields(row: str) -> list[str]:
    try:
        return next(csv.reader([row]), [])
    except csv.Error:
        # Python 3.10 takes no NUL.
        return []


def _is_number(text: str) -> bool:
    try:
        float(text or 0)
    except ValueError:
        return False
    return True


def _out_of_order(run: Run, ranks: Sequence[Sequence[tuple[int, str]]]) -> OutputError:
    for rank, rows in enumerate(ranks):
        for (number, row), planned in zip(rows, run.steps, strict=False):
            if row.partition(",")[0] != str(planned.line):
                path = run.folder / f"rank-{rank}.csv"
                return unreadable_row(
                    path, number, f"line {planned.line} of the plan was to come here"
                )
    return unreadable_row(run.folder / "rank-0.csv", 1, "its lines are not those of the plan")


def _differing(run: Run, raw: pd.DataFrame, column: str) -> OutputError:
    """Which ranks differ, where, and in what."""
    by_line = raw.groupby("line", sort=False)[column]
    differs = by_line.nunique(dropna=False).gt(1)
    line = int(differs[differs].index.min())
    own = raw[raw["line"] == line]
    values = own[column].value_counts(dropna=False)
    odd = own[own[column] != values.index[0]].iloc[0]
    rank = int(odd["rank"])
    at = next(n for n, row in run.ranks[rank] if row.partition(",")[0] == str(line))
    return OutputError(
        f"ranks were told or answered differently at line {line} of the plan: {column} is "
        f"'{odd[column]}' on rank {rank} and '{values.index[0]}' on {values.iloc[0]} ranks",
        where=f"{run.folder / f'rank-{rank}.csv'}:{at}",
        hint=f"ranks that choose differently hang or compute rubbish: all must load one plugin and "
        f"see one environment. Then {runs.ANEW}",
    )


def _reasons(found: pd.DataFrame, ran: Ran) -> list[str]:
    """Why the time of each row is not its setting's own; empty where it is, or nothing is timed."""
    columns = zip(
        _keys(found),
        *(found[name] for name in ("step", "setting", "time_us", "made", "asked", "answer")),
        strict=True,
    )
    reasons = []
    for key, step, word, time_us, *told in columns:
        reason: UnusableReason | None = None
        if step == plan.MEASURE and not time_us > 0:
            reason = UnusableReason.NO_TIME
        elif step == plan.MEASURE:
            executed = setting_of(ran.get(key, ""))
            reason = _why_another_ran(Setting.parse(word), tuple(told), executed)
        reasons.append("" if reason is None else reason.value)
    return reasons


Key: TypeAlias = "tuple[str, str, str, str, int]"
Ran: TypeAlias = Mapping[Key, str]


def _keys(found: pd.DataFrame) -> list[Key]:
    rules = found["rules"].where(found["setting"] == str(RULES), "")
    names = ("setting", "collective", "dtype", "nbytes")
    return list(zip(rules, *(found[name] for name in names), strict=True))


def executed_settings(found: pd.DataFrame) -> Ran:
    """What the library said that it ran, by rule file, setting, collective, type and size."""
    asking = (plan.CHECK, plan.CALL, plan.ORDER)
    looked = found[found["step"].isin(asking) & ~found["ran"].isin(NOTHING_SAID)]
    return dict(zip(_keys(looked), looked["ran"], strict=True))


def _why_another_ran(
    wanted: Setting, told: tuple[float, float, str], executed: Setting | None
) -> UnusableReason | None:
    """Why a time is not its setting's own; None where it is.

    Args:
        wanted: what was asked for.
        told: calls made, questions about them that count, and what was answered.
        executed: what the library said that it ran; None where it said nothing.
    """
    made, asked, answer = told
    answered = setting_of(answer)
    if wanted.role is not Role.FORCED:
        is_other = wanted.role is Role.IDLE and answered is not None
        return UnusableReason.SUBSTITUTED if is_other else None
    # More is no fault: NCCL 2.29.2 and 2.29.3 ask twice about a call that a symmetric kernel could
    # serve, by the same arguments (src/scheduler/symmetric_sched.cc:103); what ran decides.
    if not asked >= made:
        return UnusableReason.BYPASSED
    if answered is None:
        return UnusableReason.INELIGIBLE
    if wanted.contradicts(answered) or (executed and wanted.contradicts(executed)):
        return UnusableReason.SUBSTITUTED
    return UnusableReason.UNPROVEN if executed is None else None


@cache
def setting_of(word: str) -> Setting | None:
    """The setting that a row names; None for ``none``, ``?`` and nothing."""
    if word in (*NOTHING_SAID, "none"):
        return None
    try:
        # Channels that are left to the library.
        return Setting.parse(word.removesuffix("/0"))
    except ValueError:
        return None
