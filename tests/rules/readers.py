"""Readers of other people's dialects, written from what those readers do and from no code of ours.

RCCL's built-in tuner in both of its forms: facts from rocm-systems, projects/rccl
src/plugin/tuner/csv_tuner.cc at 96a02418 (old) and 22af4d53 (new). NCCLX's: the grammar of
torchcomms, comms/ncclx/meta/tuner/README.md at 46726f15.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

COLLECTIVES = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
Cell = tuple[str, str]


@dataclass(frozen=True)
class Call:
    """What a host asks."""

    collective: str
    nbytes: int
    n_nodes: int
    n_ranks: int
    pipe_ops: int = 1
    reg_buff: int = 0


@dataclass(frozen=True)
class RcclRow:
    """As RCCL keeps a row."""

    collective: str
    low: int
    high: int
    cell: Cell
    channels: int
    filters: tuple[int, int, int, int]


def _pieces(text: str) -> Iterator[str]:
    """What fgets with a buffer of 256 bytes returns: the rest of a long line is another line."""
    for line in text.split("\n"):
        rest = line
        while len(rest) > 255:
            yield rest[:255]
            rest = rest[255:]
        yield rest


def rccl_rows(text: str, *, new: bool) -> list[RcclRow]:
    """The table that RCCL's built-in tuner makes of a file."""
    rows = []
    for line in _pieces(text):
        begin = line.lstrip(" \t") if new else line
        if begin.startswith("#") or not begin:
            continue
        # strtok: neighbouring commas are one; no more than ten.
        fields = [field.strip(" \t") for field in line.split(",") if field][:10]
        if len(fields) < 8 or (new and "" in fields):
            continue
        unknown = (
            fields[0] not in COLLECTIVES
            or fields[3] not in ALGORITHMS
            or fields[4] not in PROTOCOLS
        )
        if unknown and new:
            continue
        numbers = [_atoi(field) for field in fields[6:]] + [-1] * (10 - len(fields))
        rows.append(
            RcclRow(
                # The old form takes what it does not know for these.
                collective=fields[0] if fields[0] in COLLECTIVES else "allreduce",
                low=_atoi(fields[1]),
                high=_atoi(fields[2]),
                cell=(
                    fields[3] if fields[3] in ALGORITHMS else "ring",
                    fields[4] if fields[4] in PROTOCOLS else "simple",
                ),
                channels=_atoi(fields[5]),
                filters=(numbers[0], numbers[1], numbers[2], numbers[3]),
            )
        )
    return rows


def _atoi(text: str) -> int:
    match = re.match(r"\s*[+-]?\d+", text)
    return int(match[0]) if match else 0


def rccl_answer(rows: Sequence[RcclRow], call: Call, offered: set[Cell]) -> tuple[Cell, int] | None:
    """(cell, channels) of RCCL's own tuner, 0 channels where it sets none; None for no answer."""
    for row in rows:
        asked = (call.n_nodes, call.n_ranks, call.pipe_ops, call.reg_buff)
        matches = (
            row.collective == call.collective
            and row.low <= call.nbytes <= row.high
            and all(want in (-1, got) for want, got in zip(row.filters, asked, strict=True))
        )
        if matches and row.cell in offered:
            return row.cell, max(row.channels, 0)
    return None


@dataclass(frozen=True)
class Interval:
    """The integers from low to high, both inclusive, None without end."""

    low: int | None
    high: int | None

    def holds(self, number: int) -> bool:
        """Whether a number is in it."""
        return (self.low is None or number >= self.low) and (
            self.high is None or number <= self.high
        )


@dataclass(frozen=True)
class NcclxRow:
    """As NCCLX keeps a row."""

    collective: str
    bytes_per_rank: Interval
    cell: Cell
    channels: int
    n_nodes: Interval
    n_local_ranks: Interval


_INTERVAL = re.compile(r"([(\[])\s*(-?\d*)\s*,\s*(-?\d*)\s*([)\]])")


def interval(text: str) -> Interval:
    """An interval of the grammar; ValueError for a mistake, which ends a communicator's start."""
    text = text.strip(" \t\r\n")
    if text in ("", "*"):
        return Interval(None, None)
    if re.fullmatch(r"-?\d+", text):
        return Interval(int(text), int(text))
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ValueError(text)
    low = int(match[2]) if match[2] else None
    high = int(match[3]) if match[3] else None
    if low is not None and high is not None and low > high:
        raise ValueError(text)
    if any(n is not None and not -(2**63) <= n < 2**63 for n in (low, high)):
        raise ValueError(text)
    return Interval(
        None if low is None else low + (match[1] == "("),
        None if high is None else high - (match[4] == ")"),
    )


def ncclx_rows(text: str) -> list[NcclxRow]:
    """The table that NCCLX makes of a file; ValueError where it refuses to start."""
    rows = []
    for line in text.split("\n"):
        bare = line.strip(" \t\r")
        if not bare or bare.startswith("#"):
            continue
        # Commas inside brackets belong to an interval.
        fields = [f.strip(" \t\r") for f in re.split(r",(?![^(\[]*[)\]])", bare)]
        if len(fields) < 7:
            raise ValueError(line)
        name, size, algorithm, protocol, channels, nodes, local = fields[:7]
        if (
            name not in COLLECTIVES
            or algorithm not in ALGORITHMS
            or protocol not in PROTOCOLS
            or not re.fullmatch(r"|-?\d+", channels)
        ):
            raise ValueError(line)
        rows.append(
            NcclxRow(
                collective=name,
                bytes_per_rank=interval(size),
                cell=(algorithm, protocol),
                channels=int(channels or -1),
                n_nodes=interval(nodes),
                n_local_ranks=interval(local),
            )
        )
    return rows


def ncclx_answer(
    rows: Sequence[NcclxRow], call: Call, offered: set[Cell]
) -> tuple[Cell, int] | None:
    """(cell, channels) of NCCLX's tuner, 0 channels where it sets none; None for no answer."""
    local = call.n_ranks // call.n_nodes
    per_rank = call.nbytes // (call.n_nodes * local)
    for row in rows:
        matches = (
            row.collective == call.collective
            and row.bytes_per_rank.holds(per_rank)
            and row.n_nodes.holds(call.n_nodes)
            and row.n_local_ranks.holds(local)
        )
        if matches and row.cell in offered:
            return row.cell, max(row.channels, 0)
    return None
