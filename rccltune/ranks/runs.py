"""Runs as they lie in a session, whatever ran: what was started, what it measured, how it ended.

A run's folder has what was started (run.json) and with which variables (environment.json), and how
it ended (ending.json). One without the last is of a run that was interrupted, or is under way. The
rank program has its plan there (plan.txt), a file of each rank's rows (rank-0.csv …) and what all
said (log.txt); rccl-tests have their output (stdout.log).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from rccltune.launch.variables import CHANNELS, chooses
from rccltune.model.errors import OutputError, reason_of
from rccltune.model.failure import Failure
from rccltune.model.measurement import RUNS, StatedFacts, folder_of
from rccltune.model.schema import Integer, Line, Number, Text, Variable, Whole, Word, read_json
from rccltune.model.settings import Scale, Setting
from rccltune.model.vocabulary import Collective
from rccltune.ranks import plan
from rccltune.ranks.plan import PlacedStep

PROGRAM: Final = "rccltune-perf"
_COST: Final = re.compile(r"\d+(?:\.\d+)?")
FOLDER: Final = "runs"
PLAN_FILE: Final = "plan.txt"
RUN_FILE: Final = "run.json"
ENVIRONMENT_FILE: Final = "environment.json"
END_FILE: Final = "ending.json"
LOG_FILE: Final = "log.txt"
# What the library logged of rank 0 before anything was timed.
LIBRARY_LOG: Final = "log-0.txt"
# Lines that are sent ahead of their answers: no rank waits for us, and they fit any buffer.
SENT_AHEAD: Final = 64
COLUMNS: Final = (
    "line,communicator,step,nbytes,calls,time_us,made,asked,told_bytes,library,answer,registered,"
    "selectable,ran,checked,wrong,trees,tree,signature,bits,note"
)
ANEW: Final = plan.ANEW
_PREFIX: Final = "run-"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """run.json: what was started.

    Attributes:
        process: random word by which the processes of this run are told from others.
        plugin: whether our plugin was loaded; without it the site is as it is.
        added: variables that rccltune set.
        stated: of a run of rccl-tests, what is known of it beside its log, the collective and the
            setting among it; None of the rank program, whose plan says it.
    """

    format: int = 2
    process: Word
    plugin: bool
    n_nodes: Whole
    n_ranks: Whole
    rank_placement: Word
    library: Line | None
    library_version: Line | None
    runtime: Line | None
    argv: tuple[Line, ...]
    added: tuple[Variable, ...]
    started: Line
    stated: StatedFacts | None = None

    def __post_init__(self) -> None:
        """Refuse counts that no communicator has."""
        Scale(n_nodes=self.n_nodes, n_ranks=self.n_ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFile:
    """ending.json: how it ended, written last.

    Attributes:
        failure: None where it came to its end, or was ended for a reason of ours.
        line: of the plan, of the step that was under way.
        collective: of that step.
        setting: that was in force, and is excluded for this collective; None where nobody is
            to blame.
        rules: digest of the rule file, where that setting is its rules.
        words: what the program or the library said.
        library_version: as the log names it, where nothing else does.
    """

    exit_code: Integer | None
    signal: Integer | None
    duration_s: Number
    failure: Failure | None = None
    line: Whole | None = None
    collective: Collective | None = None
    setting: Setting | None = None
    rules: Text = ""
    words: Text = ""
    library_version: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRemarks:
    """Remarks of the program beside its rows.

    Attributes:
        failed: (rank, line of the plan, words) of steps that failed.
        variables: of the library, as it sees them itself.
        free_nbytes: of device memory, before anything was allocated.
        unbound: why ranks are bound to no NUMA node, None where they are.
        keeps_logging: the library could not end its log before anything was timed.
        clocks: (rank, communicator, MHz before, MHz after) of devices whose clock can be read.
        costs_ns: what a question costs a job with the rules, of each rank and communicator.
        trees: (number, text) of summation trees: ``(((2+3)+1)+0)``.
        orders: (line of the plan, words) of where in a result which tree ends, ``TREE:END``.
    """

    version: str | None = None
    simulated: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[int, int, str], ...] = ()
    free_nbytes: int | None = None
    unbound: str | None = None
    keeps_logging: bool = False
    clocks: tuple[tuple[int, int, int, int], ...] = ()
    costs_ns: tuple[float, ...] = ()
    trees: tuple[tuple[str, str], ...] = ()
    orders: tuple[tuple[int, tuple[str, ...]], ...] = ()
    n_done: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One start of all ranks, and what is there of it.

    Attributes:
        ended: None where it is under way, or was interrupted.
        steps: of its plan.
        ranks: raw rows of each rank, as (line of its file, text), torn ones left out; none of
            rccl-tests.
    """

    number: int
    folder: Path
    file: RunFile
    ended: EndFile | None
    steps: tuple[PlacedStep, ...]
    ranks: tuple[tuple[tuple[int, str], ...], ...]
    remarks: ProgramRemarks

    @property
    def name(self) -> str:
        """``run-3``, by which samples and reports name it."""
        return f"{_PREFIX}{self.number}"

    @property
    def scale(self) -> Scale:
        """Nodes and ranks."""
        return Scale(n_nodes=self.file.n_nodes, n_ranks=self.file.n_ranks)

    @property
    def library_version(self) -> str | None:
        """Version as the library says it itself; None where nothing does."""
        return self.file.library_version or (self.ended.library_version if self.ended else None)

    @property
    def settings(self) -> set[Setting]:
        """Settings that it was started to measure."""
        stated = self.file.stated
        if stated is not None:
            return {stated.setting} if stated.setting is not None else set()
        return {one.step.setting for one in self.steps if one.step is not None}

    @property
    def has_log_table(self) -> bool:
        """Whether rccl-tests' log has a whole table; wrong results were measured all the same."""
        is_whole = self.ended is not None and self.ended.failure in (None, Failure.WRONG)
        return self.file.stated is not None and is_whole

    @property
    def n_done(self) -> int:
        """Steps that every rank has a row of; they are done in the plan's order."""
        return min((len(rows) for rows in self.ranks), default=0)

    @property
    def damaged_files(self) -> tuple[Path, ...]:
        """Files of ranks that have lost rows since it ended.

        Where nothing failed each rank had a row of every step; else none is behind the others by
        more than the steps that are sent ahead, and a row that its end cut.
        """
        if self.ended is None:
            return ()
        counts = [len(rows) for rows in self.ranks]
        most = max(counts, default=0)
        least = most - SENT_AHEAD - 1 if self.ended.failure else len(self.steps)
        files = [self.folder / f"rank-{rank}.csv" for rank in range(len(counts))]
        return tuple(
            file
            for file, n in zip(files, counts, strict=True)
            if n < least or (n == 0 < most and not file.exists())
        )

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
    def in_flight(self) -> PlacedStep | None:
        """The first step that some rank has no row of."""
        return self.steps[self.n_done] if self.n_done < len(self.steps) else None


