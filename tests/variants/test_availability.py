"""Why a variant is not to be had: the sentence names who has it, or what is not met."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from wording import lacks

from rccltune.model.vocabulary import Collective
from rccltune.releases import LibraryVendor, parse_library
from rccltune.variants.availability import VariantSite, why_absent
from rccltune.variants.catalog import load_catalog

CATALOG = load_catalog()
WORDS = [s.name for s in CATALOG.specs if s.not_tunable is None and s.parameter is None]


def why(word: str, **known: object) -> str | None:
    """What is said of a variant at a site."""
    spec, parameter = CATALOG.look_up(word)
    return why_absent(spec, VariantSite(parameter=parameter, **known))  # type: ignore[arg-type] - a test's shorthand


@pytest.mark.parametrize(
    ("word", "library", "is_rcclx", "said"),
    [
        (
            "mscclpp",
            "RCCL 2.28.3",
            False,
            "RCCL 2.28.3 has no MSCCL++; RCCL 2.21.5 to 2.26.6 (ROCm 6.3 to 7.0) have",
        ),
        (
            "msccl-off",
            "RCCL 2.28.3-develop:0cbce2a7",
            None,
            "RCCL 2.28.3 has no MSCCL; RCCL 2.16.2 to 2.27.7 (ROCm 5.6 to 7.2) have",
        ),
        (
            "dda-off",
            "RCCL 2.27.7",
            False,
            "RCCL 2.27.7 has no DDA; RCCL from 2.30.4 (ROCm 7.14 and later) have",
        ),
        (
            "low-precision",
            "RCCL 2.28.3",
            False,
            "RCCL 2.28.3 has no low precision collectives; RCCLX has",
        ),
        (
            "mscclpp",
            "RCCL 2.28.3",
            True,
            "RCCLX (RCCL 2.28.3) has no MSCCL++; RCCL 2.21.5 to 2.26.6 (ROCm 6.3 to 7.0) have",
        ),
        (
            "dev-kernarg",
            "NCCL 2.28.9",
            None,
            "NCCL 2.28.9 has no dev-kernarg; RCCL and RCCLX have",
        ),
        ("mscclpp", "RCCL 2.21.5", False, None),
        ("mscclpp", "RCCL 2.26.6", False, None),
        ("mscclpp", None, None, None),
        ("mscclpp", "a library of ours", None, None),
        # An RCCL that may be RCCLX is not refused what RCCLX has.
        ("low-precision", "RCCL 2.28.3", None, None),
        ("low-precision", None, True, None),
        ("graph-2", "NCCL 2.28.9", None, None),
    ],
)
def test_a_release_without_it_is_told_with_those_that_have_it(
    word: str, library: str | None, is_rcclx: bool | None, said: str | None
) -> None:
    """After the release map and §2.3 and §5.4 of the facts."""
    assert why(word, library=library, is_rcclx=is_rcclx) == said


def test_nodes_belong_to_a_release() -> None:
    """ROCm 7.0's direct AllGather is for 2 to 16 nodes (CHANGELOG); later ones serve one too."""
    one = {"library": "RCCL 2.26.6", "is_rcclx": False, "n_ranks": 8}
    assert (
        lacks(
            why("direct-allgather-off", **one, n_nodes=1),
            "RCCL",
            "2.26.6",
            "2 to",
            "16 nodes",
            "1",
            "2.27.7",
            "ROCm",
            "7.1",
            "RCCLX",
        )
        == []
    )
    assert why("direct-allgather-off", **one | {"n_ranks": 16}, n_nodes=2) is None
    assert why("direct-allgather-off", **one | {"library": "RCCL 2.28.3"}, n_nodes=1) is None


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("mscclpp", {"n_ranks": 64, "n_nodes": 1}, "8 ranks on one node, not for 64 ranks on 1"),
        ("mscclpp", {"n_ranks": 8, "n_nodes": 2}, "not for 8 ranks on 2 nodes"),
        ("mscclpp", {"graph": False}, "captured graph only: add --graph 2"),
        ("mscclpp", {"arch": "gfx90a"}, "is for gfx942, and this is gfx90a"),
        ("mscclpp", {"collectives": (Collective.BROADCAST,)}, "not broadcast"),
        (
            "mscclpp",
            {"collectives": (Collective.ALL_REDUCE,), "dtype": "double"},
            "not all_reduce and double",
        ),
        (
            "mscclpp",
            {"collectives": (Collective.ALL_REDUCE,), "dtype": "float", "op": "max"},
            "not all_reduce and float and max",
        ),
        ("dda-relaxed", {"n_ranks": 8, "n_nodes": 1}, "2, 3, 4, 5, 6 or 7 ranks on one node"),
        ("direct-allgather", {"n_ranks": 12}, "multiples of 8 ranks, not for 12 ranks"),
        ("threads", {"n_nodes": 2}, "threads is for one node, not for 2 nodes"),
        ("torch-register-hook", {}, "measure it with examples/torch_all_reduce.py"),
        ("alltoallv-dynamic", {}, "asks no tuner"),
    ],
)
def test_a_condition_that_is_not_met_is_named(
    word: str, known: dict[str, object], said: str
) -> None:
    """Ranks, nodes, graph, GPU, collective, type and operation."""
    assert said in (why(word, **known) or "")


