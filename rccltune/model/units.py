"""Sizes, times and bandwidths: reading them, printing them, and the bus-bandwidth factors.

GB/s is 1e9 bytes per second and sizes are binary multiples, both as in rccl-tests.
"""

from __future__ import annotations

import re
from typing import Final

from rccltune.model.vocabulary import Collective

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
    """Time as :func:`format_time` has it, without zeros at its end, for an axis: ``3 ms``."""
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
