"""What the real RCCL runs by itself on a simulated node, call by call."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune import launch, plugin
from rccltune.machine.real_rccl import check_real_memory, free_mib, real_words
from rccltune.model import (
    Collective,
    Fingerprint,
    LaunchError,
    MachineError,
    Scale,
    lay,
)
from rccltune.simulate import load_node, node_path, shipped_nodes, timeless

_TIMEOUT_S: Final = 600.0
_ONCE: Final = ("-n", "1", "-w", "0", "-c", "0")


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
        library: a ``librccl.so.1`` over the stand-in HIP runtime (docs/real-library.md); None
            asks the imitation.
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
        ended = launch.run(
            launch.Job(
                argv=argv,
                variables={**variables, **own},
                folder=folder,
                timeout_s=_TIMEOUT_S,
                is_complete=lambda _: False,
            )
        )
        if ended.exit_code != 0:
            last = (folder / "stderr.log").read_text("utf-8", "replace").splitlines()[-3:]
            raise LaunchError(lay([f"the library ended with {ended.how}", *last]))
        return read_calls(folder / "ran")


def check_real_starts(library: Path) -> None:
    """Two ranks of a shipped node, before anything is measured with a library (half a second).

    Raises:
        MachineError: it does not load, or does not run over the stand-in HIP runtime.
    """
    node, two = timeless(load_node(node_path("mi300x-spx-nps1"))), Scale(n_nodes=1, n_ranks=2)
    options = ("-b", "1K", "-e", "1K", *_ONCE)
    try:
        real_calls(library, node, two, "all_reduce", options, variables={}, mode="spx-nps1")
    except LaunchError as error:
        raise MachineError(
            lay([f"{library.name} does not run on a simulated node", *str(error).splitlines()]),
            where=str(library),
            hint="the release that scripts/fetch-rccl gets runs here; what a library needs is "
            "looked for beside it, a newer C library with its ld-linux-x86-64.so.2 too.",
        ) from error


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


def live_choices(
    library: Path,
    machine: Fingerprint,
    wanted: Mapping[tuple[Collective, Scale], Iterable[int]],
    site: Mapping[str, str],
) -> str:
    """The choices of the real library as a table that :func:`rccltune.logs.read` reads.

    It is asked on the shipped node of the machine's mode, whose topology is made up.

    Args:
        library: as :func:`rccltune.machine.real_library` finds it.
        machine: that was measured.
        wanted: sizes in bytes, for each collective and scale.
        site: the environment; variables that choose are cleared.

    Raises:
        MachineError: no shipped node stands for this machine, or memory is short.
        LaunchError: the library failed.
    """
    name, mode = node_of(machine), str(machine.mode)
    node = timeless(load_node(node_path(name)))
    clean = launch.environment(site, ()).variables
    lines = [f'# rccltune: source="choices of {real_words(library)[0]}, real, on simulated {name}"']
    lines.append("collective,nodes,ranks,setting,algorithm,protocol,channels,nbytes,time_us")
    for (collective, scale), sizes in wanted.items():
        if scale.n_nodes > 1:
            raise MachineError(
                f"the real library is not asked for {scale}",
                hint="give its choices as a file: --baseline-choices FILE.",
            )
        free = free_mib(Path("/proc/meminfo").read_text(encoding="utf-8"))
        check_real_memory(scale.n_ranks, one_process=True, free_mib=free)
        found: dict[int, RealCall] = {}
        for low, high in _doublings(sizes):
            options = ("-b", str(low), "-e", str(high), "-f", "2", *_ONCE)
            for call in real_calls(
                library, node, scale, collective.value, options, variables=clean, mode=mode
            ):
                found.setdefault(call.nbytes, call)
        lines += [_row(found[nbytes], scale) for nbytes in sorted(found)]
    return "\n".join(lines) + "\n"


def _row(call: RealCall, scale: Scale) -> str:
    algorithm, _, protocol = call.setting.partition("/")
    return (
        f"{call.collective},{scale.n_nodes},{scale.n_ranks},baseline,{algorithm},{protocol},"
        f"{call.channels},{call.nbytes},"
    )


def node_of(machine: Fingerprint) -> str:
    """The shipped node that stands for a machine.

    Raises:
        MachineError: there is none.
    """
    name = f"mi300x-{machine.mode}"
    is_one = machine.arch == "gfx942" and re.search("MI300X", machine.product or "MI300X")
    if machine.mode is None or not is_one or name not in shipped_nodes():
        said = ", ".join(
            str(part) for part in (machine.product, machine.arch, machine.mode) if part
        )
        raise MachineError(
            f"no simulated node stands for this machine ({said or 'nothing is known of it'})",
            hint="give the choices as a file (--baseline-choices FILE); or say which MI300X it is "
            "with --mode and --assume arch=gfx942.",
        )
    return name


def _doublings(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ranges that a factor of two goes through, one for each odd part, to start rarely."""
    chains: dict[int, list[int]] = defaultdict(list)
    for nbytes in sizes:
        if nbytes > 0:
            chains[nbytes // (nbytes & -nbytes)].append(nbytes)
    for found in chains.values():
        yield min(found), max(found)
