"""The line grammar of benchmarks' tables: which rows a header announces, and their numbers.

Rows are allowed to be shorter than their header: benchmarks print blanks for an operation that
has none, leave out the in-place half, or announce columns that they do not fill.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rccltune.logs.columns import UNCHECKED, digit_weights, disagree, is_percentile, old_errors
from rccltune.model.vocabulary import DTYPE_BYTES, REDOPS, Placement

if TYPE_CHECKING:
    import pandas as pd

# What a header calls them, and what the table of timings does. A row has its own columns, then a
# block of columns for each placement, then what -A of rccl-tests, -U of nccl-tests and -T add.
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
_PLACED: Final = ("out-of-place", "in-place")
_WHOLE_ROW: Final = 7
_BOTH: Final = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
# What a double holds: pandas before 3 refuses a greater number.
_NUMBER: Final = r"[-+]?(?:\d{1,99}\.?\d*|\.\d+)(?:[eE][-+]?\d\d?)?|[-+]?(?:nan|inf)"
_WORD: Final = r"[A-Za-z]\w*"
# Eighteen digits are more than any size has, and fewer than an integer holds.
_CELLS: Final = {
    "nbytes": r"\d{1,18}",
    "count": r"\d{1,18}",
    "dtype": _WORD,
    "redop": _WORD,
    "time": _NUMBER,
    "cputime": _NUMBER,
    "algbw": _NUMBER,
    "busbw": _NUMBER,
    "wrong": rf"{_NUMBER}|N/A|NA|n/a|-",
    "error": rf"(?:{_NUMBER})\*?|N/A|NA|n/a|-",
}
_USUAL: Final = {
    **dict.fromkeys(("time", "algbw", "busbw"), r"\d{1,99}\.?\d*"),
    "wrong": r"\d{1,99}|N/A",
}
NAMES: Final = frozenset(("dtype", "redop", "ran_algorithm", "ran_protocol"))
# Whether a row of the second block alone stands here, only the blanks before it tell.
_GAP: Final = re.compile(rb"\S {28,}-?\d")
_MERGED: Final = re.compile(rb"(?<=\s)(\d+|N/A)(?=[A-Za-z])")


@dataclass(frozen=True, slots=True, eq=False)
class RowShape:
    """One way in which a row fills its header.

    Attributes:
        names: of its columns.
        blocks: number of the block that each column belongs to, -1 for the row's own.
        placements: of the blocks that it has.
        pattern: a whole line of it.
        usual: the same for plain numbers alone, which are nearly all, at a third of the time.
    """

    names: tuple[str, ...]
    blocks: tuple[int, ...]
    placements: tuple[Placement, ...]
    pattern: re.Pattern[bytes]
    usual: re.Pattern[bytes]


class TableLayout(NamedTuple):
    """Layout that a header announces: rows with every block, with the first or the last alone."""

    whole: tuple[RowShape, ...]
    first: tuple[RowShape, ...]
    last: tuple[RowShape, ...]

    @property
    def most(self) -> int:
        """Number of words in the fullest row."""
        return max(len(shape.names) for shape in self.whole)

    def has(self, n_words: int) -> bool:
        """Whether rows of so many words exist."""
        return any(len(shape.names) == n_words for shape in (*self.whole, *self.first))


def header(text: str) -> tuple[list[str], list[str]]:
    """Column names of a header line, and placements that it names; no names where it is none.

    Somebody's sentence may name the columns: it counts where it names those of a whole row.
    """
    words = [word.strip(".,;:()") for word in text.replace("|", " ").split()]
    named = [word for word in words if word in _PLACED]
    names = [word for word in words if word and word not in _PLACED]
    known_names = set(names)
    if (
        "size" not in known_names
        or not known_names & {"time", "cputime"}
        or not known_names & {"algbw", "busbw"}
    ):
        return [], []
    if names[0] not in _LEAD:
        known = [word for word in names if word in _LEAD | _BLOCK | _TAIL]
        if len(known) < _WHOLE_ROW or len(names) - len(known) > 2 or known[0] != "size":
            return [], []
        names = known
    return names, named


@lru_cache(maxsize=256)
def layout(names: tuple[str, ...], placements: tuple[Placement, ...]) -> TableLayout | None:
    """Rows of a header; None where placements and blocks cannot be matched.

    Args:
        names: the header's words.
        placements: what the line above the header says about its blocks, in order.
    """
    columns = _columns(names)
    n_blocks = 1 + max(block for block, _ in columns)
    if len(placements) != n_blocks:
        if n_blocks != len(_BOTH) or placements:
            return None
        placements = _BOTH
    whole: list[RowShape] = []
    first: list[RowShape] = []
    for kept, complete in _subsets(columns):
        shape = _shape(kept, placements if complete else placements[:1])
        (whole if complete else first).append(shape)
    last = [replace(shape, placements=placements[-1:]) for shape in first]
    return TableLayout(tuple(whole), tuple(first), tuple(last))


def guess(words: Sequence[str]) -> TableLayout | None:
    """Rows like one without any header, from the standard order; None where it is no row."""
    if len(words) < _WHOLE_ROW or words[2] not in DTYPE_BYTES:
        return None
    lead, rest = ["size", "count", "type"], words[3:]
    if rest[0].lower() in REDOPS:
        lead.append("redop")
        rest = rest[1:]
    if len(rest) % 4 == 1:
        lead.append("root")
        rest = rest[1:]
    if len(rest) not in (4, 8):
        return None
    block = ["time", "algbw", "busbw", "error" if "e-" in words[-1] else "#wrong"]
    return layout((*lead, *block * (len(rest) // 4)), _BOTH[: len(rest) // 4])


def _columns(names: Sequence[str]) -> list[tuple[int, str]]:
    """Block of each column, -1 for the row's own, and its name."""
    columns: list[tuple[int, str]] = []
    seen: set[str] = set()
    block = -1
    for name in names:
        if name in _LEAD or name in _TAIL or (block < 0 and name not in _BLOCK):
            columns.append((-1, _LEAD.get(name) or _TAIL.get(name) or name))
            # A timestamp is a date and a time of day.
            columns += [(-1, "clock")] if name == "timestamp" else []
            continue
        if block < 0 or name in seen:
            seen.clear()
            block += 1
        seen.add(name)
        columns.append((block, _BLOCK.get(name, name)))
    return columns


