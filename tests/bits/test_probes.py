"""Which settings add alike at every size, from rows of probes, and which rules follow."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
import pytest

from rccltune.bits import probes
from rccltune.bits.fastest_trees import bits_name
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective
from rccltune.ranks import plan
from rccltune.ranks.plan import Step

N_RANKS = 4
LARGEST = 1 << 20
TREE, OTHER = "00000000000000aa", "00000000000000bb"
ALL_REDUCE = Collective.ALL_REDUCE


def row(step: Step, **other: Any) -> dict[str, Any]:  # noqa: ANN401 - of a table
    """A probe in which all is one tree."""
    call, word = step.call, str(step.setting)
    n_elements = call.nbytes / (2 if call.dtype == "bfloat16" else 4)
    return {
        "step": step.kind,
        "purpose": plan.ORDERS,
        "collective": call.collective.value,
        "dtype": call.dtype,
        "op": call.op,
        "placement": call.placement.value,
        "asked_nbytes": call.nbytes,
        "nbytes": call.nbytes,
        "timing": step.timing,
        "setting": word,
        "answer": word,
        "ran": word,
        "trees": 1.0,
        "tree": TREE,
        "checked": n_elements,
        "wrong": 0.0,
        "first_end": n_elements,
        **other,
    }


def all_of(setting: str) -> list[dict[str, Any]]:
    """Rows of all probes of a setting."""
    steps = probes.all_steps(ALL_REDUCE, [Setting.parse(setting)], LARGEST, N_RANKS)
    return [row(step) for step in steps]


def settings_in(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Settings of each class."""
    found = probes.classes(pd.DataFrame(rows), ALL_REDUCE, {TREE: "(((2+3)+1)+0)"}, N_RANKS)
    return [list(map(str, one.settings)) for one in found]


def test_probes_reach_from_the_smallest_call_to_the_largest() -> None:
    """16 bytes are what the rank program rounds to, for each rank where each has a share."""
    sizes = probes.probed_sizes(ALL_REDUCE, LARGEST, N_RANKS)
    assert (sizes[0], sizes[-1]) == (16, LARGEST)
    assert probes.probed_sizes(Collective.REDUCE_SCATTER, LARGEST, N_RANKS)[0] == 64
    assert all(a < b <= 4 * a for a, b in itertools.pairwise(sizes))


def test_settings_with_the_same_tree_are_a_class() -> None:
    """What is one tree with all probes; of another tree is another class."""
    rows = [*all_of("tree/ll/6"), *all_of("tree/simple/6")]
    rows += [{**one, "tree": OTHER} for one in all_of("tree/ll128/1")]
    assert settings_in(rows) == [["tree/ll/6", "tree/simple/6"], ["tree/ll128/1"]]


@pytest.mark.parametrize(
    "change",
    [
        {"trees": 2.0},
        {"tree": OTHER},
        {"wrong": 1.0},
        {"checked": 3.0},
        {"answer": "none"},
        {"ran": "ring/ll/6"},
    ],
)
def test_one_probe_that_differs_takes_a_setting_out(change: dict[str, Any]) -> None:
    """Another tree at one size, a bit that was not predicted, an element without one."""
    rows = all_of("tree/ll/6")
    rows[5] |= change
    assert settings_in(rows) == []


def test_a_probe_that_is_missing_takes_a_setting_out() -> None:
    """Interrupted, or the library lost it: nothing is claimed."""
    assert settings_in(all_of("tree/ll/6")[:-1]) == []


def test_fewer_channels_than_asked_for_are_the_same_setting() -> None:
    """A tuner's channels are an upper bound."""
    assert settings_in([{**one, "ran": "tree/ll/2"} for one in all_of("tree/ll/6")]) == [
        ["tree/ll/6"]
    ]


def test_as_many_channels_are_tried_as_have_equal_chains() -> None:
    """Four ranks on two GPUs: 6 of 8 channels add alike (prototype, NCCL 2.30.7); and one does."""
    first = next(
        step
        for step in probes.first_steps(ALL_REDUCE, LARGEST, N_RANKS)
        if str(step.setting) == "tree/ll"
    )
    several = row(first, trees=2.0, ran="tree/ll/8", first_end=LARGEST / 4 * 6 / 8)
    found = probes.candidates(pd.DataFrame([several]), ALL_REDUCE)
    assert list(map(str, found)) == ["tree/ll/6", "tree/ll/1"]
    assert list(map(str, probes.candidates(pd.DataFrame([row(first)]), ALL_REDUCE))) == ["tree/ll"]


def test_a_ring_is_not_tried_for_all_reduce_but_with_two_ranks() -> None:
    """Each of its chunks starts at another rank; a + b is b + a."""
    names = {str(s.setting) for s in probes.first_steps(ALL_REDUCE, LARGEST, N_RANKS)}
    assert names == {"tree/ll", "tree/ll128", "tree/simple"}
    assert "ring/ll" in {str(s.setting) for s in probes.first_steps(ALL_REDUCE, LARGEST, 2)}


def test_the_name_of_the_bits_is_that_of_the_trees_alone() -> None:
    """Files that add alike have one name, whatever settings they choose."""
    shared = Collective.REDUCE_SCATTER
    assert bits_name({ALL_REDUCE: TREE}) != bits_name({ALL_REDUCE: OTHER})
    assert bits_name({ALL_REDUCE: TREE}) != bits_name({shared: TREE})
    both = {ALL_REDUCE: TREE, shared: OTHER}
    assert bits_name(both) == bits_name(dict(reversed(both.items())))
