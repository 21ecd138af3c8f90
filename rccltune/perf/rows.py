"""What runs of the rank program measured: their files as one table.

Columns of the table, a row a step that every rank has finished:

==============  ===================================================================
run             number of the run's folder
process         random word of the run's processes: one start of all ranks
line            of its plan.txt, from 1
step            communicator, check, call or measure
communicator    from 0 in this run
collective      ``all_reduce`` …
dtype, op       rccl-tests' words
placement       out or in
asked_nbytes    bytes as planned
nbytes          bytes as called
clock           loop or graph of a measure
setting         what was asked for: ``ring/ll``, ``silent`` (the plugin answers nothing),
                ``baseline`` (no plugin)
variant         environment, ``default`` for the site's own
purpose         rough or fine
calls           timed calls
time_us         µs a call, mean over ranks
slowest_us      µs a call of the slowest rank
made, asked     collective calls made, and questions of the library for them
library         what the library would take without us
answer          what the plugin answered
registered      whether buffers were registered: 0, 1 or none
selectable      mask of settings that the library lets be chosen, None where it asked nothing
ran             what the library said that it ran
checked, wrong  elements compared and wrong ones, over all ranks
note            why there is no time
state           see below
counts          whether the time is its setting's own
==============  ===================================================================

A time is its setting's own (``state`` is ``good``) where the library asked for every call, was
answered what was asked for, and said at a check or call of the same setting, collective, type and
size that it ran just that. Otherwise it is ``bypassed`` (nobody was asked), ``not-offered`` (the
library does not let it be chosen), ``overridden`` (something else ran), ``unknown`` (nothing says
what ran) or ``untimed``. Baseline and idle are whatever the library does by itself.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.launch import CHANNELS, chooses
from rccltune.model import (
    Collective,
    Failure,
    Integer,
    Line,
    Number,
    OutputError,
    Role,
    Setting,
    Text,
    Variable,
    Whole,
    Word,
    read_json,
    reason_of,
)
from rccltune.perf import plan
from rccltune.perf.plan import Placed

if TYPE_CHECKING:
    import pandas as pd

FOLDER: Final = "runs"
PLAN_FILE: Final = "plan.txt"
RUN_FILE: Final = "run.json"
END_FILE: Final = "ending.json"
LOG_FILE: Final = "log.txt"
ROUGH: Final = "rough"
FINE: Final = "fine"
_HEAD: Final = (
    "line,communicator,step,nbytes,calls,time_us,made,asked,told_bytes,library,answer,registered,"
    "selectable,ran,checked,wrong,note"
)
_NUMBERS: Final = ("line", "communicator", "nbytes", "calls", "made", "asked", "told_bytes")
# What all ranks must agree on: a library that answers them differently hangs or computes rubbish.
_ALIKE: Final = ("step", "nbytes", "made", "asked", "told_bytes", "answer", "ran")
_ANEW: Final = "delete this run's folder; the same command then measures it again."
NOTHING_SAID: Final = ("", "?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """run.json: what was started.

    Attributes:
        process: random word by which the processes of this run are told from others.
        number_of: which of several processes that measure the same, from 0.
        communicators: which of its communicators were planned, from 0, in the order of the plan.
        plugin: whether our plugin was loaded; without it the site is as it is.
        added: variables that rccltune set.
        cleared: variables of the site that were removed, since they choose.
        passed: variables of the site that matter and stayed.
    """

    format: int = 1
    process: Word
    purpose: Word
    variant: Word
    number_of: Whole
    communicators: tuple[Whole, ...]
    plugin: bool
    said: bool
    n_nodes: Whole
    n_ranks: Whole
    rank_placement: Word
    library: Line
    library_version: Line | None
    runtime: Line | None
    argv: tuple[Line, ...]
    added: tuple[Variable, ...] = ()
    cleared: tuple[Variable, ...] = ()
    passed: tuple[Variable, ...] = ()
    started: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFile:
    """ending.json: how it ended, written last.

    Attributes:
        failure: None where it came to its end, or was ended for a reason of ours.
        line: of the plan, of the step that was under way.
        collective: of that step.
        setting: that was in force, and is set aside for this collective; None where nobody is
            to blame.
        words: what the program or the library said.
        lifted: the user forgave it, and the setting is tried again.
    """

    exit_code: Integer | None
    signal: Integer | None
    duration_s: Number
    failure: Failure | None = None
    line: Whole | None = None
    collective: Collective | None = None
    setting: Setting | None = None
    words: Text = ""
    lifted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """What the program says beside its rows.

    Attributes:
        failed: (rank, line of the plan, words) of steps that failed.
        variables: of the library, as it sees them itself.
        free_nbytes: of device memory, before anything was allocated.
    """

    version: str | None = None
    simulated: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[int, int, str], ...] = ()
    free_nbytes: int | None = None
    unbound: str | None = None
    n_done: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One start of all ranks, and what is there of it.

    Attributes:
        ended: None where it is under way, or was interrupted.
        steps: of its plan.
        ranks: raw rows of each rank, as (line of its file, text), torn ones left out.
    """

    number: int
    folder: Path
    file: RunFile
    ended: EndFile | None
    steps: tuple[Placed, ...]
    ranks: tuple[tuple[tuple[int, str], ...], ...]
    remarks: Remarks

    @property
    def n_done(self) -> int:
        """Steps that every rank has a row of; they are done in the plan's order."""
        return min((len(rows) for rows in self.ranks), default=0)

    @property
    def hidden_choices(self) -> tuple[tuple[str, str], ...]:
        """Variables that choose though they were cleared: a file of the library's own has them.

        Where there are any, nothing in this run is what it was to be. Without our plugin nothing
        was cleared, and what the site chooses is its own.
        """
        if not self.file.plugin:
            return ()
        ours = {*self.file.added, ("NCCL_TUNER_PLUGIN", _after("--plugin", self.file.argv))}
        return tuple(
            pair
            for pair in self.remarks.variables
            if pair not in ours and chooses(pair[0], keep=(*CHANNELS, "RCCLTUNE_*"))
        )

    @property
    def in_flight(self) -> Placed | None:
        """The first step that some rank has no row of."""
        return self.steps[self.n_done] if self.n_done < len(self.steps) else None


