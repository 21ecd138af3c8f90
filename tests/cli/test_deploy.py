"""deploy as an admin types it, and what a job gets that sources env.sh: the real plugin's doing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from kept import sweep_once
from variant_truth import Manner, untouched
from wording import lacks

from rccltune.cli import run
from rccltune.session import files
from rccltune.simulate import sources

pytestmark = pytest.mark.usefixtures("stand_ins", "here", "whole")

SMALL = ["--launcher", "none", "--collective", "all_reduce"]
SMALL += ["--min-bytes", "1K", "--max-bytes", "64M", "--setting", "tree/ll"]
SMALL += ["--setting", "ring/simple", "--communicators", "3"]
SESSION = Path("rccltune-session")
RULES = "rccl_tuner_gfx942_cpx-nps4.csv"


@pytest.fixture
def simulated(here: Path) -> None:
    """A simulated session with rules, in four launches."""
    assert here == Path.cwd()
    assert sweep_once(["--simulate", "mi300x", "--mode", "cpx-nps4", *SMALL, "-q"], SESSION) == 0
    assert run(["emit-config", "-q"]) == 0


@pytest.mark.usefixtures("simulated")
def test_a_job_that_sources_it_runs_the_deployed_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stand-in library loads the deployed plugin, which reads the deployed file."""
    capsys.readouterr()
    assert run(["deploy", "site", "--unproven"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("SIMULATED")
    assert lacks(said.out, "loaded and asked", f". {tmp_path}/site/env.sh") == []
    assert "Session: rccltune-session" in said.err
    # What is not deployed is gone: nothing else can have answered.
    shutil.rmtree(SESSION)
    done = subprocess.run(
        ["/bin/sh", "-euc", ". site/env.sh; env"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    pairs = (line.partition("=")[::2] for line in done.stdout.splitlines())
    given = {name: value for name, value in pairs if name.startswith(("NCCL", "RCCL"))}
    rules = tmp_path / "site" / RULES
    rows = [line.split(",") for line in rules.read_text().splitlines() if line[:1].isalpha()]
    asked = {max(int(row[1]), 1024): f"{row[3]}/{row[4]}" for row in rows}
    node = sources.node_path("mi300x", "cpx-nps4")
    # There is no such device here that could say its mode.
    more = {"RCCLTUNE_MODE": "cpx-nps4", "RCCLTUNE_LOG": f"summary:{tmp_path}/log"}
    tuned = untouched(node, "all_reduce", list(asked), Manner().with_env(**given, **more))
    plain = untouched(node, "all_reduce", list(asked), Manner())
    assert {size: ran.what for size, ran in tuned.items()} == asked
    assert any(plain[size].what != what for size, what in asked.items())
    told = (tmp_path / "log").read_text(encoding="utf-8")
    assert lacks(told, f"file={rules}", files.sha256_of(rules)) == []


@pytest.mark.usefixtures("simulated")
def test_unproven_rules_are_refused_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, the ways to go on, and nothing is made."""
    text = (SESSION / RULES).read_text(encoding="utf-8")
    (SESSION / RULES).write_text(f"# UNPROVEN: one\n{text}", encoding="utf-8")
    capsys.readouterr()
    assert run(["deploy", "site"]) == 2
    said = capsys.readouterr().err
    assert lacks(said, RULES, "rccltune verify", "--proven", "--unproven") == []
    assert not Path("site").exists()
