"""The real RCCL on a simulated node: where it lies, what it needs, what it runs by itself."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.launch import process
from rccltune.machine.installed_software import find_named_library, hash_file, read_version
from rccltune.model.errors import MachineError
from rccltune.model.text import join_lines
from rccltune.simulate.compiled import compile_timeless
from rccltune.simulate.node import SimulatedNode
from rccltune.simulate.sources import load_node, node_path

REAL: Final = "real"
_MEMINFO: Final = Path("/proc/meminfo")
_INSIDE: Final = "*/usr/lib/x86_64-linux-gnu/librccl.so.1"
# With 64 ranks on 2 cores: 6.7 GB in 64 processes (the sum of their peaks), up to 6.2 GB in one.
# It grows with pairs of ranks of a host: each keeps what all others told it of the machine.
_MIB_A_PAIR: Final = {False: 1.7, True: 1.6}
_START_S_A_PAIR: Final = {False: 0.008, True: 0.0035}


def real_library(path: Path, variables: Mapping[str, str]) -> Path:
    """The file behind ``--librccl``: ``real`` is what scripts/fetch-rccl downloaded.

    Args:
        path: a library, its folder, or the word ``real``.
        variables: the environment, which may say where the cache is.

    Raises:
        MachineError: nothing was downloaded, or there is no such file.
    """
    if str(path) != REAL:
        return find_named_library(path)
    cache = _cache(variables)
    files = sorted(cache.glob(_INSIDE), key=_by_version)
    if not files:
        raise MachineError(
            "the real RCCL is not on this machine",
            where=str(cache),
            hint="scripts/fetch-rccl downloads it (400 MB, no root); or --librccl FILE.",
        )
    return files[-1].resolve()


def _by_version(library: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", library.parents[3].name)]


def _cache(variables: Mapping[str, str]) -> Path:
    home = variables.get("XDG_CACHE_HOME") or Path(variables.get("HOME", "/")) / ".cache"
    return Path(home) / "rccltune/rccl"


def real_words(library: Path) -> tuple[str, str]:
    """``RCCL 2.27.7``, and how everything made with it names it.

    Raises:
        MachineError: the file does not say which RCCL it is.
    """
    version = read_version(library)
    if version is None or not version.startswith("RCCL"):
        raise MachineError("this is no RCCL", where=str(library), hint="name a librccl.so.1.")
    return (
        version,
        f"{version}, real ({(hash_file(library) or 'hash unknown')[:12]}); times simulated",
    )


def check_real_memory(
    n_ranks: int, n_hosts: int = 1, *, one_process: bool, meminfo: Path = _MEMINFO
) -> None:
    """Stop where the real library needs more memory than is free.

    Args:
        n_ranks: of the launch.
        n_hosts: that are played; all are on this machine.
        one_process: whether they are threads of one process.
        meminfo: says how much memory this machine has free; without that nothing is checked.

    Raises:
        MachineError: there is too little.
    """
    need_mib = _MIB_A_PAIR[one_process] * n_ranks**2 / n_hosts + 100
    free = re.search(r"^MemAvailable: *(\d+)", meminfo.read_text(encoding="utf-8"), re.MULTILINE)
    free_mib = int(free[1]) / 1024 if free is not None else math.inf
    if free_mib >= need_mib:
        return
    raise MachineError(
        f"{n_ranks} ranks of the real library take about {need_mib / 1024:.1f} GiB, and "
        f"{free_mib / 1024:.1f} GiB are free",
        hint="say fewer ranks (--np), or leave --librccl out.",
    )


def check_node(node: SimulatedNode) -> None:
    """Stop where the node plays a library of its own.

    Raises:
        MachineError: it does.
    """
    if node.library == "rcclx":
        raise MachineError(
            "the real library runs on simulated nodes with AMD's RCCL alone",
            hint="simulate such a node, or leave --librccl out.",
        )


def real_start_s(n_ranks: int, *, one_process: bool) -> float:
    """Seconds that making the communicator takes (2 cores; 30 s and 13 s for 64 ranks)."""
    return 0.3 + _START_S_A_PAIR[one_process] * float(n_ranks) ** 2


_TIMEOUT_S: Final = 600.0


def check_real_starts(library: Path) -> None:
    """Two ranks of a shipped node, before anything is measured with a library (half a second).

    Raises:
        MachineError: it does not load, or does not run over the stand-in HIP runtime.
    """
    program = plugin.native_folder() / "sim/all_reduce_perf"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        node = folder / "node.node"
        node.write_bytes(compile_timeless(load_node(node_path("mi300x-spx-nps1"))))
        ended = process.run(
            process.LaunchCommand(
                argv=(str(program), "-b", "1K", "-e", "1K", "-n", "1", "-w", "0", "-c", "0"),
                variables={
                    "RCCLTUNE_SIM_NODE": str(node),
                    "RCCLTUNE_SIM_BENCHMARK": "rtnew",
                    "RCCLTUNE_SIM_LIBRCCL": str(library),
                    "RCCLTUNE_SIM_RANKS": "2",
                    "RCCLTUNE_MODE": "spx-nps1",
                },
                folder=folder,
                timeout_s=_TIMEOUT_S,
                is_complete=lambda _: False,
            )
        )
        if ended.exit_code == 0:
            return
        last = (folder / "stderr.log").read_text("utf-8", "replace").splitlines()[-3:]
    raise MachineError(
        join_lines([f"{library.name} does not run on a simulated node: {ended.how}", *last]),
        where=str(library),
        hint="the release that scripts/fetch-rccl gets runs here; what a library needs is looked "
        "for beside it, a newer C library with its ld-linux-x86-64.so.2 too.",
    )
