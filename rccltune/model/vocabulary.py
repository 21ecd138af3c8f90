"""Text for people: what data holds is shown and never obeyed, and only layout breaks lines.

A file or a host may have any name: one with a newline would forge a line of ours, one
with ESC would paint over the terminal, one with U+202E would read backwards. So whatever is said is
data, letter by letter, unless :func:`join_lines` has put it together.

Sizes, times and bandwidths: reading them, printing them, and the bus-bandwidth factors.

GB/s is 1e9 bytes per second and sizes are binary multiples, both as in rccl-tests.

The field's words: collectives, algorithms, protocols, types, in every spelling a file uses.

Indices are those of the tuner ABI: ncclFunc_t 0-4 and the algorithm and protocol numbers are
the same in every NCCL and RCCL release that looks for a tuner (NCCL 2.30.7
``src/include/nccl_common.h``, RCCL 2.28.3 ``src/include/nccl_common.h``); ncclFunc_t above 4
differs between them and is therefore not listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import Final

from rccltune.model.rounding import round_plain


class JoinedLines(str):
    """Lines put together by :func:`join_lines`: its line breaks are ours, all else in it was shown.

    Joined or formatted into another string it is data again, and its line breaks then are visible.
    """

    __slots__ = ()


def printable(data: object, allowed: str = "") -> str:
    """Text on one line, without anything that a terminal obeys or that nobody sees.

    What is not printable (control characters, line and paragraph separators, marks of writing
    direction, halves of surrogate pairs) becomes what Python writes for it: ``\\n``, ``\\x1b``,
    ``\\u202e``. A backslash stays as it is, so that showing twice is showing once.

    Args:
        data: what has no other way into text goes through ``str``.
        allowed: letters that stay all the same.
    """
    text = str(data)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in allowed else repr(one)[1:-1] for one in text)


def join_lines(parts: Iterable[str], gap: str = "\n") -> JoinedLines:
    """Parts one below the other; each is one line, unless it was laid itself.

    Args:
        parts: text that may hold data.
        gap: between two of them; two newlines leave a line free.
    """
    return JoinedLines(
        gap.join(one if isinstance(one, JoinedLines) else printable(one) for one in parts)
    )


def json_text(plain: object, indent: int | None = None) -> JoinedLines:
    """JSON in letters that are printable, so that it can be shown and written anywhere.

    Readers get back what was given, also halves of surrogate pairs, which file names may have, but
    for numbers, which are rounded here (:mod:`rccltune.model.rounding`).
    One line, or with an ``indent`` of 1 a value a line.
    """
    if indent:
        return JoinedLines("".join(json_pieces(plain)))
    return JoinedLines(_printable(_encoder(", ").encode(round_plain(plain))))


def json_pieces(plain: object) -> Iterator[str]:
    """Yield JSON with a value a line, bit by bit: a fit of millions of times is written so.

    Python's encoder in C lays no lines out. It does when it is given the line break as what
    stands between two values, which is enough for what holds no further list or pairs.
    """
    return map(_printable, _laid_out(plain, "\n"))


def _laid_out(value: object, newline: str) -> Iterator[str]:
    inner = newline + " "
    if not value or not isinstance(value, dict | list | tuple):
        yield _encoder(", ").encode(round_plain(value))
        return
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    yield opened + inner
    items = value.values() if isinstance(value, dict) else value
    if any(issubclass(kind, dict | list | tuple) for kind in set(map(type, items))):
        # A key as JSON writes it, without the braces and the 0.
        heads = (_encoder(", ").encode({key: 0})[1:-2] if opened == "{" else "" for key in value)
        for at, (head, item) in enumerate(zip(heads, items, strict=True)):
            yield ("," + inner if at else "") + head
            yield from _laid_out(item, inner)
    else:
        yield _encoder("," + inner).encode(round_plain(value))[1:-1]
    yield newline + closed


@cache
def _encoder(between: str) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, separators=(between, ": "))


def _printable(text: str) -> str:
    """Write out all letters that cannot be printed."""
    if text.replace("\n", "").isprintable():
        return text
    # Only inside of strings; what stands between them is printable, or a line break of ours.
    return "".join(
        one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text
    )


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Say that a word is none of those that are known, which is nearest, and all of them.

    Args:
        what: is looked for, ``collective``.
        word: as it was typed.
        known: words.
    """
    words = list(dict.fromkeys(known))
    near = get_close_matches(word.strip().lower(), words, n=1)
    meant = f", did you mean '{near[0]}'?" if near else ";"
    return f"unknown {what} '{word[:60]}'{meant} known are {', '.join(words)}"


