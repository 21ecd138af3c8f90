"""What a file tells before options are laid beside it: its timings, and how it was started.

Samples are frozen and know their launch, which depends on how many runs the file turns out to
hold; until then a timing is a :class:`Draft`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from math import inf, isfinite
from typing import Final

from rccltune.model.settings import Mode, Setting
from rccltune.model.vocabulary import Collective, Doubt, Placement


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Said:
    """What a file itself says about a run or a row; ``None`` is unsaid.

    Compared by identity: one object stands for all timings that share it, so that what it
    means is worked out once per table and not once per row.

    Attributes:
        line: line that says it, or its first row.
        said_at: other lines, by the field that they say.
        setting: what was asked for, possibly only in part.
        chosen_by: what chose, where no setting says it: a tuner, or a variable that leaves several.
        nodes_unsure: the number of nodes comes from a column known to be wrong at times.
    """

    line: int
    said_at: tuple[tuple[str, int], ...] = ()
    collective: Collective | None = None
    setting: Setting | None = None
    chosen_by: str | None = None
    variant: str | None = None
    n_ranks: int | None = None
    n_nodes: int | None = None
    nodes_unsure: bool = False
    dtype: str | None = None
    redop: str | None = None
    placement: Placement | None = None
    graph: bool | None = None
    rank_placement: str | None = None
    mode: Mode | None = None
    product: str | None = None
    arch: str | None = None
    cu_count: int | None = None
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    ranks_per_process: int | None = None
    simulated: bool = False

    def at(self, name: str) -> int:
        """Line that says a field."""
        return dict(self.said_at).get(name, self.line)

    def or_else(self, other: Said) -> Said:
        """Self, with what it leaves unsaid taken from another."""
        missing = {
            each.name: getattr(other, each.name)
            for each in fields(self)
            if getattr(self, each.name) in (None, ()) or getattr(self, each.name) is False
        }
        if self.graph is not None:
            missing.pop("graph", None)
        return replace(self, **missing)


# One half-row: line, nbytes, count, time_us, n_wrong, doubt, cycle, executed, said. A plain tuple,
# because making a record for each of a million rows costs more than reading its numbers.
Draft = tuple[
    int, int, int | None, float | None, int | None, Doubt | None, int, Setting | None, Said
]


@dataclass(slots=True)
class Run:
    """One start of a benchmark, or what stands for it in the file.

    Attributes:
        said: what holds for the whole run.
        header: line of the table's header, or its first row.
        average: bus bandwidth as the benchmark summed it up.
        busbw_sum: sum over the timings read, to be compared with it.
        peak: (algbw, busbw, line) of the timing with the largest algbw, whose ratio tells
            collective and ranks best.
        out_of_bounds: timings that the benchmark's own summary calls wrong.
        executed: what the library's log says it ran, by collective and size.
        ordered: variables that choose, by the command that started it.
        forced: the same by the library's log, and its tuner, once all of it was read.
        below_header: its rows stand below a header of their own, so that one process printed all.
        schedule: line of our plugin's schedule, 0 without one, once all was read.
        plugin: whether our plugin was the library's tuner, once all was read.
        unit: weight of the last printed digit of its bandwidths.
        scale: ranks and nodes as the library's log tells them, once all of it was read.
        rooted: whether rows name a root; None where the table has no column for it.
        cputime: the benchmark printed the CPU's time, so times come from algbw.
        ended: the benchmark came to its summary.
        last_size: size of the last row.
        max_size: size that the benchmark was asked for and did not reach.
    """

    said: Said
    drafts: list[Draft] = field(default_factory=list)
    header: int = 0
    average: float | None = None
    average_line: int = 0
    busbw_sum: float = 0.0
    n_busbw: int = 0
    peak: tuple[float, float, int] = (0.0, 0.0, 0)
    out_of_bounds: int = 0
    executed: dict[tuple[Collective, int], set[Setting]] = field(default_factory=dict)
    ordered: dict[str, str] = field(default_factory=dict)
    forced: dict[str, str] = field(default_factory=dict)
    below_header: bool = False
    schedule: Callable[[], int] | None = None
    plugin: Callable[[], bool] | None = None
    unit: float = 0.01
    scale: Callable[[], tuple[int | None, int | None]] | None = None
    rooted: bool | None = None
    cputime: bool = False
    ended: bool = False
    last_size: int = 0
    max_size: int | None = None

    def add(self, line: int, algbw: float | None, busbw: float | None) -> None:
        """Take a timing's bandwidths into the mean and the peak; zeros count, nan does not."""
        if busbw is None or not isfinite(busbw):
            return
        self.busbw_sum += busbw
        self.n_busbw += 1
        if algbw is not None and self.peak[0] < algbw < inf:
            self.peak = (algbw, busbw, line)

    @property
    def mean_busbw(self) -> float:
        """What the benchmark calls the average bus bandwidth, from the rows read."""
        return self.busbw_sum / self.n_busbw if self.n_busbw else 0.0


class RepeatedSizeError(Exception):
    """A size came again where no new pass over the sizes begins."""

    def __init__(self, nbytes: int, first_line: int) -> None:
        """Keep what the caller needs to name both lines."""
        super().__init__(nbytes, first_line)
        self.nbytes = nbytes
        self.first_line = first_line


class Passes:
    """Tells passes over the sizes apart within one table.

    A benchmark asked for cycles prints the whole list of sizes again. Two equal sizes in a row
    are also honest: all_gather and its kin round small sizes down to the same number.
    """

    __slots__ = ("_count", "_first", "_last", "_lines")

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._count: dict[int, int] = {}
        self._lines: dict[int, int] = {}
        self._first = -1
        self._last = -1

    def cycle(self, nbytes: int, line: int) -> int:
        """How often this size was seen before.

        Raises:
            RepeatedSizeError: the size came again in the middle of a pass.
        """
        before = self._count.get(nbytes, 0)
        self._count[nbytes] = before + 1
        if nbytes == 0:
            return before
        if self._first < 0:
            self._first = nbytes
        if nbytes != self._last and nbytes in self._lines:
            if nbytes != self._first:
                raise RepeatedSizeError(nbytes, self._lines[nbytes])
            self._lines.clear()
        self._lines[nbytes] = line
        self._last = nbytes
        return before


_PLACEMENTS: Final = {
    "out": Placement.OUT_OF_PLACE,
    "out-of-place": Placement.OUT_OF_PLACE,
    "in": Placement.IN_PLACE,
    "in-place": Placement.IN_PLACE,
}
_YES: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


# What people call them in tables of their own; benchmarks print the names on the right.
_DTYPES: Final = {
    "bf16": "bfloat16", "fp16": "half", "float16": "half", "fp32": "float", "float32": "float",
    "fp64": "double", "float64": "double",
}  # fmt: skip


def dtype_named(text: str) -> str:
    """A data type by the name that benchmarks print; any other text as it is."""
    return _DTYPES.get(text.lower(), text)


def placement_of(text: str) -> Placement:
    """Read ``in``, ``out``, ``in-place``, ``out-of-place``; ValueError for anything else."""
    found = _PLACEMENTS.get(text.strip().lower().replace("_", "-"))
    if found is None:
        raise ValueError(f"'{text}' is no placement: write in or out")
    return found


def yes_or_no(text: str) -> bool:
    """Read ``1``, ``0``, ``true``, ``no`` …; ValueError for anything else."""
    found = _YES.get(text.strip().lower())
    if found is None:
        raise ValueError(f"'{text}' is neither 0 nor 1")
    return found
