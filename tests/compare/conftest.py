"""A small simulated node of two GPUs, and comparisons on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yamls

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.errors import MachineError

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Compare two sides in ./c, at three sizes and with six starts; answers the exit code.

    Keys that are given replace those of the node file.
    """
    try:
        there = (plugin.native_folder() / "rccltune-perf").is_file()
    except MachineError as error:
        pytest.skip(str(error))
    if not there:
        pytest.skip("this install has no rank program")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    raw: dict[str, Any] = yamls.loaded(NODE.read_text(encoding="utf-8"))
    raw["scale"]["ranks"] = 2

    def compared(a: str, b: str, *more: str, **keys: object) -> int:
        Path("node.yaml").write_text(yamls.dumped(raw | keys), encoding="utf-8")
        where = ("--simulate", "node.yaml", "--mode", "spx-nps1", "--starts", "6", "-o", "c")
        return run(["compare", a, b, *where, *more])

    return compared
