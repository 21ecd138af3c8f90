"""What ranks send and what must come out: exact in every type, and telling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.vocabulary import Collective
from rccltune.torchbench.buffers import Pattern, pieces_of, reduced, sent_by

NUMPY = {
    "int8": np.int8,
    "uint8": np.uint8,
    "int32": np.int32,
    "int64": np.int64,
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
}
OPERATIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def values(pattern: Pattern, n: int) -> list[float]:
    """The first elements."""
    at = [(pattern.start + i) % len(pattern.values) for i in range(n)]
    return [pattern.values[i] for i in at]


@given(
    dtype=st.sampled_from(list(NUMPY)),
    redop=st.sampled_from(list(OPERATIONS)),
    n_ranks=st.integers(1, 130),
)
def test_results_are_what_numpy_gives_in_any_order(dtype: str, redop: str, n_ranks: int) -> None:
    """Reduced in the type itself, forwards and backwards: no rounding anywhere, or it would tell."""
    sent = [
        np.array(
            values(sent_by(rank, dtype=dtype, redop=redop, n_ranks=n_ranks), 300),
            dtype=NUMPY[dtype],
        )
        for rank in range(n_ranks)
    ]
    wanted = values(reduced(dtype=dtype, redop=redop, n_ranks=n_ranks), 300)
    with np.errstate(over="ignore"):
        for order in (sent, sent[::-1]):
            found = order[0]
            for one in order[1:]:
                found = OPERATIONS[redop](found, one)
            assert found.dtype == NUMPY[dtype]
            assert found.tolist() == wanted


@given(n_ranks=st.integers(1, 300))
def test_sums_stay_exact_in_bfloat16(n_ranks: int) -> None:
    """It has all whole numbers up to 256 (8 bits of significand), and none of the odd ones above."""
    pattern = reduced(dtype="bfloat16", redop="sum", n_ranks=n_ranks)
    assert max(pattern.values) <= 256


@given(n_ranks=st.integers(2, 256), dtype=st.sampled_from(["float", "half", "int64"]))
def test_a_piece_at_another_place_shows(n_ranks: int, dtype: str) -> None:
    """Shifted by a power of two of elements, as a piece is, at least one element differs."""
    sent = sent_by(1, dtype=dtype, redop=None, n_ranks=n_ranks)
    for shift in (2**k for k in range(24)):
        moved = Pattern(values=sent.values, start=shift % len(sent.values))
        assert values(moved, 251) != values(sent, 251)


@given(dtype=st.sampled_from([*NUMPY, "bfloat16"]), n_ranks=st.integers(2, 100))
def test_neighbours_send_different_things(dtype: str, n_ranks: int) -> None:
    """All_gather with two pieces exchanged is wrong."""
    first, second = (sent_by(r, dtype=dtype, redop=None, n_ranks=n_ranks) for r in (0, 1))
    assert first.values != second.values


@pytest.mark.parametrize("dtype", ["half", "float"])
def test_an_average_may_be_rounded_and_not_wrong(dtype: str) -> None:
    """Six ranks: the mean within a tolerance far below the next whole number."""
    mean = reduced(dtype=dtype, redop="avg", n_ranks=6)
    total = reduced(dtype=dtype, redop="sum", n_ranks=6)
    assert [6 * value for value in mean.values] == pytest.approx(list(total.values))
    assert 0 < mean.tolerance < 2
    assert total.tolerance == 0


def test_every_collective_knows_its_output() -> None:
    """Four ranks, eight elements each, of rank 2's output; root 1."""
    common = {"root": 1, "share": 8, "dtype": "float", "redop": "sum", "n_ranks": 4}

    def pieces(collective: Collective, rank: int = 2) -> tuple[Pattern, ...]:
        return pieces_of(collective, rank=rank, **common)

    total = reduced(dtype="float", redop="sum", n_ranks=4)
    gathered = pieces(Collective.ALL_GATHER)
    assert gathered == tuple(sent_by(r, dtype="float", redop=None, n_ranks=4) for r in range(4))
    assert pieces(Collective.BROADCAST) == (gathered[1],)
    assert pieces(Collective.ALL_REDUCE) == (total,)
    assert pieces(Collective.REDUCE) == ()
    assert pieces(Collective.REDUCE, rank=1) == (total,)
    (scattered,) = pieces(Collective.REDUCE_SCATTER)
    assert values(scattered, 8) == values(total, 24)[16:]
