"""samples.csv: the table of samples (:mod:`rccltune.session.sample_table`) as a file.

``true`` and ``false``, whole numbers and decimals are written as they are; a field is empty where
nothing is known. What is read is checked as a whole; where something does not fit, the row is
looked for and named.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from rccltune.model.errors import SessionError, reason_of
from rccltune.model.schema import LARGEST, NAME, odd_letters
from rccltune.model.settings import Setting
from rccltune.model.times import MOST_US, is_usable, printed
from rccltune.model.vocabulary import MAX_NBYTES, Collective, Placement, UnusableReason, printable
from rccltune.session import plan
from rccltune.session.run_samples import SWEEP, VERIFY, role_of, word_of
from rccltune.session.sample_table import COLUMNS, KINDS, TEXTS, arranged

if TYPE_CHECKING:
    import pandas as pd

HEAD: Final = ",".join(COLUMNS)
_BOOLEANS: Final = ("true", "false")
_NAME: Final = re.compile(NAME, re.ASCII)
# May be empty: what it is nobody said.
_OPTIONAL: Final = frozenset(
    (
        *("rank_placement", "dtype", "op", "clock", "ran", "library", "unusable"),
        *("calls", "slowest_us", "wrong", "registered", "trees", "signature", "line"),
    )
)
# Neighbours that few combinations have are written as one piece.
_PIECES: Final = (
    COLUMNS[: COLUMNS.index("nbytes")],
    *((name,) for name in ("nbytes", "calls", "time_us", "slowest_us")),
    COLUMNS[COLUMNS.index("wrong") : COLUMNS.index("pass")],
    *((name,) for name in ("pass", "line")),
)
_CHUNK: Final = 50_000


def write(table: pd.DataFrame, stream: IO[bytes]) -> None:
    """Write a table; its bytes depend on its rows only."""
    stream.write(f"{HEAD}\n".encode())
    for start in range(0, len(table), _CHUNK):
        part = table.iloc[start : start + _CHUNK]
        pieces = (_texts(part[list(names)]) for names in _PIECES)
        rows = "\n".join(map(",".join, zip(*pieces, strict=True)))
        stream.write(f"{rows}\n".encode())


def _texts(part: pd.DataFrame) -> list[str]:
    """The text of each row; what many rows share is made once."""
    columns = list(part.columns)
    if len(columns) == 1:
        column = part[columns[0]]
        missing = column.isna()
        if missing.all():
            return [""] * len(column)
        words = list(map(repr, column.tolist()))
        for at in missing.to_numpy().nonzero()[0].tolist():
            words[at] = ""
        return words
    number = part.groupby(columns, observed=True, sort=False, dropna=False).ngroup().to_numpy()
    first = part[~part.duplicated()]
    texts = [",".join(map(_text, row)) for row in first.astype(object).itertuples(index=False)]
    return [texts[at] for at in number]


def _text(value: Any) -> str:  # noqa: ANN401 - of any column
    import pandas as pd

    if isinstance(value, str):
        marks = any(mark in value for mark in ',"\r\n')
        return '"' + value.replace('"', '""') + '"' if marks else value
    if value is pd.NA:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read(path: Path, n_rows: int | None = None) -> pd.DataFrame:
    """Read what :func:`write` wrote.

    Args:
        path: the file; the first line is known to be ours.
        n_rows: how many were written; None where nobody counted.

    Raises:
        SessionError: a row that does not fit, or fewer or more of them.
    """
    import pandas as pd

    told: dict[str, Any] = {
        name: KINDS.get(name, "category") for name in COLUMNS if name not in _NAMES
    }
    empty = {name: [""] for name in KINDS if name in _OPTIONAL or name == "time_us"}
    # Before its third version pandas reads some numbers a digit off unless it is told not to, and
    # a number that a NUL is in only to there.
    exact: dict[str, Any] = {}
    if int(pd.__version__.partition(".")[0]) < 3:
        exact["float_precision"] = "round_trip"
        if b"\0" in path.read_bytes():
            raise _first_mistake(path, "it has a NUL")
    try:
        table = pd.read_csv(
            path,
            dtype=told,
            # A category would take names of digits alone for numbers, and lose their zeros.
            converters=dict.fromkeys(_NAMES, str),
            keep_default_na=False,
            na_values=empty,
            skip_blank_lines=False,
            **exact,
            encoding="utf-8",
            on_bad_lines="error",
        )
    except (ValueError, TypeError, OverflowError) as error:
        # pandas names no row, or not as people count them.
        raise _first_mistake(path, str(error)) from None
    for name in _NAMES:
        table[name] = table[name].astype("category")
    why = _why_odd(table)
    if why is not None:
        raise _first_mistake(path, why)
    if n_rows is not None and len(table) != n_rows:
        raise unreadable(str(path), f"it has {len(table)} rows, and {n_rows} were written")
    return arranged(table)


_NAMES: Final = ("run", "process")


def unreadable(where: str, why: str) -> SessionError:
    """Say that samples.csv cannot be read, and how it is made again."""
    return SessionError(
        f"samples.csv cannot be read: {why}",
        where=where,
        hint="delete samples.csv; it is made again from the runs and logs.",
    )


# ---- What fits ----------------------------------------------------------------------------------


def _setting(text: str) -> None:
    if word_of(Setting.parse(text)) != text:
        raise ValueError(f"'{printable(text[:40])}' is not how a setting is written here")


def _one_of(text: str, words: Collection[str]) -> None:
    if text not in words:
        raise ValueError(f"'{printable(text[:40])}' is none of {', '.join(sorted(words))}")


def _line(text: str) -> None:
    if odd_letters(text):
        raise ValueError(f"'{printable(text[:40])}' has a letter that is no plain text")


def _word(text: str) -> None:
    """A name that may stand in a path."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"'{printable(text[:40])}' is no name")