def _after(option: str, argv: Sequence[str]) -> str:
    return argv[argv.index(option) + 1] if option in argv else ""


def numbers(session: Path) -> tuple[int, ...]:
    """Numbers of the runs of a session, rising."""
    found = (session / FOLDER).glob(f"*/{RUN_FILE}")
    return tuple(sorted(int(path.parent.name) for path in found if path.parent.name.isdigit()))


def read_runs(session: Path) -> tuple[Run, ...]:
    """All runs of a session.

    Raises:
        OutputError: a file that is none of ours, with its place.
    """
    return tuple(read_run(session / FOLDER / str(number)) for number in numbers(session))


def read_run(folder: Path) -> Run:
    """One run.

    Raises:
        OutputError: a file that is none of ours, with its place.
    """
    file = _record(folder / RUN_FILE, RunFile)
    end = folder / END_FILE
    ended = _record(end, EndFile) if end.exists() else None
    steps = plan.read(_text(folder / PLAN_FILE), str(folder / PLAN_FILE))
    ranks, remarks = [], Remarks()
    for rank in range(file.n_ranks):
        rows, said = _rank(folder / f"rank-{rank}.csv", rank)
        ranks.append(rows)
        remarks = _joined(remarks, said)
    return Run(
        number=int(folder.name),
        folder=folder,
        file=file,
        ended=ended,
        steps=steps,
        ranks=tuple(ranks),
        remarks=remarks,
    )


def _record(path: Path, kind: type[Any]) -> Any:  # noqa: ANN401 - the record of that kind
    return read_json(kind, _text(path).encode(), str(path), _ANEW, fails=OutputError)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(
            f"it cannot be read: {reason_of(error)}", where=str(path), hint=_ANEW
        ) from error


def _rank(path: Path, rank: int) -> tuple[tuple[tuple[int, str], ...], Remarks]:
    """Rows and remarks of one rank; none where it did not come so far."""
    if not path.exists():
        return (), Remarks()
    # A letter of several bytes may be cut, too.
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    # What stands behind the last line break was being written when its writer was killed.
    lines.pop()
    rows: list[tuple[int, str]] = []
    said: dict[str, Any] = {"variables": [], "failed": []}
    headed = False
    for number, line in enumerate(lines, start=1):
        if line.startswith("#"):
            _remark(line[1:].strip(), rank, said)
        elif line == _HEAD:
            headed = True
        elif not headed:
            raise _strange(path, number, "its columns are not those of this version")
        elif line:
            rows.append((number, line))
    said["variables"], said["failed"] = tuple(said["variables"]), tuple(said["failed"])
    return tuple(rows), Remarks(**said)