class Collective(Enum):
    """Collective that a benchmark measures; the first five are those that ask a tuner."""

    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALLTOALL = "alltoall"
    ALLTOALLV = "alltoallv"
    GATHER = "gather"
    SCATTER = "scatter"
    SENDRECV = "sendrecv"
    HYPERCUBE = "hypercube"

    @property
    def csv_name(self) -> str:
        """Name in a rule file: ``allreduce``."""
        return self.value.replace("_", "")

    @property
    def is_tunable(self) -> bool:
        """Whether RCCL asks a tuner: point-to-point collectives never do."""
        return self in TUNABLE

    @property
    def is_shared(self) -> bool:
        """Whether the message is cut into a share for each rank, which is what a call states.

        A tuner sees the total over all ranks, where the library's log has a rank's own bytes.
        """
        return self in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)

    @property
    def reduces(self) -> bool:
        """Whether it computes, so that it needs an operation."""
        return self in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)

    @property
    def has_root(self) -> bool:
        """Whether one rank sends or receives for all, so that calls with one root overlap."""
        return self in (Collective.BROADCAST, Collective.REDUCE)

    @property
    def has_tree(self) -> bool:
        """Whether the library has the algorithm Tree for it (``tuning.cc`` of both libraries)."""
        return self is Collective.ALL_REDUCE

    @property
    def ring_passes(self) -> int | None:
        """Rounds of the message through the ring; None where ``tuning.cc`` counts n steps."""
        return 2 if self is Collective.ALL_REDUCE else 1 if self.is_shared else None

    @property
    def has_own_algbw(self) -> bool:
        """Whether the benchmark counts other bytes for its bandwidth than its size column's."""
        return self in (Collective.HYPERCUBE, Collective.ALLTOALLV)

    @property
    def func_index(self) -> int:
        """Number of the collective at the tuner ABI; raises ValueError where it has none."""
        return TUNABLE.index(self)

    @property
    def benchmark(self) -> str:
        """Name of the rccl-tests program."""
        return f"{self.value}_perf"

    @classmethod
    def parse(cls, text: str) -> Collective:
        """Read any known spelling: ``AllReduce``, ``all_reduce_perf``, ``allreduce``.

        Raises:
            ValueError: the text names no collective.
        """
        name = text.strip().lower().replace("-", "_").removesuffix("_mpi").removesuffix("_perf")
        collective = _COLLECTIVE_BY_NAME.get(name.replace("_", ""))
        if collective is None:
            raise ValueError(unknown("collective", text, [one.value for one in Collective]))
        return collective


TUNABLE: Final = (
    Collective.BROADCAST,
    Collective.REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.ALL_REDUCE,
)
_COLLECTIVE_BY_NAME: Final = {c.csv_name: c for c in Collective}


class Algorithm(Enum):
    """Algorithms in ABI order; the value is the spelling of rule files and NCCL_ALGO."""

    TREE = "tree"
    RING = "ring"
    COLLNET_DIRECT = "collnet_direct"
    COLLNET_CHAIN = "collnet_chain"
    NVLS = "nvls"
    NVLS_TREE = "nvls_tree"
    PAT = "pat"

    @property
    def index(self) -> int:
        """Row of the cost table."""
        return tuple(Algorithm).index(self)

    @classmethod
    def parse(cls, text: str) -> Algorithm:
        """Read ``Ring``, ``RING``, ``CollNetDirect`` and the like; ValueError when unknown."""
        return _ALGORITHM_BY_NAME[_known(text, _ALGORITHM_BY_NAME, "algorithm")]


