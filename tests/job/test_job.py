"""``rccltune job`` on the command line, with jobs that ask the real plugin, and ranks of PyTorch."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from job_runs import BAD, RULES, TREE_LL, asking, rccltune
from torches import torch_python

from rccltune.session import store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Folder with a rule file."""
    (tmp_path / "rules.csv").write_text(RULES, encoding="utf-8")
    return tmp_path


def test_rules_that_pay(place: Path) -> None:
    """Steps of 8 ms beside 4 ms by the rules and 16 ms by bad ones; what answered was the rule.

    Sleeps are longer than asked for, as the machine is busy: the ratio is about 2.
    """
    command = asking(place, {TREE_LL: 4.0, BAD: 16.0}, 8.0)
    done = rccltune(place, "job", "--rules", "rules.csv", "--bad-rules", "--json", "--", *command)
    assert done.returncode == 0, done.stderr
    assert "Plan: 6 pairs, 18 runs in turns" in done.stderr
    found = json.loads(done.stdout)
    assert 1.2 < found["rules"]["value"] < 3
    assert found["rules"]["low"] > 1
    assert found["bad_rules"]["high"] < 1
    assert found["rules"]["n"] == 6
    assert found["measure"] == "step time in ms"
    with_rules = [run for run in found["runs"] if run["kind"] == "rules"]
    assert {(run["calls"], run["hits"]) for run in with_rules} == {(12, 12)}


def test_rules_that_cost_end_with_nine(place: Path) -> None:
    """And the answer is there all the same; each pair is a line."""
    command = asking(place, {TREE_LL: 12.0}, 4.0)
    done = rccltune(place, "job", "--rules", "rules.csv", "--", *command)
    assert done.returncode == 9
    assert "× slower (" in done.stdout
    assert "In force: rules answered" in done.stdout
    pairs = [line for line in done.stderr.splitlines() if line.startswith("Pair ")]
    assert re.fullmatch(r"Pair 1: [\d.]+ as it is, [\d.]+ with the rules", pairs[0])
    assert len(pairs) == 6
    assert ", 6 pairs" in done.stdout


def test_rules_for_another_scale_answer_nothing(place: Path) -> None:
    """Exit code 8, and which commands say why."""
    (place / "rules.csv").write_text(RULES.replace(",1,8,", ",1,64,"))
    done = rccltune(place, "job", "--rules", "rules.csv", "--", *asking(place, {}, 1.0))
    assert done.returncode == 8
    told = " ".join(done.stderr.split())
    assert "the rules were not in force: they answered none of 12 calls" in told
    assert "rccltune why" in told


def test_who_interrupts_early_leaves_nothing_running(place: Path) -> None:
    """Exit code 130, and what was started is gone."""
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    words = ["job", "--rules", "rules.csv", "--", sys.executable, "-c", code]
    started = subprocess.Popen(
        [sys.executable, "-m", "rccltune", *words], cwd=place, stderr=subprocess.PIPE, text=True
    )
    said = place / "rccltune-job" / "1" / "00-as-is" / "stdout.log"
    until = time.monotonic() + 60
    while not (said.exists() and said.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(started.pid, signal.SIGTERM)
    started.communicate(timeout=60)
    assert started.returncode == 130
    assert not Path("/proc", said.read_text().strip()).exists()


def test_a_session_keeps_its_runs_and_stays_readable(place: Path, repository: Path) -> None:
    """Whatever a job leaves in its folder: a link out of the session, which elsewhere is refused."""
    table = repository / "examples" / "mi300x-cpx-nps4" / "all_reduce.csv"
    assert rccltune(place, "import", str(table)).returncode == 0
    code = "import os; os.symlink('/tmp', os.environ['RCCLTUNE_JOB_RUN'] + '/data')"
    words = ("job", "--rules", "rules.csv", "--", sys.executable, "-c", code)
    done = rccltune(place, *words)
    assert done.returncode == 4, done.stderr
    session = place / "rccltune-session"
    assert (session / "job" / "1" / "02-rules" / "data").is_symlink()
    assert store.open_session(session).path == session
    # The session's own file is read, and refused.
    (session / "rccl_tuner.csv").write_text("allreduce,0,9,bush,ll,-1,-1,-1\n")
    assert rccltune(place, "job", "--", "true").returncode == 3


LOOP = """
import torch, torch.distributed as distributed, rccltune_torch as mark
distributed.init_process_group("gloo")
data = torch.ones(1 << 16)
for n in range(12):
    with mark.step():
        distributed.all_reduce(data)
        data /= distributed.get_world_size()
distributed.destroy_process_group()
"""


# Each run loads PyTorch three times; marks without it are read above.
@pytest.mark.long
def test_ranks_of_pytorch_are_read(tmp_path: Path, repository: Path) -> None:
    """Two ranks under gloo say what their steps took; gloo loads no tuner, and that is the answer."""
    python = torch_python()
    (tmp_path / "rccltune_torch.py").write_bytes((repository / "rccltune/torch.py").read_bytes())
    (tmp_path / "loop.py").write_text(LOOP, encoding="utf-8")
    (tmp_path / "rules.csv").write_text(RULES)
    ranks = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "loop.py")
    done = rccltune(tmp_path, "job", "--rules", "rules.csv", "--", python, *ranks)
    assert done.returncode == 4, done.stderr
    assert "compared: step time in ms" in " ".join(done.stderr.split())
    first = tmp_path / "rccltune-job" / "1" / "00-as-is"
    said = [json.loads(path.read_text()) for path in first.glob("steps-*.json")]
    assert sorted((line["rank"], line["ranks"], line["steps"]) for line in said) == [
        (0, 2, 12),
        (1, 2, 12),
    ]
