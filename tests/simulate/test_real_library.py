"""The real RCCL over the stand-in HIP runtime: what it chooses, and that it obeys the plugin on every rank.

Expected choices are those that the prototype of this runtime printed of the same binary
(../shared/data/real-rccl) and hand-made ones. Skipped where scripts/fetch-rccl has fetched nothing.
"""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from real_runs import RealCall, read_calls

from rccltune import plugin
from rccltune.measure.real_rccl import real_library
from rccltune.model.errors import MachineError
from rccltune.simulate.compiled import compile_node
from rccltune.simulate.sources import load_node, node_path

SHORT = {
    "ar": "all_reduce",
    "ag": "all_gather",
    "rs": "reduce_scatter",
    "bc": "broadcast",
    "rd": "reduce",
}
# Two are asked for; a channel gets 16 KiB of traffic at least, twice the bytes in all_reduce.
CHANNELS = {4096: 1, 16384: 2, 65536: 2}
RULES_END = ",-1,-1"
LONG = pytest.mark.long


@dataclass(frozen=True)
class Ended:
    """A benchmark that ended."""

    code: int
    out: str
    err: str
    ran: list[RealCall]


Start = Callable[..., Ended]


@pytest.fixture(scope="session")
def real() -> Path:
    """The library that was fetched."""
    try:
        return real_library(Path("real"), os.environ)
    except MachineError as error:
        pytest.skip(f"{error}: scripts/fetch-rccl fetches it")


