"""One text table: rows to timings, by the columns of its header.

Rows are allowed to be shorter than their header: benchmarks print blanks for an operation that
has none, leave out the in-place half, or announce columns that they do not fill.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

from rccltune.logs.columns import agree, doubt_of, executed, old_error, step, wrong
from rccltune.logs.drafts import Passes, RepeatedSizeError, Run, Said
from rccltune.model.errors import OutputError
from rccltune.model.settings import Setting
from rccltune.model.times import derived_us, is_usable, printed
from rccltune.model.vocabulary import (
    DTYPE_BYTES,
    MAX_NBYTES,
    REDOPS,
    Doubt,
    Placement,
)

LEAD: Final = frozenset(("size", "count", "type", "redop", "root"))
BLOCK: Final = frozenset(("time", "cputime", "algbw", "busbw", "#wrong", "wrong", "error"))
_CHANNELS: Final = ("nchannels", "#channels", "channels")
# What -A of rccl-tests and -U of nccl-tests add, and -T.
TAIL: Final = frozenset(("algo", "proto", *_CHANNELS, "impl", "implementation", "timestamp"))
_PLACED: Final = ("out-of-place", "in-place")
_WHOLE_ROW: Final = 7
_BOTH: Final = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)


class Block(NamedTuple):
    """Positions of one placement's columns; -1 where a column is not there."""

    placement: Placement
    time: int
    algbw: int
    busbw: int
    wrong: int
    is_error: bool
    is_cputime: bool


class Shape(NamedTuple):
    """One way in which a row can fill the header.

    Attributes:
        root_at: position of the root where only its being a number tells this shape from another.
        named_root_at: position of the root in any shape.
    """

    n_fields: int
    size_at: int
    count_at: int
    dtype_at: int
    redop_at: int
    root_at: int
    named_root_at: int
    algo_at: int
    proto_at: int
    channels_at: int
    blocks: tuple[Block, ...]

    @property
    def names_at(self) -> frozenset[int]:
        """Positions at which a name stands and no number."""
        return frozenset((self.dtype_at, self.redop_at, self.algo_at, self.proto_at))


@dataclass(frozen=True, slots=True)
class Layout:
    """What the header promises.

    Attributes:
        whole: shapes with every block, by number of fields.
        halves: shapes with the first block only, by number of fields.
        second: placement of the last block.
        has_executed: the benchmark was asked to print what ran.
    """

    whole: dict[int, tuple[Shape, ...]]
    halves: dict[int, tuple[Shape, ...]]
    second: Placement
    has_executed: bool


def header(text: str) -> tuple[list[str], list[str]]:
    """Column names of a header line, and placements that it names; no names where it is none.

    Somebody's sentence may name the columns: it counts where it names those of a whole row.
    """
    words = [word.strip(".,;:()") for word in text.replace("|", " ").split()]
    named = [word for word in words if word in _PLACED]
    names = [word for word in words if word and word not in _PLACED]
    found = set(names)
    if "size" not in found or found.isdisjoint(("time", "cputime")):
        return [], []
    if found.isdisjoint(("algbw", "busbw")):
        return [], []
    if names[0] not in LEAD:
        known = [word for word in names if word in LEAD | BLOCK | TAIL]
        if len(known) < _WHOLE_ROW or len(names) - len(known) > 2 or known[0] != "size":
            return [], []
        names = known
    return names, named


def from_names(names: Sequence[str], placements: Sequence[Placement]) -> Layout | None:
    """Layout of a header line; None where placements and blocks cannot be matched.

    Args:
        names: the header's words.
        placements: what the line above the header says about its blocks, in order.
    """
    groups = _groups(names)
    n_blocks = 1 + max(groups)
    if len(placements) != n_blocks:
        if n_blocks != len(_BOTH) or placements:
            return None
        placements = _BOTH
    whole: dict[int, tuple[Shape, ...]] = {}
    halves: dict[int, tuple[Shape, ...]] = {}
    for shape, complete in _shapes(names, groups, placements):
        into = whole if complete else halves
        into[shape.n_fields] = (*into.get(shape.n_fields, ()), shape)
    return Layout(whole, halves, placements[-1], "algo" in names)


