"""Facts that a file states before options are laid beside it, and the runs that they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import TYPE_CHECKING

from rccltune.model.settings import Mode, Setting
from rccltune.model.vocabulary import Collective, Placement

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogFacts:
    """Facts that a file itself states about a run or a row; ``None`` is unsaid.

    Compared by identity: one object stands for all timings that share it.

    Attributes:
        line: line that says it, or its first row.
        field_lines: other lines, by the field that they say.
        setting: what a table's own columns say was asked for, possibly only in part.
        variables: of the process, as commands, the library's log or the benchmark say.
        names_environment: some command or variable was seen, so that what is not named was not set.
        mention: line and text of a sentence that names a variable that chooses.
        library: as its log or the benchmark names it.
        least_nodes: hosts that are named, where not all of them are.
        nodes_unsure: the number of nodes comes from a column known to be wrong at times.
        vendor: whose GPUs the program serves, ``amd`` or ``nvidia``, where a line says it.
    """

    line: int
    field_lines: tuple[tuple[str, int], ...] = ()
    collective: Collective | None = None
    setting: Setting | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    names_environment: bool = False
    mention: tuple[int, str] | None = None
    library: str | None = None
    n_ranks: int | None = None
    n_nodes: int | None = None
    least_nodes: int | None = None
    nodes_unsure: bool = False
    dtype: str | None = None
    op: str | None = None
    placement: Placement | None = None
    graph: bool | None = None
    rank_placement: str | None = None
    mode: Mode | None = None
    product: str | None = None
    vendor: str | None = None
    arch: str | None = None
    cu_count: int | None = None
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    ranks_per_process: int | None = None
    simulated: bool = False

    def line_of(self, name: str) -> int:
        """Line that says a field."""
        return dict(self.field_lines).get(name, self.line)

    def or_else(self, other: LogFacts) -> LogFacts:
        """Self, with what it leaves unsaid taken from another."""
        missing = {
            each.name: getattr(other, each.name)
            for each in fields(self)
            if getattr(self, each.name) in (None, (), {}) or getattr(self, each.name) is False
        }
        if self.graph is not None:
            missing.pop("graph", None)
        return replace(self, **missing)


@dataclass(slots=True)
class LogRun:
    """One start of a benchmark, or a part of one under its own variables, and its table.

    Attributes:
        facts: of the whole run.
        timings: its table, see :mod:`rccltune.logs.timings`.
        row_facts: of the timings, by the number in its column ``mix``.
        settings: what ran, by the number in its column ``ran``.
        average: bus bandwidth as the benchmark summed it up.
        out_of_bounds: timings that the benchmark's own summary calls wrong.
        executed_settings: what the library's log says it ran, by collective and size.
        unit: weight of the last printed digit of its bandwidths; None where they do not tell what
            ran, being of several collectives or scales.
        names_root: whether rows name a root; None where the table has no column for it.
        has_cpu_time: the benchmark printed the CPU's time, so times come from algbw.
    """

    facts: LogFacts
    timings: pd.DataFrame = field(init=False)
    row_facts: list[LogFacts] = field(default_factory=list)
    settings: list[Setting | None] = field(default_factory=list)
    average: float | None = None
    average_line: int = 0
    out_of_bounds: int = 0
    executed_settings: dict[tuple[Collective, int], set[Setting]] = field(default_factory=dict)
    unit: float | None = 0.01
    names_root: bool | None = None
    has_cpu_time: bool = False

    @property
    def first_facts(self) -> LogFacts:
        """Facts of its first row."""
        return self.row_facts[int(self.timings["mix"].iloc[0])].or_else(self.facts)

    @property
    def mean_busbw(self) -> float | None:
        """Average bus bandwidth as the benchmark computes it, zeros included; None without any."""
        if "busbw" not in self.timings:
            return None
        finite = self.timings["busbw"][self.timings["busbw"].abs() < inf]
        return float(finite.mean()) if len(finite) else None
