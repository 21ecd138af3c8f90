"""Two sides by their bits: at which sizes they differ, and from which element on."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rccltune.cli import run
from rccltune.compare.bits_comparison import first_difference

SIZES = ("--min-bytes", "1K", "--max-bytes", "4K")


@pytest.mark.parametrize(
    ("a", "b", "first"),
    [
        (["x:8"], ["x:8"], None),
        (["x:4", "y:8"], ["x:8"], 4),
        (["x:4", "y:8"], ["x:6", "y:8"], 4),
        (["x:4", "y:8"], ["z:4", "y:8"], 0),
        (["x:4", "more"], ["x:4", "y:8"], None),
    ],
)
def test_the_first_element_with_another_tree(a: list[str], b: list[str], first: int | None) -> None:
    """Where one side's tree ends earlier, or is another; a list that was cut tells no more."""
    assert first_difference(a, b) == first
    assert first_difference(b, a) == first


@pytest.fixture
def node(four_ranks: Callable[..., Path]) -> str:
    """Four ranks of one ring order."""
    return four_ranks().name


def test_a_ring_and_a_tree_differ_and_channels_of_a_tree_do_not(node: str) -> None:
    """A ring's first chunk starts at rank 1: 9 where a bit differs, 0 where none does."""
    words = ["--bits", "--simulate", node, "--mode", "spx-nps1", *SIZES]
    assert run(["compare", "tree/ll/1", "ring/ll/1", *words, "-o", "one"]) == 9
    text = (Path("one") / "comparison.csv").read_text(encoding="utf-8")
    table = list(csv.DictReader(text.splitlines()))
    assert [(row["verdict"], row["first_element"]) for row in table] == [("differ", "0")] * 3
    assert [(row["a_trees"], row["b_trees"]) for row in table] == [("1", "4")] * 3
    assert run(["compare", "tree/ll/1", "tree/ll/4", *words, "--share-gpus", "-o", "other"]) == 0
    folders = sorted((Path("other") / "runs").glob("*/run.json"))
    added = [dict(json.loads(one.read_text(encoding="utf-8"))["added"]) for one in folders]
    assert [one["NCCL_MULTI_RANK_GPU_ENABLE"] for one in added] == ["1", "1"]


def test_what_adds_nothing_has_no_bits_to_compare(
    node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """2, and what can be compared."""
    assert run(["compare", "idle", "ring/ll", "--share-gpus"]) == 2
    assert "--bits alone" in capsys.readouterr().err
    words = ["--bits", "--simulate", node, "--mode", "spx-nps1", "--collective", "all_gather"]
    assert run(["compare", "idle", "ring/ll", *words]) == 2
    assert "all_reduce or reduce_scatter" in capsys.readouterr().err