@pytest.mark.parametrize(
    ("channels", "known", "said"),
    [
        # §2.3: 38 on a CPX device, and a larger minimum comes to 2 with a WARN.
        (112, {"arch": "gfx942", "cu_count": 38, "n_ranks": 64}, "with 38 compute units takes 38"),
        (39, {"arch": "gfx942", "cu_count": 38, "n_ranks": 64}, "to 2 with a WARN"),
        (38, {"arch": "gfx942", "cu_count": 38, "n_ranks": 64}, None),
        (112, {"arch": "gfx942", "cu_count": 304, "n_ranks": 8}, None),
        (112, {"arch": "gfx942", "cu_count": 304, "n_ranks": 4}, "fewer than 8 ranks take 64"),
        (64, {"arch": "gfx942", "cu_count": 304, "n_ranks": 4}, None),
        (129, {"arch": "gfx950", "n_ranks": 8}, "takes 128 channels at most"),
        (112, {"arch": "gfx942", "cu_count": 304, "n_nodes": 2, "n_ranks": 16}, "lowers"),
        (112, {"arch": "gfx942", "cu_count": 38, "n_nodes": 2, "n_ranks": 128}, "to 2 with a"),
        (32, {"library": "NCCL 2.28.9", "arch": "NVIDIA H200", "cu_count": 132}, None),
        (65, {"library": "NCCL 2.28.9"}, "NCCL lowers NCCL_MIN_NCHANNELS to 64"),
        (112, {}, None),
    ],
)
def test_channels_that_come_to_nothing_are_refused(
    channels: int, known: dict[str, object], said: str | None
) -> None:
    """A minimum above the ceiling would measure two channels under the name of many."""
    found = why(f"channels-{channels}", **known)
    assert found is None if said is None else said in (found or "")


@given(
    word=st.sampled_from(WORDS),
    library=st.none() | st.sampled_from(["RCCL 2.21.5", "RCCL 2.28.3", "NCCL 2.28.9"]),
    is_rcclx=st.none() | st.booleans(),
    arch=st.none() | st.sampled_from(["gfx90a", "gfx942", "gfx950"]),
    n_ranks=st.none() | st.integers(1, 128),
    n_nodes=st.none() | st.integers(1, 4),
    graph=st.none() | st.booleans(),
    dtype=st.none() | st.sampled_from(["float", "double"]),
)
def test_what_is_not_known_never_refuses(word: str, **known: object) -> None:
    """Forgetting any part of a site can only take a reason away."""
    # Meta's RCCLX is no NCCL.
    assume(not (known["is_rcclx"] and known["library"] == "NCCL 2.28.9"))
    if why(word, **known) is None:
        for part in known:
            assert why(word, **{**known, part: None}) is None


# --- releases -------------------------------------------------------------------------------------


def test_libraries_are_read_as_they_print_themselves() -> None:
    """With builds and suffixes behind the number."""
    assert parse_library("RCCL 2.18.6+hip6.0") == (LibraryVendor.RCCL, (2, 18, 6))
    assert parse_library("NCCL 2.28.3+cuda12.9") == (LibraryVendor.NCCL, (2, 28, 3))
    assert parse_library("librccl.so") is None
    assert parse_library(None) is None
