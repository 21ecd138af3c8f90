"""Logs of the real RCCL 2.27.7 (ROCm 7.2.4), and what NCCL 2.32 says at a level of its own."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from jobs import ask, kinds

from rccltune.proof import read_log
from rccltune.proof.tuner import tuner_of
from rccltune.vocab import Algorithm, Collective, Protocol
from rccltune.why import Kind

# Retyped from a log of the untouched RCCL 2.27.7-Unknown of Debian's librccl1 7.2.4-1~exp3 on eight
# simulated GPUs in SPX, of 2026-11-23; the file's name is shortened.
HEAD = "vm:24591:24597 [3] NCCL INFO "
LOADED = (
    "vm:24591:24591 [0] NCCL INFO RCCL version : 2.27.7-Unknown",
    f"{HEAD}comm 0x75d61d693010 rank 3 nRanks 8 nNodes 1 localRanks 8 localRank 3 MNNVL 0",
    (
        f"{HEAD}comm:0x75d61d693010, nRanks:8, nNodes:1, coll channels:56 collnet channels:56, nvls "
        "channels:0, p2p channels:64, p2p channels per peer:8"
    ),
    f"{HEAD}TUNER/Plugin: Plugin name set by env to /opt/rccl/librccl-tuner-rccltune.so",
    f"{HEAD}TUNER/Plugin: Using tuner plugin rccltune",
    (
        f"{HEAD}ncclCommInitAll_impl comm 0x75d61d693010 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 5c000 "
        "commId 0x16bbee4cc11a07f6 - Init COMPLETE"
    ),
    "vm:24591:24591 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}",
)


def written(folder: Path, *lines: str) -> Path:
    """A job's log."""
    path = folder / "job.log"
    path.write_text("\n".join((*lines, "")), encoding="utf-8")
    return path


def real(shared_data: Path, name: str, folder: Path) -> Path:
    """One of the recorded logs, as a job leaves it."""
    path = folder / name
    path.write_bytes(gzip.decompress((shared_data / "real-rccl" / f"{name}.gz").read_bytes()))
    return path


def test_a_plugin_that_2_27_7_loaded_is_loaded(tmp_path: Path) -> None:
    """It was called not loaded, with NCCL_TUNER_PLUGIN said to be unset."""
    found = ask(written(tmp_path, *LOADED))
    assert Kind.NOT_LOADED not in kinds(found)
    assert tuner_of("\n".join(LOADED)) == "plugin rccltune"


def test_another_plugin_in_its_words_is_another(tmp_path: Path) -> None:
    """A name that only begins like ours is not ours."""
    for name in ("ofi", "rccltune2"):
        lines = [line.replace("tuner plugin rccltune", f"tuner plugin {name}") for line in LOADED]
        [answer] = {a.text: a for a in ask(written(tmp_path, *lines)).answers}.values()
        assert answer.kind is Kind.NOT_LOADED
        assert answer.text == f"another tuner plugin is loaded: {name}"


def test_a_file_that_it_names_and_does_not_find_is_named(tmp_path: Path) -> None:
    """Its words for the variable are read, so that nobody is told to set what is set."""
    missing = "Could not find: /opt/rccl/librccl-tuner-rccltune.so. Using internal tuner plugin."
    lines = [line.replace("Using tuner plugin rccltune", missing) for line in LOADED]
    [answer] = {a.text: a for a in ask(written(tmp_path, *lines)).answers}.values()
    assert answer.kind is Kind.NOT_LOADED
    assert answer.text == ("no such file on the ranks' hosts: /opt/rccl/librccl-tuner-rccltune.so")


@pytest.mark.parametrize(
    "line",
    [
        LOADED[2],
        (
            "vm:1:1 [0] NCCL INFO 56 coll channels, 56 collnet channels, 0 nvls channels, 64 p2p "
            "channels, 8 p2p channels per peer"
        ),
    ],
)
def test_channels_are_read_in_both_forms(line: str) -> None:
    """``coll channels:56 `` and ``56 coll channels, ``; p2p and collnet channels are others."""
    other = re.sub(r"(collnet|nvls) channels:\d+", r"\1 channels:7", line)
    assert read_log([other]).channels == {56}