def _remark(text: str, rank: int, said: dict[str, Any]) -> None:
    word, _, rest = text.partition(" ")
    if word == "variable":
        name, _, value = rest.partition("=")
        said["variables"].append((name, value))
    elif word == "failed":
        line, _, words = rest.partition(" ")
        said["failed"].append((rank, int(line) if line.isdigit() else 0, words))
    elif word in ("version", "simulated"):
        said[word] = rest
    elif word == "free" and rest.split(" ")[0].isdigit():
        said["free_nbytes"] = int(rest.split(" ")[0])
    elif word == "numa" and rest.startswith("unbound"):
        said["unbound"] = rest.partition(": ")[2]
    elif word == "done":
        said["n_done"] = 1


def _joined(one: Remarks, other: Remarks) -> Remarks:
    """Remarks of several ranks: what all say is the first one's."""
    free = [said for said in (one.free_nbytes, other.free_nbytes) if said is not None]
    return Remarks(
        version=one.version or other.version,
        simulated=one.simulated or other.simulated,
        variables=one.variables or other.variables,
        failed=(*one.failed, *other.failed),
        free_nbytes=min(free, default=None),
        unbound=one.unbound or other.unbound,
        n_done=one.n_done + other.n_done,
    )


def _strange(path: Path, line: int, why: str) -> OutputError:
    return OutputError(
        f"this is no row of rccltune-perf: {why}", where=f"{path}:{line}", hint=_ANEW
    )


def table(runs: Iterable[Run], kept: dict[int, pd.DataFrame] | None = None) -> pd.DataFrame:
    """Rows of runs, with their states; see this module for the columns.

    Args:
        runs: those in which a configuration file chose are left out.
        kept: rows of runs that were read before, by number; filled with those of the others.

    Raises:
        OutputError: a row that cannot be read, or ranks that were told or answered differently.
    """
    import pandas as pd

    known = {} if kept is None else kept
    parts = []
    for run in runs:
        if run.n_done and not run.hidden_choices:
            if run.number not in known:
                known[run.number] = _rows(run)
            parts.append(known[run.number])
    # What no run has yet is a table without rows, of the same kinds of columns.
    found: pd.DataFrame = pd.concat([*parts, _nothing()], ignore_index=True)
    found["state"] = _states(found)
    found["counts"] = found["state"] == GOOD
    ordered: pd.DataFrame = found[list(_COLUMNS)]
    return ordered


def _nothing() -> pd.DataFrame:
    import pandas as pd

    whole = ("run", "line", "communicator", "asked_nbytes", "nbytes", "calls")
    other = ("time_us", "slowest_us", "made", "asked", "checked", "wrong")
    kinds = {**dict.fromkeys(whole, "int64"), **dict.fromkeys(other, "float64")}
    made: pd.DataFrame = pd.DataFrame({name: [] for name in _COLUMNS}).astype(kinds)
    return made


_COLUMNS: Final = (
    *("run", "process", "line", "step", "communicator", "collective", "dtype", "op", "placement"),
    *("asked_nbytes", "nbytes", "clock", "setting", "variant", "purpose", "calls", "time_us"),
    *("slowest_us", "made", "asked", "library", "answer", "registered", "selectable", "ran"),
    *("checked", "wrong", "note", "state", "counts"),
)


def _rows(run: Run) -> pd.DataFrame:
    """Rows of a run that every rank has, ranks joined."""
    import pandas as pd

    n_done = run.n_done
    ranks = [rows[:n_done] for rows in run.ranks]
    raw = _parsed(run, ranks)
    by_line = raw.groupby("line", sort=False)
    found = by_line.first().drop(columns="rank").reset_index()
    if list(found["line"]) != [one.line for one in run.steps[:n_done]]:
        raise _out_of_order(run, ranks)
    for column in _ALIKE:
        if len(raw[["line", column]].drop_duplicates()) > n_done:
            raise _differing(run, raw, column)
    times = by_line["time_us"]
    found["time_us"] = times.mean().where(times.count() == len(ranks)).to_numpy()
    found["slowest_us"] = times.max().to_numpy()
    for column in ("checked", "wrong"):
        found[column] = by_line[column].sum(min_count=1).to_numpy()
    steps = pd.DataFrame([_described(one) for one in run.steps[:n_done]])
    found = found.drop(columns=["step", "communicator"]).merge(steps, on="line")
    found["run"], found["process"] = run.number, run.file.process
    found["variant"], found["purpose"] = run.file.variant, run.file.purpose
    joined: pd.DataFrame = found
    return joined


def _described(one: Placed) -> dict[str, Any]:
    step = one.step
    if step is None:
        known: dict[str, Any] = dict.fromkeys(
            ("collective", "dtype", "op", "placement", "clock", "setting"), ""
        )
        return {
            **known,
            "line": one.line,
            "step": plan.COMMUNICATOR,
            "communicator": one.communicator,
            "asked_nbytes": 0,
        }
    return {
        "line": one.line,
        "step": step.kind,
        "communicator": one.communicator,
        "collective": step.call.collective.value,
        "dtype": step.call.dtype,
        "op": step.call.op,
        "placement": step.call.placement.value,
        "asked_nbytes": step.call.nbytes,
        "clock": step.clock,
        "setting": str(step.setting),
    }


