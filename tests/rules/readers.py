"""Readers of other people's dialects, written from what those readers do and from no code of ours.

RCCL's built-in tuner in both of its forms: facts from rocm-systems, projects/rccl
src/plugin/tuner/csv_tuner.cc at 96a02418 (old) and 22af4d53 (new).
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
