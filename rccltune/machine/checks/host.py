"""Cores, their clocks, limits of the process, shared memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from rccltune.machine.checks.facts import Circumstances, notes, warns
from rccltune.machine.records import Finding

_CPUS: Final = "sys/devices/system/cpu"
_GIB: Final = 1 << 30
_SHM: Final = "/dev/shm"  # noqa: S108 - looked at, never written
_MIN_SHM: Final = 8 * _GIB
_MIN_FILES: Final = 4096
_MIN_MEMLOCK: Final = 32 * _GIB


def governor(facts: Circumstances) -> Iterator[Finding]:
    """Core clocks that follow the load."""
    names = [n for n in facts.root.entries(_CPUS) or () if n[3:].isdecimal() and n[:3] == "cpu"]
    found = Counter(
        value
        for name in names
        if (value := facts.root.text(f"{_CPUS}/{name}/cpufreq/scaling_governor")) is not None
    )
    others = {value: count for value, count in found.items() if value != "performance"}
    if others:
        named = ", ".join(f"{value} on {count} cores" for value, count in sorted(others.items()))
        yield warns(
            "cpu-governor",
            f"the cores' clocks follow the load: {named}",
            f"/{_CPUS}/cpu*/cpufreq/scaling_governor",
            expected="performance",
            remedy="sudo cpupower frequency-set -g performance",
            spoils=True,
        )


def idle_states(facts: Circumstances) -> Iterator[Finding]:
    """Cores that take long to wake add to small messages."""
    place = f"{_CPUS}/cpu0/cpuidle/state2/disable"
    if facts.root.number(place) == 0:
        yield notes(
            "cpu-idle",
            "cores may sleep deeply (C2), which adds latency to small messages",
            f"/{place}",
            remedy="sudo cpupower idle-set -d 2",
            spoils=True,
        )


def cores(facts: Circumstances) -> Iterator[Finding]:
    """One rank per device needs one core each."""
    n_ranks = len(facts.system.gpus)
    if facts.n_cpus is not None and n_ranks > facts.n_cpus:
        yield warns(
            "few-cores",
            f"this process may use {facts.n_cpus} cores, and {n_ranks} ranks will run",
            "sched_getaffinity",
            expected=f"{n_ranks} cores or more",
            remedy="ask the scheduler for the whole node (srun --exclusive --cpu-bind=none); "
            "ranks that share cores measure each other.",
            spoils=True,
        )


def numa_nodes(facts: Circumstances) -> Iterator[Finding]:
    """Binding by NUMA node needs to know the node."""
    placeless = [
        oam.address
        for oam in facts.system.oams
        if facts.root.number(f"sys/bus/pci/devices/{oam.address}.0/numa_node") == -1
    ]
    if placeless:
        yield warns(
            "numa-node",
            f"the firmware does not say on which NUMA node {', '.join(placeless)} are",
            "/sys/bus/pci/devices/*/numa_node",
            expected="a node number",
            remedy="mpirun --bind-to numa cannot follow the GPUs here: enable NUMA in the BIOS, "
            "or bind by hand.",
            spoils=True,
        )


def open_files(facts: Circumstances) -> Iterator[Finding]:
    """64 ranks open thousands of files; below 512 Open MPI hangs."""
    limit = facts.limits.get("nofile")
    if limit is not None and limit < _MIN_FILES:
        yield warns(
            "open-files",
            f"a process may open {limit} files",
            "ulimit -n",
            expected=f"{_MIN_FILES} or more",
            remedy="ulimit -n 65536",
        )


def locked_memory(facts: Circumstances) -> Iterator[Finding]:
    """Registration with a network card."""
    cards = facts.root.entries("sys/class/infiniband")
    limit = facts.limits.get("memlock")
    if cards and limit is not None and limit < _MIN_MEMLOCK:
        yield warns(
            "locked-memory",
            f"a process may lock {limit / _GIB:.2g} GiB, and there are RDMA cards "
            f"({', '.join(cards[:3])})",
            "ulimit -l",
            expected="unlimited",
            remedy="ulimit -l unlimited; in a container --ulimit memlock=-1.",
        )


def shared_memory(facts: Circumstances) -> Iterator[Finding]:
    """Ranks of one node meet in /dev/shm."""
    place = facts.root.at(_SHM)
    free = facts.free(place) if place.is_dir() else None
    if free is not None and free < _MIN_SHM:
        yield warns(
            "shared-memory",
            f"{_SHM} has {free / _GIB:.2g} GiB free",
            _SHM,
            expected="8 GiB or more",
            remedy="in a container: --ipc=host or --shm-size=16g; else sudo mount -o "
            "remount,size=16g /dev/shm",
        )
    stale = [n for n in facts.root.entries(_SHM) or () if n.startswith("nccl-")]
    if stale:
        yield warns(
            "stale-shared-memory",
            f"{len(stale)} segments of other or dead jobs lie in /dev/shm, such as {stale[0]}",
            _SHM,
            expected="none while nothing runs",
            remedy="where no job of yours runs: rm /dev/shm/nccl-*",
        )


CHECKS: Final = (
    governor,
    idle_states,
    cores,
    numa_nodes,
    open_files,
    locked_memory,
    shared_memory,
)