def _parsed(run: Run, ranks: Sequence[Sequence[tuple[int, str]]]) -> pd.DataFrame:
    """Rows of all ranks with the number of their rank."""
    import pandas as pd

    text = "".join(f"{rank},{row}\n" for rank, rows in enumerate(ranks) for _, row in rows)
    names = ["rank", *_HEAD.split(",")]
    try:
        raw: pd.DataFrame = pd.read_csv(
            io.StringIO(text),
            names=names,
            index_col=False,
            dtype=str,
            keep_default_na=False,
            on_bad_lines="error",
        )
        for column in (*_NUMBERS, "rank", "time_us", "checked", "wrong"):
            raw[column] = pd.to_numeric(raw[column].replace("", None))
    except ValueError as error:
        raise _unreadable(run, ranks, str(error)) from error
    if raw[["line", "nbytes"]].isna().any().any() or (raw["time_us"] < 0).any():
        raise _unreadable(run, ranks, "a number is missing or below 0")
    return raw


def _unreadable(run: Run, ranks: Sequence[Sequence[tuple[int, str]]], why: str) -> OutputError:
    """The first row that cannot be read, by its place."""
    names = _HEAD.split(",")
    for rank, rows in enumerate(ranks):
        for number, row in rows:
            fields = _fields(row)
            fits = len(fields) == len(names) and all(
                _is_number(fields[names.index(name)]) for name in (*_NUMBERS, "time_us")
            )
            if not fits or not fields[0] or fields[5].startswith("-"):
                return _strange(run.folder / f"rank-{rank}.csv", number, f"'{row[:120]}'")
    return _strange(run.folder / "rank-0.csv", 1, why)


def _fields(row: str) -> list[str]:
    import csv

    return next(csv.reader([row]), [])


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
                return _strange(path, number, f"line {planned.line} of the plan was to come here")
    return _strange(run.folder / "rank-0.csv", 1, "its lines are not those of the plan")


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
        f"see one environment. Then {_ANEW}",
    )


GOOD: Final = "good"
BYPASSED: Final = "bypassed"
NOT_OFFERED: Final = "not-offered"
OVERRIDDEN: Final = "overridden"
UNKNOWN: Final = "unknown"
UNTIMED: Final = "untimed"


def _states(found: pd.DataFrame) -> list[str]:
    """State of each row; of steps that are no measure empty."""
    ran = what_ran(found)
    names = ("step", "setting", "variant", "collective", "dtype", "nbytes", "time_us")
    columns = zip(*(found[name] for name in (*names, "made", "asked", "answer")), strict=True)
    states = []
    for step, word, variant, collective, dtype, nbytes, time_us, *told in columns:
        if step != plan.MEASURE:
            states.append("")
        elif not time_us > 0:
            states.append(UNTIMED)
        else:
            executed = setting_of(ran.get((variant, word, collective, dtype, nbytes), ""))
            states.append(_state(Setting.parse(word), tuple(told), executed))
    return states


Ran = Mapping[tuple[str, str, str, str, int], str]


def what_ran(found: pd.DataFrame) -> Ran:
    """What the library said that it ran, by variant, setting, collective, type and size."""
    looked = found[found["step"].isin((plan.CHECK, plan.CALL)) & ~found["ran"].isin(NOTHING_SAID)]
    names = ("variant", "setting", "collective", "dtype", "nbytes", "ran")
    return {
        (variant, setting, collective, dtype, nbytes): ran
        for variant, setting, collective, dtype, nbytes, ran in zip(
            *(looked[name] for name in names), strict=True
        )
    }


def _state(wanted: Setting, told: tuple[float, float, str], executed: Setting | None) -> str:
    """State of a time.

    Args:
        wanted: what was asked for.
        told: calls made, questions asked for them, and what was answered.
        executed: what the library said that it ran; None where it said nothing.
    """
    made, asked, answer = told
    answered = setting_of(answer)
    if wanted.role is not Role.FORCED:
        return OVERRIDDEN if wanted.role is Role.SILENT and answered else GOOD
    if asked != made:
        return BYPASSED
    if answered is None:
        return NOT_OFFERED
    if wanted.contradicts(answered) or (executed and wanted.contradicts(executed)):
        return OVERRIDDEN
    return UNKNOWN if executed is None else GOOD


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
