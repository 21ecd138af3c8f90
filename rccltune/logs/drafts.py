"""Half-rows as a file tells them, before options and assumptions are laid beside them.

Samples are frozen and know their launch, which depends on how many runs the file turns out to
hold; until then a half-row is a :class:`Draft`.

What the file, the options and the assumptions say together.

A file is believed; an option fills what it leaves unsaid and must not contradict it; an
assumption fills what neither says. What is still missing and needed is asked for by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from math import inf, isfinite
from typing import Final, TypeVar

from rccltune.model import (
    KNOWN_VARIANTS,
    UNSTATED,
    Caution,
    Collective,
    CommandLineError,
    CurveKey,
    Doubt,
    Mode,
    Notice,
    OutputError,
    Placement,
    Role,
    Scale,
    Setting,
    Stated,
    Variant,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Said:
    """What a file itself says about a run or a row; ``None`` is unsaid.

    Compared by identity: one object stands for all half-rows that share it, so that what it
    means is worked out once per table and not once per row.

    Attributes:
        line: line that says it, or its first row.
        said_at: other lines, by the field that they say.
        setting: what was asked for, possibly only in part.
        nodes_unsure: the number of nodes comes from a column known to be wrong at times.
    """

    line: int
    said_at: tuple[tuple[str, int], ...] = ()
    collective: Collective | None = None
    setting: Setting | None = None
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
        busbw_sum: sum over the half-rows read, to be compared with it.
        peak: (algbw, busbw, line) of the half-row with the largest algbw, whose ratio tells
            collective and ranks best.
        out_of_bounds: half-rows that the benchmark's own summary calls wrong.
        executed: what the library's log says it ran, by collective and size.
        scale: ranks and nodes as the library's log tells them, once all of it was read.
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
    scale: Callable[[], tuple[int | None, int | None]] | None = None
    cputime: bool = False
    ended: bool = False
    last_size: int = 0
    max_size: int | None = None

    def add(self, line: int, algbw: float | None, busbw: float | None) -> None:
        """Take a half-row's bandwidths into the mean and the peak; zeros count, nan does not."""
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


_ASSUMABLE: Final = (
    "arch", "binding", "cus", "dtype", "graph", "host", "mode", "placement", "product",
    "rank_placement", "redop",
)  # fmt: skip
_PLACEMENTS: Final = {
    "out": Placement.OUT_OF_PLACE,
    "out-of-place": Placement.OUT_OF_PLACE,
    "in": Placement.IN_PLACE,
    "in-place": Placement.IN_PLACE,
}
_YES: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
T = TypeVar("T")


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


