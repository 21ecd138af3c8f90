"""The grammar of a benchmark's table: a header, and rows that fill it in one way.

A header names the row's own columns, then a block of columns for each placement, then what ``-A``
of rccl-tests, ``-U`` of nccl-tests and ``-T`` add. All rows of a table are alike: benchmarks print
blanks for an operation that has none, and some leave out the last block. A row that is another way
is not whole, and left out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rccltune.logs.columns import (
    UNCHECKED,
    digit_weights,
    disagree,
    is_percentile,
    parse_old_errors,
)
from rccltune.model.vocabulary import DTYPE_BYTES, REDOPS, Placement

if TYPE_CHECKING:
    import pandas as pd

# What a header calls them, and what the table of timings does.
_LEAD: Final = {
    "size": "nbytes", "count": "count", "type": "dtype", "redop": "redop", "root": "root",
}  # fmt: skip
_BLOCK: Final = {
    "time": "time", "cputime": "cputime", "algbw": "algbw", "busbw": "busbw", "#wrong": "wrong",
    "wrong": "wrong", "error": "error",
}  # fmt: skip
_TAIL: Final = {
    "algo": "ran_algorithm", "proto": "ran_protocol", "nchannels": "ran_channels",
    "#channels": "ran_channels", "channels": "ran_channels", "impl": "path",
    "implementation": "path", "timestamp": "date",
}  # fmt: skip
_PLACED: Final = {"out-of-place": Placement.OUT_OF_PLACE, "in-place": Placement.IN_PLACE}
_BOTH: Final = tuple(_PLACED.values())
# As many columns as a row has at least; a sentence about columns names them all.
_FEWEST: Final = 7
# What a double holds: pandas before 3 refuses a greater number.
_NUMBER: Final = r"[-+]?(?:\d{1,99}\.?\d*|\.\d+)(?:[eE](?:\+?\d\d?|-\d{1,3}))?|[-+]?(?:nan|inf)"
_ABSENT: Final = "N/A|NA|n/a|-"
# Eighteen digits are more than any size has, and fewer than an integer holds.
_CELLS: Final = {
    "nbytes": r"\d{1,18}",
    "count": r"\d{1,18}",
    "dtype": r"[A-Za-z]\w*",
    "redop": r"[A-Za-z]\w*",
    "root": r"-?\d+",
    **dict.fromkeys(("time", "cputime", "algbw", "busbw"), _NUMBER),
    "wrong": rf"{_NUMBER}|{_ABSENT}",
    "error": rf"(?:{_NUMBER})\*?|{_ABSENT}",
}
# Plain numbers, which nearly all are, at a third of the time.
_USUAL: Final = {
    **dict.fromkeys(("time", "algbw", "busbw"), r"\d{1,99}\.?\d*"),
    "wrong": r"\d{1,99}|N/A",
}
_FLOATS: Final = frozenset(("time", "cputime", "algbw", "busbw", "wrong"))
_NANS: Final = ("nan", "-nan", "+nan", *UNCHECKED)
# Somebody's line that begins as rows do.
ROW_LIKE: Final = re.compile(
    rf"\s*\d+\s+\d+\s+(?:{'|'.join(sorted(DTYPE_BYTES, key=len, reverse=True))})(?![\w])"
)


class RowShape(NamedTuple):
    """One way to fill a header.

    Attributes:
        names: of its columns.
        blocks: number of the block that each column belongs to, -1 for the row's own.
        placements: of the blocks.
        usual: a line of plain numbers.
        pattern: any line.
    """

    names: tuple[str, ...]
    blocks: tuple[int, ...]
    placements: tuple[Placement, ...]
    usual: re.Pattern[bytes]
    pattern: re.Pattern[bytes]


# The fullest way first.
Layout = tuple[RowShape, ...]


def find_placements(text: str) -> tuple[Placement, ...]:
    """Placements that a line names, in their order."""
    return tuple(_PLACED[word] for word in re.findall("out-of-place|in-place", text))


def parse_header(text: str, above: Sequence[Placement]) -> Layout | None:
    """Layout that a header line announces; None where it is none.

    Args:
        text: the line; a sentence of somebody's that names the columns of a whole row counts.
        above: placements that the line above it names.

    Raises:
        ValueError: it has one block of columns and nothing says in which placement.
    """
    words = [word.strip(".,;:()") for word in text.replace("|", " ").split()]
    names = [word for word in words if word and word not in _PLACED]
    needed = {"size", "count", "type", "algbw"}
    if not needed <= set(names) or not {"time", "cputime"} & set(names):
        return None
    if names[0] != "size" and names[0] not in _LEAD:
        known = [word for word in names if word in _LEAD or word in _BLOCK or word in _TAIL]
        if len(known) < _FEWEST or len(names) - len(known) > 2 or known[0] != "size":
            return None
        names = known
    return _layout(tuple(names), find_placements(text) or tuple(above))


def guess_layout(words: Sequence[str]) -> Layout | None:
    """Layout of a row without any header, from the standard order; None where it is no row."""
    lead, rest = ["size", "count", "type"], words[3:]
    if rest and rest[0].lower() in REDOPS:
        lead.append("redop")
        rest = rest[1:]
    if len(rest) % 4 == 1:
        lead.append("root")
        rest = rest[1:]
    if len(rest) not in (4, 8):
        return None
    block = ["time", "algbw", "busbw", "error" if "e-" in words[-1] else "#wrong"]
    return _layout((*lead, *block * (len(rest) // 4)), _BOTH[: len(rest) // 4])


@lru_cache(maxsize=256)
def _layout(names: tuple[str, ...], placements: tuple[Placement, ...]) -> Layout:
    columns = _columns(names)
    n_blocks = 1 + max(block for block, _ in columns)
    if len(placements) != n_blocks:
        if n_blocks != len(_BOTH):
            raise ValueError("the header has one block of columns and nothing says in which place")
        placements = _BOTH
    has_redop = (-1, "redop") in columns
    shapes = []
    for short, bare in product((False, True)[:n_blocks], (False, True)[: 1 + has_redop]):
        rows = [
            (block, name)
            for block, name in columns
            if not (short and block > 0) and not (bare and name == "redop")
        ]
        shapes.append(_shape(rows, placements[:1] if short else placements))
    return tuple(shapes)


def _columns(names: Sequence[str]) -> list[tuple[int, str]]:
    """Block of each column, -1 for the row's own, and its name."""
    columns: list[tuple[int, str]] = []
    seen: set[str] = set()
    block = -1
    for name in names:
        if name in _LEAD or name in _TAIL or (block < 0 and name not in _BLOCK):
            columns.append((-1, _LEAD.get(name) or _TAIL.get(name) or name))
            # A timestamp is a date and a time of day.
            columns += [(-1, "time_of_day")] if name == "timestamp" else []
            continue
        if block < 0 or name in seen:
            seen.clear()
            block += 1
        seen.add(name)
        columns.append((block, _BLOCK.get(name, name)))
    return columns


