"""rccltune.torch as one copied file: steps, hooks, rules, and what it costs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from copied import Run, written

from rccltune.rules.needs import harmless, is_harmless

LOOP = """
import sys, time, rccltune_torch as mark
for n in range(int({n})):
    with mark.step():
        time.sleep({s})
print("job is done")
"""


def test_steps_are_timed_and_written_at_the_end(run: Run, tmp_path: Path) -> None:
    """Twelve sleeps of 20 ms are twelve times of at least 20 ms; the job's output stays its own."""
    done = run(LOOP.format(n=12, s=0.02), RANK="3", WORLD_SIZE="8")
    assert (done.stdout, done.stderr) == ("job is done\n", "")
    said = written(tmp_path)
    assert (said["steps"], said["every"], said["rank"], said["ranks"]) == (12, 1, 3, 8)
    assert len(said["times_ms"]) == 12
    assert all(taken >= 20 for taken in said["times_ms"])
    assert said["clock"] == "host"


def test_many_steps_are_thinned(run: Run, tmp_path: Path) -> None:
    """Above 4096 times every second one stays, so that no job runs out of memory by its marks."""
    run(LOOP.format(n=10_000, s=0))
    said = written(tmp_path)
    assert (said["steps"], said["every"]) == (10_000, 4)
    assert len(said["times_ms"]) <= 4096


def test_an_optimizer_marks_steps(run: Run, tmp_path: Path) -> None:
    """From one optimizer.step() to the next: five calls are four steps."""
    done = run(
        "import torch, rccltune_torch as mark\n"
        "model = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "mark.watch(optimizer)\n"
        "for n in range(5):\n"
        "    model(torch.ones(1, 4)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    assert done.returncode == 0, done.stderr
    assert written(tmp_path)["steps"] == 4


def test_times_that_cannot_be_written_stop_no_job(run: Run) -> None:
    """Of another host, say: it is told."""
    done = run(LOOP.format(n=2, s=0.001), RCCLTUNE_JOB_STEPS="/proc/nowhere/steps-%p.json")
    assert done.returncode == 0
    assert "step times cannot be written" in done.stderr


CPX = "rccl_tuner_gfx942_cpx-nps4.csv"


def place(folder: Path, needs: str = "", name: str = CPX) -> Path:
    """A folder as rccltune deploy leaves it."""
    folder.mkdir(parents=True)
    (folder / "librccl-tuner-rccltune.so").write_bytes(b"")
    rows = f"{needs}allreduce,0,4096,tree,ll,-1,1,8,-1,-1\n"
    (folder / name).write_text(rows)
    return folder


SHOW = """
import os, rccltune_torch
rccltune_torch.enable("place")
for name in ("NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE", "NCCL_MIN_NCHANNELS"):
    print(name, os.environ.get(name))
"""


@pytest.mark.parametrize("name", [CPX, "rccl_tuner.csv"])
def test_enable_sets_plugin_rules_and_needs(run: Run, tmp_path: Path, name: str) -> None:
    """All three, by absolute paths, from a delivered folder; an NVIDIA machine's file has no mode."""
    folder = place(tmp_path / "place", "#@ needs NCCL_MIN_NCHANNELS=32\n", name)
    done = run(SHOW)
    assert done.stdout.splitlines() == [
        f"NCCL_TUNER_PLUGIN {folder}/librccl-tuner-rccltune.so",
        f"NCCL_TUNER_CONFIG_FILE {folder}/{name}",
        "NCCL_MIN_NCHANNELS 32",
    ], done.stderr


OTHER = "place/rccl_tuner_gfx942_spx-nps1.csv"
MEETS = """import torch.distributed as d
meet = 'file://' + os.getcwd() + '/meet'
d.init_process_group('gloo', init_method=meet, rank=0, world_size=1)
"""
UNINSTALLED = """import sys
sys.modules['rccltune'] = None
os.remove('place/librccl-tuner-rccltune.so')
"""


@pytest.mark.parametrize(
    ("needs", "before", "told"),
    [
        ("#@ needs NCCL_NET_PLUGIN=evil\n", "", "needs NCCL_NET_PLUGIN=evil, which may load code"),
        ("#@ needs RCCL_DDA_ENABLE=/tmp/x\n", "", "which may load code"),
        ("", MEETS, "comes too late"),
        ("", "import shutil; shutil.rmtree('place')\n", "has no rule file"),
        ("", UNINSTALLED, "has no librccl"),
        ("", f"open({OTHER!r}, 'w').close()\n", "several rule files"),
    ],
)
def test_enable_says_why_not(run: Run, tmp_path: Path, needs: str, before: str, told: str) -> None:
    """An exception that names the reason, and nothing is set."""
    place(tmp_path / "place", needs)
    done = run("import os\n" + before + SHOW)
    assert done.returncode == 1
    assert told in done.stderr
    assert "NCCL_TUNER_PLUGIN /" not in done.stdout


def test_enable_leaves_an_arm_alone(run: Run, tmp_path: Path) -> None:
    """Under rccltune job the arm decides, and that is said."""
    place(tmp_path / "place")
    done = run(SHOW, RCCLTUNE_JOB_RUN="/somewhere")
    assert "NCCL_TUNER_PLUGIN None" in done.stdout
    assert "rccltune job sets this run's own" in done.stderr


def test_what_rules_may_need_is_what_the_catalog_allows(repository: Path) -> None:
    """The copied file has no catalog, and the same list."""
    text = (repository / "rccltune" / "torch.py").read_text(encoding="utf-8")
    names = set(re.findall(r'^ {8}"(\w+)",$', text, re.MULTILINE))
    assert len(names) > 20
    assert all(is_harmless(name, "1") for name in names)
    assert names >= harmless()
