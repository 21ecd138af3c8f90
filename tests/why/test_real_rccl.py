"""Logs of RCCL 2.27.7 itself (ROCm 7.2.4, Debian's build) over a stand-in runtime without a GPU.

The whole logs lie beside the checkout (shared/data/real-rccl; how they came about and what ran is in
shared/facts/real-rccl.md). The lines below are retyped from them, with shorter paths and addresses,
so that what is promised is tested without them too.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from jobs import ask, at, kinds
from wording import lacks

from rccltune.model.units import KIB
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.why.job_report import AnswerKind, CommunicatorScale, JobReport, SizeAnswer

MIB = 1024 * KIB
NODE = CommunicatorScale(1, 8)
FILE = "/opt/rccl/pb/librccl-tuner-rccltune.so"
HEAD = "vm:24591:24591 [{}] NCCL INFO "
# What a rule of the job's asked for, by what ran where rules answered (the fact sheet's section 1).
RULES = """allreduce,0,1023,ring,ll,-1,1,8,-1,-1
allreduce,4096,1048576,tree,ll,64,1,8,-1,-1
reducescatter,0,4194304,ring,ll128,-1,1,8,-1,-1
"""
Log = Callable[[str], Path]


def rows(tree_ll: str) -> list[str]:
    """The model of 8 x SPX, latency and bandwidth of tree and ring; five names for five others."""
    none, ring = "0.0/   0.0", "12.8/  44.4"
    gather = [none, none, none, ring, "12.8/   0.0", "19.1/ 336.0"]
    reduce = [tree_ll, "24.6/   0.0", none, "23.2/  15.4", "23.2/   0.0", "46.4/ 192.0"]
    names = ("AllGather", "AllReduce", "AllToAllPivot", "Broadcast")
    first = [(name, gather) for name in names] + [("Reduce", reduce)]
    blocks = [*first, *((name, [none] * 6) for name, _ in first)]
    tail = f"    {none} |" * 3
    return [f"{name:>13} |" + "".join(f"    {c} |" for c in cells) + tail for name, cells in blocks]


def excerpt(*rest: str, plugin: str = "rccltune", tree_ll: str = "24.6/  10.1") -> str:
    """How the log begins, with what is said once a process, and what comes then from rank 0."""
    stamp = "[2026-11-23 02:26:09] "
    lines = [
        "",
        f"{stamp}vm:24591:24591 [0] misc/rocmwrap.cc:105 NCCL WARN Failed to find ROCm runtime",
        f"{HEAD.format(0)}RCCL version : 2.27.7-Unknown ",
        "HIP version  : 7.2.53211-",
        "Librccl path : /opt/rccl/lib/librccl.so.1",
    ]
    for rank in range(8):
        head = HEAD.format(rank).replace(":24591 [", f":{24594 + rank} [")
        address = f"0x75d61d9240{rank}0"
        start = (
            f"{head}ncclCommInitAll_impl comm {address} rank {rank} nranks 8 cudaDev {rank} nvmlDev "
            f"{rank} busId c000 commId 0x16bbee4cc11a07f6 - Init "
        )
        lines += [
            f"{start}START",
            f"{head}comm {address} rank {rank} nRanks 8 nNodes 1 localRanks 8 localRank {rank} MNNVL 0",
            (
                f"{head}comm:{address}, nRanks:8, nNodes:1, coll channels:56 collnet channels:56, "
                "nvls channels:0, p2p channels:64, p2p channels per peer:8"
            ),
        ]
        if rank == 3:
            lines += [
                f"{head}TUNER/Plugin: Plugin name set by env to {FILE}",
                f"{head}TUNER/Plugin: Using tuner plugin {plugin}",
            ]
        lines.append(f"{start}COMPLETE")
    shown = [HEAD.format(0) + row for row in rows(tree_ll)]
    return "\n".join([*lines, *shown, *(HEAD.format(0) + text for text in rest)]) + "\n"


CALLED = (
    "AllReduce: 512 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
    "AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}",
    "ReduceScatter: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
)


@pytest.fixture
def put(tmp_path: Path) -> Log:
    """Writes a log."""

    def written(text: str) -> Path:
        path = tmp_path / "job.log"
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.fixture
def real(tmp_path: Path, shared_data: Path) -> Log:
    """One of the whole logs."""

    def unpacked(name: str) -> Path:
        packed = shared_data / "real-rccl" / f"{name}.log.gz"
        if not packed.is_file():
            pytest.skip("the shared data have no logs of the real RCCL")
        path = tmp_path / f"{name}.log"
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        return path

    return unpacked


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The job's rule file."""
    path = tmp_path / "rules.csv"
    path.write_text(RULES, encoding="utf-8")
    return path


