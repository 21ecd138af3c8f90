"""Which calls a path takes, against the conditions as their sources state them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.vocabulary import DTYPE_BYTES, Collective
from rccltune.variants.availability import takes
from rccltune.variants.catalog import load_catalog

CATALOG = load_catalog()
MIB = 2**20
ANY_CALL = {
    "collective": st.sampled_from(list(Collective)),
    "nbytes": st.integers(0, 80 * MIB) | st.integers(0, 2**20).map(lambda n: 128 * n),
    "dtype": st.sampled_from(sorted(DTYPE_BYTES)),
    "op": st.sampled_from(["sum", "prod", "max", "min", "avg"]),
    "n_ranks": st.sampled_from([1, 2, 7, 8, 16, 64]),
    "n_nodes": st.sampled_from([1, 2]),
}


def taken(name: str, **call: object) -> bool | None:
    """What takes() says of a call."""
    return takes(CATALOG.find(name)[0], **call)  # type: ignore[arg-type] - a test's shorthand


@given(**ANY_CALL)
def test_mscclpp_takes_what_amds_tips_say(
    collective: Collective, nbytes: int, dtype: str, op: str, n_ranks: int, n_nodes: int
) -> None:
    """Multiples of 32 bytes; all_reduce of five types and sum; all_gather; 8 ranks of one node."""
    share = nbytes // n_ranks if collective is Collective.ALL_GATHER else nbytes
    whole = collective is not Collective.ALL_GATHER or nbytes % n_ranks == 0
    typed = dtype in {"half", "int32", "uint32", "float", "bfloat16"} and op == "sum"
    fits = {Collective.ALL_REDUCE: typed, Collective.ALL_GATHER: True}.get(collective, False)
    expected = fits and whole and share > 0 and share % 32 == 0 and (n_ranks, n_nodes) == (8, 1)
    call = {"dtype": dtype, "op": op, "n_ranks": n_ranks, "n_nodes": n_nodes}
    assert taken("mscclpp", collective=collective, nbytes=nbytes, **call) is expected


@given(**ANY_CALL)
def test_low_precision_takes_what_rcclx_does(
    collective: Collective, nbytes: int, dtype: str, op: str, n_ranks: int, n_nodes: int
) -> None:
    """float and bfloat16 from 16 MiB, reductions with sum; every all_gather (collectives.cc)."""
    large = nbytes >= 16 * MIB and dtype in {"float", "bfloat16"}
    fits = {
        Collective.ALL_REDUCE: large and op == "sum",
        Collective.REDUCE_SCATTER: large and op == "sum",
        Collective.ALLTOALL: large,
        Collective.ALL_GATHER: nbytes > 0,
    }.get(collective, False)
    call = {"dtype": dtype, "op": op, "n_ranks": n_ranks, "n_nodes": n_nodes}
    expected = fits and n_nodes == 1
    assert taken("low-precision", collective=collective, nbytes=nbytes, **call) is expected


def test_the_edges_of_rcclxs_dda() -> None:
    """Flat ends at the tree's 29 MiB, the tree at its buffer's 32 MiB, both at 16-byte steps."""
    call = {"collective": Collective.ALL_REDUCE, "dtype": "half", "op": "sum"}
    where = {"n_ranks": 8, "n_nodes": 1}
    flat = [taken("rcclx-dda-flat", **call, **where, nbytes=n) for n in (16, 24, 29 * MIB)]
    assert flat == [True, False, True]
    assert taken("rcclx-dda-flat", **call, **where, nbytes=29 * MIB + 16) is False
    # Each of 8 ranks reduces its share, which must be a multiple of 16 bytes too.
    tree = [taken("rcclx-dda-tree", **call, **where, nbytes=n) for n in (16, 128, 32 * MIB)]
    assert tree == [False, True, True]
    assert taken("rcclx-dda-tree", **call, **where, nbytes=32 * MIB + 128) is False
