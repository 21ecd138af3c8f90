"""Benchmarks over the real RCCL: where they run, and what every rank says that it ran."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.launch import process
from rccltune.measure.real_rccl import real_library
from rccltune.model.errors import LaunchError, RccltuneError
from rccltune.model.settings import Scale
from rccltune.model.text import join_lines
from rccltune.simulate.compiled import compile_timeless
from rccltune.simulate.sources import load_node, node_path

COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
RELEASE: Final = "2.27.7"
# Of xGMI between two devices, as the topology that the real library is given says (native_plugin/hip).
LINK_GBS: Final = 48.0
_TIMEOUT_S: Final = 600.0
_ONE_HOST: Final = ("ring/ll", "ring/simple")
_IN_CPX: Final = {8: 28, 16: 28, 32: 38, 64: 38}
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

    @property
    def channels(self) -> int:
        """That the real library gives its communicator, as its log says."""
        in_spx = 64 if self.nodes > 1 else 56
        return {2: 32, 4: 24}.get(self.ranks, in_spx if "spx" in self.mode else _IN_CPX[self.ranks])

    def offered(self, collective: str, *, ll128: bool = False) -> tuple[str, ...]:
        """Settings that this release lets a tuner choose (docs/simulated-nodes.md), LL128 forced on or not."""
        rings = (*_ONE_HOST, "ring/ll128") if self.nodes > 1 or ll128 else _ONE_HOST
        if collective != "all_reduce":
            return rings
        if self.nodes > 1:
            return (*rings, "tree/ll", "tree/ll128", "tree/simple")
        return (*rings, "tree/ll", *("tree/ll128",) * ll128)


PLACES: Final = {
    place.name: place
    for place in (
        *(Place(name=f"spx-{n}", node="mi300x-spx-nps1", ranks=n) for n in (2, 4, 8)),
        *(Place(name=f"cpx-{n}", node="mi300x-cpx-nps4", ranks=n) for n in (2, 4, 8, 16, 32, 64)),
        Place(name="two-hosts", node=_HOSTS, nodes=2, ranks=16),
    )
}


def library_or_exit() -> Path:
    """The library that scripts/fetch-rccl downloaded."""
    try:
        return real_library(Path("real"), os.environ)
    except RccltuneError as error:
        sys.exit(f"{error}: {error.hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RealCall:
    """One call as one rank's library said it.

    Attributes:
        setting: ``ring/ll``, or the name of the path that asked no tuner: ``direct``.
        blocks: of the kernel.
    """

    rank: int
    collective: str
    nbytes: int
    setting: str
    channels: int
    blocks: int


def real_calls(
    library: Path | None,
    node: bytes,
    scale: Scale,
    collective: str,
    options: Sequence[str],
    *,
    variables: Mapping[str, str],
    mode: str,
) -> list[RealCall]:
    """One launch: ranks in one process, or each in its own where there are several hosts.

    Args:
        library: a ``librccl.so.1`` over the stand-in HIP runtime (docs/simulated-nodes.md);
            None asks the imitation.
        node: compiled node file.
        scale: the first devices of each host.
        collective: ``all_reduce`` ….
        options: of the benchmark, sizes among them.
        variables: the whole environment otherwise.
        mode: of the node file.

    Raises:
        LaunchError: it failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "node.node").write_bytes(node)
        own = {
            "RCCLTUNE_SIM_NODE": str(folder / "node.node"),
            "RCCLTUNE_SIM_RAN": str(folder / "ran"),
            "RCCLTUNE_SIM_BENCHMARK": "rtnew",
            "RCCLTUNE_MODE": mode,
        }
        if library is not None:
            own["RCCLTUNE_SIM_LIBRCCL"] = str(library)
        argv = (str(plugin.native_folder() / f"sim/{collective}_perf"), *options)
        if scale.n_nodes == 1:
            own["RCCLTUNE_SIM_RANKS"] = str(scale.n_ranks)
        else:
            mpirun = str(Path(sys.executable).with_name("mpirun"))
            head = (mpirun, "--allow-run-as-root", "--oversubscribe", "-np", str(scale.n_ranks))
            passed = [*own, *(key for key in variables if key.startswith(("NCCL_", "RCCL")))]
            argv = (*head, *(word for key in passed for word in ("-x", key)), *argv)
        ended = process.run(
            process.LaunchCommand(
                argv=argv,
                variables={**variables, **own},
                folder=folder,
                timeout_s=_TIMEOUT_S,
                is_complete=lambda _: False,
            )
        )
        if ended.exit_code != 0:
            last = (folder / "stderr.log").read_text("utf-8", "replace").splitlines()[-3:]
            raise LaunchError(join_lines([f"the library ended with {ended.how}", *last]))
        return read_calls(folder / "ran")


def read_calls(path: Path) -> list[RealCall]:
    """What the simulated benchmark wrote of its calls (RCCLTUNE_SIM_RAN), a line each."""
    return [_call(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _call(line: str) -> RealCall:
    rank, collective, nbytes, setting, channels, blocks = line.split()
    return RealCall(
        rank=int(rank),
        collective=collective,
        nbytes=int(nbytes),
        setting=setting,
        channels=int(channels),
        blocks=int(blocks),
    )


def run(
    library: Path | None,
    place: Place,
    collective: str,
    options: Sequence[str],
    variables: Mapping[str, str],
) -> list[RealCall]:
    """One launch at a place; without a library the stand-in of the same release is asked.

    Raises:
        LaunchError: it failed.
    """
    return real_calls(
        library,
        compile_timeless(load_node(node_path(place.node)), RELEASE, LINK_GBS),
        Scale(n_nodes=place.nodes, n_ranks=place.ranks),
        collective,
        options,
        variables={**os.environ, **variables},
        mode=place.mode,
    )


def calls(rows: Sequence[RealCall]) -> Iterator[list[RealCall]]:
    """What the ranks said of each call, the calls as rank 0 made them."""
    ranks: dict[int, list[RealCall]] = {}
    for row in rows:
        ranks.setdefault(row.rank, []).append(row)
    for of_all in zip(*(ranks[rank] for rank in sorted(ranks)), strict=True):
        yield list(of_all)


def collective_in_rules(collective: str) -> str:
    """As a rule file has it."""
    return re.sub("_", "", collective)
