"""The rank program finds in which order a library adds, by calls alone (docs/bits.md)."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from perf_sweeps import Ground

from rccltune import plugin
from rccltune.simulate.compiled import compile_node
from rccltune.simulate.sources import load_node, node_path

# As the prototype found them with NCCL 2.30.7 on an H200 (one ring order in all channels).
TREE_OF_4 = "(((2+3)+1)+0)"
RING_OF_4 = {"(((1+2)+3)+0)", "(((2+3)+0)+1)", "(((0+3)+1)+2)", "(((0+1)+2)+3)"}


@dataclass(frozen=True)
class Probed:
    """What all ranks wrote."""

    rows: list[dict[str, str]]
    checked: list[int]
    wrong: list[int]
    trees: dict[str, str]


def probed(
    ground: Ground, n_ranks: int, steps: Sequence[str], node: str = "", **raw: object
) -> Probed:
    """Rows of rank 0 for each order step, and what all ranks checked."""
    ground.raw["scale"] = {"ranks": n_ranks, "devices_per_oam": -(-n_ranks // 8)}
    ground.change(**raw)
    folder, native = ground.folder / "run", plugin.native_folder()
    folder.mkdir()
    compiled, plan = ground.folder / "node.node", ground.folder / "plan.txt"
    compiled.write_bytes(
        compile_node(load_node(node_path(node) if node else ground.folder / "node.yaml"))
    )
    plan.write_text("\n".join(["plan 2 1048576", "communicator orders:0", *steps, ""]))
    words = {
        "start": n_ranks,
        "folder": folder,
        "plan": plan,
        "library": native / "sim/librccl.so.1",
        "runtime": native / "hip/libamdhip64.so.7",
        "plugin": plugin.library(),
        "bind": "none",
    }
    argv = [str(word) for name, value in words.items() for word in (f"--{name}", value)]
    own = {"RCCLTUNE_PERF_TOKEN": "0123456789abcdef" * 2, "RCCLTUNE_SIM_NODE": str(compiled)}
    done = subprocess.run(
        [str(native / "rccltune-perf"), *argv],
        env={**os.environ, **own, "RCCLTUNE_MODE": "spx-nps1", "RCCLTUNE_SIM_SEED": "0"},
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    files = [(folder / f"rank-{rank}.csv").read_text() for rank in range(n_ranks)]
    tables = [_orders(text) for text in files]
    trees = [line.split(" ")[2:] for text in files for line in text.splitlines() if _is_tree(line)]
    return Probed(
        rows=tables[0],
        checked=[sum(int(one["checked"]) for one in ranks) for ranks in zip(*tables, strict=True)],
        wrong=[sum(int(one["wrong"]) for one in ranks) for ranks in zip(*tables, strict=True)],
        trees=dict(trees),
    )


def _is_tree(line: str) -> bool:
    return line.startswith("# tree ")


def _orders(text: str) -> list[dict[str, str]]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [one for one in csv.DictReader(lines) if one["step"] == "order"]


def test_a_tree_is_one_chain_and_a_ring_has_one_for_each_rank(ground: Ground) -> None:
    """As on the GPU; every element has the bits that its tree predicts, in each way of calling."""
    ways = ("float sum out 65536 loop", "float sum in 65536 graph", "bfloat16 sum out 65536 loop")
    steps = [
        "answer tree/ll",
        *(f"order all_reduce {way}" for way in ways),
        "answer ring/ll",
        *(f"order all_reduce {way}" for way in ways),
    ]
    found = probed(ground, 4, steps)
    assert found.checked == [16384, 16384, 32768] * 2
    assert found.wrong == [0] * 6
    assert [one["trees"] for one in found.rows] == ["1"] * 3 + ["4"] * 3
    assert {found.trees[one["tree"]] for one in found.rows[:3]} == {TREE_OF_4}
    assert set(found.trees.values()) == {TREE_OF_4, *RING_OF_4}
    # In place or not, captured or not: the same trees at the same places, and the same bits.
    for a, b in (found.rows[:2], found.rows[3:5]):
        assert (a["signature"], a["bits"]) == (b["signature"], b["bits"])
    assert len({one["signature"] for one in found.rows}) == 4


def test_channels_with_other_rings_give_a_tree_more_chains(ground: Ground) -> None:
    """One channel has one chain; so have several as long as their rings are equal."""
    graph = {**ground.raw["library"]["graph"], "rings": ["0 1 2 3", "0 1 2 3", "0 2 1 3"]}
    library = {**ground.raw["library"], "graph": graph}
    steps = [f"answer tree/ll/{n}\norder all_reduce float sum out 1048576 loop" for n in (1, 2, 3)]
    found = probed(ground, 4, steps, library=library)
    assert [one["trees"] for one in found.rows] == ["1", "1", "2"]
    assert found.rows[0]["tree"] == found.rows[1]["tree"] != found.rows[2]["tree"]
    assert found.checked == [262144] * 3
    assert found.wrong == [0] * 3


def test_many_ranks_take_about_as_many_calls(ground: Ground) -> None:
    """Of 16 ranks all elements are predicted; pairs would take 120 calls, a known tree takes one."""
    steps = [
        "answer tree/ll",
        "order all_reduce float sum out 4096 loop",
        "order all_reduce float sum out 65536 loop",
        "answer ring/ll/1",
        "order all_reduce float sum out 65536 loop",
    ]
    found = probed(ground, 16, steps)
    assert found.checked == [1024, 16384, 16384]
    assert found.wrong == [0] * 3
    assert [one["trees"] for one in found.rows] == ["1", "1", "16"]
    calls = [int(one["made"]) for one in found.rows]
    assert calls[0] == 16
    assert calls[1] == 1
    assert calls[2] < 48


@pytest.mark.parametrize(("elements", "known"), [(5, 1019), (1024, 768)])
def test_elements_that_are_spoiled_have_no_tree(ground: Ground, elements: int, known: int) -> None:
    """Nothing is claimed of what rank 0 has where a fault spoils it: it looks at a quarter."""
    fault = {"kind": "wrong", "collective": "all_reduce", "elements": elements}
    steps = ["answer tree/ll", "order all_reduce float sum out 4096 loop"]
    found = probed(ground, 4, steps, faults=[fault])
    assert found.checked == [known]
    assert found.rows[0]["note"].startswith("3 ranks hold other bits")


def test_a_library_that_adds_otherwise_is_caught(ground: Ground) -> None:
    """DDA of this node adds in double and rounds once: a chain by the probes, and other bits."""
    steps = ["answer nothing", "order all_reduce float sum out 65536 loop"]
    found = probed(ground, 8, steps, node="mi300x-rcclx-spx-nps1")
    assert found.rows[0]["trees"] == "1"
    assert found.checked == [16384]
    assert 0 < found.wrong[0] < 16384


@pytest.mark.long
def test_sixty_four_ranks_are_predicted_too(ground: Ground) -> None:
    """One channel has the chain of the real RCCL's first ring, four have four; a ring has 64."""
    steps = [
        "answer tree/ll/1",
        "order all_reduce float sum out 65536 loop",
        "answer tree/ll/4",
        "order all_reduce bfloat16 sum in 65536 loop",
        "answer ring/ll/1",
        "order all_reduce float sum out 65536 loop",
        "order reduce_scatter float sum out 65536 loop",
    ]
    found = probed(ground, 64, steps, node="mi300x-cpx-nps4")
    assert [one["trees"] for one in found.rows] == ["1", "4", "64", "1"]
    assert found.checked == [16384, 32768, 16384, 16384]
    assert found.wrong == [0] * 4
    chain = found.trees[found.rows[0]["tree"]]
    assert chain.strip("(").startswith("62+63)+61)+60)")
