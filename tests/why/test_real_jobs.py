"""Five jobs on two GPUs, as NCCL and the plugin told of them, and what their owner must be told.

Measured by us on 2 x NVIDIA H200 (one virtual machine), NCCL 2.28.9, PyTorch and nccl-tests 2.19.6,
on 2026-11-22, NCCL_DEBUG=INFO with INIT,ENV,TUNING, RCCLTUNE_LOG=summary. Lines are shortened:
hosts, paths and numbers of processes are neutral, lines that say nothing of tuners are left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import ask, at, halves, kinds
from wording import lacks

from rccltune.cli import run
from rccltune.model.units import KIB
from rccltune.model.vocabulary import Collective
from rccltune.why.job_report import AnswerKind, CommunicatorScale

MIB = 1024 * KIB
PLUGIN = "/opt/rccltune/librccl-tuner-rccltune.so"
SHA = "23c141f9dabc4d7023d52fea77f255f27a9c1b5521aade293009df7c4a4e68d6"
COMM = "rccltune: comm=6b80033759b90acb "
# The rules of a sweep there, which its verification did not confirm.
RULES = """# of a sweep
# library: 2.28.9
#@ section allreduce nodes=1 ranks=2
#@ hole 0 4095 not measured
allreduce,4096,5369,ring,ll,16,1,2,-1,-1
allreduce,5370,6553,ring,ll,8,1,2,-1,-1
allreduce,6554,21052,ring,ll,16,1,2,-1,-1
allreduce,165412,524287,ring,ll,32,1,2,-1,-1
#@ hole 524288 1572864 baseline not beaten
allreduce,2296458,8322489,ring,ll128,-1,1,2,-1,-1
#@ hole 8322490 134217728 baseline not beaten
#@ hole 134217729 9223372036854775807 not measured
"""
# What the training loop called; rank 0 writes it.
STEPS = (
    "AllGather: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
    "Broadcast: 384 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
    "Broadcast: 67141632 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}",
    "AllReduce: 67141632 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}",
    "AllGather: 4 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
    "Broadcast: 32 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
    *["AllReduce: 8392704 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}"] * 3,
)
LOADED = (
    f"NCCL_TUNER_PLUGIN set by environment to {PLUGIN}",
    "TUNER/Plugin: Using rccltune (v5)",
    f"Successfully loaded external tuner plugin {PLUGIN}",
)
READ = (
    f"{COMM}nodes=1 ranks=2 abi=v5 rules=10 of=10 skipped-rows=0 file=/opt/rules.csv sha256={SHA}"
)
MODEL = (
    "AllReduce |     8.0/  61.1 |    16.5/ 180.6 |    16.4/ 232.2 |     7.8/ 141.0 |"
    "    17.8/ 331.2 |    15.2/ 360.0 |     0.8/   0.0 |     0.8/   0.0 |    39.2/   0.0 |"
)


def log(tmp_path: Path, tuner: tuple[str, ...], *rest: str, own: tuple[str, ...] = ()) -> Path:
    """Two ranks' lines: how the library began, what it said of a tuner, and what came then."""
    lines = ["", "*" * 41, "Setting OMP_NUM_THREADS environment variable for each process to be 1"]
    for rank in (0, 1):
        head = f"host:{100 + rank}:{100 + rank} [{rank}] NCCL INFO "
        lines += [
            f"{head}ENV/Plugin: Could not find: libnccl-env.so",
            f"{head}NCCL version 2.28.9+cuda13.0",
            f"{head}NET/Plugin: Could not find: libnccl-net.so",
            f"{head}NCCL_NVLS_ENABLE set by environment to 0.",
            f"{head}comm 0xcbb63c{rank} rank {rank} nRanks 2 nNodes 1 localRanks 2 MNNVL 0",
            f"{head}PROFILER/Plugin: Could not find: libnccl-profiler.so",
            *(f"{head}{text}" for text in tuner),
            *own,
            f"{head}{MODEL}",
            f"{head}24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels",
        ]
    path = tmp_path / "job.log"
    path.write_text("\n".join([*lines, *rest]) + "\n", encoding="utf-8")
    return path


def chosen(*texts: str) -> list[str]:
    """Lines of rank 0."""
    return [f"host:100:100 [0] NCCL INFO {text}" for text in texts]


def summary(hits: int, misses: int) -> str:
    """The plugin's last line but for its rules."""
    n = hits + misses
    return f"{COMM}summary calls={n} hits={hits} misses={misses} not-selectable=0 fallbacks=0"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The job's rule file."""
    path = tmp_path / "rules.csv"
    path.write_text(RULES, encoding="utf-8")
    return path