class Resolver:
    """Turns what a file says into keys of curves, with one user's options beside it."""

    def __init__(self, name: str, stated: Stated) -> None:
        """Check the assumptions.

        Args:
            name: file name for messages.
            stated: options and assumptions.

        Raises:
            CommandLineError: an assumption that nothing can be made of.
        """
        self.name = name
        self.stated = stated
        self.notices: list[Notice] = []
        self.assumed = dict(stated.assume)
        for key in self.assumed:
            if key not in _ASSUMABLE:
                raise CommandLineError(
                    f"--assume {key}=… is not known",
                    hint=f"assume one of {', '.join(_ASSUMABLE)}.",
                )
        self._placement = self._assumption("placement", placement_of)
        self._graph = self._assumption("graph", yes_or_no)
        self.mode = self._assumption("mode", Mode.parse)
        self.cu_count = self._assumption("cus", int)
        self._variants: dict[str, Variant] = {}
        self._keys: dict[Said, CurveKey] = {}
        self._shared: dict[CurveKey, CurveKey] = {}

    def key(self, said: Said) -> CurveKey:
        """Key of the curve that a half-row lies on; the same object for the same key.

        Raises:
            CommandLineError: an option contradicts the file.
            OutputError: collective, ranks or nodes are said nowhere.
        """
        found = self._keys.get(said)
        if found is None:
            new = self._key(said)
            found = self._keys[said] = self._shared.setdefault(new, new)
        return found

    def of_one_group(self, said: Said) -> Said:
        """The same without a number of ranks that is of all groups together."""
        stated = self.stated
        is_all = stated.n_started is not None and said.n_ranks == stated.n_started
        return replace(said, n_ranks=None) if is_all and stated.n_ranks is not None else said

    def agreed(self, option: str, given: T | None, found: T | None, line: int) -> T | None:
        """The one of two that is there.

        Raises:
            CommandLineError: both are there and differ.
        """
        if given is not None and found is not None and given != found:
            raise CommandLineError(
                f"{option} {shown(given)} contradicts the file, which says {shown(found)}",
                where=self.where(line),
                hint=f"leave out {option}, or import the file that it belongs to.",
            )
        return given if found is None else found

    def where(self, line: int) -> str:
        """File and line, as editors read it."""
        return f"{self.name}:{line}" if line else self.name

    def notice(self, caution: Caution, message: str, remedy: str, line: int = 0) -> None:
        """Note a weakness, once for a file however many rows have it."""
        if not any(each.message == message for each in self.notices):
            self.notices.append(
                Notice(caution=caution, message=message, remedy=remedy, where=self.where(line))
            )

    def _key(self, said: Said) -> CurveKey:
        stated, line = self.stated, said.line
        collective = self.agreed(
            "--collective", stated.collective, said.collective, said.at("collective")
        )
        if collective is None:
            raise self._missing("which collective it measured", "--collective all_reduce", line)
        return CurveKey(
            collective=collective,
            setting=self._setting(said),
            placement=self._placed(said),
            scale=self._scale(said),
            dtype=self.agreed("--dtype", stated.dtype, said.dtype, line)
            or self.assumed.get("dtype"),
            redop=said.redop or self.assumed.get("redop"),
            graph=self._graph if said.graph is None else said.graph,
            rank_placement=said.rank_placement or self.assumed.get("rank_placement"),
            variant=self._variant(said),
        )

    def _placed(self, said: Said) -> Placement:
        placement = said.placement or self._placement
        if placement is None:
            placement = Placement.OUT_OF_PLACE
            self.notice(
                Caution.ASSUMED,
                "the file does not say whether it measured in place; out of place is assumed",
                "say it with --assume placement=out or placement=in.",
                said.line,
            )
        return placement

    def _scale(self, said: Said) -> Scale:
        stated, line = self.stated, said.line
        own = self.of_one_group(said)
        ranks = self.agreed("--ranks", stated.n_ranks, own.n_ranks, said.at("n_ranks"))
        if ranks is None:
            raise self._missing("how many ranks took part", "--ranks 8", line)
        nodes = said.n_nodes
        if said.nodes_unsure and stated.n_nodes not in (None, nodes):
            self.notice(
                Caution.FILE_OVERRULED,
                f"the file says {nodes} node{'' if nodes == 1 else 's'}, --nodes says "
                f"{stated.n_nodes}: the option is believed, since rccl-tests writes this column "
                "wrongly when several nodes run",
                "nothing, if --nodes is right.",
                line,
            )
            nodes = None
        nodes = self.agreed("--nodes", stated.n_nodes, nodes, said.at("n_ranks"))
        if nodes is None and ranks > 1:
            raise self._missing("how many nodes took part", "--nodes 1", line)
        if not 1 <= (nodes or 1) <= ranks:
            raise OutputError(
                f"{ranks} ranks on {nodes} nodes is no scale",
                where=self.where(line),
                hint="check --ranks and --nodes against the file.",
            )
        return Scale(n_nodes=nodes or 1, n_ranks=ranks)

    def _setting(self, said: Said) -> Setting:
        given, found = self.stated.setting, said.setting
        if given is None and found is None:
            self.notice(
                Caution.UNSTATED_SETTING,
                "nothing says which setting ran",
                "import it again with --baseline if nothing was forced, or with --algorithm and "
                "--protocol if NCCL_ALGO and NCCL_PROTO were set.",
                said.line,
            )
            return UNSTATED
        if given is None or found is None:
            return given or found or UNSTATED
        if given.role is not Role.FORCED or found.role is not Role.FORCED:
            option = "--baseline" if given.role is Role.BASELINE else "--algorithm/--protocol"
            return self.agreed(option, given, found, said.line) or UNSTATED
        line = said.line
        return Setting(
            algorithm=self.agreed("--algorithm", given.algorithm, found.algorithm, line),
            protocol=self.agreed("--protocol", given.protocol, found.protocol, line),
            channels=self.agreed("--channels", given.channels, found.channels, line),
        )

    def _variant(self, said: Said) -> Variant:
        given = self.stated.variant
        name = self.agreed("--variant", given.name if given else None, said.variant, said.line)
        if given is not None:
            return given
        if name is None:
            return KNOWN_VARIANTS["default"]
        return self._variants.setdefault(name, KNOWN_VARIANTS.get(name) or Variant(name=name))

    def _assumption(self, key: str, read: Callable[[str], T]) -> T | None:
        text = self.assumed.get(key)
        try:
            return None if text is None else read(text)
        except ValueError as error:
            raise CommandLineError(
                f"--assume {key}={text}: {error}", hint=f"correct the value of {key}."
            ) from error

    def _missing(self, what: str, option: str, line: int) -> OutputError:
        return OutputError(
            f"the file does not say {what}", where=self.where(line), hint=f"add {option}."
        )


def shown(value: object) -> str:
    """A value as the command line spells it."""
    return value.value if isinstance(value, Collective) else str(value)
