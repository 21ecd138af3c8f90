"""Spellings and numbers of the tuner's words."""

from __future__ import annotations

import pytest

from rccltune.model.vocabulary import TUNABLE, Algorithm, Collective, Protocol


def test_numbers_are_those_of_the_abi() -> None:
    """ncclFunc_t, algorithm and protocol numbers of NCCL 2.30.7 src/include/nccl_common.h."""
    assert [(c.csv_name, c.func_index) for c in TUNABLE] == [
        ("broadcast", 0),
        ("reduce", 1),
        ("allgather", 2),
        ("reducescatter", 3),
        ("allreduce", 4),
    ]
    assert (Algorithm.TREE.index, Algorithm.RING.index, Algorithm.PAT.index) == (0, 1, 6)
    assert [p.index for p in (Protocol.LL, Protocol.LL128, Protocol.SIMPLE)] == [0, 1, 2]


@pytest.mark.parametrize(
    "text", ["AllReduce", "all_reduce", "allreduce", "all_reduce_perf", "all_reduce_perf_mpi"]
)
def test_a_collective_is_known_by_every_name_that_tools_give_it(text: str) -> None:
    """rccl-tests' programs, its CSV, rule files and NCCL's logs spell it differently."""
    assert Collective.parse(text) is Collective.ALL_REDUCE


def test_unknown_words_are_refused() -> None:
    """The vendors' example turns an unknown word into ring; we never do."""
    with pytest.raises(ValueError, match="collective"):
        Collective.parse("allredcue")
    with pytest.raises(ValueError, match="algorithm"):
        Algorithm.parse("rign")
    with pytest.raises(ValueError, match="unknown protocol ''"):
        Protocol.parse("")
