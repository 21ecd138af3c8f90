"""A default tune fits on a screen, in a log without a terminal too, and nothing in it alarms."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rccltune.cli.console import fold

NODE = ["--mode", "spx-nps1", "--launcher", "none", "--collective", "all_reduce"]


@pytest.mark.usefixtures("stand_ins")
def test_a_default_tune_is_at_most_forty_lines_of_a_hundred_columns(
    repository: Path, tmp_path: Path
) -> None:
    """Both streams together, as Slurm's log has them; the last lines say what to do now."""
    node = repository / "examples/nodes/smallest.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "rccltune", "tune", "--simulate", str(node), *NODE, "-o", "s"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    # A folder of the machine may be longer than any line.
    assert [line for line in lines if len(line) > 100 and str(tmp_path) not in line] == []
    assert not any(line.startswith(("Warning", "Error")) for line in lines)
    assert any(line.startswith("To use it now: source ") for line in lines[-6:])


def test_sentences_fold_and_what_is_typed_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command or a URL is copied; an option without its value is a mistake."""
    monkeypatch.delenv("COLUMNS", raising=False)
    command = "To use it now: source " + "/home/somebody/with/a/long/name" * 5 + "/rules.env"
    sentence = (
        "many words " * 8 + 'say which: --assume arch=gfx942 or --assume product="NVIDIA H200"'
    )
    assert fold([command]) == command
    first, *others = fold([sentence]).split("\n")
    assert all(len(line) <= 100 for line in (first, *others))
    assert any("--assume arch=gfx942" in line for line in others)
    assert all(line.startswith("  ") for line in others)
    assert " ".join([first, *(line.strip() for line in others)]) == sentence