def _whole(text: str, least: int = 0) -> None:
    fits = text.isascii() and text.isdigit() and len(text) <= 19
    if not fits or not least <= int(text) <= LARGEST:
        raise ValueError(f"'{printable(text[:40])}' is no whole number from {least} to 2^63-1")


def _time(text: str) -> None:
    if not is_usable(printed(text)):
        raise ValueError(f"'{printable(text[:40])}' is no time in µs")


def _checks() -> dict[str, Callable[[str], None]]:
    """Checks of the fields of each column, where they are not empty."""
    return {
        "collective": lambda text: (Collective(text), None)[1],
        "n_nodes": partial(_whole, least=1),
        "n_ranks": partial(_whole, least=1),
        "rank_placement": _word,
        "dtype": _line,
        "op": _line,
        "placement": partial(_one_of, words=[one.value for one in Placement]),
        "setting": _setting,
        "role": _line,
        "clock": partial(_one_of, words=(plan.GRAPH, plan.LOOP)),
        "nbytes": _whole,
        "calls": _whole,
        "time_us": _time,
        "slowest_us": _time,
        "wrong": _whole,
        "ran": _setting,
        "library": _setting,
        "registered": partial(_one_of, words=_BOOLEANS),
        "trees": partial(_whole, least=1),
        "signature": _word,
        "unusable": partial(_one_of, words=[one.value for one in UnusableReason]),
        "purpose": partial(_one_of, words=(SWEEP, VERIFY)),
        "rough": partial(_one_of, words=_BOOLEANS),
        "run": _word,
        "process": _word,
        "communicator": _whole,
        "pass": _whole,
        "line": _whole,
    }


def _check_row(row: dict[str, str], checks: dict[str, Callable[[str], None]]) -> None:
    """Raise ValueError where a row does not fit."""
    for name, check in checks.items():
        text = row[name]
        if text:
            try:
                check(text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif name not in _OPTIONAL and not (name == "time_us" and row["unusable"]):
            raise ValueError(f"{name} is empty")
    if row["role"] != role_of(Setting.parse(row["setting"])):
        raise ValueError(
            f"role is '{printable(row['role'][:40])}', and the setting {row['setting']}"
        )
    if int(row["n_ranks"]) < int(row["n_nodes"]):
        raise ValueError(f"{row['n_ranks']} ranks on {row['n_nodes']} nodes is no scale")
    if not row["unusable"] and not 0 < int(row["nbytes"]) <= MAX_NBYTES:
        raise ValueError(f"a call of {row['nbytes']} bytes has no time that may be used")


def _why_odd(table: pd.DataFrame) -> str | None:
    """Reason why a table does not fit that could be read; None where all does."""
    checks = _checks()
    try:
        for name in TEXTS:
            _check_words(table[name], checks[name])
    except ValueError as error:
        return f"{error}"
    pairs = table[["setting", "role"]].drop_duplicates().itertuples(index=False)
    if any(role_of(Setting.parse(setting)) != role for setting, role in pairs):
        return "a role is not that of its setting"
    return None if _fits(table).all() else "a number does not fit"


def _check_words(column: pd.Series, check: Callable[[str], None]) -> None:
    """Raise ValueError where a text of a column does not fit."""
    if column.isna().any():
        raise ValueError(f"{column.name}: a field is missing")
    for text in column.cat.categories:
        if text:
            check(text)
        elif column.name not in _OPTIONAL:
            raise ValueError(f"{column.name} is empty")


def _fits(table: pd.DataFrame) -> pd.Series:
    """Whether the numbers of each row fit."""
    nbytes, time_us = table["nbytes"], table["time_us"]
    fits = (table["n_nodes"] >= 1) & (table["n_ranks"] >= table["n_nodes"])
    for name in ("nbytes", "calls", "wrong", "communicator", "pass", "line"):
        fits &= (table[name] >= 0).fillna(value=True).astype(bool)
    for times in (time_us, table["slowest_us"]):
        fits &= times.isna() | ((times > 0) & (times < MOST_US))
    is_timed = time_us.notna() & (nbytes > 0) & (nbytes <= MAX_NBYTES)
    found: pd.Series = fits & ((table["unusable"] != "") | is_timed)
    return found


def _first_mistake(path: Path, otherwise: str) -> SessionError:
    """The first row that does not fit, by its line."""
    checks = _checks()
    try:
        for number, fields in _rows(path):
            try:
                if len(fields) != len(COLUMNS):
                    raise ValueError(f"{len(fields)} fields instead of {len(COLUMNS)}")  # noqa: TRY301 - told as the others are
                _check_row(dict(zip(COLUMNS, fields, strict=True)), checks)
            except ValueError as error:
                return unreadable(f"{path}:{number}", str(error))
    except (csv.Error, OSError) as error:
        return unreadable(str(path), reason_of(error))
    return unreadable(str(path), printable(otherwise[:200]))


def _rows(path: Path) -> Iterator[tuple[int, Sequence[str]]]:
    """Line and fields of each row behind the header."""
    with path.open("rb") as stream:
        for number, content in enumerate(stream, start=1):
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError as error:
                raise unreadable(
                    f"{path}:{number}", f"byte {error.start + 1} of the line is no UTF-8"
                ) from None
            if number > 1:
                yield number, next(csv.reader([text.rstrip("\r\n")], strict=True), [])