def of(found: JobReport, collective: Collective) -> list[SizeAnswer]:
    """The answers on one collective."""
    return [answer for answer in found.answers if answer.collective is collective]


def test_its_words_for_a_loaded_plugin_are_understood(put: Log, rules: Path) -> None:
    """No version behind the name, once a process, by whichever rank came first."""
    path = put(excerpt(*CALLED[:2]))
    assert set(kinds(ask(path))) == {AnswerKind.UNKNOWN}
    found = ask(path, rules=rules)
    assert kinds(found) == [AnswerKind.AS_RULE, AnswerKind.AS_RULE]
    assert {answer.where for answer in found.answers} == {NODE}
    assert lacks(at(found, 4096).text, "tree/ll", "line 2") == []


def sends(count: int, *, parts: bool) -> list[str]:
    """One rank's messages to all eight, of one buffer or of a part of it each."""
    lines = []
    for peer in range(8):
        end = f"acc (nil) count {count} datatype 7 op 0 root {peer} comm 0x75d61d924000 [nranks=8]"
        begin = 4 * count * peer
        sent = begin if parts else 0
        lines += [
            f"Send: opCount 5 sendbuff (nil) recvbuff 0x7ed66bc{sent:05x} {end} stream 0x5 task 0",
            f"Recv: opCount 5 sendbuff (nil) recvbuff 0x7ed6ebc{begin:05x} {end} stream 0x5 task 1",
        ]
    return lines


def test_sends_of_one_buffer_to_all_are_its_direct_all_gather(put: Log) -> None:
    """64 bytes to each of eight are 512 in all; parts of a buffer are an alltoall, which is none."""
    found = ask(put(excerpt(CALLED[0], *sends(16, parts=False))))
    (gathered,) = of(found, Collective.ALL_GATHER)
    assert (gathered.kind, gathered.min_nbytes, gathered.max_nbytes) == (
        AnswerKind.BYPASSED,
        512,
        512,
    )
    assert gathered.text == "by direct AllGather, which asks no tuner"
    assert "RCCL_DIRECT_ALLGATHER_THRESHOLD=-1" in (gathered.remedy or "")
    assert not of(found, Collective.SENDRECV)

    found = ask(put(excerpt(CALLED[0], *sends(16, parts=True))))
    assert not of(found, Collective.ALL_GATHER)
    assert [a.kind for a in of(found, Collective.SENDRECV)] == [AnswerKind.NOT_TUNABLE]


def test_the_whole_log_of_a_job_with_the_plugin(real: Log, rules: Path) -> None:
    """Our plugin ran tree/ll from 4 KiB to 1 MiB; all_gather to 4 MiB went past every tuner."""
    found = ask(real("why"), rules=rules)
    spans = [(a.min_nbytes, a.max_nbytes, a.kind) for a in of(found, Collective.ALL_REDUCE)]
    assert spans == [
        (512, 512, AnswerKind.AS_RULE),
        (4 * KIB, MIB, AnswerKind.AS_RULE),
        (16 * MIB, 16 * MIB, AnswerKind.HOLE),
    ]
    spans = [(a.min_nbytes, a.max_nbytes, a.kind) for a in of(found, Collective.ALL_GATHER)]
    assert spans == [(512, MIB, AnswerKind.BYPASSED), (16 * MIB, 16 * MIB, AnswerKind.HOLE)]
    assert not of(found, Collective.SENDRECV)
    assert {a.where for a in found.answers} == {NODE}
    assert AnswerKind.NOT_LOADED not in kinds(ask(real("why")))


