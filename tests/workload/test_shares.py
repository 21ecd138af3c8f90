"""What matters, what to measure and what is saved: by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.measure.workload_sizes import sizes_to_measure
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective
from rccltune.rules.savings import saving_of
from rccltune.workload import CallCount, Recording, Workload

NODE = Scale(n_nodes=1, n_ranks=64)


def count(nbytes: int, calls: int, scale: Scale = NODE) -> CallCount:
    """An exact row."""
    return CallCount(
        collective=Collective.ALL_REDUCE,
        scale=scale,
        min_nbytes=nbytes,
        max_nbytes=nbytes,
        calls=calls,
        total_nbytes=nbytes * calls,
    )


def ranks(n: int) -> tuple[Recording, ...]:
    """So many processes, with a call each."""
    return tuple(
        Recording(
            source="record",
            host="n",
            pid=pid,
            comm="1",
            context=0,
            since="1",
            scale=NODE,
            calls=1,
        )
        for pid in range(n)
    )


def test_shares_are_of_the_whole() -> None:
    """3 of 4 calls, 3 of 103 KiB; sorted by the larger of the two."""
    work = Workload(counts=(count(1024, 3), count(102400, 1)))

    assert list(work.table["of_calls"]) == [0.25, 0.75]
    assert list(work.table["of_bytes"]) == pytest.approx([100 / 103, 3 / 103])


@given(
    st.dictionaries(
        st.integers(1, 1 << 36).map(lambda n: 16 * n),
        st.integers(1, 1000),
        min_size=1,
        max_size=20,
    )
)
def test_the_heaviest_sizes_are_kept(calls: dict[int, int]) -> None:
    """No size that is left out weighs more than one that is kept; what is left out is told."""
    found = sizes_to_measure(Collective.ALL_REDUCE, calls, 1, 5)

    def weight(n: int) -> int:
        return calls[n] * (n + 100_000)

    left = calls.keys() - set(found.sizes)
    assert len(found.sizes) == min(5, len(calls))
    assert max(map(weight, left), default=0) <= min(map(weight, found.sizes))
    assert found.beyond == {n: calls[n] for n in left}
    assert found.moved == ()
    assert found.uncallable == {}


def test_a_saving_is_of_one_rank() -> None:
    """640 calls of 64 ranks are 10 each: 10 × (30 - 20) µs of 300 µs; half the calls are known."""
    work = Workload(counts=(count(1024, 640), count(7, 640)), recordings=ranks(64))

    found = saving_of(
        work,
        lambda _, __, nbytes: (30, 20) if nbytes == 1024 else None,
    )

    assert found.before_s == pytest.approx(300e-6)
    assert found.saved_s == pytest.approx(100e-6)
    assert found.known == 0.5