def guess(words: Sequence[str]) -> Layout | None:
    """Layout of a row without any header, from the standard order; None where it is no row."""
    if len(words) < 7 or words[2] not in DTYPE_BYTES:
        return None
    lead = ["size", "count", "type"]
    rest = words[3:]
    if rest[0].lower() in REDOPS:
        lead.append("redop")
        rest = rest[1:]
    if len(rest) % 4 == 1:
        lead.append("root")
        rest = rest[1:]
    if len(rest) not in (4, 8):
        return None
    last = "error" if "e-" in words[-1] else "#wrong"
    block = ["time", "algbw", "busbw", last]
    return from_names(lead + block * (len(rest) // 4), _BOTH[: len(rest) // 4])


def _groups(names: Sequence[str]) -> list[int]:
    """Number of the block that each column belongs to, -1 for the row's own columns."""
    groups: list[int] = []
    seen: set[str] = set()
    block = -1
    for name in names:
        own = name in LEAD or name in TAIL or (block < 0 and name not in BLOCK)
        if own:
            groups.append(-1)
            continue
        if block < 0 or name in seen:
            seen.clear()
            block += 1
        seen.add(name)
        groups.append(block)
    return groups


def _shapes(
    names: Sequence[str], groups: Sequence[int], placements: Sequence[Placement]
) -> Iterator[tuple[Shape, bool]]:
    """All ways to fill the header, the fullest first, each once."""
    tail = bool(TAIL & set(names))
    redop = "redop" in names
    second = max(groups) > 0
    for no_second, no_redop, no_tail in product(
        (False, True)[: 1 + second], (False, True)[: 1 + redop], (False, True)[: 1 + tail]
    ):
        kept = [
            (name, group)
            for name, group in zip(names, groups, strict=True)
            if not (
                (no_tail and name in TAIL)
                or (no_redop and name == "redop")
                or (no_second and group > 0)
            )
        ]
        yield _shape(kept, placements[:1] if no_second else placements), not no_second


def _shape(kept: Sequence[tuple[str, int]], placements: Sequence[Placement]) -> Shape:
    position: dict[tuple[str, int], int] = {}
    at = 0
    for name, group in kept:
        position[name, group] = at
        # A timestamp is a date and a time of day.
        at += 2 if name == "timestamp" else 1

    def own(name: str) -> int:
        return position.get((name, -1), -1)

    return Shape(
        n_fields=at,
        size_at=own("size"),
        count_at=own("count"),
        dtype_at=own("type"),
        redop_at=own("redop"),
        root_at=own("root") if own("redop") < 0 else -1,
        named_root_at=own("root"),
        algo_at=own("algo"),
        proto_at=own("proto"),
        channels_at=max(own(name) for name in _CHANNELS),
        blocks=tuple(_block(position, i, placement) for i, placement in enumerate(placements)),
    )


def _block(position: dict[tuple[str, int], int], group: int, placement: Placement) -> Block:
    def find(*names: str) -> int:
        return max(position.get((name, group), -1) for name in names)

    return Block(
        placement=placement,
        time=find("time", "cputime"),
        algbw=find("algbw"),
        busbw=find("busbw"),
        wrong=find("#wrong", "wrong", "error"),
        is_error=find("error") >= 0,
        is_cputime=find("cputime") >= 0 and find("time") < 0,
    )


_NAME: Final = re.compile(r"[A-Za-z]\w*")
_MERGED: Final = re.compile(r"(\d+|N/A)([A-Za-z][\w-]*)")
# Their algbw is not size over time: the benchmark leaves the own share out of it.
# Four significant digits and more; a time worked out from fewer is too coarse to compare with.
_DERIVABLE: Final = 10.0
# Half of the second decimal, in which algbw is printed, and a share that no mistake of substance
# stays below; beyond both the printed digits are looked at.
_CLOSE: Final = 0.0051
_SAME: Final = 2e-4
# Time, wrong elements, doubt, algbw and busbw of one half-row: a plain tuple, made for every one.
Measured = tuple[float | None, int | None, Doubt | None, float | None, float | None]


class Lane:
    """Rows of one type and operation within a table: their passes and their shared facts."""

    __slots__ = ("_own", "passes", "said")

    def __init__(self, run: Run, line: int, dtype: str, redop: str | None) -> None:
        """Check the names, which are all that tells a row from other text.

        Raises:
            ValueError: a number stands where a name belongs.
        """
        if (dtype and _NAME.fullmatch(dtype) is None) or (redop and _NAME.fullmatch(redop) is None):
            raise ValueError(dtype)
        self.passes = Passes()
        own = Said(line=line, dtype=dtype or None, redop=redop)
        self.said: dict[Placement, Said] = {}
        self._own = own.or_else(run.said)

    def of(self, placement: Placement) -> Said:
        """Facts shared by the timings of one placement."""
        placed = Said(line=self._own.line, placement=placement)
        found = self.said[placement] = placed.or_else(self._own)
        return found


class Table:
    """Rows below one header."""

    def __init__(self, run: Run, layout: Layout, name: str) -> None:
        """Nothing was read yet.

        Args:
            run: takes the timings.
            layout: the header's columns.
            name: file name for messages.
        """
        self.run = run
        self.layout = layout
        self.n_rows = 0
        self.last_line = 0
        self.numbers: dict[str, int] = {}
        self._name = name
        self._lanes: dict[tuple[str, str | None], Lane] = {}

    def row(self, line: int, fields: list[str]) -> bool:
        """Take a whole row; False where the words are none.

        Raises:
            OutputError: a size is repeated where no new pass begins.
        """
        shapes = self.layout.whole.get(len(fields))
        if shapes is None:
            return False
        return any(self._take(shape, line, fields) for shape in shapes)

    def short_row(self, line: int, fields: list[str], *, gap: bool) -> bool:
        """Take a row that has one placement only, or whose last columns touch.

        Args:
            line: its number.
            fields: its words.
            gap: blanks stand where the first placement would be.
        """
        for shape in self.layout.halves.get(len(fields), ()):
            if self._take(_moved(shape, self.layout.second) if gap else shape, line, fields):
                return True
        if not self.layout.has_executed:
            return False
        for at, word in enumerate(fields):
            match = _MERGED.fullmatch(word)
            if match is not None:
                return self.row(line, [*fields[:at], match[1], match[2], *fields[at + 1 :]])
        return False

    @property
    def increment(self) -> int:
        """Factor from size to size, or bytes where below 0."""
        return self.numbers.get("step:", 2)

    def expects(self, nbytes: int) -> int:
        """How well a size continues this table: 2 exactly, 1 possibly, 0 not at all."""
        smallest = self.numbers.get("minBytes")
        if self.n_rows == 0:
            return 1 if smallest is None else 2 * (nbytes <= smallest)
        last = self.run.last_size
        increment = self.increment
        following = last - increment if increment < 0 else last * increment
        # A quarter of slack: all_gather and its kin round sizes down.
        return 2 if last < nbytes <= max(following * 1.25, 1024 if last == 0 else 0) else 0

    def _take(self, shape: Shape, line: int, fields: list[str]) -> bool:
        try:
            nbytes = int(fields[shape.size_at])
            count = int(fields[shape.count_at]) if shape.count_at >= 0 else None
            if not 0 <= nbytes <= MAX_NBYTES or (count is not None and count < 0):
                return False
            if shape.root_at >= 0:
                int(fields[shape.root_at])
            kind = (
                fields[shape.dtype_at] if shape.dtype_at >= 0 else "",
                fields[shape.redop_at] if shape.redop_at >= 0 else None,
            )
            lane = self._lanes.get(kind) or self._lane(line, kind)
            halves = [self._measure(block, nbytes, fields) for block in shape.blocks]
        except ValueError:
            return False
        try:
            cycle = lane.passes.cycle(nbytes, line)
        except RepeatedSizeError as error:
            if (count or 0) * DTYPE_BYTES.get(kind[0], 0) > nbytes:
                # The end of a row whose size somebody's text cut in two.
                return False
            raise self._repeated(error, line) from error
        ran, bypassed = _executed(shape, fields) if shape.algo_at >= 0 else (None, None)
        run = self.run
        if self.n_rows == 0 and shape.named_root_at >= 0:
            root = fields[shape.named_root_at]
            # A launcher's label may touch it.
            run.rooted = None if not root.lstrip("-").isdigit() else root != "-1"
        for block, half in zip(shape.blocks, halves):  # noqa: B905 - made for each other; hot
            time_us, n_wrong, doubt, algbw, busbw = half
            said = lane.said.get(block.placement) or lane.of(block.placement)
            run.drafts.append(
                (line, nbytes, count, time_us, n_wrong, doubt or bypassed, cycle, ran, said)
            )
            run.add(line, algbw, busbw)
        self.n_rows += 1
        self.last_line = line
        run.last_size = nbytes
        return True

    def _lane(self, line: int, kind: tuple[str, str | None]) -> Lane:
        """Lane of a type and an operation met for the first time; ValueError where it is none."""
        found = self._lanes[kind] = Lane(self.run, line, *kind)
        return found

    def _measure(self, block: Block, nbytes: int, fields: list[str]) -> Measured:
        """Numbers of one half; ValueError where a word is no number."""
        text = fields[block.time]
        value = printed(text)
        n_wrong: int | None = None
        if block.wrong >= 0 and (word := fields[block.wrong]) != "N/A":
            n_wrong = (old_error(word) if block.is_error else wrong(word)) if word != "0" else 0
        algbw = printed(fields[block.algbw]) if block.algbw >= 0 else None
        busbw = printed(fields[block.busbw]) if block.busbw >= 0 else None
        if block.is_cputime:
            return self._derived(nbytes, n_wrong, algbw, busbw)
        time_us = value if is_usable(value) else None
        if n_wrong or nbytes == 0 or time_us is None:
            return time_us, n_wrong, doubt_of(nbytes, time_us, n_wrong), algbw, busbw
        doubt = None
        if algbw is not None:
            slack = _CLOSE + _SAME * algbw
            if not -slack < nbytes / value / 1000.0 - algbw < slack:
                doubt = self._compared(nbytes, text, fields[block.algbw])
        return value, n_wrong, doubt, algbw, busbw

    def _compared(self, nbytes: int, time: str, algbw: str) -> Doubt | None:
        """Flag where size, time and algbw contradict each other by more than their rounding."""
        collective = self.run.said.collective
        if collective is not None and collective.has_own_algbw:
            return None
        belong = agree(nbytes, float(time), float(algbw), step(time), step(algbw))
        return None if belong else Doubt.INCONSISTENT

    def _derived(
        self, nbytes: int, n_wrong: int | None, algbw: float | None, busbw: float | None
    ) -> Measured:
        """Timing of ``-C 1``: the time printed is the CPU's, but algbw is still the GPU's."""
        self.run.cputime = True
        is_exact = algbw is not None and algbw >= _DERIVABLE
        time_us = derived_us(nbytes, algbw) if is_exact else None
        return time_us, n_wrong, doubt_of(nbytes, time_us, n_wrong), algbw, busbw

    def _repeated(self, error: RepeatedSizeError, line: int) -> OutputError:
        return OutputError(
            f"size {error.nbytes} stands in two rows of one table, in lines {error.first_line} and "
            f"{line}, and no new pass over the sizes begins there",
            where=f"{self._name}:{line}",
            hint="if two jobs wrote into one log, split it into a file for each.",
        )


def _moved(shape: Shape, second: Placement) -> Shape:
    """A one-placement shape whose numbers are those of the second block."""
    blocks = tuple(each._replace(placement=second) for each in shape.blocks)
    return shape._replace(blocks=blocks)


def _executed(shape: Shape, fields: list[str]) -> tuple[Setting | None, Doubt | None]:
    """What the benchmark says that ran, and the flag where it is no setting a tuner knows."""
    protocol = fields[shape.proto_at] if shape.proto_at >= 0 else "-"
    channels = fields[shape.channels_at] if shape.channels_at >= 0 else "-"
    return executed(fields[shape.algo_at], protocol, channels)
