"""samples.csv: the table of samples (:mod:`rccltune.session.sample_table`) as a file.

``true`` and ``false``, whole numbers and decimals are written as they are; a field is empty where
nothing is known. Each distinct text of a column is read once.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from rccltune.model.errors import SessionError
from rccltune.model.schema import LARGEST, NAME, join_mistakes, odd_letters
from rccltune.model.settings import Setting
from rccltune.model.text import join_lines, printable
from rccltune.model.times import is_usable, printed
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Collective, Placement, UnusableReason
from rccltune.ranks import plan
from rccltune.session.files import read_regular
from rccltune.session.sample_table import COLUMNS, KINDS, TEXTS, arranged

if TYPE_CHECKING:
    import pandas as pd

HEAD: Final = ",".join(COLUMNS)
_BOOLEANS: Final = {"true": True, "false": False}
# May be empty: what it is nobody said.
_OPTIONAL: Final = frozenset(
    (
        *("rank_placement", "dtype", "op", "timing", "ran", "library", "unusable", "time_us"),
        *("calls", "slowest_us", "wrong", "registered", "trees", "signature", "line"),
    )
)


def write(table: pd.DataFrame, stream: IO[bytes]) -> None:
    """Write a table; its bytes depend on its rows only."""
    words = {value: word for word, value in _BOOLEANS.items()}
    booleans = {name: table[name].map(words) for name in ("registered", "rough")}
    table.assign(**booleans).to_csv(stream, index=False, lineterminator="\n")


def read(path: Path, n_rows: int | None = None) -> pd.DataFrame:
    """Read what :func:`write` wrote.

    Args:
        path: the file; the first line is known to be ours.
        n_rows: how many were written; None where nobody counted.

    Raises:
        SessionError: every text that does not fit, by its line; or fewer or more rows.
    """
    raw = _texts(path)
    mistakes: list[tuple[int, str]] = []
    columns = {name: _column(raw[name], mistakes) for name in COLUMNS}
    _check(path, mistakes)
    table = arranged(columns)
    _check(path, _contradictions(table))
    if n_rows is not None and len(table) != n_rows:
        raise _unreadable(str(path), f"it has {len(table)} rows, and {n_rows} were written")
    return table


def _check(path: Path, mistakes: list[tuple[int, str]]) -> None:
    """Raise SessionError with all mistakes, where there are any."""
    if mistakes:
        (line, why), *more = sorted(mistakes)
        sentences = [f"line {number}: {words}" for number, words in sorted(mistakes)]
        raise _unreadable(f"{path}:{line}", join_mistakes(sentences) if more else why)


def _unreadable(where: str, why: str) -> SessionError:
    return SessionError(
        join_lines(["samples.csv cannot be read:", why], gap=" "),
        where=where,
        hint="delete samples.csv; it is made again from the runs and logs.",
    )


def _texts(path: Path) -> pd.DataFrame:
    """Every field as it is written.

    Raises:
        SessionError: the file is no text, or a row has more fields than there are columns.
    """
    import pandas as pd

    content = read_regular(path)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _unreadable(f"{path}:{line}", "a byte is no UTF-8") from None
    if "\0" in text:
        # pandas would end the field there.
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _unreadable(f"{path}:{line}", "it has a NUL")
    try:
        raw = pd.read_csv(
            io.StringIO(text),
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
        )
    except ValueError as error:
        # pandas names the line.
        raise _unreadable(str(path), printable(str(error)[:200])) from None
    if not isinstance(raw.index, pd.RangeIndex):
        # pandas takes what rows have before as many fields as the head for their names.
        raise _unreadable(f"{path}:2", f"it has more than {len(COLUMNS)} fields")
    return raw


def _column(raw: pd.Series, mistakes: list[tuple[int, str]]) -> Any:  # noqa: ANN401 - an array of pandas
    """Values of a column; what does not fit goes to the mistakes, each text once, by its line."""
    import pandas as pd

    name = str(raw.name)
    codes, texts = pd.factorize(raw, sort=name in TEXTS)
    reader, values = _READERS[name], list[Any]()
    for code, text in enumerate(texts):
        try:
            if not text and name not in _OPTIONAL:
                raise ValueError("is empty")  # noqa: TRY301 - told as the others are
            values.append(reader(text) if text else None)
        except ValueError as error:
            mistakes.append((int((codes == code).argmax()) + 2, f"{name}: {error}"))
    if mistakes:
        return None
    if name in TEXTS:
        return pd.Categorical.from_codes(codes, categories=pd.Index(texts, dtype="str"))
    return pd.Series(values, dtype=KINDS[name]).take(codes).array


def _contradictions(table: pd.DataFrame) -> list[tuple[int, str]]:
    """Rows whose fields do not fit each other: the first of each kind, by its line."""
    is_timed = table["time_us"].notna() & table["nbytes"].between(1, MAX_NBYTES)
    odd = {
        "fewer n_ranks than n_nodes": table["n_ranks"] < table["n_nodes"],
        "time_us and nbytes are of no call, and nothing says why": ~is_timed
        & (table["unusable"] == ""),
    }
    return [(int(rows.to_numpy().argmax()) + 2, why) for why, rows in odd.items() if rows.any()]


# ---- What fits ----------------------------------------------------------------------------------


def _setting(text: str) -> str:
    if str(Setting.parse(text)) != text:
        raise ValueError(f"'{printable(text[:40])}' is not how a setting is written here")
    return text


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"'{printable(text[:40])}' is none of {', '.join(words)}")
        return text

    return read


def _line(text: str) -> str:
    if odd_letters(text):
        raise ValueError(f"'{printable(text[:40])}' has a letter that is no plain text")
    return text


def _word(text: str) -> str:
    """A name that may stand in a path."""
    if not re.fullmatch(NAME, text, re.ASCII):
        raise ValueError(f"'{printable(text[:40])}' is no name")
    return text


def _whole(text: str, least: int = 0) -> int:
    fits = text.isascii() and text.isdigit() and len(text) <= 19
    if not fits or not least <= int(text) <= LARGEST:
        raise ValueError(f"'{printable(text[:40])}' is no whole number from {least} to 2^63-1")
    return int(text)


def _time(text: str) -> float:
    time_us = printed(text)
    if not is_usable(time_us):
        raise ValueError(f"'{printable(text[:40])}' is no time in µs")
    return time_us


def _boolean(text: str) -> bool:
    return _BOOLEANS[_one_of(*_BOOLEANS)(text)]


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "collective": _one_of(*(one.value for one in Collective)),
    "n_nodes": partial(_whole, least=1),
    "n_ranks": partial(_whole, least=1),
    "rank_placement": _word,
    "dtype": _line,
    "op": _line,
    "placement": _one_of(*(one.value for one in Placement)),
    "setting": _setting,
    "timing": _one_of(plan.GRAPH, plan.LOOP),
    "nbytes": _whole,
    "calls": _whole,
    "time_us": _time,
    "slowest_us": _time,
    "wrong": _whole,
    "ran": _setting,
    "library": _setting,
    "registered": _boolean,
    "trees": partial(_whole, least=1),
    "signature": _word,
    "unusable": _one_of(*(one.value for one in UnusableReason)),
    "rough": _boolean,
    "run": _word,
    "process": _word,
    "communicator": _whole,
    "pass": _whole,
    "line": _whole,
}