def test_labels_of_its_model_that_are_anothers_are_read_right() -> None:
    """The row "Reduce" is all_reduce's, which has a tree; "AllReduce" is that of reduce."""
    none, ring = "    0.0/   0.0 |" * 3, "    12.8/  44.4 |    12.8/   0.0 |    19.1/ 336.0 |"
    tree = "    24.6/  10.1 |    24.6/   0.0 |     0.0/   0.0 |"
    rows = {"AllGather": none, "AllReduce": none, "AllToAllPivot": none, "Broadcast": none}
    lines = [f"{HEAD}{name:>14} |{cells}{ring}" for name, cells in {**rows, "Reduce": tree}.items()]
    refused = read_log(["\n".join(lines) + "\n"]).refused
    offered = {
        (c, str(s))
        for c, s in refused
        if (s.algorithm, s.protocol) == (Algorithm.TREE, Protocol.LL)
    }
    assert {c for c, _ in offered} == {
        *(Collective.BROADCAST, Collective.REDUCE, Collective.ALL_GATHER),
        Collective.REDUCE_SCATTER,
    }


def test_prefixes_of_a_variable_are_advised_for_nccl_alone(tmp_path: Path) -> None:
    """NCCL_ALGO=allreduce:tree acts on reduce in RCCL 2.27.7."""
    said = (
        "vm:1:1 [0] enqueue.cc:1 NCCL WARN Error : no algorithm/protocol available for function "
        "AllGather with datatype ncclInt8. NCCL_ALGO was set to Tree."
    )
    for version, is_advised in (
        ("NCCL INFO NCCL version 2.28.9+cuda13.0", True),
        ("NCCL INFO RCCL version : 2.27.7-Unknown", False),
        ("NCCL INFO nothing", False),
    ):
        path = written(tmp_path, f"vm:1:1 [0] {version}", said)
        remedy = ask(path).answers[0].remedy or ""
        assert remedy.startswith("take away on every rank: unset NCCL_ALGO")
        assert ("allreduce:" in remedy) is is_advised


def test_nccl_2_32_says_at_attn_that_a_plugin_is_unsupported(tmp_path: Path) -> None:
    """A level of its own since 2.32.3 (commit 12df1a11), once for what was asked for."""
    lines = (
        "host:1:1 [0] NCCL INFO NCCL version 2.32.6+cuda13.0",
        "host:1:1 [0] NCCL INFO NCCL_TUNER_PLUGIN set by environment to /opt/old.so",
        "host:1:1 [0] NCCL ATTN External tuner plugin /opt/old.so is unsupported",
        "host:1:1 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
    )
    [answer] = {a.text: a for a in ask(written(tmp_path, *lines)).answers}.values()
    assert answer.kind is Kind.NOT_LOADED
    assert answer.text.startswith("/opt/old.so has no symbol that NCCL 2.32.6+cuda13.0 looks for")


def test_the_recorded_job_with_our_plugin(shared_data: Path, tmp_path: Path) -> None:
    """2,636 lines of eight ranks in one process: what ran is told at each size."""
    found = ask(real(shared_data, "why.log", tmp_path))
    assert Kind.NOT_LOADED not in kinds(found)
    ran = {
        (a.min_nbytes, a.max_nbytes): a.text
        for a in found.answers
        if a.collective is Collective.ALL_REDUCE
    }
    assert "ring/ll ran" in ran[512, 512]
    assert "tree/ll ran" in ran[4096, 1 << 20]
    assert "ring/simple ran" in ran[1 << 24, 1 << 24]


@pytest.mark.parametrize(("name", "channels"), [("why.log", 56), ("probe-spx.log", 56)])
def test_channels_of_the_recorded_jobs(
    shared_data: Path, tmp_path: Path, name: str, channels: int
) -> None:
    """56 in SPX, as its own profiler interface says (facts on the real RCCL)."""
    text = real(shared_data, name, tmp_path).read_text(encoding="utf-8")
    assert read_log([text]).channels == {channels}


@pytest.mark.parametrize("name", ["base-spx.log", "base-cpx.log"])
def test_the_recorded_model_offers_the_tree_to_all_reduce(
    shared_data: Path, tmp_path: Path, name: str
) -> None:
    """tree/ll is offered to all_reduce alone by default: asked of the library with a tuner."""
    text = real(shared_data, name, tmp_path).read_text(encoding="utf-8")
    without_tree = {
        c
        for c, s in read_log([text]).refused
        if (s.algorithm, s.protocol) == (Algorithm.TREE, Protocol.LL)
    }
    assert Collective.ALL_REDUCE not in without_tree
    assert Collective.REDUCE in without_tree


def test_the_untouched_site_of_the_recorded_runs_has_no_tuner(
    shared_data: Path, tmp_path: Path
) -> None:
    """``Could not find: libnccl-tuner.so. Using internal tuner plugin.`` is none."""
    text = real(shared_data, "base-spx.log", tmp_path).read_text(encoding="utf-8")
    assert tuner_of(text) == "none"
