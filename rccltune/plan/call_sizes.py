"""Sizes that a benchmark can call a collective with: it rounds what it is asked for down."""

from __future__ import annotations

from typing import Final

from rccltune.model import DTYPE_BYTES, Collective, Sweep
from rccltune.plan.launches import sizes

_SHARE_NBYTES: Final = 16
# How far from its own size a call may be measured.  A time grows with its size, and less than in
# proportion, so it is off by no more than that: as much as --tolerance gives away.  No more is
# given to small sizes: of 288 pairs up to 2 KiB apart in five public logs (MI355X, GH200 and
# others) times differ by 5 % in the median, and by a third and more for a tenth.
NEAR: Final = 0.02


def unit_of(sweep: Sweep) -> int:
    """Bytes of an element."""
    return DTYPE_BYTES.get(sweep.dtypes[0], 4)


def grain(sweep: Sweep, collective: Collective, n_ranks: int) -> int:
    """Bytes between the sizes that a benchmark can call with.

    Where each rank has a share of the message it is whole elements of every share, and those are
    rounded down to 16 bytes, or to 4 elements in releases of 2024 (rccl-tests src/all_gather.cu,
    reduce_scatter.cu); the PyTorch runner rounds as the newer ones do.
    """
    unit = unit_of(sweep)
    return n_ranks * max(_SHARE_NBYTES, 4 * unit) if collective.is_shared else unit


def called_sizes(sweep: Sweep, collective: Collective, n_ranks: int) -> tuple[int, ...]:
    """Sizes of the sweep as the benchmark's table shows them, rising, each once.

    A size that is rounded down to nothing is not among them: nothing is called there, and no
    tuner is asked.
    """
    unit = grain(sweep, collective, n_ranks)
    shown = dict.fromkeys(nbytes // unit * unit for nbytes in sizes(sweep))
    return tuple(nbytes for nbytes in shown if nbytes)


def nearest(sweep: Sweep, collective: Collective, n_ranks: int, nbytes: int) -> int | None:
    """The nearest size that can be called with; None where none is near (NEAR)."""
    unit = grain(sweep, collective, n_ranks)
    found = max(1, round(nbytes / unit)) * unit
    return found if abs(found - nbytes) <= NEAR * nbytes else None


def shows_steps(sweep: Sweep, collective: Collective, n_ranks: int) -> bool:
    """Whether the size falls where the table begins, be it the first time.

    Newer benchmarks warm up at the first size, twice that, and so on.
    """
    unit = grain(sweep, collective, n_ranks)
    warm = sweep.min_nbytes
    while 0 < warm <= sweep.max_nbytes // 2:
        warm *= 2
    called = called_sizes(sweep, collective, n_ranks)
    return len(called) > 1 and warm // unit * unit > called[0]
