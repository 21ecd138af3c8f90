"""A small simulated node that was swept once, for all tests of this folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.errors import MachineError

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session whose rules were chosen and not verified."""
    try:
        if not (plugin.native_folder() / "rccltune-perf").is_file():
            pytest.skip("this install has no rank program")
    except MachineError as error:
        pytest.skip(str(error))
    made = tmp_path_factory.mktemp("swept") / "s"
    words = ["--simulate", str(NODE), "--mode", "spx-nps1", "--collective", "all_reduce"]
    sizes = ["--min-bytes", "16K", "--max-bytes", "1M", "--communicators", "2", "--np", "2"]
    assert run(["sweep", *words, *sizes, "-o", str(made), "-q"]) == 0
    assert run(["emit-config", str(made), "-q"]) == 0
    return made


@pytest.fixture
def swept(once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    shutil.copytree(once, tmp_path / "s")
    return tmp_path / "s"
