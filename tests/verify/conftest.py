"""A small simulated node that was swept once, for all tests of this folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from builds import make_session_once

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.defaults import SESSION
from rccltune.model.errors import MachineError

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session whose rules were chosen and not verified; nobody may change it."""
    try:
        if not (plugin.native_folder() / "rccltune-perf").is_file():
            pytest.skip("this install has no rank program")
    except MachineError as error:
        pytest.skip(str(error))

    def choose(folder: Path) -> None:
        made = str(folder / SESSION)
        words = ["--simulate", str(NODE), "--mode", "spx-nps1", "--collective", "all_reduce"]
        sizes = ["--min-bytes", "16K", "--max-bytes", "1M", "--communicators", "2", "--np", "2"]
        assert run(["sweep", *words, *sizes, "-o", made, "-q"]) == 0
        assert run(["emit-config", made, "-q"]) == 0

    return make_session_once(tmp_path_factory, "to-verify", choose)


@pytest.fixture
def swept(once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return shutil.copytree(once, tmp_path / "s")


@pytest.fixture(scope="session")
def verified_once(once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, verified; nobody may change it."""

    def verify(folder: Path) -> None:
        made = str(shutil.copytree(once, folder / SESSION))
        assert run(["verify", made, "--communicators", "4", "-q"]) == 0

    return make_session_once(tmp_path_factory, "verified", verify)


@pytest.fixture
def verified(verified_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return shutil.copytree(verified_once, tmp_path / "s")