class Protocol(Enum):
    """Protocols in ABI order; the value is the spelling of rule files."""

    LL = "ll"
    LL128 = "ll128"
    SIMPLE = "simple"

    @property
    def index(self) -> int:
        """Column of the cost table."""
        return tuple(Protocol).index(self)

    @classmethod
    def parse(cls, text: str) -> Protocol:
        """Read ``LL128``, ``Simple`` and the like; ValueError when unknown."""
        return _PROTOCOL_BY_NAME[_known(text, _PROTOCOL_BY_NAME, "protocol")]


def _fold(text: str) -> str:
    return text.strip().lower().replace("_", "").replace("-", "")


_ALGORITHM_BY_NAME: Final = {_fold(a.value): a for a in Algorithm}
_PROTOCOL_BY_NAME: Final = {_fold(p.value): p for p in Protocol}


def _known(text: str, names: dict[str, Algorithm] | dict[str, Protocol], what: str) -> str:
    folded = _fold(text)
    if folded not in names:
        raise ValueError(unknown(what, text, [one.value for one in names.values()]))
    return folded


class Placement(Enum):
    """The two halves of an rccl-tests row."""

    OUT_OF_PLACE = "out"
    IN_PLACE = "in"


class UnusableReason(Enum):
    """Why a sample is kept but never used in a fit or a choice; the value is its CSV spelling."""

    ZERO_BYTES = "zero-bytes"
    WRONG = "wrong-results"
    SUBSTITUTED = "substituted"
    INELIGIBLE = "ineligible"
    BYPASSED = "bypassed"
    INCONSISTENT = "inconsistent"
    ONE_RANK = "one-rank"
    NO_TIME = "no-time"
    EXCLUDED = "excluded"
    UNPROVEN = "unproven"
    UNKNOWN_TYPE = "unknown-type"

    @property
    def meaning(self) -> str:
        """One line for people."""
        return _DOUBT_MEANING[self]


_DOUBT_MEANING: Final = {
    UnusableReason.ZERO_BYTES: "0 bytes: nothing was communicated",
    UnusableReason.WRONG: "#wrong > 0: results differ from what the collective must give",
    UnusableReason.SUBSTITUTED: "another setting ran than the one asked for",
    UnusableReason.INELIGIBLE: "the library offered no such setting at this size",
    UnusableReason.BYPASSED: "the library asked no tuner, or left it nothing to choose",
    UnusableReason.INCONSISTENT: "size, count, time and algbw of the row contradict each other",
    UnusableReason.ONE_RANK: "one rank: nothing was communicated",
    UnusableReason.NO_TIME: "the row has no usable time",
    UnusableReason.EXCLUDED: "the setting failed and is excluded",
    UnusableReason.UNPROVEN: "nothing says which setting ran",
    UnusableReason.UNKNOWN_TYPE: "no benchmark has a data type of this name: a column may be lost",
}
# Bytes per element, by the type names that nccl-tests and rccl-tests print (src/common.cu).
DTYPE_BYTES: Final = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "bfloat16": 2,
    "f8e4m3": 1,
    "f8e5m2": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
FIGURE_FORMATS: Final = ("png", "svg", "pdf")
REDOPS: Final = ("sum", "prod", "max", "min", "avg", "mulsum", "none")
# What a fit on an AMD GPU of gfx94x/gfx950 can never be given by a rule on one node: RCCL 2.28.3
# src/graph/tuning.cc:660 leaves Tree+Simple out where all GPUs of the topology take part.
TREE_SIMPLE_NEEDS_NODES: Final = 2


class RankPlacement(Enum):
    """Placement of a communicator's ranks on the devices of a node; docs/machine.md."""

    NODE = "node"
    ONE_OAM = "one-oam"
    ONE_PER_OAM = "one-per-oam"
    ONE_IOD = "one-iod"
    FIRST = "first"
    EVERY_OAM = "every-oam"
    ACROSS_OAMS = "across-oams"


