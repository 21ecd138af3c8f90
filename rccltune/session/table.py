"""samples.csv: long form, one timing of a benchmark each, for pandas and for people."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from typing import IO, Final

from rccltune.model.errors import SessionError
from rccltune.model.measured import Sample
from rccltune.model.schema import LARGEST, NAME, odd_letters
from rccltune.model.settings import CurveKey, Scale, Setting, Variant
from rccltune.model.times import is_usable, printed
from rccltune.model.vocabulary import Collective, Doubt, Placement, shown

COLUMNS: Final = (
    "launch",
    "step",
    "cycle",
    "line",
    "collective",
    "setting",
    "placement",
    "dtype",
    "redop",
    "graph",
    "n_nodes",
    "n_ranks",
    "rank_placement",
    "variant",
    "nbytes",
    "count",
    "time_us",
    "n_wrong",
    "doubt",
    "executed",
    "usable",
    "clock",
)
# Of sessions written before the last column, and before the last two.
_EARLIER: Final = (COLUMNS[:-1], COLUMNS[:-2])
_CLOCKS: Final = {"": None, "loop": "loop", "graph": "graph"}
_USABLE: Final = {"true": True, "false": False}
_NAME: Final = re.compile(NAME, re.ASCII)


def dump_samples(samples: Iterable[Sample], stream: IO[bytes]) -> None:
    """Write every sample; bytes depend on the samples only."""
    stream.write((",".join(COLUMNS) + "\n").encode())
    # A table has few keys and many rows, so the key's half of a row is made once.
    prefixes: dict[int, tuple[CurveKey, str]] = {}
    lines: list[str] = []
    for s in samples:
        entry = prefixes.get(id(s.key))
        if entry is None:
            entry = prefixes[id(s.key)] = (s.key, _key_text(s.key))
        lines.append(
            f"{s.launch},{_text(s.step)},{s.cycle},{_text(s.line)},{entry[1]},{s.nbytes},"
            f"{_text(s.count)},{_text(s.time_us)},{_text(s.n_wrong)},"
            f"{s.doubt.value if s.doubt else ''},{_text(s.executed)},"
            f"{'false' if s.doubt else 'true'},{_text(s.clock)}\n"
        )
        if len(lines) >= 10_000:
            stream.write("".join(lines).encode())
            lines.clear()
    stream.write("".join(lines).encode())


def read_samples(
    stream: IO[str], variants: Mapping[str, Variant], where: str
) -> tuple[Sample, ...]:
    """Read what :func:`dump_samples` wrote.

    Raises:
        SessionError: other columns, an unknown variant or a value that does not fit.
    """
    try:
        return _read(stream, variants, where)
    except UnicodeDecodeError as error:
        why = f"byte {error.start} of it or of a part of it is no UTF-8"
        raise _unreadable(where, 1, why) from error


def _read(stream: IO[str], variants: Mapping[str, Variant], where: str) -> tuple[Sample, ...]:
    head = tuple(stream.readline().rstrip("\r\n").split(","))
    if head != COLUMNS and head not in _EARLIER:
        raise _unreadable(where, 1, "its columns are not those of this version")
    reader = _Reader(variants)
    end = "," * (len(COLUMNS) - len(head))
    samples: list[Sample] = []
    for number, line in enumerate(stream, start=2):
        try:
            samples.append(reader.sample(line.rstrip("\r\n") + end))
        except (ValueError, KeyError, csv.Error) as error:
            raise _unreadable(where, number, str(error)) from error
    return tuple(samples)


class _Wholes(dict[str, int]):
    """Numbers by their text: two million rows share a few sizes, and one object for each."""

    def __missing__(self, text: str) -> int:
        number = self[text] = _whole(text)
        return number


class _Words(dict[str, str]):
    """Names by themselves, each checked and kept once."""

    def __missing__(self, text: str) -> str:
        word = self[text] = _word(text)
        return word


class _Reader:
    """Rows to samples; what many rows share is read once."""

    def __init__(self, variants: Mapping[str, Variant]) -> None:
        self._variants = variants
        self._keys: dict[str, CurveKey] = {}
        self._settings: dict[str, Setting | None] = {"": None}
        self._launches = _Words()
        self._wholes = _Wholes()

    def sample(self, row: str) -> Sample:
        """One row; ValueError, KeyError or csv.Error where it is none."""
        launch, step, cycle, line, rest = _split(row)
        key, nbytes, count, time_us, n_wrong, doubt, ran, usable, clock = rest.rsplit(",", 8)
        # It says again what doubt says: a program that changes one of them must not be believed.
        if usable and _USABLE[usable] is not (not doubt):
            raise ValueError(
                f"usable is {usable}, and its column 'doubt' says '{shown(doubt[:40])}'"
            )
        wholes = self._wholes
        return Sample(
            key=self._keys.get(key) or self._key(key),
            launch=self._launches[launch],
            step=wholes[step] if step else None,
            cycle=wholes[cycle],
            line=_whole(line) if line else None,
            nbytes=wholes[nbytes],
            count=wholes[count] if count else None,
            time_us=_time(time_us) if time_us else None,
            n_wrong=wholes[n_wrong] if n_wrong else None,
            doubt=Doubt(doubt) if doubt else None,
            executed=self._setting(ran),
            clock=_CLOCKS[clock],
        )

    def _key(self, text: str) -> CurveKey:
        made = self._keys[text] = _parse_key(next(csv.reader([text])), self._variants)
        return made

    def _setting(self, text: str) -> Setting | None:
        if text not in self._settings:
            self._settings[text] = Setting.parse(text)
        return self._settings[text]


def _split(row: str) -> list[str]:
    """The first four fields, and the rest: a key that is taken apart once, and plain numbers."""
    if '"' in row or len(row) > csv.field_size_limit():
        # Names that came from somebody's file, or a program that quotes more than it must.
        row = ",".join(map(_quoted, next(csv.reader([row]))))
    return row.split(",", 4)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > LARGEST:
        raise ValueError(f"'{shown(text[:40])}' is no whole number from 0 to 2^63-1")
    return int(text)


def _time(text: str) -> float | None:
    value = printed(text)
    # Calls of 0 bytes whose time was derived from a bandwidth once had 0.0 here.
    if value and not is_usable(value):
        raise ValueError(f"'{shown(text[:40])}' is no time in µs")
    return value or None


def _line(text: str) -> str:
    if odd_letters(text):
        raise ValueError(f"'{shown(text[:40])}' has a letter that is no plain text")
    return text


def _word(text: str) -> str:
    """A name that may stand in a path."""
    if text and not _NAME.fullmatch(text):
        raise ValueError(f"'{shown(text[:40])}' is no name")
    return text


def _unreadable(where: str, line: int, why: str) -> SessionError:
    return SessionError(
        f"samples.csv cannot be read: {why}",
        where=f"{where}:{line}",
        hint="delete samples.csv; it is rebuilt from the raw logs.",
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _key_text(key: CurveKey) -> str:
    graph = "" if key.graph is None else str(int(key.graph))
    parts = (
        key.collective.value,
        str(key.setting),
        key.placement.value,
        _text(key.dtype),
        _text(key.redop),
        graph,
        str(key.scale.n_nodes),
        str(key.scale.n_ranks),
        _text(key.rank_placement),
        key.variant.name,
    )
    return ",".join(_quoted(part) for part in parts)


def _quoted(text: str) -> str:
    """CSV quoting for names that came from somebody's file."""
    if any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _parse_key(named: list[str], variants: Mapping[str, Variant]) -> CurveKey:
    collective, setting, placement, dtype, redop, graph, n_nodes, n_ranks, ranks_on, variant = named
    if variant == "tree-simple-forced":
        raise ValueError("Tree with Simple was forced, which rccltune 0.1.0 reads")
    return CurveKey(
        collective=Collective(collective),
        setting=Setting.parse(setting),
        placement=Placement(placement),
        dtype=_line(dtype) or None,
        redop=_line(redop) or None,
        graph=bool(int(graph)) if graph else None,
        scale=Scale(n_nodes=_whole(n_nodes), n_ranks=_whole(n_ranks)),
        rank_placement=_word(ranks_on) or None,
        variant=variants[variant],
    )
