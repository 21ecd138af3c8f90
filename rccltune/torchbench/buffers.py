"""The buffers of a rank: how many elements, what is sent, and what must come out of it.

Element i of rank r is small and repeats with a prime period, so that a piece that lands at another
place shows (pieces have lengths of two to some power). Sums stay below the largest whole number up
to which the type has all of them; whole types wrap around, which is as exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

from rccltune.model.vocabulary import DTYPE_BYTES, Collective, Placement
from rccltune.torchbench.options import DTYPES, Options
from rccltune.torchbench.teams import Team, names_of

# Newer rccl-tests round a rank's share down to as many bytes (AllGatherGetCollByteCount).
_ALIGN_NBYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Elements of one row.

    Attributes:
        sent: by each rank.
        received: by each rank.
        printed: the table's count, the argument of the library's own function.
    """

    sent: int
    received: int
    printed: int

    @property
    def whole(self) -> int:
        """Elements of the larger of the two buffers."""
        return max(self.sent, self.received)


def counts_of(collective: Collective, nbytes: int, dtype: str, n_ranks: int) -> Counts:
    """Elements of a row.

    Args:
        collective: one of the five that ask a tuner.
        nbytes: the size as stepped through.
        dtype: name as rccl-tests prints it.
        n_ranks: of the communicator.
    """
    width = DTYPE_BYTES[dtype]
    count = nbytes // width
    align = max(1, _ALIGN_NBYTES // width)
    share = count // n_ranks // align * align
    if collective is Collective.ALL_GATHER:
        return Counts(sent=share, received=share * n_ranks, printed=share)
    if collective is Collective.REDUCE_SCATTER:
        return Counts(sent=share * n_ranks, received=share, printed=share)
    return Counts(sent=count, received=count, printed=count)


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


Tensor: TypeAlias = Any
# What no rank sends (patterns), and every type has exactly.
_POISON: Final = 252.0
_POISON_INT8: Final = 127.0
# Elements that are filled or compared at once: 64 MiB of float beside the buffers themselves.
_BLOCK: Final = 1 << 24


class Buffers:
    """One allocation for all sizes, as rccl-tests have it; a share beside it for out of place."""

    def __init__(self, options: Options, team: Team, n_elements: int) -> None:
        """Room for the largest size."""
        self._options = options
        self._team = team
        self._dtype = names_of(DTYPES, team.torch)[options.dtype]
        self._poison = _POISON_INT8 if options.dtype in ("int8", "uint8") else _POISON
        self._whole = self._empty(n_elements)
        is_apart = Placement.OUT_OF_PLACE in options.placements
        self._share = self._empty(n_elements // team.n_ranks if is_apart else 0)

    def views(self, counts: Counts, placement: Placement) -> tuple[Tensor, Tensor]:
        """What a call receives into and sends from; the same tensor where torch takes one."""
        whole = self._whole[: counts.whole]
        share = counts.printed
        if not self._options.collective.is_shared:
            return whole, whole
        own = whole[self._team.rank * share : (self._team.rank + 1) * share]
        part = own if placement is Placement.IN_PLACE else self._share[:share]
        if self._options.collective is Collective.ALL_GATHER:
            return whole, part
        return part, whole

    def fill(self, counts: Counts, placement: Placement) -> None:
        """Write what this rank sends, and what no result holds into the rest."""
        receive, send = self.views(counts, placement)
        if receive.data_ptr() != send.data_ptr() or receive.numel() > send.numel():
            receive.fill_(self._poison)
        self._write(send, self._sent())

    def n_wrong(self, counts: Counts, placement: Placement) -> int:
        """Elements of this rank's output that are not what the collective must give."""
        options, team = self._options, self._team
        receive, _ = self.views(counts, placement)
        pieces = pieces_of(
            options.collective,
            rank=team.rank,
            root=options.root,
            share=counts.printed,
            dtype=options.dtype,
            redop=options.redop,
            n_ranks=team.n_ranks,
        )
        length = receive.numel() // max(1, len(pieces))
        return sum(
            self._differing(receive[i * length : (i + 1) * length], piece)
            for i, piece in enumerate(pieces)
        )

    def _sent(self) -> Pattern:
        options, team = self._options, self._team
        redop = options.redop if options.reduces else None
        if options.collective is Collective.BROADCAST and team.rank != options.root:
            return Pattern(values=(self._poison,))
        return sent_by(team.rank, dtype=options.dtype, redop=redop, n_ranks=team.n_ranks)

    def _write(self, into: Tensor, pattern: Pattern) -> None:
        tile, block = self._tile(into.numel(), pattern)
        for start in range(0, into.numel(), block):
            part = into[start : start + block]
            part.copy_(tile[: part.numel()])

    def _differing(self, found: Tensor, pattern: Pattern) -> int:
        tile, block = self._tile(found.numel(), pattern)
        n = 0
        for start in range(0, found.numel(), block):
            part = found[start : start + block]
            wanted = tile[: part.numel()]
            if pattern.tolerance:
                # What is no number is beyond every tolerance, so it is asked this way round.
                fine = (part - wanted).abs() <= pattern.tolerance
                n += part.numel() - int(fine.sum().item())
            else:
                n += int((part != wanted).sum().item())
        return n

    def _tile(self, n: int, pattern: Pattern) -> tuple[Tensor, int]:
        """The pattern repeated, and how far it carries: a whole number of periods."""
        period = len(pattern.values)
        values = (*pattern.values[pattern.start :], *pattern.values[: pattern.start])
        n_periods = max(1, min(-(-n // period), _BLOCK // period))
        one = self._team.torch.tensor(values, dtype=self._dtype, device=self._team.device)
        return one.repeat(n_periods), n_periods * period

    def _empty(self, n: int) -> Tensor:
        return self._team.torch.zeros(n, dtype=self._dtype, device=self._team.device)
