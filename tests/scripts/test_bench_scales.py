"""scripts/bench scales: what it prints are the errors of predictions, and it tells lines from shapes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def bench() -> ModuleType:
    """The bench, which takes a second to import."""
    import bench_scales

    return bench_scales


def run(
    bench: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *more: str,
) -> tuple[int, str]:
    """Exit code and text of the command."""
    monkeypatch.setattr(sys, "argv", ["bench_scales", "--nodes", "6", *more])
    return bench.main(), capsys.readouterr().out


def test_six_nodes_are_within_the_bound_and_lines_alone_are_not(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All settings of one node, under each way."""
    code, text = run(bench, monkeypatch, capsys, "--json")
    assert code == 0
    rows = [row for row in json.loads(text) if row["part"] == "made up"]
    by_way = {(row["way"], row["setting"]): row for row in rows}
    for setting in ("ring/ll", "ring/ll128", "ring/simple", "tree/ll", "tree/ll128"):
        assert by_way["chosen by the scales left out", setting]["worst_of_all"] <= 0.15
        assert by_way["not at all", setting]["worst"] > 0.15


def test_public_two_nodes_are_badly_off_from_one(
    shared_data: Path,
    bench: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No error is claimed to be known, and few sizes of two nodes help every setting."""
    _, text = run(bench, monkeypatch, capsys, "--json", "--data", str(shared_data))
    rows = [row for row in json.loads(text) if row["part"] == "two nodes from one"]
    assert not any(row["error_known"] for row in rows)
    for setting in {row["setting"] for row in rows}:
        mine = {tuple(row["measured"]): row["median"] for row in rows if row["setting"] == setting}
        assert mine["4 KiB", "512 MiB"] < mine[()] / 2


def test_people_get_words(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Machine, ways and settings; without the public data the rest stands."""
    monkeypatch.setattr(bench, "find_data", lambda _: None)
    code, text = run(bench, monkeypatch, capsys)
    assert code == 0
    assert "cores, Python" in text
    assert "at equal bytes per rank" in text