@pytest.fixture
def start(real: Path, tmp_path: Path) -> Start:
    """Starts a benchmark over it: ranks in one process, or under mpirun."""

    def run(
        benchmark: str,
        *options: str,
        node: str = "mi300x-spx-nps1",
        ranks: int = 8,
        mpirun: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> Ended:
        file, ran = tmp_path / "node.node", tmp_path / "ran"
        file.write_bytes(compile_node(load_node(node_path(node))))
        ran.unlink(missing_ok=True)
        own = {
            "RCCLTUNE_SIM_LIBRCCL": str(real),
            "RCCLTUNE_SIM_NODE": str(file),
            "RCCLTUNE_SIM_RAN": str(ran),
            **(variables or {}),
        }
        program = str(plugin.native_folder() / f"sim/{benchmark}_perf")
        command = [program, *options]
        if mpirun:
            launcher = str(Path(sys.executable).parent / "mpirun")
            if shutil.which(launcher) is None:
                pytest.skip("no mpirun in this environment")
            exported = [word for name in own for word in ("-x", name)]
            head = [launcher, "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]
            command = [*head, *exported, *command]
        else:
            own["RCCLTUNE_SIM_RANKS"] = str(ranks)
        ended = subprocess.run(
            command,
            check=False,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return Ended(
            ended.returncode, ended.stdout, ended.stderr, (read_calls(ran) if ran.exists() else [])
        )

    return run


def expected(path: Path, short: str) -> dict[int, tuple[str, int]]:
    """Setting and channels by size, of a printed table of the prototype."""
    found = {}
    for line in path.read_text().splitlines():
        if match := re.match(rf"{short} +(\d+)([KMG]?) (\w+/\w+) x(\d+)", line):
            shift = {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
            found[int(match[1]) << shift] = (match[3], int(match[4]))
    return found


@pytest.mark.parametrize(
    "short",
    ["ar", *(pytest.param(name, marks=pytest.mark.long) for name in ("ag", "rs", "bc", "rd"))],
)
def test_it_chooses_by_itself_what_the_prototype_saw(
    start: Start, shared_data: Path, short: str
) -> None:
    """SPX, 8 ranks: setting and channels at every size where it asks a tuner, equal on all ranks."""
    table = expected(shared_data / "real-rccl/base-spx.table.txt", short)
    ended = start(f"{SHORT[short]}", "-b", "512", "-e", "1G", "-f", "2", "-n", "1", "-w", "0")
    assert ended.code == 0, ended.err
    tuned = {(r.nbytes, r.setting, r.channels) for r in ended.ran if "/" in r.setting}
    sizes = {size for size, _, _ in tuned}
    assert tuned == {(n, s, c) for n, (s, c) in table.items() if n in sizes}
    assert sizes == {size for size in table if size >= 512}
    assert all(r.channels == r.blocks for r in ended.ran if "/" in r.setting)


def test_nothing_is_checked_and_it_says_so(start: Start) -> None:
    """N/A, never 0; and the log says what is real and what is not."""
    ended = start("all_reduce", "-b", "1K", "-e", "4K", "-f", "2", "-n", "1", "-w", "1", "-c", "1")
    rows = [line.split() for line in ended.out.splitlines() if re.match(r" +\d+ ", line)]
    assert len(rows) == 3
    assert all(row[8] == "N/A" and row[12] == "N/A" for row in rows)
    assert "# SIMULATED times; RCCL 2.27.7, real: " in ended.out


@pytest.mark.parametrize(
    "short",
    ["ar", *(pytest.param(name, marks=pytest.mark.long) for name in ("ag", "rs", "bc", "rd"))],
)
def test_two_hosts_choose_what_the_prototype_saw(
    start: Start, shared_data: Path, short: str
) -> None:
    """2 x 8 in SPX with a NIC each: setting and channels, equal on all 16 ranks, also under load of many calls."""
    table = expected(shared_data / "real-rccl/two-base.table.txt", short)
    two = str(Path(__file__).parents[2] / "examples/nodes/two-mi300x.yaml")
    options = ("-b", "512", "-e", "64M", "-f", "2", "-n", "5", "-w", "1")
    ended = start(SHORT[short], *options, node=two, ranks=16, mpirun=True)
    assert ended.code == 0, ended.err
    tuned = {(r.nbytes, r.setting, r.channels) for r in ended.ran if r.nbytes in table}
    assert tuned == {(n, s, c) for n, (s, c) in table.items()}
    assert {r.rank for r in ended.ran} == set(range(16))


@pytest.mark.parametrize("mpirun", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_captured_graph_runs_what_calls_of_their_own_run(start: Start, mpirun: bool) -> None:
    """The iterations of a size in one graph, launched twice: the same settings, channels and grids on all ranks."""
    for collective in ("all_reduce", "all_gather") if not mpirun else ("all_reduce",):
        options = ("-b", "1K", "-e", "16M", "-f", "16", "-n", "3", "-w", "1", "-c", "1")
        plain, captured = (
            start(collective, *options, *graph, mpirun=mpirun) for graph in ((), ("-G", "2"))
        )
        assert captured.code == plain.code == 0, captured.err
        assert collections.Counter(captured.ran) == collections.Counter(plain.ran)
        assert {ran.rank for ran in captured.ran} == set(range(8))


@pytest.mark.long
def test_a_captured_graph_over_two_hosts(start: Start) -> None:
    """There the library puts functions of the host into the graph, and tells what ran at its launch."""
    two = str(Path(__file__).parents[2] / "examples/nodes/two-mi300x.yaml")
    options = ("-b", "1K", "-e", "16M", "-f", "16", "-n", "2", "-w", "1", "-c", "1")
    plain, captured = (
        start("all_reduce", *options, *graph, node=two, ranks=16, mpirun=True)
        for graph in ((), ("-G", "2"))
    )
    assert captured.code == plain.code == 0, captured.err
    assert collections.Counter(captured.ran) == collections.Counter(plain.ran)


@pytest.mark.parametrize(
    ("benchmark", "rules", "inside"),
    [
        pytest.param(
            *("all_reduce", "allreduce,4096,65536,tree,ll,-1,1,8", ("tree/ll", None)), marks=LONG
        ),
        ("all_reduce", "allreduce,4096,65536,ring,simple,2,1,8", ("ring/simple", CHANNELS)),
        ("reduce_scatter", "reducescatter,4096,65536,ring,simple,4,1,8", ("ring/simple", None)),
        pytest.param(
            *("broadcast", "broadcast,4096,65536,ring,simple,-1,1,8", ("ring/simple", None)),
            marks=LONG,
        ),
        pytest.param(
            *("reduce", "reduce,4096,65536,ring,simple,-1,1,8", ("ring/simple", None)), marks=LONG
        ),
    ],
)
def test_a_rule_runs_on_every_rank_and_nowhere_else(
    start: Start,
    tmp_path: Path,
    benchmark: str,
    rules: str,
    inside: tuple[str, dict[int, int] | None],
) -> None:
    """Inside its sizes with equal grids on all 8 ranks; outside as without the plugin."""
    file = tmp_path / "rules.csv"
    file.write_text(f"{rules}{RULES_END}\n")
    options = ("-b", "1K", "-e", "1M", "-f", "4", "-n", "1", "-w", "0")
    variables = {
        "NCCL_TUNER_PLUGIN": str(plugin.library()),
        "NCCL_TUNER_CONFIG_FILE": str(file),
    }
    without, ended = start(benchmark, *options), start(benchmark, *options, variables=variables)
    assert ended.code == 0, ended.err + ended.out
    ours = [ran for ran in ended.ran if 4096 <= ran.nbytes <= 65536]
    assert {ran.setting for ran in ours} == {inside[0]}
    assert {ran.nbytes for ran in ours} == {4096, 16384, 65536}
    assert inside[1] in (None, {ran.nbytes: ran.channels for ran in ours})
    for nbytes in {ran.nbytes for ran in ours}:
        at = [ran for ran in ours if ran.nbytes == nbytes]
        assert {ran.rank for ran in at} == set(range(8))
        assert len({(ran.channels, ran.blocks) for ran in at}) == 1

    def rest(one: Ended) -> collections.Counter[RealCall]:
        return collections.Counter(r for r in one.ran if not 4096 <= r.nbytes <= 65536)

    assert rest(ended) == rest(without)


def test_a_rule_cannot_reach_a_direct_all_gather(start: Start, tmp_path: Path) -> None:
    """Up to 4 MiB this release asks no tuner for all_gather; above it does."""
    file = tmp_path / "rules.csv"
    file.write_text(f"allgather,0,67108864,ring,ll,-1,1,8{RULES_END}\n")
    ended = start(
        "all_gather",
        *("-b", "1M", "-e", "16M", "-f", "4", "-n", "1", "-w", "0"),
        variables={
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
            "NCCL_TUNER_CONFIG_FILE": str(file),
        },
    )
    assert ended.code == 0, ended.err
    settings = {(ran.nbytes, ran.setting) for ran in ended.ran}
    assert settings == {(1 << 20, "direct"), (4 << 20, "direct"), (16 << 20, "ring/ll")}


@pytest.mark.parametrize(
    ("options", "variable", "heard"),
    [
        pytest.param(("-R", "0"), "NCCL_LOCAL_REGISTER", False, marks=LONG),
        (("-R", "1"), "", False),
        (("-R", "1"), "NCCL_LOCAL_REGISTER", True),
        pytest.param(("-R", "2"), "NCCL_LOCAL_REGISTER", False, marks=LONG),
        pytest.param(("-G", "2"), "", False, marks=LONG),
        (("-G", "2"), "NCCL_GRAPH_REGISTER", True),
    ],
)
def test_when_a_tuner_hears_of_registered_buffers(
    start: Start, tmp_path: Path, options: tuple[str, ...], variable: str, heard: bool
) -> None:
    """RCCL registers nothing by itself: not what -R 1 hands it, nor a graph's buffers; windows never."""
    file = tmp_path / "rules.csv"
    file.write_text("allreduce,0,1048576,tree,ll,-1,1,8,-1,1\n")
    ended = start(
        "all_reduce",
        *("-b", "1K", "-e", "64K", "-f", "8", "-n", "1", "-w", "0", "-c", "0", *options),
        variables={
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
            "NCCL_TUNER_CONFIG_FILE": str(file),
            **({variable: "1"} if variable else {}),
        },
    )
    assert ended.code == 0, ended.err
    assert {ran.setting for ran in ended.ran} == {"tree/ll" if heard else "ring/ll"}
    assert {ran.rank for ran in ended.ran} == set(range(8))


def test_what_it_cannot_do_is_said(start: Start) -> None:
    """And nothing is printed that could be taken for a result."""
    ended = start("alltoallv", "-b", "1K", "-e", "1K")
    assert ended.code != 0
    assert "alltoallv" in ended.err
    assert not ended.ran


def test_a_plugin_that_refuses_fails_init_on_every_rank(start: Start, tmp_path: Path) -> None:
    """As docs/plugin.md promises: a named file that is missing is nobody's rules."""
    ended = start(
        "all_reduce",
        *("-b", "8", "-e", "8"),
        mpirun=True,
        variables={
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
            "NCCL_TUNER_CONFIG_FILE": str(tmp_path / "none.csv"),
        },
    )
    assert ended.code != 0
    assert not ended.ran


@pytest.mark.long
@pytest.mark.timeout(400)
def test_64_ranks_in_cpx(start: Start, shared_data: Path) -> None:
    """As the prototype saw them, in one process of 6 GB."""
    table = expected(shared_data / "real-rccl/base-cpx.table.txt", "ar")
    ended = start(
        "all_reduce",
        *("-b", "1K", "-e", "256M", "-f", "16", "-n", "1", "-w", "0"),
        node="mi300x-cpx-nps4",
        ranks=64,
    )
    assert ended.code == 0, ended.err
    tuned = {(r.nbytes, r.setting, r.channels) for r in ended.ran}
    assert tuned == {(n, s, c) for n, (s, c) in table.items() if n in {r.nbytes for r in ended.ran}}
    assert {r.rank for r in ended.ran} == set(range(64))