RANK_PLACEMENTS: Final = tuple(placement.value for placement in RankPlacement)
KIB: Final = 1024
MAX_NBYTES: Final = 2**63 - 1
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_POWER: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Bytes of ``4K``, ``1MiB``, ``8G`` or plain digits; K, M, G are binary, as in rccl-tests.

    Raises:
        ValueError: not a size, not a whole number of bytes, or above 2^63-1.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is no size: write bytes, or 4K, 1MiB, 8G")
    number, unit = match.groups()
    scaled = float(number) * KIB ** _POWER[unit.lower()]
    # Beyond all bounds a float is infinite, and no whole number can be made of it.
    if scaled > 2.0**63:
        raise ValueError(f"'{text[:40]}' is above 2^63-1 bytes")
    nbytes = int(number) * KIB ** _POWER[unit.lower()] if number.isdigit() else int(scaled)
    if nbytes != scaled and not number.isdigit():
        raise ValueError(f"'{text}' is not a whole number of bytes")
    if nbytes > MAX_NBYTES:
        raise ValueError(f"'{text}' is above 2^63-1 bytes")
    return nbytes


def format_size(nbytes: float) -> str:
    """Three significant digits: ``4 KiB``, ``1.68 MiB``, ``1000 B``; whole bytes below 1 KiB.

    The one rounding of everything that people read; files and ``--json`` have exact bytes.
    """
    value, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        # What would round to 1024 is one of the larger unit.
        if float(_digits(value, unit)) < KIB:
            break
        value, unit = value / KIB, larger
    return f"{_digits(value, unit)} {unit}"


_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([smh]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``5m`` or ``1.5h``; ValueError otherwise."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"'{text}' is no duration: write 90, 90s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def short_size(nbytes: int) -> str:
    """``1G``, as options are written and :func:`parse_size` reads it; exact."""
    power = max(n for n in _POWER.values() if nbytes % KIB**n == 0) if nbytes else 0
    return f"{nbytes // KIB**power}{' KMGT'[power].strip()}"


def _digits(value: float, unit: str) -> str:
    return f"{value:.0f}" if unit == "B" or value >= 99.95 else f"{value:.3g}"


def format_span(min_nbytes: int, max_nbytes: int) -> str:
    """``64 KiB to 1 MiB``, both ends inclusive; ``64 KiB and above``; one size alone."""
    if max_nbytes >= MAX_NBYTES:
        return f"{format_size(min_nbytes)} and above"
    low, high = format_size(min_nbytes), format_size(max_nbytes)
    return low if low == high else f"{low} to {high}"


def format_last(max_nbytes: int) -> str:
    """The inclusive upper end of a range, in a column of its own; ``any`` without an end."""
    return "any" if max_nbytes >= MAX_NBYTES else format_size(max_nbytes)


def format_time(time_us: float) -> str:
    """Microseconds, milliseconds or seconds with three significant digits: ``3.00 ms``."""
    for value, unit in ((time_us, "µs"), (time_us / 1e3, "ms")):
        if value < 999.5:
            return f"{f'{value:#.3g}'.removesuffix('.')} {unit}"
    return f"{f'{time_us / 1e6:#.3g}'.removesuffix('.')} s"


def short_time(time_us: float) -> str:
    """The same without zeros at its end, for an axis: ``3 ms``."""
    number, unit = format_time(time_us).split(" ")
    return f"{float(number):g} {unit}"


def algbw(nbytes: int, time_us: float) -> float:
    """Algorithm bandwidth in GB/s: bytes over time."""
    return nbytes / time_us / 1000.0


def busbw_factor(collective: Collective, n_ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth.

    What one rank must send over its link for each byte of the size column, so that the figure
    compares with a link's speed: an all_reduce moves 2(n-1)/n, all_gather, reduce_scatter and
    alltoall (n-1)/n, the others 1 (nccl-tests ``doc/PERFORMANCE.md`` and the
    ``*GetBw`` functions of each ``src/*.cu``).
    """
    share = (n_ranks - 1) / n_ranks
    match collective:
        case Collective.ALL_REDUCE:
            return 2 * share
        case (
            Collective.ALL_GATHER
            | Collective.REDUCE_SCATTER
            | Collective.ALLTOALL
            | Collective.ALLTOALLV
            | Collective.GATHER
            | Collective.SCATTER
            | Collective.HYPERCUBE
        ):
            return share
        case Collective.BROADCAST | Collective.REDUCE | Collective.SENDRECV:
            return 1.0


def busbw(collective: Collective, n_ranks: int, nbytes: int, time_us: float) -> float:
    """Bus bandwidth in GB/s."""
    return algbw(nbytes, time_us) * busbw_factor(collective, n_ranks)