def _shape(columns: Sequence[tuple[int, str]], placements: tuple[Placement, ...]) -> RowShape:
    names = tuple(name for _, name in columns)
    patterns = [_line(names, {**_CELLS, **_USUAL}), _line(names, _CELLS)]
    return RowShape(names, tuple(block for block, _ in columns), placements, *patterns)


def _line(names: Sequence[str], cells: dict[str, str]) -> re.Pattern[bytes]:
    """A whole line; the columns that say what ran may be blank."""
    tail = {*_TAIL.values(), "time_of_day"}
    first_of_tail = next((at for at, name in enumerate(names) if name in tail), len(names))
    parts = [f"(?:{cells.get(name, r'[^ ]+')})" for name in names]
    blank = "[ \\t]+"
    behind = f"(?:{blank}{blank.join(parts[first_of_tail:])})?" if names[first_of_tail:] else ""
    return re.compile(rf"[ \t]*{blank.join(parts[:first_of_tail])}{behind}\s*".encode())


class TableRows:
    """Rows below one header, as they are written."""

    def __init__(self, layout: Layout) -> None:
        """Begin with no row read."""
        self._rows: list[list[tuple[int, bytes]]] = [[] for _ in layout]
        self._layout = layout
        self._is_usual, self._keep = layout[0].usual.fullmatch, self._rows[0].append

    def __len__(self) -> int:
        """Number of rows."""
        return sum(map(len, self._rows))

    def take_usual(self, line: int, text: bytes) -> bool:
        """Take a row of plain numbers like the last one; False where it is another, or none."""
        if self._is_usual(text) is None:
            return False
        self._keep((line, text))
        return True

    def take(self, line: int, text: bytes) -> bool:
        """Take a row; False where it is none."""
        for shape, rows in zip(self._layout, self._rows, strict=True):
            if shape.pattern.fullmatch(text) is not None:
                rows.append((line, text))
                self._is_usual, self._keep = shape.usual.fullmatch, rows.append
                return True
        return False

    def find_misfits(self) -> list[tuple[int, str]]:
        """Rows that fill the header in another way than most, with their lines."""
        return [
            (line, text.decode("utf-8", "replace"))
            for rows in self._rows
            if rows is not self._fullest()
            for line, text in rows
        ]

    def _fullest(self) -> list[tuple[int, bytes]]:
        """Rows of the shape that most have."""
        return max(self._rows, key=len)

    def table(self) -> pd.DataFrame:
        """A line for each timing: see :mod:`rccltune.logs.timings` for its columns."""
        import pandas as pd

        rows = self._fullest()
        shape = next(one for one, its in zip(self._layout, self._rows, strict=True) if its is rows)
        cells = _cells(shape, rows)
        lead = _columns_of(shape, -1)
        parts = []
        blocks = sorted({block for block in shape.blocks if block >= 0})
        for half, (block, placement) in enumerate(zip(blocks, shape.placements, strict=True)):
            mine = _columns_of(shape, block)
            part: pd.DataFrame = cells[[*lead.values(), *mine.values()]].set_axis(
                [*lead, *mine], axis=1
            )
            part["line"], part["half"] = [line for line, _ in rows], half
            part["placement"] = placement.value
            if "error" in part:
                part["wrong"] = parse_old_errors(part.pop("error"))
            part["odd"] = _odd(part, rows, mine)
            parts.append(part)
        joined = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
        table: pd.DataFrame = joined.sort_values(["line", "half"], kind="stable", ignore_index=True)
        return table


