"""Notebooks run from top to bottom, and are committed without outputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
MIB: Final = 1 << 20
Names = dict[str, Any]


def cells(path: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    loaded = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in loaded if cell["cell_type"] == "code"]


def explored(names: Names) -> None:
    """AMD's table: ring/ll at 32 B, tree/ll128 at 1 MiB, ring/simple at 128 MiB."""
    best = names["best"]
    assert (best[32], best[MIB], best[128 * MIB]) == ("ring/ll", "tree/ll128", "ring/simple")
    # Three launches of each of the 17 sizes; what the text says of their spread.
    assert set(names["ends"]["count"]) == {3}
    half, most, last = names["spread"].quantile([0.5, 0.9, 0.99])
    assert half < 0.011
    assert most < 0.05
    assert last > 1


def chosen(names: Names) -> None:
    """No loss at any size, where the published rules lose 56 % at 4 MiB (652 against 418 µs)."""
    loss = names["loss"]
    assert loss["ours"].max() < 0.02
    assert loss["published"][4 * MIB] == pytest.approx(652 / 418 - 1)
    order = dict.fromkeys(names["zones"]["setting"])
    assert list(order) == ["ring/ll", "tree/ll", "tree/ll128", "-"]


def read(names: Names) -> None:
    """Three rules of ring/ll128, and the plugin answers each of them between two holes."""
    assert list(names["rules"]["setting"]) == ["ring/ll128"] * 3
    answers = names["answers"]
    assert list(answers[answers["line"].notna()]["answer"]) == ["ring/ll128"] * 3
    assert "not faster" in set(answers["why not"])
    assert [collective.value for collective in names["gone"]] == ["broadcast"]


def believed(names: Names) -> None:
    """RCCL's model prefers ring/ll to tree/ll at 64 ranks, the reverse of AMD's measurement."""
    held = names["held"]
    assert held["it would choose"]["2 KiB"] == "ring/ll"
    assert held["measured fastest"]["2 KiB"] == "tree/ll"
    assert held["loses, %"].max() > 30
    assert names["fitted"].session.simulated


CHECKS: Final[dict[str, Callable[[Names], None]]] = {
    "01-explore-a-session": explored,
    "02-how-zones-are-chosen": chosen,
    "03-read-a-rule-file": read,
    "04-what-the-library-believed": believed,
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_outputs_are_stripped(path: Path) -> None:
    """Outputs age and make diffs unreadable."""
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells(path))


def test_every_notebook_is_checked() -> None:
    """A new one brings what it must find."""
    assert [path.stem for path in NOTEBOOKS] == list(CHECKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_cell_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one namespace, beside the examples, and finds what its text says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(path.parents[1] / "examples")
    names: Names = {}

    for cell in cells(path):
        exec("".join(cell["source"]), names)  # noqa: S102 - our own notebook

    CHECKS[path.stem](names)
