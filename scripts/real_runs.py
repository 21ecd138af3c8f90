"""Benchmarks over the real RCCL: where they run, and what every rank says that it ran."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.machine import real_library
from rccltune.model import RccltuneError
from rccltune.simulate import load_node, node_path, written

COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
_ONE_HOST: Final = ("ring/ll", "ring/simple")
_HOSTS: Final = str(Path(__file__).parents[1] / "examples/nodes/two-mi300x.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node, or some of its ranks; the first devices, in order."""

    name: str
    node: str
    nodes: int = 1
    ranks: int

    @property
    def mode(self) -> str:
        """As the node file has it."""
        return str(load_node(node_path(self.node)).raw["hardware"]["mode"])

    def offered(self, collective: str) -> tuple[str, ...]:
        """Settings that this release lets a tuner choose without a variable (docs/real-library.md)."""
        if self.nodes > 1:
            rings = (*_ONE_HOST, "ring/ll128")
            return (*rings, "tree/ll", "tree/ll128", "tree/simple") * (
                collective == "all_reduce"
            ) or rings
        return (*_ONE_HOST, "tree/ll") if collective == "all_reduce" else _ONE_HOST


PLACES: Final = {
    place.name: place
    for place in (
        *(Place(name=f"spx-{n}", node="mi300x-spx-nps1", ranks=n) for n in (2, 4, 8)),
        *(Place(name=f"cpx-{n}", node="mi300x-cpx-nps4", ranks=n) for n in (8, 64)),
        Place(name="two-hosts", node=_HOSTS, nodes=2, ranks=16),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One call as one rank's library said it."""

    rank: int
    collective: str
    nbytes: int
    setting: str
    channels: int
    blocks: int


def library_or_exit() -> Path:
    """The library that scripts/fetch-rccl downloaded."""
    try:
        return real_library(Path("real"), os.environ)
    except RccltuneError as error:
        sys.exit(f"{error}: {error.hint}")


def run(
    library: Path,
    place: Place,
    collective: str,
    options: Sequence[str],
    variables: Mapping[str, str],
) -> list[Ran]:
    """One launch: ranks in one process, or each in its own where there are two hosts.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "node.node").write_bytes(written(load_node(node_path(place.node))))
        own = {
            "RCCLTUNE_SIM_LIBRCCL": str(library),
            "RCCLTUNE_SIM_NODE": str(folder / "node.node"),
            "RCCLTUNE_SIM_RAN": str(folder / "ran"),
            "RCCLTUNE_SIM_BENCHMARK": "rtnew",
            "RCCLTUNE_MODE": place.mode,
            **variables,
        }
        command = [str(plugin.native_folder() / f"sim/{collective}_perf"), *options]
        if place.nodes == 1:
            own["RCCLTUNE_SIM_RANKS"] = str(place.ranks)
        else:
            mpirun = str(Path(sys.executable).with_name("mpirun"))
            head = [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", str(place.ranks)]
            command = [*head, *(word for key in own for word in ("-x", key)), *command]
        subprocess.run(
            command, env={**os.environ, **own}, check=True, stdout=subprocess.DEVNULL, timeout=600
        )
        return read_ran(folder / "ran")


def read_ran(path: Path) -> list[Ran]:
    """What the benchmark wrote of its calls (RCCLTUNE_SIM_RAN), a line each."""
    return [_ran(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _ran(line: str) -> Ran:
    rank, collective, nbytes, setting, channels, blocks = line.split()
    return Ran(
        rank=int(rank),
        collective=collective,
        nbytes=int(nbytes),
        setting=setting,
        channels=int(channels),
        blocks=int(blocks),
    )


def calls(rows: Sequence[Ran]) -> Iterator[list[Ran]]:
    """What the ranks said of each call, the calls as rank 0 made them."""
    ranks: dict[int, list[Ran]] = {}
    for row in rows:
        ranks.setdefault(row.rank, []).append(row)
    for of_all in zip(*(ranks[rank] for rank in sorted(ranks)), strict=True):
        yield list(of_all)


def differing(rows: Sequence[Ran]) -> int:
    """Calls of which not all ranks say the same."""
    return sum(
        len({(row.nbytes, row.setting, row.channels, row.blocks) for row in call}) > 1
        for call in calls(rows)
    )


def collective_in_rules(collective: str) -> str:
    """As a rule file has it."""
    return re.sub("_", "", collective)
