"""The columns of a text table, taken from its header line by name.

Rows are allowed to be shorter than their header: benchmarks print blanks for an operation that
has none, leave out the in-place half, or announce columns that they do not fill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

from rccltune.vocab import DTYPE_BYTES, REDOPS, Placement

LEAD: Final = frozenset(("size", "count", "type", "redop", "root"))
BLOCK: Final = frozenset(("time", "cputime", "algbw", "busbw", "#wrong", "wrong", "error"))
TAIL: Final = frozenset(("algo", "proto", "nchannels", "timestamp"))
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
    """

    n_fields: int
    size_at: int
    count_at: int
    dtype_at: int
    redop_at: int
    root_at: int
    algo_at: int
    proto_at: int
    channels_at: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """What the header promises.

    Attributes:
        whole: shapes with every block, by number of fields.
        halves: shapes with the first block only, by number of fields.
        has_executed: the benchmark was asked to print what ran.
    """

    whole: dict[int, tuple[Shape, ...]]
    halves: dict[int, tuple[Shape, ...]]
    n_blocks: int
    has_executed: bool


def is_header(names: Sequence[str]) -> bool:
    """Whether these words are column names of a benchmark's table."""
    found = set(names)
    return (
        "size" in found
        and not found.isdisjoint(("time", "cputime"))
        and not found.isdisjoint(("algbw", "busbw"))
    )


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
    return Layout(whole, halves, n_blocks, "algo" in names)


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
        algo_at=own("algo"),
        proto_at=own("proto"),
        channels_at=own("nchannels"),
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
