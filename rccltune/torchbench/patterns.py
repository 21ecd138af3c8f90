"""What ranks send, and what must come out of it: closed forms, exact in every type.

Element i of rank r is small and repeats with a prime period, so that a piece that lands at another
place shows (pieces have lengths of two to some power). Sums stay below the largest whole number up
to which the type has all of them; whole types wrap around, which is as exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from rccltune.model import Collective

# Up to here every whole number is exact: significand bits of the types.
_EXACT: Final = {"half": 2**11, "bfloat16": 2**8, "float": 2**24, "double": 2**53}
_BITS: Final = {"int8": 8, "uint8": 8, "int32": 32, "int64": 64}
_PRIMES: Final = (3, 5, 7, 11, 13, 17, 23, 31, 43, 61, 89, 127, 173, 251)
# Ranks' patterns are shifted against each other by more than one element.
_SHIFT: Final = 7
# A product of more twos than these overflows half.
_TWOS: Final = 8
# Relative to the largest average; a sum of n ranks is rounded n times.
_EPS: Final = {"half": 2.0**-10, "bfloat16": 2.0**-7, "float": 2.0**-23, "double": 2.0**-52}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Values that repeat.

    Attributes:
        values: one period.
        start: which of them is element 0.
        tolerance: how far a result may be off, 0 where it must be equal.
    """

    values: tuple[float, ...]
    start: int = 0
    tolerance: float = 0.0


def sent_by(rank: int, *, dtype: str, redop: str | None, n_ranks: int) -> Pattern:
    """What a rank sends.

    Args:
        rank: the sender.
        dtype: name as rccl-tests prints it.
        redop: None where nothing is reduced.
        n_ranks: of the communicator.
    """
    period = _period(dtype, redop, n_ranks)
    return Pattern(values=tuple(_value(i, rank, redop, period, dtype) for i in range(period)))


def reduced(*, dtype: str, redop: str, n_ranks: int) -> Pattern:
    """What all ranks' patterns give together."""
    period = _period(dtype, redop, n_ranks)
    columns = [
        [_value(i, rank, redop, period, dtype) for rank in range(n_ranks)] for i in range(period)
    ]
    values = tuple(_wrapped(_together(column, redop), dtype) for column in columns)
    off = n_ranks * _EPS[dtype] * max(map(abs, values)) if redop == "avg" else 0.0
    return Pattern(values=values, tolerance=off)


def pieces_of(
    collective: Collective,
    *,
    rank: int,
    root: int,
    share: int,
    dtype: str,
    redop: str,
    n_ranks: int,
) -> tuple[Pattern, ...]:
    """What a rank's output must hold, as pieces of equal length.

    Args:
        collective: one of the five.
        rank: whose output.
        root: of broadcast and reduce.
        share: elements of one rank, for reduce_scatter.
        dtype: name as rccl-tests prints it.
        redop: the operation, where there is one.
        n_ranks: of the communicator.

    Returns:
        Nothing where the output is not defined: reduce promises it to the root alone.
    """
    whole = reduced(dtype=dtype, redop=redop, n_ranks=n_ranks)
    match collective:
        case Collective.ALL_GATHER:
            return tuple(
                sent_by(one, dtype=dtype, redop=None, n_ranks=n_ranks) for one in range(n_ranks)
            )
        case Collective.BROADCAST:
            return (sent_by(root, dtype=dtype, redop=None, n_ranks=n_ranks),)
        case Collective.REDUCE if rank != root:
            return ()
        case Collective.REDUCE_SCATTER:
            start = rank * share % len(whole.values)
            return (Pattern(values=whole.values, start=start, tolerance=whole.tolerance),)
        case _:
            return (whole,)


def _period(dtype: str, redop: str | None, n_ranks: int) -> int:
    """The longest prime that keeps values, and sums of all ranks, exact."""
    highest = 127 if dtype in ("int8", "uint8") else 251
    if redop in ("sum", "avg") and dtype in _EXACT:
        highest = min(highest, _EXACT[dtype] // n_ranks + 1)
    if redop == "prod":
        # Each element has a two of every period-th rank.
        return next((p for p in _PRIMES if p * _TWOS >= n_ranks), _PRIMES[-1])
    fitting = [prime for prime in _PRIMES if prime <= highest]
    # The sum of as many ranks as whole periods would be the same everywhere.
    uneven = [prime for prime in fitting if n_ranks % prime or redop is None]
    return (uneven or fitting or _PRIMES)[-1 if fitting else 0]


def _value(i: int, rank: int, redop: str | None, period: int, dtype: str) -> int:
    at = (i + _SHIFT * rank) % period
    if redop == "prod":
        return 2 if (i + rank) % period == 0 else 1
    if redop in ("sum", "avg") and rank >= _EXACT.get(dtype, rank + 1) // 2:
        return 0  # more ranks than the type can count
    return at


def _together(column: list[int], redop: str) -> float:
    match redop:
        case "prod":
            return float(prod(column))
        case "max":
            return max(column)
        case "min":
            return min(column)
        case "avg":
            return sum(column) / len(column)
        case _:
            return sum(column)


def _wrapped(value: float, dtype: str) -> float:
    """A whole type's number after it ran over."""
    bits = _BITS.get(dtype)
    if bits is None:
        return value
    rest: int = int(value) % 2**bits
    return rest if dtype == "uint8" or rest < 2 ** (bits - 1) else rest - 2**bits
