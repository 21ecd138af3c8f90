"""The real RCCL on a simulated node: where it lies, what it needs, what it runs by itself."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.launch import process
from rccltune.machine.loaded_libraries import named_library
from rccltune.machine.software import sha256_of, version_of
from rccltune.model.errors import LaunchError, MachineError
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import lay
from rccltune.simulate.compiled import timeless
from rccltune.simulate.sources import load_node, node_path

REAL: Final = "real"
# What real_words gives, found in a text.
REAL_WORDS: Final = re.compile(r"RCCL \S+, real \([^()]+\); times simulated")
_INSIDE: Final = "*/usr/lib/x86_64-linux-gnu/librccl.so.1"
# With 64 ranks on 2 cores: 6.7 GB in 64 processes (the sum of their peaks), up to 6.2 GB in one.
# It grows with pairs of ranks of a host: each keeps what all others told it of the machine.
_MIB_A_PAIR: Final = {False: 1.7, True: 1.6}
_START_S_A_PAIR: Final = {False: 0.008, True: 0.0035}


def real_library(named: Path, variables: Mapping[str, str]) -> Path:
    """The file behind ``--librccl``: ``real`` is what scripts/fetch-rccl downloaded.

    Args:
        named: a library, its folder, or the word ``real``.
        variables: the environment, which may say where the cache is.

    Raises:
        MachineError: nothing was downloaded, or there is no such file.
    """
    if str(named) != REAL:
        return named_library(named)
    cache = _cache(variables)
    found = sorted(cache.glob(_INSIDE), key=_by_version)
    if not found:
        raise MachineError(
            "the real RCCL is not on this machine",
            where=str(cache),
            hint="scripts/fetch-rccl downloads it (400 MB, no root); or --librccl FILE.",
        )
    return found[-1].resolve()


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
    version = version_of(library)
    if version is None or not version.startswith("RCCL"):
        raise MachineError("this is no RCCL", where=str(library), hint="name a librccl.so.1.")
    return (
        version,
        f"{version}, real ({(sha256_of(library) or 'hash unknown')[:12]}); times simulated",
    )


def unchecked(runner: str | None) -> str:
    """For behind the word that something is simulated: what ran is the real library's choice.

    Args:
        runner: of the fingerprint, None for the imitation.
    """
    return f" ({runner}; results not checked)" if runner else ""


def check_real_memory(
    n_ranks: int, n_hosts: int = 1, *, one_process: bool, free_mib: int | None
) -> None:
    """Before anything is started.

    Args:
        n_ranks: of the launch.
        n_hosts: that are played; all are on this machine.
        one_process: whether they are threads of one process.
        free_mib: of this machine, None where that is not known.

    Raises:
        MachineError: there is too little.
    """
    wanted = _MIB_A_PAIR[one_process] * n_ranks**2 / n_hosts + 100
    if free_mib is None or free_mib >= wanted:
        return
    raise MachineError(
        f"{n_ranks} ranks of the real library take about {wanted / 1024:.1f} GiB, and "
        f"{free_mib / 1024:.1f} GiB are free",
        hint="say fewer ranks (--np), or leave --librccl out.",
    )


def free_mib(meminfo: str) -> int | None:
    """MemAvailable of /proc/meminfo, None where it has none."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return None


def real_start_s(n_ranks: int, *, one_process: bool) -> float:
    """What it takes to make the communicator, in seconds (2 cores; 30 s and 13 s for 64 ranks)."""
    return 0.3 + _START_S_A_PAIR[one_process] * float(n_ranks) ** 2


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
        library: a ``librccl.so.1`` over the stand-in HIP runtime (docs/inside/real-library.md);
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
            process.Job(
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
