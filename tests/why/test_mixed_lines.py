"""Logs as clusters leave them: many ranks in one stream, labels, colours, torn and glued lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import ask, at, kinds

from rccltune.why.job_report import AnswerKind, CommunicatorScale

SHA = "5" * 64
PLUGIN = "/opt/rccltune/librccl-tuner-rccltune.so"


def rank(number: int, n_ranks: int = 8) -> list[str]:
    """What one rank prints: two hosts with four ranks each, a hit, a hole and one not asked."""
    head = f"node{number // 4}:{100 + number}:{100 + number} [{number % 4}] NCCL INFO "
    comm = f"comm 0x55{number:02x} rank {number} "
    own = "rccltune: comm=00000000000000ab "
    lines = [
        f"{head}RCCL version : 2.28.3-HEAD:64f48b6",
        f"{head}NCCL_TUNER_PLUGIN set by environment to {PLUGIN}",
        f"{head}TUNER/Plugin: Using rccltune (v5)",
        f"{head}Successfully loaded external tuner plugin {PLUGIN}",
        f"{own}nodes=2 ranks={n_ranks} abi=v5 rules=1 of=1 skipped-rows=0 file=/r.csv sha256={SHA}",
        f"{head}{comm}nRanks {n_ranks} nNodes 2 localRanks 4 localRank {number % 4} MNNVL 0",
        (
            f"{head}ncclCommInitRankConfig {comm}nranks {n_ranks} cudaDev 0 nvmlDev 0 busId 5000 "
            "commId 0xab - Init COMPLETE"
        ),
        f"{own}decision collective=allreduce nbytes=4096 answer=tree/ll line=3 host=ring/ll reason=R20 rule-hit",
        f"{own}decision collective=allreduce nbytes=8192 answer=none line=0 host=ring/ll reason=R22 no-rule",
        f"{own}decision collective=allgather nbytes=8192 answer=ring/ll line=4 host=ring/simple reason=R20 rule-hit",
        f"{own}summary calls=9 hits=6 misses=3 not-selectable=0 fallbacks=0",
    ]
    if number == 0:
        lines[8:8] = [
            f"{head}AllReduce: 4096 Bytes -> Algo TREE proto LL channel{{Lo..Hi}}={{0..3}}",
            f"{head}AllReduce: 8192 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..3}}",
            # A rank's own share: the plugin is told of the total, which is eight times as much.
            f"{head}AllGather: 1024 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..3}}",
        ]
    return lines


EXPECTED = [
    (
        CommunicatorScale(2, 8),
        "all_reduce",
        4096,
        4096,
        AnswerKind.HIT,
        "rule of line 3 answered tree/ll, and that ran",
    ),
    (CommunicatorScale(2, 8), "all_reduce", 8192, 8192, AnswerKind.HOLE, "the file has none here"),
    (
        CommunicatorScale(2, 8),
        "all_gather",
        8192,
        8192,
        AnswerKind.HIT,
        "rule of line 4 answered ring/ll, and that ran",
    ),
]


def answers(path: Path) -> list[tuple[object, ...]]:
    """What matters of the answers."""
    return [
        (a.where, a.collective and a.collective.value, a.min_nbytes, a.max_nbytes, a.kind, a.text)
        for a in ask(path).answers
    ]


LABELS = [
    lambda _, line: line,
    lambda n, line: f"[1,{n}]<stdout>:{line}",
    lambda n, line: f"{n}: {line}",
    lambda _, line: f"2026-11-21T10:00:00.123 {line}",
    lambda _, line: f"[2026-11-21 10:00:00] {line}",
    lambda n, line: f"(RayWorkerWrapper pid={n}) {line}",
    lambda _, line: f"\x1b[36m{line}\x1b[0m",
    lambda _, line: f"{line}\r",
]


@pytest.mark.parametrize("label", range(len(LABELS)))
def test_what_stands_before_lines_changes_nothing(tmp_path: Path, label: int) -> None:
    """Labels of launchers, times, colours, carriage returns."""
    path = tmp_path / "job.log"
    lines = [LABELS[label](n, line) for n in range(8) for line in rank(n)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert answers(path) == EXPECTED


@given(data=st.data())
def test_ranks_mixed_in_any_order_are_answered_alike(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Lines of ranks in turns, each rank's own in its order, every rank with a label of its own."""
    waiting = [rank(number) for number in range(8)]
    label = data.draw(st.sampled_from(LABELS))
    turns = data.draw(st.lists(st.integers(0, 7), max_size=60))
    order = [*turns, *(number for number in range(8) for _ in range(20))]
    lines = [label(number, waiting[number].pop(0)) for number in order if waiting[number]]
    path = tmp_path_factory.mktemp("mixed") / "job.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert answers(path) == EXPECTED