def _after(option: str, argv: Sequence[str]) -> str:
    return argv[argv.index(option) + 1] if option in argv else ""


def number_in(name: str) -> int | None:
    """The run that a name names; None of an imported file."""
    number = name.removeprefix(_PREFIX)
    return int(number) if name.startswith(_PREFIX) and number.isdigit() else None


def is_run(name: str) -> bool:
    """Whether a name in the column ``run`` is that of a run."""
    return number_in(name) is not None


def run_in(name: str) -> tuple[str, int | None]:
    """The run and the communicator that ``run-3:0`` names; of an imported file its own name."""
    communicator = name.partition(RUNS)[2]
    run = folder_of(name)
    return (run, int(communicator)) if is_run(run) and communicator else (name, None)


def next_name(session: Path) -> str:
    """The name of a session's next run, behind whatever lies there."""
    names = (path.name for path in (session / FOLDER).glob("*"))
    return f"{_PREFIX}{max((int(name) for name in names if name.isdigit()), default=0) + 1}"


def numbers(session: Path) -> tuple[int, ...]:
    """Numbers of the runs of a session, rising."""
    names = (path.parent.name for path in (session / FOLDER).glob(f"*/{RUN_FILE}"))
    return tuple(sorted(int(name) for name in names if name.isdigit()))


def read_runs(session: Path, most_ranks: int | None = None) -> tuple[Run, ...]:
    """All runs of a session.

    Args:
        session: the folder.
        most_ranks: of so many the rows are read; None for those of all.

    Raises:
        OutputError: a file that is none of ours, with its place.
    """
    folders = (session / FOLDER / str(number) for number in numbers(session))
    return tuple(read_run(folder, most_ranks) for folder in folders)


def read_run(folder: Path, most_ranks: int | None = None) -> Run:
    """One run.

    Args:
        folder: of the run.
        most_ranks: of so many the rows are read; None for those of all.

    Raises:
        OutputError: a file that is none of ours, with its place.
    """
    file = _read_record(folder / RUN_FILE, RunFile)
    end = folder / END_FILE
    ended = _read_record(end, EndFile) if end.exists() else None
    if file.stated is not None:
        return run_of(folder, file, (), (), ended)
    n_ranks = file.n_ranks if most_ranks is None else min(most_ranks, file.n_ranks)
    return run_of(
        folder,
        file,
        _read_plan(folder / PLAN_FILE),
        [_read_lines(folder / f"rank-{rank}.csv") for rank in range(n_ranks)],
        ended,
    )