def _cells(shape: RowShape, rows: Sequence[tuple[int, bytes]]) -> pd.DataFrame:
    """Columns by their numbers."""
    import pandas as pd

    kinds: dict[int, Any] = {
        at: "float64" if name in _FLOATS else "int64" if name in ("nbytes", "count") else "str"
        for at, name in enumerate(shape.names)
    }
    missing: Any = {at: _NANS for at, kind in kinds.items() if kind == "float64"}
    # Before version 3 pandas reads some numbers a digit off unless told not to.
    exact: Any = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}
    cells: pd.DataFrame = pd.read_csv(
        BytesIO(b"\n".join(text.rstrip() for _, text in rows)),
        sep=r"\s+",
        header=None,
        names=list(kinds),
        dtype=kinds,
        na_values=missing,
        keep_default_na=False,
        quoting=csv.QUOTE_NONE,
        encoding_errors="replace",
        index_col=False,
        **exact,
    )
    return cells


def _columns_of(shape: RowShape, block: int) -> dict[str, int]:
    """Positions of a block's columns; the first of a name counts."""
    positions: dict[str, int] = {}
    for at, (name, mine) in enumerate(zip(shape.names, shape.blocks, strict=True)):
        known = block < 0 or name in _BLOCK.values() or is_percentile(name)
        if mine == block and known:
            positions.setdefault(name, at)
    return positions


# Half of the second decimal, in which algbw is printed, and a share that no mistake of substance
# stays below; beyond both the printed digits are looked at.
_CLOSE: Final = 0.0051
_SAME: Final = 2e-4


def _odd(
    part: pd.DataFrame, rows: Sequence[tuple[int, bytes]], at: dict[str, int]
) -> pd.Series[bool]:
    """Whether size, time and algbw contradict each other by more than their rounding."""
    import numpy as np
    import pandas as pd

    odd: pd.Series[bool] = pd.Series(data=False, index=part.index)
    if "time" not in at or "algbw" not in at:
        return odd
    time, algbw = part["time"], part["algbw"]
    with np.errstate(all="ignore"):
        far = (part["nbytes"] / time / 1000 - algbw).abs() >= _CLOSE + _SAME * algbw
    if far.any():
        words = [rows[i][1].decode().split() for i in np.flatnonzero(far).tolist()]
        time_step, algbw_step = (
            digit_weights([word[at[name]] for word in words]) for name in ("time", "algbw")
        )
        # Without loc pandas 2 warns of another dtype.
        odd.loc[far] = disagree(part["nbytes"][far], time[far], algbw[far], time_step, algbw_step)
    return odd