def _subsets(columns: Sequence[tuple[int, str]]) -> Iterator[tuple[list[tuple[int, str]], bool]]:
    """All ways to fill a header, the fullest first, and whether each has every block."""
    tail = {*_TAIL.values(), "clock"}
    has_tail = any(name in tail for _, name in columns)
    has_redop = (-1, "redop") in columns
    is_double = any(block > 0 for block, _ in columns)
    for no_second, no_redop, no_tail in product(
        (False, True)[: 1 + is_double],
        (False, True)[: 1 + has_redop],
        (False, True)[: 1 + has_tail],
    ):
        kept = [
            (block, name)
            for block, name in columns
            if not (
                (no_tail and block < 0 and name in tail)
                or (no_redop and name == "redop")
                or (no_second and block > 0)
            )
        ]
        yield kept, not no_second


def _shape(kept: Sequence[tuple[int, str]], placements: tuple[Placement, ...]) -> RowShape:
    names = tuple(name for _, name in kept)
    # Without an operation, only a root that is a number tells such a row from another; else a
    # launcher's label may touch it.
    cells = _CELLS if "redop" in names else {**_CELLS, "root": r"-?\d+"}
    return RowShape(
        names,
        tuple(block for block, _ in kept),
        placements,
        _line([cells.get(name, r"\S+") for _, name in kept]),
        _line([_USUAL.get(name) or cells.get(name, r"\S+") for _, name in kept]),
    )


def _line(cells: Sequence[str]) -> re.Pattern[bytes]:
    words = r"[ \t]+".join(f"(?:{cell})" for cell in cells)
    return re.compile(rf"[ \t]*{words}\s*".encode())