def run_of(
    folder: Path,
    file: RunFile,
    steps: tuple[PlacedStep, ...],
    lines: Sequence[Sequence[str]],
    ended: EndFile | None = None,
) -> Run:
    """A run from what its ranks wrote.

    Args:
        folder: of the run.
        file: what was started.
        steps: of its plan so far.
        lines: of each rank's file, whole ones.
        ended: how, None of one that is under way.

    Raises:
        OutputError: a line that is none of ours, with its place.
    """
    remarks: dict[str, Any] = {name: [] for name in _LISTS}
    ranks = [
        _read_rank(folder / f"rank-{rank}.csv", rank, rows, remarks)
        for rank, rows in enumerate(lines)
    ]
    remarks |= {name: tuple(remarks[name]) for name in _LISTS}
    return Run(
        number=int(folder.name),
        folder=folder,
        file=file,
        ended=ended,
        steps=steps,
        ranks=tuple(ranks),
        remarks=ProgramRemarks(**remarks),
    )


def _read_record(path: Path, kind: type[T]) -> T:
    return read_json(kind, _read_text(path).encode(), str(path), ANEW, fails=OutputError)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(
            f"it cannot be read: {reason_of(error)}", where=str(path), hint=ANEW
        ) from error


def _read_plan(path: Path) -> tuple[PlacedStep, ...]:
    """Steps that were sent; the line that was being written when its writer was killed was not."""
    whole, end, _ = _read_text(path).rpartition("\n")
    # Nothing was, where ranks never came so far.
    return plan.read_plan(whole + end, str(path)) if end else ()


def _read_lines(path: Path) -> list[str]:
    """Whole lines of one rank's file; none where it did not come so far."""
    if not path.exists():
        return []
    # A letter of several bytes may be cut, too.
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    # What stands behind the last line break was being written when its writer was killed.
    lines.pop()
    return lines


_LISTS: Final = ("variables", "failed", "clocks", "costs_ns", "trees", "orders")


def _read_rank(
    path: Path, rank: int, lines: Sequence[str], remarks: dict[str, Any]
) -> tuple[tuple[int, str], ...]:
    """Rows of one rank; what it says beside them is added to the remarks."""
    rows: list[tuple[int, str]] = []
    is_headed = False
    for number, line in enumerate(lines, start=1):
        if line.startswith("#"):
            _add_remark(line[1:].strip(), rank, remarks)
        elif line == COLUMNS:
            is_headed = True
        elif not is_headed:
            raise unreadable_row(path, number, "its columns are not those of this version")
        elif line:
            rows.append((number, line))
    return tuple(rows)


def _add_remark(text: str, rank: int, remarks: dict[str, Any]) -> None:
    word, _, rest = text.partition(" ")
    number, _, words = rest.partition(" ")
    if word == "variable" and rank == 0:
        name, _, value = rest.partition("=")
        remarks["variables"].append((name, value))
    elif word == "failed":
        remarks["failed"].append((rank, _number(number), words))
    elif word == "clock" and len(numbers := [int(n) for n in rest.split() if n.isdigit()]) == 3:
        remarks["clocks"].append((rank, *numbers))
    elif word == "cost" and _COST.fullmatch(rest):
        remarks["costs_ns"].append(float(rest))
    elif word == "tree" and (number, words) not in remarks["trees"]:
        remarks["trees"].append((number, words))
    elif word == "order":
        remarks["orders"].append((_number(number), tuple(words.split(" "))))
    else:
        _add_fact(word, rest, remarks)


def _add_fact(word: str, rest: str, remarks: dict[str, Any]) -> None:
    """Add what a rank says once; of what all say the first one's counts, and the least memory."""
    if word in ("version", "simulated"):
        remarks.setdefault(word, rest)
    elif word == "free" and (free := rest.partition(" ")[0]).isdigit():
        remarks["free_nbytes"] = min(int(free), remarks.get("free_nbytes", int(free)))
    elif word == "numa" and rest.startswith("unbound"):
        remarks.setdefault("unbound", rest.partition(": ")[2])
    elif word == "log" and rest.startswith("stays on"):
        remarks["keeps_logging"] = True
    elif word == "done":
        remarks["n_done"] = remarks.get("n_done", 0) + 1


def _number(word: str) -> int:
    return int(word) if word.isdigit() else 0


def unreadable_row(path: Path, line: int, why: str) -> OutputError:
    """Say that a row cannot be read, where and why."""
    return OutputError(f"this is no row of rccltune-perf: {why}", where=f"{path}:{line}", hint=ANEW)
