"""A small simulated node on which the real rank program measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yamls
from perf_sweeps import Ground

from rccltune import plugin
from rccltune.model.errors import MachineError

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """Two made-up GPUs on which ring/ll, ring/simple and tree/ll can be chosen."""
    try:
        there = (plugin.native_folder() / "rccltune-perf").is_file()
    except MachineError as error:
        pytest.skip(str(error))
    if not there:
        pytest.skip("this install has no rank program")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    raw: dict[str, Any] = yamls.loaded(NODE.read_text(encoding="utf-8"))
    raw["scale"]["ranks"] = 2
    made = Ground(folder=tmp_path, raw=raw)
    made.change()
    return made
