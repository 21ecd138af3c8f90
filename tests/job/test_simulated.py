"""The whole way on the simulated node, and where ranks are real PyTorch processes under gloo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from job_runs import rccltune
from torches import torch_python
from wording import lacks

from rccltune import plugin
from rccltune.simulate import sources

# rccl-tests' row of 256 KiB: size, count, type, redop, root, time out of place.
SIZE = ("-b", "256K", "-e", "256K", "-n", "20", "-w", "2", "-c", "0")
TIME = r"^ +262144 +\d+ +float +sum +-1 +([0-9.]+)"


@pytest.fixture
def node(tmp_path: Path, repository: Path) -> dict[str, str]:
    """Variables with which the stand-in benchmark plays the smallest node, and rules for it."""
    compiled = tmp_path / "job.node"
    compiled.write_bytes(sources.compile_node(repository / "examples" / "nodes" / "smallest.yaml"))
    return {
        "RCCLTUNE_SIM_NODE": str(compiled),
        "RCCLTUNE_SIM_STARTUP_S": "0",
        "RCCLTUNE_SIM_SHM_DIR": str(tmp_path),
    }


def benchmark(*options: str) -> list[str]:
    """The stand-in benchmark at 256 KiB."""
    program = plugin.native_folder() / "sim" / "all_reduce_perf"
    return [str(program), *SIZE, *options]


@pytest.mark.parametrize("graph", [(), ("-G", "5")])
def test_a_simulated_job_from_end_to_end(
    tmp_path: Path, node: dict[str, str], graph: tuple[str, ...]
) -> None:
    """Swept, chosen, tried: the session's rules answer, and every line says that it is simulated.

    Under a captured graph the tuner is asked at capture: replays are no questions, and each
    question is a hit all the same.
    """
    sweep = "sweep --simulate node.yaml --mode spx-nps1 --launcher none --collective all_reduce"
    smallest = Path(__file__).parents[2] / "examples" / "nodes" / "smallest.yaml"
    (tmp_path / "node.yaml").write_bytes(smallest.read_bytes())
    sizes = "--min-bytes 256K --max-bytes 4M --repeats 2 --runner rccl-tests"
    done = rccltune(tmp_path, *sweep.split(), *sizes.split())
    assert done.returncode == 0, done.stderr
    assert rccltune(tmp_path, "emit-config").returncode == 0
    # They are for the GPUs of that node, which the plugin looks for in the real machine's sysfs.
    [file] = (tmp_path / "rccltune-session").glob("rccl_tuner_*.csv")
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "rules.csv").write_text("".join(one for one in lines if " requires " not in one))
    words = ("job", "--rules", "rules.csv", "--json", "--bad-rules", "--measure", TIME)
    words += ("--budget", "40s", "--")
    tried = rccltune(tmp_path, *words, *benchmark(*graph), **node)
    assert tried.returncode in (0, 9), tried.stderr
    found = json.loads(tried.stdout)
    assert found["simulated"] is True
    assert found["rules"]["rounds"] >= 3
    with_rules = [run for run in found["runs"] if run["arm"] == "rules"]
    assert all(run["hits"] == run["calls"] > 0 for run in with_rules)
    # 8 ranks, in place and out of place: 2 + 20 calls each; captured once, replayed five times.
    assert {run["calls"] for run in with_rules} == {352}, graph
    control = (tmp_path / "rccltune-job" / "control.csv").read_text(encoding="utf-8")
    assert control.splitlines()[0].startswith("# Deliberately bad rules")
    assert found["communication"] == "communication settings matter to this job"


LOOP = """
import os, sys, torch, torch.distributed as distributed, rccltune_torch as mark
distributed.init_process_group("gloo")
data = torch.ones(1 << 16)
for n in range(12):
    with mark.step():
        distributed.all_reduce(data)
        data /= distributed.get_world_size()
    mark.loss(data[0])
distributed.destroy_process_group()
"""


def test_ranks_of_pytorch_are_read(tmp_path: Path, repository: Path) -> None:
    """Two ranks under gloo say what their steps took, and the job as it is is measured.

    gloo loads no tuner: the arm with the rules says that nothing was proven.
    """
    python = torch_python()
    (tmp_path / "rccltune_torch.py").write_bytes((repository / "rccltune/torch.py").read_bytes())
    (tmp_path / "loop.py").write_text(LOOP, encoding="utf-8")
    (tmp_path / "rules.csv").write_text("allreduce,0,4194304,tree,ll,-1,-1,-1,-1,-1\n")
    ranks = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "loop.py")
    words = ("job", "--rules", "rules.csv", "--budget", "60s", "--", python, *ranks)
    done = rccltune(tmp_path, *words)
    assert done.returncode == 4, done.stderr
    assert lacks(done.stderr, "1 as") == []
    assert lacks(done.stderr, "12 steps", "step") == []
    assert lacks(" ".join(done.stderr.split()), "MPI") == []
    first = tmp_path / "rccltune-job" / "runs" / "001-as-is"
    said = [json.loads(path.read_text()) for path in first.glob("steps-*.json")]
    assert sorted((line["rank"], line["ranks"], line["steps"]) for line in said) == [
        (0, 2, 12),
        (1, 2, 12),
    ]
    assert {line["first_loss"] for line in said} == {1.0}