def test_two_communicators_of_one_process_are_kept_apart(tmp_path: Path) -> None:
    """Rank 0 of two scales: a choice names none of them, so nothing is claimed to have run."""
    head = "h:7:7 [0] NCCL INFO "
    lines = [
        f"{head}comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0",
        f"{head}comm 0x2 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
        "rccltune: comm=a nodes=1 ranks=8 abi=v5 rules=1 of=1 skipped-rows=0 file=/r sha256=" + SHA,
        "rccltune: comm=b nodes=1 ranks=2 abi=v5 inert: R14 other-scale: /r: no rule for 2 ranks on 1 nodes",
        "rccltune: comm=a decision collective=allreduce nbytes=8 answer=tree/ll line=1 host=ring/ll",
        f"{head}AllReduce: 8 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..0}}",
    ]
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = ask(path)
    by_scale = {a.where: a.kind for a in found.answers}
    assert by_scale[CommunicatorScale(1, 8)] is AnswerKind.HIT
    assert by_scale[CommunicatorScale(1, 2)] is AnswerKind.OTHER_SCALE
    assert "nothing here says what ran" in next(
        a.text for a in found.answers if a.where == CommunicatorScale(1, 8)
    )


CALL = (
    "h:7:7 [0] NCCL INFO {name}: opCount {n:x} sendbuff 0x7f recvbuff 0x7f count {count} "
    "datatype 7 op 0 root 0 comm 0x1 [nranks=8] stream 0x5"
)


@pytest.mark.parametrize("accumulates", [False, True])
def test_calls_of_the_subsystem_coll_show_what_is_bypassed(
    tmp_path: Path, *, accumulates: bool
) -> None:
    """A call with a line of its own and none of a choice went past the tuner (RCCL 2.30.4, DDA).

    RCCL from 2.26.6 on prints one address more than NCCL and RCCL before it.
    """
    lines = [
        "RCCL version : 2.30.4-HEAD:1",
        "h:7:7 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0",
        "rccltune: comm=a nodes=1 ranks=8 abi=v6 rules=1 of=1 skipped-rows=0 file=/r sha256=" + SHA,
        CALL.format(name="AllReduce", n=1, count=1024),
        CALL.format(name="AllReduce", n=2, count=4 * 1024**2),
        (
            "rccltune: comm=a decision collective=allreduce nbytes=16777216 answer=ring/simple line=1 "
            "host=ring/ll"
        ),
        CALL.format(name="Broadcast", n=3, count=256),
    ]
    if accumulates:
        lines = [line.replace(" count ", " acc (nil) count ") for line in lines]
    lines.append(CALL.format(name="Send", n=4, count=256))
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = ask(path)
    by_collective = {a.collective and a.collective.value: a.kind for a in found.answers}
    assert by_collective["sendrecv"] is AnswerKind.NOT_TUNABLE
    small = next(a for a in found.answers if a.min_nbytes == 4096)
    assert small.kind is AnswerKind.BYPASSED
    assert "by DDA" in small.text
    assert at(found, 16 * 1024**2).kind is AnswerKind.HIT


