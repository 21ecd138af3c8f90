"""How many elements of a size each rank sends and receives, as rccl-tests counts them."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model import DTYPE_BYTES, Collective

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
