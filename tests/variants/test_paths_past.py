"""What asks no tuner: each release's facts, as its own source has them."""

from __future__ import annotations

from typing import Final

import pytest

from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.variants.availability import VariantSite
from rccltune.variants.paths_past import PathPast, paths_past, sentences, takes_all

MIB: Final = 1 << 20
# rocm-systems, projects/rccl/src; torchcomms 59426ba4, comms/rcclx/develop/projects/rccl/src.
DDA: Final = "rocm-systems 006a440c rccl_wrap.cc rcclDdaEnabled, rcclSelectAllGather (8388608)"
DIRECT: Final = "torchcomms 59426ba4 rccl_wrap.cc:446-484; 35a97fc2 rccl_wrap.cc:344-361"
TWO_LEVELS: Final = "rocm-systems 0005e8e8 CHANGELOG.md, RCCL 2.28.3 for ROCm 7.13"
MSCCL: Final = "RCCL 2.21.5 src/misc/msccl/msccl_lifecycle.cc:29; CHANGELOG, ROCm 7.11: off"
OLDER: Final = "ROCm/rccl 2.22.3 has neither rccl_wrap.cc nor DDA"
NODE: Final = "1x8"


def site(library: str | None, arch: str | None, scale: str, **more: object) -> VariantSite:
    """A site of plain float sums."""
    nodes, ranks = map(int, scale.split("x"))
    given = {"dtype": "float", "op": "sum", "is_rcclx": False, "registered": False}
    return VariantSite(
        library=library,
        arch=arch,
        n_nodes=nodes,
        n_ranks=ranks,
        **{**given, **more},  # type: ignore[arg-type] - by name
    )


@pytest.mark.parametrize(
    ("library", "arch", "scale", "collective", "path", "last", "sure", "source"),
    [
        ("RCCL 2.30.4", "gfx942", NODE, "all_reduce", "DDA", 8 * MIB, True, DDA),
        ("RCCL 2.30.4", "gfx942", NODE, "reduce_scatter", "DDA", 8 * MIB, True, DDA),
        ("RCCL 2.30.4", "gfx942", NODE, "all_gather", "DDA", 8 * MIB, True, DDA),
        ("RCCL 2.30.4", "gfx942", NODE, "broadcast", "DDA", None, True, DDA),
        ("RCCL 2.30.4", "gfx950", NODE, "all_reduce", "DDA", 128 * MIB, True, DDA),
        ("RCCL 2.30.4", "gfx942", "1x64", "all_reduce", "DDA", None, True, DDA),
        ("RCCL 2.30.4", "gfx942", "1x4", "all_reduce", "DDA", None, True, DDA),
        ("RCCL 2.30.4", "gfx942", "2x8", "all_reduce", "DDA", None, True, DDA),
        ("RCCL 2.28.3", "gfx942", NODE, "all_reduce", "DDA", None, True, DDA),
        ("RCCL 2.28.3", "gfx942", "1x64", "all_gather", "direct AllGather", 4 * MIB, True, DIRECT),
        ("RCCL 2.27.7", "gfx942", NODE, "all_gather", "direct AllGather", 4 * MIB, True, DIRECT),
        ("RCCL 2.28.3", "gfx950", NODE, "all_gather", "direct AllGather", 8 * MIB, True, DIRECT),
        ("RCCL 2.28.3", "gfx950", "4x32", "all_gather", "direct AllGather", 8 * MIB, False, DIRECT),
        ("RCCL 2.28.3", "gfx942", "1x4", "all_gather", "direct AllGather", None, True, DIRECT),
        ("RCCL 2.26.6", "gfx942", NODE, "all_gather", "direct AllGather", None, True, DIRECT),
        ("RCCL 2.22.3", "gfx942", NODE, "all_gather", "direct AllGather", None, True, OLDER),
        ("RCCL 2.30.4", "gfx950", "8x64", "all_gather", "the hierarchical AllGather", 128 * MIB, False, TWO_LEVELS),
        ("RCCL 2.30.4", "gfx950", "4x32", "all_gather", "the hierarchical AllGather", None, False, TWO_LEVELS),
        ("RCCL 2.27.7", "gfx942", NODE, "all_reduce", "MSCCL", 20 * MIB, False, MSCCL),
        ("RCCL 2.28.3", "gfx942", NODE, "all_reduce", "MSCCL", None, False, MSCCL),
    ],
)  # fmt: skip
def test_calls_past_the_tuner(
    library: str,
    arch: str,
    scale: str,
    collective: str,
    path: str,
    last: int | None,
    sure: bool,
    source: str,
) -> None:
    """From the first byte to the last one, by release, architecture and scale."""
    found = [
        one
        for one in paths_past(site(library, arch, scale), (Collective(collective),), {})
        if one.path == path
    ]
    assert [one.max_nbytes for one in found] == ([] if last is None else [last]), source
    assert all(one.is_sure is sure for one in found), source


