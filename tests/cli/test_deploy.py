"""deploy as an admin types it, and what a job gets that sources env.sh: the real plugin's doing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import made
import pytest
from variant_truth import Manner, untouched
from wording import lacks

from rccltune.cli import run
from rccltune.session import files

pytestmark = pytest.mark.usefixtures("stand_ins")
SESSION = Path(made.SESSION)


def test_a_job_that_sources_it_runs_the_deployed_rules(
    tuned: Path, tuned_once: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stand-in library loads the deployed plugin, which reads the deployed file."""
    assert run(["deploy", "site"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("SIMULATED")
    assert lacks(said.out, "loaded and asked", f". {tmp_path}/site/env.sh") == []
    assert f"Session: {SESSION}" in said.err
    done = subprocess.run(
        [str(tmp_path / "site" / "check"), "--quick"],
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    # It names the node by itself.
    assert (done.returncode, done.stderr.split()) == (0, ["Folder:", f"{tmp_path}/site"])
    # What is not deployed is gone: nothing else can have answered.
    shutil.rmtree(tuned)
    done = subprocess.run(
        ["/bin/sh", "-euc", ". site/env.sh; env"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    pairs = (line.partition("=")[::2] for line in done.stdout.splitlines())
    given = {name: value for name, value in pairs if name.startswith(("NCCL", "RCCL"))}
    rules = tmp_path / "site" / made.RULES
    asked = {int(row[1]): f"{row[3]}/{row[4]}" for row in made.rows(rules)}
    node = tuned_once.parent / "node.yaml"
    # There is no such device here that could say its mode.
    more = {"RCCLTUNE_MODE": "spx-nps1", "RCCLTUNE_LOG": f"summary:{tmp_path}/log"}
    tuned_run = untouched(node, "all_reduce", list(asked), Manner().with_env(**given, **more))
    plain = untouched(node, "all_reduce", list(asked), Manner())
    assert {size: ran.what for size, ran in tuned_run.items()} == asked
    assert any(plain[size].what != what for size, what in asked.items())
    told = (tmp_path / "log").read_text(encoding="utf-8")
    assert lacks(told, f"file={rules}", files.sha256_of(rules)) == []


def test_rules_that_changed_since_they_were_verified_do_not_go_out_as_verified(
    tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the header says is of the rules that were verified; one is longer now."""
    path = tuned / made.RULES
    before = path.read_text("utf-8")
    lines = before.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith("allreduce,"))
    fields = lines[at].split(",")
    lines[at] = ",".join([*fields[:2], str(int(fields[2]) - 1), *fields[3:]])
    path.write_text("".join(lines), encoding="utf-8")
    capsys.readouterr()
    assert run(["deploy", "site"]) == 2
    assert lacks(capsys.readouterr().err, made.RULES, "not those that were verified") == []
    # What they require is theirs, too.
    one = next(x for x in before.splitlines() if x.startswith("#@ requires"))
    path.write_text(before.replace(one, f"{one.partition('=')[0]}=gfx950"), encoding="utf-8")
    assert run(["deploy", "site"]) == 2
    assert lacks(capsys.readouterr().err, made.RULES, "not those that were verified") == []
    assert not Path("site").exists()
    path.write_text("".join(lines), encoding="utf-8")
    assert run(["emit-config"]) == 0
    said = capsys.readouterr()
    assert lacks(said.out, f"{made.SESSION}/{made.RULES}", "not those that were verified") == []
    assert not re.search("the verified rules|To use it|rccltune deploy", said.out + said.err)
    assert "Next: rccltune verify proves" in said.err
    assert run(["deploy", "site", "--unproven"]) == 0
    assert "NOT VERIFIED" in capsys.readouterr().out
    assert "verified: " not in Path("site/README").read_text("utf-8")
