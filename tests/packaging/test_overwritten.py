"""What libraries write over: each release's facts, as its own source has them."""

from __future__ import annotations

from typing import Final

import pytest

from rccltune.model.rule import Rule
from rccltune.model.settings import Scale, Setting
from rccltune.model.vocabulary import Collective
from rccltune.overwritten import OVERWRITES, explained, losses, overwrites, remark
from rccltune.releases import releases_of

# Trees of meta-pytorch/torchcomms, comms/rcclx/develop/src; of rocm-systems, projects/rccl/src.
JULY: Final = "torchcomms 9e93d281 rccl_wrap.cc:36, enqueue.cc:1823"
OCT_17: Final = "torchcomms 35a97fc2 rccl_wrap.cc:49, enqueue.cc:2120"
OCT_31: Final = "torchcomms 76271ffa rccl_wrap.cc:46, 49, 52, 55, enqueue.cc:2138"
GUARDED: Final = "torchcomms 59426ba4 projects/rccl/src/enqueue.cc:2184, 2203"
DIRECT: Final = "rocm-systems 006a440c rccl_wrap.cc rcclUseReduceScatterDirect, pull request 10132"
ANY: Final = "what the library likes"
SURE, MAYBE = True, False

FACTS: Final = (
    # library, GPU, collective, nodes x ranks, bytes, rule, what runs, whether every build does
    ("RCCL 2.22.3+hip6.4", "gfx942", "all_reduce", "2x16", 1024, "ring/simple", None, SURE, JULY),
    ("RCCL 2.26.6+hip7.0", "gfx942", "all_reduce", "2x16", 1024, "ring/simple", ANY, SURE, JULY),
    ("RCCL 2.26.6+hip7.0", "gfx942", "broadcast", "2x16", 1024, "ring/simple", None, SURE, JULY),
    ("RCCL 2.26.6+hip7.0", "gfx942", "reduce_scatter", "1x8", 1024, "ring/simple", None, SURE, JULY),
    ("RCCL 2.27.7+hip7.1", "gfx942", "broadcast", "2x16", 1024, "ring/simple", ANY, SURE, OCT_17),
    ("RCCL 2.27.7+hip7.1", "gfx942", "reduce_scatter", "1x8", 8, "ring/simple", None, SURE, OCT_17),
    ("RCCL 2.27.7", "gfx942", "reduce", "4x32", 1 << 30, "ring/simple", ANY, MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx942", "reduce_scatter", "1x8", 2817024, "ring/simple", "-/ll", MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx942", "reduce_scatter", "1x8", 2817032, "ring/simple", None, MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx942", "reduce_scatter", "1x64", 22536192, "ring/ll128", "-/ll", MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx942", "reduce_scatter", "1x64", 22536256, "ring/ll128", None, MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx942", "reduce_scatter", "1x8", 8192, "ring/ll", None, MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx942", "all_gather", "1x8", 8192, "ring/simple", None, MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx950", "all_gather", "1x8", 707584, "ring/simple", "-/ll", MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx950", "all_gather", "1x8", 707592, "ring/simple", None, MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx950", "reduce_scatter", "1x8", 1403904, "ring/simple", "-/ll", MAYBE, OCT_31),
    ("RCCL 2.27.7", "gfx950", "reduce_scatter", "1x8", 1403912, "ring/simple", None, MAYBE, OCT_31),
    ("RCCL 2.27.7", None, "reduce_scatter", "1x8", 1024, "ring/simple", None, MAYBE, OCT_31),
    ("RCCL 2.28.3", "gfx942", "reduce_scatter", "1x8", 1024, "ring/simple", None, SURE, GUARDED),
    ("RCCL 2.28.3", "gfx942", "all_reduce", "2x16", 1024, "ring/simple", None, SURE, GUARDED),
    ("RCCL 2.30.7", "gfx950", "reduce_scatter", "4x32", 4194304, "ring/ll", "ring/simple", MAYBE, DIRECT),
    ("RCCL 2.30.7", "gfx950", "reduce_scatter", "4x32", 4194305, "ring/ll", None, MAYBE, DIRECT),
    ("RCCL 2.30.7", "gfx950", "reduce_scatter", "2x32", 131071, "ring/ll", None, MAYBE, DIRECT),
    ("RCCL 2.30.7", "gfx950", "reduce_scatter", "2x16", 131072, "ring/ll", None, MAYBE, DIRECT),
    ("RCCL 2.30.7", "gfx942", "reduce_scatter", "4x32", 1024, "ring/ll", None, MAYBE, DIRECT),
    ("NCCL 2.27.7", None, "all_reduce", "2x16", 1024, "ring/simple", None, SURE, "no such function"),
    (None, "gfx942", "all_reduce", "2x16", 1024, "ring/simple", None, SURE, "nothing is assumed"),
)  # fmt: skip


def scale_of(words: str) -> Scale:
    """Of ``2x16``: nodes and ranks."""
    nodes, ranks = map(int, words.split("x"))
    return Scale(n_nodes=nodes, n_ranks=ranks)


@pytest.mark.parametrize(
    ("library", "arch", "name", "scale", "nbytes", "rule", "ran", "every", "source"), FACTS
)
def test_what_runs_where_a_tuner_has_answered(
    library: str | None,
    arch: str | None,
    name: str,
    scale: str,
    nbytes: int,
    rule: str,
    ran: str | None,
    every: bool,
    source: str,
) -> None:
    """The first and the last byte of each limit, by release, architecture, collective, scale."""
    collective, at = Collective(name), scale_of(scale)
    asked = Rule(
        collective=collective, min_nbytes=nbytes, max_nbytes=nbytes, setting=Setting.parse(rule)
    )
    rows = [one for one in overwrites(library, collective, at, arch) if one.takes(asked, at, arch)]
    found = [ANY if one.runs is None else str(one.runs) for one in rows]
    assert found == ([] if ran is None else [ran]), source
    assert all(one.all_builds is every for one in rows), source


def test_every_row_is_of_a_release_and_has_a_source() -> None:
    """A row for a release that is not listed would never be found."""
    for row in OVERWRITES:
        assert len(releases_of(row.releases)) == len(row.releases)
        assert "src/rccl_wrap.cc" in row.source


def rule(low: int, high: int, setting: str, collective: str = "reduce_scatter") -> Rule:
    """For any communicator."""
    return Rule(
        collective=Collective(collective),
        min_nbytes=low,
        max_nbytes=high,
        setting=Setting.parse(setting),
    )


def test_a_file_is_told_what_is_lost_of_it() -> None:
    """One sentence for each limit and scale, and none of rules that ask for what runs anyway."""
    node = Scale(n_nodes=1, n_ranks=8)
    rules = [
        rule(0, 4095, "ring/simple"),
        rule(4096, 1 << 24, "ring/ll128"),
        rule(0, 99, "ring/ll"),
    ]
    assert losses("RCCL 2.27.7", rules, [node], "gfx942") == (
        "RCCL 2.27.7, some builds: reduce_scatter up to 2.69 MiB runs ll whatever a rule says",
    )
    assert losses("RCCL 2.27.7", rules[2:], [node], "gfx942") == ()
    assert losses("RCCL 2.28.3", rules, [node], "gfx942") == ()
    assert losses("RCCL 2.27.7", [rule(1 << 23, 1 << 24, "ring/ll128")], [node], "gfx942") == ()


def test_explain_names_every_release_that_writes_over_a_rule() -> None:
    """Each way once, with what is known of builds."""
    several = Scale(n_nodes=2, n_ranks=16)
    [said] = explained(
        [rule(0, 9, "ring/simple", "all_reduce")], Collective.ALL_REDUCE, several, "gfx942"
    )
    assert said.startswith(
        "RCCL 2.26.6 and 2.27.7 (ROCm 7.0 and 7.1), some builds of RCCL 2.27.7 (ROCm 7.2): "
    )
    assert explained([], Collective.ALL_REDUCE, several, "gfx942") == ()


def test_whoever_measures_is_told_first() -> None:
    """Nothing where nothing is written over."""
    assert remark("RCCL 2.28.3", Scale(n_nodes=2, n_ranks=16), "gfx942") is None
    assert remark("RCCL 2.27.7", Scale(n_nodes=1, n_ranks=8), None) is None
    said = remark("RCCL 2.27.7", Scale(n_nodes=1, n_ranks=8), "gfx942")
    assert said is not None
    assert "some builds" in said
    assert "verify" in said
