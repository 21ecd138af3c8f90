"""Notebooks run from top to bottom, and are committed without outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    loaded = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in loaded if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_outputs_are_stripped(path: Path) -> None:
    """Outputs age and make diffs unreadable."""
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_cell_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one namespace, beside the examples."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(path.parents[1] / "examples")
    names: dict[str, Any] = {}

    for cell in cells(path):
        exec("".join(cell["source"]), names)  # noqa: S102 - our own notebook

    # AMD's table: ring/ll at 32 B, tree/ll128 at 1 MiB, ring/simple at 128 MiB.
    best = names["best"]
    assert (best[32], best[1 << 20], best[128 << 20]) == ("ring/ll", "tree/ll128", "ring/simple")