@pytest.mark.parametrize("name", ["base-cpx", "base-spx"])
def test_the_whole_logs_of_jobs_without_a_plugin(real: Log, name: str) -> None:
    """Subsystem TUNING alone: five collectives, and no communicator is named."""
    found = ask(real(name))
    assert {answer.text for answer in found.answers} == {
        "NCCL_TUNER_PLUGIN is not set, and RCCL 2.27.7-Unknown found no tuner by itself"
    }
    assert {answer.collective for answer in found.answers} == set(TUNABLE)


STUCK = "Error : no algorithm/protocol available for function Reduce with datatype ncclInt8. NCCL_ALGO was set to Tree."


@pytest.mark.parametrize(
    ("version", "by_name"),
    [
        ("RCCL version : 2.27.7-Unknown", False),
        ("RCCL version : 2.26.6-HEAD:1", False),
        ("NCCL version 2.23.4+cuda12.6", False),
        ("NCCL version 2.28.9+cuda13.0", True),
        ("", False),
    ],
)
def test_a_prefix_is_advised_only_where_it_means_what_it_says(
    put: Log, version: str, by_name: bool
) -> None:
    """RCCL 2.27.7 takes allreduce: for reduce (the fact sheet, "Asked -> executed")."""
    lines = [f"h:7:7 [0] NCCL INFO {version}", f"h:7:7 [0] x.cc:1 NCCL WARN {STUCK}"]
    (answer,) = ask(put("\n".join(lines[not version :]) + "\n")).answers
    remedy = answer.remedy or ""
    assert answer.kind is AnswerKind.STUCK
    assert lacks(remedy, "NCCL_ALGO") == []
    assert ("allreduce:" in remedy) == by_name
    assert ("NCCL_TUNER_CONFIG_FILE=" in remedy) == (not by_name)
    assert ("for every collective" in remedy) == (not by_name)


@pytest.mark.parametrize(("release", "newest"), [("2.32.3", 6), ("2.32.6", 7)])
def test_a_plugin_that_newest_nccl_refuses(put: Log, release: str, newest: int) -> None:
    """From 2.32.3 on at its own level, with file, line and function before it (NCCL src/debug.cc)."""
    named = "/opt/site/libtuner.so"
    text = (
        f"h:7:7 [0] NCCL INFO NCCL version {release}+cuda13.2\n"
        "h:7:7 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0\n"
        f"h:7:7 [0] NCCL INFO NCCL_TUNER_PLUGIN set by environment to {named}\n"
        "\n"
        "[2026-11-23 02:26:09] h:7:7 [0] plugin/tuner.cc:99 (ncclTunerPluginLoad) NCCL ATTN External "
        f"tuner plugin {named} is unsupported\n"
    )
    (answer,) = ask(put(text)).answers
    assert answer.kind is AnswerKind.NOT_LOADED
    assert (
        lacks(
            answer.text,
            f"{named}",
            "NCCL",
            f"{release}+cuda13.2",
            f"ncclTunerPlugin_v{newest}",
            "v2",
        )
        == []
    )
    assert "versions 2 to 7" in (answer.remedy or "")
    # At ATTN and without INFO there is no other line.
    (alone,) = ask(put(text.split("\n\n")[1])).answers
    assert alone.kind is AnswerKind.NOT_LOADED
    assert lacks(alone.text, f"{named}", "no symbol") == []