def test_a_training_loop_whose_sizes_have_no_rule(
    tmp_path: Path,
    rules: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The plugin works and nothing is hit: buckets of 8 MiB lie where the baseline was not beaten."""
    monkeypatch.setenv("COLUMNS", "200")
    path = log(tmp_path, LOADED, *chosen(*STEPS), *[summary(0, 25)] * 2, own=(READ,))
    alone = ask(path)
    assert set(kinds(alone)) == {AnswerKind.HOLE}
    assert all(lacks(a.remedy, "rule file", "/opt/rules.csv") == [] for a in alone.answers)
    assert run(["why", str(path), str(rules)]) == 0
    questions, told = halves(capsys.readouterr().out)
    assert lacks(questions, "/opt/rules.csv is in force") == []
    # What jobs spend their time in stands first.
    assert told[:2] == [
        "all_reduce, 2 ranks on 1 node",
        "  8 MiB to 64 MiB        no rule at this size: baseline not beaten",
    ]
    assert lacks(told, "8 B", "16 B", "all_gather") == []
    assert (
        lacks(
            told, "50 times", "2 ranks", "1 node", "0 rule", "50 without", "0 not", "not selectable"
        )
        == []
    )


def test_a_plugin_that_is_not_there(
    tmp_path: Path,
    rules: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Said once, for all that the job called; nothing is said of paths around a plugin."""
    monkeypatch.setenv("COLUMNS", "200")
    named = "/opt/nowhere/librccl-tuner-rccltune.so"
    tuner = (
        f"NCCL_TUNER_PLUGIN set by environment to {named}",
        f"TUNER/Plugin: Could not find: {named}",
    )
    path = log(tmp_path, tuner, *chosen(*STEPS))
    assert set(kinds(ask(path, rules=rules))) == {AnswerKind.NOT_LOADED}
    assert run(["why", str(path)]) == 0
    questions, told = halves(capsys.readouterr().out)
    assert lacks(questions, "no such file", named, "no line tells of a rule file") == []
    assert told == [
        "all_reduce, all_gather, broadcast, 2 ranks on 1 node",
        f"  8 B to 64 MiB          plugin not loaded: no such file on the ranks' hosts: {named}",
        '      > Set on every rank: export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"',
        "",
        "library: NCCL 2.28.9+cuda13.0",
    ]


# The sentence is NCCL's own (src/enqueue.cc); PyTorch repeats it in each rank's trace.
NO_CHOICE = (
    "Error : no algorithm/protocol available for function AllGather with datatype ncclInt8. "
    "NCCL_ALGO was set to Tree."
)


def test_a_variable_that_ends_the_job(tmp_path: Path, rules: Path) -> None:
    """NCCL_ALGO=Tree leaves all_gather nothing: that is the answer, before any word of rules."""
    warned = [
        f"[2026-11-22 06:03:50] host:{100 + r}:{100 + r} [{r}] enqueue.cc:1859 NCCL WARN {NO_CHOICE}"
        for r in (0, 1)
    ]
    traces = [f"[rank{r}]: Last error:\n[rank{r}]: {NO_CHOICE}" for r in (0, 1)]
    tuner = (*LOADED, "NCCL_ALGO set by environment to Tree")
    path = log(tmp_path, tuner, *warned, *traces, *[summary(0, 1)] * 2, own=(READ,))
    found = ask(path, rules=rules)
    first = found.answers[0]
    assert [a.kind for a in found.answers].count(AnswerKind.STUCK) == 1
    assert (first.kind, first.where, first.collective) == (
        AnswerKind.STUCK,
        CommunicatorScale(1, 2),
        Collective.ALL_GATHER,
    )
    assert (
        lacks(first.text, "NCCL", "2.28.9+cuda13.0", "all_gather", "ncclInt8 and", "NCCL_ALGO=Tree")
        == []
    )
    assert lacks(first.remedy or "", "NCCL_ALGO") == []
    assert lacks(found.remarks[0].text, "NCCL_ALGO=Tree", "5 of", "5 rules") == []


def test_a_benchmark_that_uses_its_rules(tmp_path: Path, rules: Path) -> None:
    """Rows and INFO lines torn into each other; hits where there are rules, holes elsewhere."""
    rows = ["# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809"]
    rows.append("# Collective test starting: all_reduce_perf")
    choice = "AllReduce: {} Bytes -> Algo RING proto {} channel{{Lo..Hi}}={{0..{}}}"
    sizes = [(4 * KIB, "LL", 7), (16 * KIB, "LL", 7), (256 * KIB, "LL", 21), (512 * KIB, "LL", 23)]
    sizes += [(4 * MIB, "LL128", 23), (8 * MIB, "SIMPLE", 23), (128 * MIB, "SIMPLE", 23)]
    for nbytes, protocol, last in sizes:
        line = chosen(choice.format(nbytes, protocol, last))[0]
        rows.append(f"{nbytes:>12} {nbytes // 4:>13}     float     sum      -1{line}")
        rows.append(f"    19.57    3.35    3.35       0{line}")
    counts = [(5, "ring/ll", 16), (7, "ring/ll", 16), (8, "ring/ll", 32), (10, "ring/ll128", -1)]
    ends = [summary(36, 27)]
    ends += [f"{COMM}rule line={n} setting={s} channels={c} hits=9" for n, s, c in counts]
    path = log(tmp_path, LOADED, *rows, *ends, own=(READ,))
    found = ask(path, rules=rules)
    assert [(a.min_nbytes, a.max_nbytes, a.kind) for a in found.answers] == [
        (4 * KIB, 4 * KIB, AnswerKind.HIT),
        (16 * KIB, 16 * KIB, AnswerKind.HIT),
        (256 * KIB, 256 * KIB, AnswerKind.HIT),
        (512 * KIB, 512 * KIB, AnswerKind.HOLE),
        (4 * MIB, 4 * MIB, AnswerKind.HIT),
        (8 * MIB, 128 * MIB, AnswerKind.HOLE),
    ]
    assert lacks(at(found, 256 * KIB).text, "line 8", "ring/ll") == []