class TableRows:
    """Rows below one header, as they are written."""

    def __init__(self, announced: TableLayout) -> None:
        """Begin with no row read."""
        self.layout = announced
        self.found: dict[RowShape, list[tuple[int, bytes]]] = {}
        # The shape of the last whole row is nearly always that of the next one too.
        self._is_like = announced.whole[0].usual.fullmatch
        self._keep = self.found.setdefault(announced.whole[0], []).append

    def __len__(self) -> int:
        """Number of rows."""
        return sum(map(len, self.found.values()))

    @property
    def last(self) -> tuple[int, int]:
        """Line and size of the last one; zeros where there is none."""
        ends = [(rows[-1], shape) for shape, rows in self.found.items() if rows]
        if not ends:
            return 0, 0
        (line, text), shape = max(ends, key=lambda one: one[0][0])
        return line, int(text.split()[shape.names.index("nbytes")])

    def take_usual(self, line: int, text: bytes) -> bool:
        """Take a whole row like the last one; False where it is another, or none."""
        if self._is_like(text) is None:
            return False
        self._keep((line, text))
        return True

    def take(self, line: int, text: bytes, *, short: bool = False) -> bool:
        """Take a row; False where it is none.

        Args:
            line: its number.
            text: without labels.
            short: it may have one placement only, or last columns that touch.
        """
        if not short:
            return self.take_usual(line, text) or self._add(self.layout.whole, line, text)
        behind = _GAP.search(text) is not None
        if self._add(self.layout.last if behind else self.layout.first, line, text):
            return True
        apart = _MERGED.sub(rb"\1 ", text)
        return apart != text and self._add(self.layout.whole, line, apart)

    def _add(self, shapes: Sequence[RowShape], line: int, text: bytes) -> bool:
        for shape in shapes:
            if shape.pattern.fullmatch(text) is not None:
                kept = self.found.setdefault(shape, [])
                kept.append((line, text))
                if shape in self.layout.whole:
                    self._is_like, self._keep = shape.usual.fullmatch, kept.append
                return True
        return False

    def table(self) -> pd.DataFrame:
        """A line for each timing: see :mod:`rccltune.logs.timings` for its columns."""
        import pandas as pd

        found = [(shape, rows) for shape, rows in self.found.items() if rows]
        parts = [part for shape, rows in found for part in _parts(shape, rows)]
        joined = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
        table: pd.DataFrame = joined.sort_values(["line", "half"], kind="stable", ignore_index=True)
        return table


def _exact() -> dict[str, Any]:
    """Read numbers exactly: before version 3 pandas reads some a digit off unless told not to."""
    import pandas as pd

    return {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}


_FLOATS: Final = frozenset(("time", "cputime", "algbw", "busbw", "wrong"))
_NANS: Final = ("nan", "-nan", "+nan", *UNCHECKED)


def _parts(shape: RowShape, rows: Sequence[tuple[int, bytes]]) -> Iterator[pd.DataFrame]:
    """Timings of each placement."""
    import pandas as pd

    kinds: dict[int, Any] = {
        at: "float64" if name in _FLOATS else "int64" if name in ("nbytes", "count") else "str"
        for at, name in enumerate(shape.names)
    }
    missing: Any = {at: _NANS for at, kind in kinds.items() if kind == "float64"}
    raw = pd.read_csv(
        BytesIO(b"\n".join(text.rstrip() for _, text in rows)),
        sep=r"\s+",
        header=None,
        names=list(kinds),
        dtype=kinds,
        na_values=missing,
        keep_default_na=False,
        quoting=csv.QUOTE_NONE,
        **_exact(),
        encoding_errors="replace",
        index_col=False,
    )
    lines = [line for line, _ in rows]
    last_columns = _columns_of(shape, -1)
    blocks = sorted({block for block in shape.blocks if block >= 0})
    for half, (block, placement) in enumerate(zip(blocks, shape.placements, strict=True)):
        mine = {
            name: at
            for name, at in _columns_of(shape, block).items()
            if name in _BLOCK.values() or is_percentile(name)
        }
        part: pd.DataFrame = raw[[*last_columns.values(), *mine.values()]].set_axis(
            [*last_columns, *mine], axis=1
        )
        part["line"], part["half"], part["placement"] = lines, half, placement.value
        if "error" in part:
            part["wrong"] = old_errors(part.pop("error"))
        part["odd"] = _odd(part, rows, mine)
        yield part


def _columns_of(shape: RowShape, block: int) -> dict[str, int]:
    """Positions of a block's columns; the first of a name counts."""
    positions: dict[str, int] = {}
    for at, (name, mine) in enumerate(zip(shape.names, shape.blocks, strict=True)):
        if mine == block:
            positions.setdefault(name, at)
    return positions


# Half of the second decimal, in which algbw is printed, and a share that no mistake of substance
# stays below; beyond both the printed digits are looked at.
_CLOSE: Final = 0.0051
_SAME: Final = 2e-4


def _odd(
    part: pd.DataFrame, rows: Sequence[tuple[int, bytes]], at: Mapping[str, int]
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