TUNERS = [
    # As public logs have them: AWS's plugin, NCCL 2.24 with a network plugin, NCCL 2.21 and 2.19.
    (["TUNER/Plugin: Using nccl_ofi_tuner (v3)"], "another tuner plugin is loaded: nccl_ofi_tuner"),
    (
        [
            "NCCL_TUNER_PLUGIN set by environment to /x/liba.so",
            "TUNER/Plugin: Failed to find ncclTunerPlugin_v4 symbol.",
            "TUNER/Plugin: Failed to find ncclTunerPlugin_v3 symbol.",
            "TUNER/Plugin: Failed to find ncclTunerPlugin_v2 symbol, using internal tuner instead.",
        ],
        "/x/liba.so has no symbol that the library looks for (ncclTunerPlugin_v2, ",
    ),
    (
        [
            "NCCL_TUNER_PLUGIN set by environment to /x/liba.so",
            "TUNER/Plugin: /x/liba.so: undefined symbol: hipFoo",
        ],
        "dlopen failed: /x/liba.so: undefined symbol: hipFoo",
    ),
    (
        [
            (
                "TUNER/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object "
                "file: No such file or directory : when loading libnccl-tuner.so"
            ),
            "TUNER/Plugin: Using internal tuner plugin.",
        ],
        "NCCL_TUNER_PLUGIN is not set",
    ),
    (
        [
            "NCCL_TUNER_PLUGIN set to /x/liba.so",
            "Tuner: no plugin found '/x/liba.so', using default tuner instead.",
        ],
        "no such file on the ranks' hosts: /x/liba.so",
    ),
    (
        [
            "NCCL_TUNER_PLUGIN set by environment to /x/liba.so",
            "TUNER/Plugin: Could not find: /x/liba.so",
        ],
        "no such file on the ranks' hosts: /x/liba.so",
    ),
]


@pytest.mark.parametrize(("lines", "said"), TUNERS)
def test_what_releases_say_of_a_tuner(tmp_path: Path, lines: list[str], said: str) -> None:
    """Texts of releases and plugins that the simulated library does not play."""
    head = "h:7:7 [0] NCCL INFO "
    communicator = "comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0"
    path = tmp_path / "job.log"
    path.write_text("\n".join(head + x for x in [communicator, *lines]) + "\n", encoding="utf-8")
    found = ask(path)
    assert kinds(found) == [AnswerKind.NOT_LOADED]
    assert found.answers[0].text.startswith(said)


PATHS = [
    ("NCCL version 2.29.2+cuda13.1", "AllReduce", 1, "symmetric kernels or copy engines"),
    ("RCCL version : 2.30.4-HEAD:1", "AllGather", 8, "the hierarchical AllGather"),
]


@pytest.mark.parametrize(("version", "name", "nodes", "said"), PATHS)
def test_paths_that_no_sweep_measures(
    tmp_path: Path, version: str, name: str, nodes: int, said: str
) -> None:
    """Symmetric windows in NCCL, and RCCL's two levels from eight nodes on."""
    n_ranks = 12 * nodes
    lines = [
        version,
        f"h:7:7 [0] NCCL INFO comm 0x1 rank 0 nRanks {n_ranks} nNodes {nodes} localRanks 12 ",
        (
            f"rccltune: comm=a nodes={nodes} ranks={n_ranks} abi=v5 rules=1 of=1 skipped-rows=0 "
            f"file=/r sha256={SHA}"
        ),
        CALL.format(name=name, n=1, count=1 << 16).replace("nranks=8", f"nranks={n_ranks}"),
        "rccltune: comm=a summary calls=0 hits=0 misses=0 not-selectable=0 fallbacks=0",
    ]
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = ask(path)
    assert kinds(found) == [AnswerKind.BYPASSED]
    assert said in found.answers[0].text


def test_pytorchs_own_library_is_named(tmp_path: Path) -> None:
    """RCCL prints its file; a wheel of PyTorch brings one."""
    path = tmp_path / "job.log"
    bundled = "/venv/lib/python3.11/site-packages/torch/lib/librccl.so"
    head = "h:7:7 [0] NCCL INFO "
    path.write_text(
        f"RCCL version : 2.26.6-HEAD:1\nLibrccl path : {bundled}\n"
        f"{head}comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0\n"
        f"{head}TUNER/Plugin: Could not find: libnccl-tuner.so\n",
        encoding="utf-8",
    )
    found = ask(path)
    remark = next(one for one in found.remarks if bundled in one.text)
    assert "/proc/PID/maps" in (remark.remedy or "")
