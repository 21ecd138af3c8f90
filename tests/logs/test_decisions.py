"""The plugin's decisions beside a forced setting: what ran, and what did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune import plugin
from rccltune.logs.decisions import NAME, PATTERN, prove_by_decisions, read_decisions
from rccltune.model.errors import MachineError
from rccltune.model.measurement import Sample
from rccltune.model.settings import CurveKey, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Placement, Protocol, UnusableReason
from rccltune.rules.decision import cost_table
from rccltune.rules.plugin_library import PluginLibrary

# As the plugin writes them (docs/plugin.md, "Log").
LOG = """\
rccltune: comm=e220a8397b1dcdaf nodes=1 ranks=8 abi=v5 inert: neither NCCL_TUNER_CONFIG_FILE nor RCCLTUNE_CONFIG_DIR is set
rccltune: comm=e220a8397b1dcdaf decision collective=allreduce nbytes=1024 answer=none line=0 host=tree/ll
rccltune: comm=e220a8397b1dcdaf decision collective=allreduce nbytes=2048 answer=none line=0 host=ring/ll
rccltune: comm=e220a8397b1dcdaf decision collective=allreduce nbytes=4096 answer=none line=0 host=-
rccltune: comm=e220a8397b1dcdaf decision collective=allgather nbytes=8192 answer=none line=0 host=tree/ll
rccltune: comm=e220a8397b1dcdaf summary calls=4 hits=0 misses=4
"""
TREE = Setting.parse("tree/ll")


def sample(nbytes: int, setting: Setting = TREE) -> Sample:
    """A time of all_reduce."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=setting,
        placement=Placement.OUT_OF_PLACE,
        scale=Scale(n_nodes=1, n_ranks=8),
    )
    return Sample(key=key, launch="a", nbytes=nbytes, time_us=10.0)


@pytest.mark.parametrize(
    ("nbytes", "doubt", "executed"),
    [
        (1024, None, "tree/ll"),
        (2048, UnusableReason.SUBSTITUTED, "ring/ll"),
        (4096, UnusableReason.INELIGIBLE, None),
        (8192, UnusableReason.BYPASSED, None),
    ],
)
def test_a_size_says_what_its_library_would_take(
    nbytes: int, doubt: UnusableReason | None, executed: str | None
) -> None:
    """Its own, another's, none's; without a line nobody was asked."""
    (found,) = prove_by_decisions([sample(nbytes)], read_decisions([LOG]), TREE)
    assert found.doubt is doubt
    assert found.executed == (Setting.parse(executed) if executed else None)


def test_ranks_that_say_otherwise_are_believed_too() -> None:
    """One rank that would take another setting is enough."""
    other = LOG.replace(
        "nbytes=1024 answer=none line=0 host=tree/ll", "nbytes=1024 answer=none line=0 host=ring/ll"
    )
    (found,) = prove_by_decisions([sample(1024)], read_decisions([LOG, other]), TREE)
    assert found.doubt is UnusableReason.SUBSTITUTED


@pytest.mark.parametrize(
    ("channels", "doubt"),
    [
        (frozenset({16}), None),
        (frozenset({8, 16}), UnusableReason.SUBSTITUTED),
        (frozenset(), UnusableReason.UNPROVEN),
    ],
)
def test_channels_come_from_the_librarys_log(
    channels: frozenset[int], doubt: UnusableReason | None
) -> None:
    """All communicators have what was asked for, or it is not proven."""
    asked = Setting.parse("tree/ll/16")
    (found,) = prove_by_decisions([sample(1024, asked)], read_decisions([LOG]), asked, channels)
    assert found.doubt is doubt


def test_the_real_plugin_tells_what_its_host_would_take(tmp_path: Path) -> None:
    """A switch of the library leaves it one cell; a question with none is none of ours."""
    try:
        host = PluginLibrary(plugin.library())
    except MachineError as error:
        pytest.skip(str(error))
    tree, ring = (Algorithm.TREE, Protocol.LL), (Algorithm.RING, Protocol.SIMPLE)
    env = {"RCCLTUNE_LOG": f"decisions:{tmp_path / NAME}"}
    with host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env) as communicator:
        for nbytes, cells in ((1024, {tree}), (2048, {ring}), (4096, set()), (1024, {ring})):
            communicator.ask(Collective.ALL_REDUCE, nbytes, cost_table(cells))
    (path,) = tmp_path.glob(PATTERN)
    assert read_decisions([path.read_text()]) == {
        (Collective.ALL_REDUCE, 1024): {TREE},
        (Collective.ALL_REDUCE, 2048): {Setting.parse("ring/simple")},
    }
