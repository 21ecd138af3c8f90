"""A simulated node of four ranks whose channels have one ring order, or two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yamls

from rccltune import plugin
from rccltune.model.errors import MachineError

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"


@pytest.fixture
def four_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write ./node.yaml, which is also returned; ring orders that are given replace its own."""
    try:
        plugin.native_folder()
    except MachineError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)

    def write(*rings: str) -> Path:
        raw: dict[str, Any] = yamls.loaded(NODE.read_text(encoding="utf-8"))
        raw["scale"]["ranks"] = 4
        if rings:
            raw["library"]["graph"]["rings"] = list(rings)
        path = tmp_path / "node.yaml"
        path.write_text(yamls.dumped(raw), encoding="utf-8")
        return path

    return write


@pytest.fixture
def two_orders(four_ranks: Callable[..., Path]) -> Path:
    """Of the channels the first three go round alike."""
    return four_ranks("0 1 2 3", "0 1 2 3", "0 1 2 3", "0 2 1 3")