def test_what_is_not_known_makes_an_answer_unsure() -> None:
    """An architecture without a name may have the limit of each; no library, nothing."""
    unknown = paths_past(site("RCCL 2.30.4", None, NODE), (Collective.ALL_REDUCE,), {})
    assert {one.max_nbytes for one in unknown} == {8 * MIB, 128 * MIB}
    assert not any(one.is_sure for one in unknown)
    assert paths_past(site(None, "gfx942", NODE), TUNABLE, {}) == ()


@pytest.mark.parametrize(
    ("variables", "last"),
    [
        ({"RCCL_DDA_ENABLE": "0"}, None),
        ({"RCCL_DDA_ENABLE": "1"}, 8 * MIB),
        ({"RCCL_DDA_THRESHOLD": "65536"}, 65536),
    ],
)
def test_variables_switch_a_path_off_or_confine_it(
    variables: dict[str, str], last: int | None
) -> None:
    """As every rank gets them."""
    found = paths_past(site("RCCL 2.30.4", "gfx942", NODE), (Collective.ALL_REDUCE,), variables)
    assert [one.max_nbytes for one in found] == ([] if last is None else [last])


def test_other_types_and_operations_ask() -> None:
    """DDA sums float, half and bfloat16 alone."""
    for more in ({"dtype": "double"}, {"op": "max"}):
        here = site("RCCL 2.30.4", "gfx942", NODE, **more)
        assert paths_past(here, (Collective.ALL_REDUCE,), {}) == ()


def past(low: int, high: int, *, sure: bool = True) -> PathPast:
    """One of all_reduce."""
    return PathPast(
        collective=Collective.ALL_REDUCE,
        min_nbytes=low,
        max_nbytes=high,
        path="DDA",
        switch="RCCL_DDA_ENABLE=0",
        is_sure=sure,
    )


def test_a_range_is_taken_whole_only_where_that_is_sure() -> None:
    """Without a gap, by paths that surely take it."""
    reduce = Collective.ALL_REDUCE
    assert takes_all([past(1, 99)], reduce, 8, 99)
    assert not takes_all([past(1, 99)], reduce, 8, 100)
    assert takes_all([past(50, 200), past(1, 49)], reduce, 8, 100)
    assert not takes_all([past(51, 200), past(1, 49)], reduce, 8, 100)
    assert not takes_all([past(1, 99, sure=False)], reduce, 8, 99)
    assert not takes_all([past(1, 99)], Collective.REDUCE, 8, 99)


def test_a_sentence_has_collectives_sizes_path_and_switch() -> None:
    """One for collectives that a path takes alike."""
    here = site("RCCL 2.30.4", "gfx942", NODE)
    asked = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)
    assert sentences(paths_past(here, asked, {})) == (
        "all_reduce, reduce_scatter calls up to 8 MiB ask no tuner here: DDA takes them; RCCL_DDA_ENABLE=0 switches it off",
    )
    (unsure,) = sentences([past(1024, 4096, sure=False)])
    assert unsure.startswith("all_reduce calls from 1 KiB to 4 KiB may ask no tuner here: ")
