"""The host: cores and clocks, limits and shared memory, and what its kernel is set to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from rccltune.machine.findings import Finding, notes, warns
from rccltune.machine.host_state import SHM, HostState
from rccltune.machine.pci import DEVICES

_CPUS: Final = "sys/devices/system/cpu"
_GIB: Final = 1 << 30
_MIN_SHM: Final = 8 * _GIB
_MIN_FILES: Final = 4096
_MIN_MEMLOCK: Final = 32 * _GIB
_BALANCING: Final = "/proc/sys/kernel/numa_balancing"
_CMDLINE: Final = "/proc/cmdline"
_ACS: Final = 0x000D
_SOURCE_VALIDATION: Final = 1
_CONFIG_SIZE: Final = 4096


def check_governor(host: HostState) -> Iterator[Finding]:
    """Core clocks that follow the load."""
    names = [n for n in host.root.entries(_CPUS) or () if n[3:].isdecimal() and n[:3] == "cpu"]
    governors = Counter(
        value
        for name in names
        if (value := host.root.text(f"{_CPUS}/{name}/cpufreq/scaling_governor")) is not None
    )
    others = {value: count for value, count in governors.items() if value != "performance"}
    if others:
        words = ", ".join(f"{value} on {count} cores" for value, count in sorted(others.items()))
        yield warns(
            "cpu-governor",
            f"the cores' clocks follow the load: {words}",
            f"/{_CPUS}/cpu*/cpufreq/scaling_governor",
            remedy="sudo cpupower frequency-set -g performance",
            spoils=True,
        )


def check_idle_states(host: HostState) -> Iterator[Finding]:
    """Cores that take long to wake add to small messages."""
    place = f"{_CPUS}/cpu0/cpuidle/state2/disable"
    if host.root.number(place) == 0:
        yield notes(
            "cpu-idle",
            "cores may sleep deeply (C2), which adds latency to small messages",
            f"/{place}",
            remedy="sudo cpupower idle-set -d 2",
            spoils=True,
        )


def check_cores(host: HostState) -> Iterator[Finding]:
    """One rank per device needs one core each."""
    n_ranks = len(host.system.gpus)
    if host.n_cpus is not None and n_ranks > host.n_cpus:
        yield warns(
            "few-cores",
            f"this process may use {host.n_cpus} cores, and {n_ranks} ranks will run",
            "sched_getaffinity",
            remedy="ask the scheduler for the whole node (srun --exclusive --cpu-bind=none); "
            "ranks that share cores measure each other.",
            spoils=True,
        )


def check_open_files(host: HostState) -> Iterator[Finding]:
    """64 ranks open thousands of files; below 512 Open MPI hangs."""
    limit = host.limits.get("nofile")
    if limit is not None and limit < _MIN_FILES:
        yield warns(
            "open-files",
            f"a process may open {limit} files; ranks of a node may need {_MIN_FILES}",
            "ulimit -n",
            remedy="ulimit -n 65536",
        )


def check_locked_memory(host: HostState) -> Iterator[Finding]:
    """Registration with a network card."""
    cards = host.root.entries("sys/class/infiniband")
    limit = host.limits.get("memlock")
    if cards and limit is not None and limit < _MIN_MEMLOCK:
        yield warns(
            "locked-memory",
            f"a process may lock {limit / _GIB:.2g} GiB, and there are RDMA cards "
            f"({', '.join(cards[:3])})",
            "ulimit -l",
            remedy="ulimit -l unlimited; in a container --ulimit memlock=-1.",
        )


def check_shared_memory(host: HostState) -> Iterator[Finding]:
    """Ranks of one node meet in /dev/shm."""
    free = host.shm_free
    if free is not None and free < _MIN_SHM:
        n_stale = sum(name.startswith("nccl-") for name in host.root.entries(SHM) or ())
        stale = f", and {n_stale} segments of other or dead jobs" if n_stale else ""
        clear = "where no job of yours runs, rm /dev/shm/nccl-*; " if n_stale else ""
        yield warns(
            "shared-memory",
            f"{SHM} has {free / _GIB:.2g} GiB free{stale}; 8 GiB are enough for a node's ranks",
            SHM,
            remedy=f"{clear}in a container: --ipc=host or --shm-size=16g; else sudo mount -o "
            "remount,size=16g /dev/shm",
        )


def check_numa_balancing(host: HostState) -> Iterator[Finding]:
    """Pages that move during a run."""
    value = host.root.number(_BALANCING)
    if value:
        yield warns(
            "numa-balancing",
            "the kernel moves memory between NUMA nodes while programs run",
            _BALANCING,
            remedy="sudo sysctl kernel.numa_balancing=0",
            spoils=True,
        )


def check_numad(host: HostState) -> Iterator[Finding]:
    """The daemon that does the same from outside."""
    for process in host.root.entries("proc") or ():
        if process.isdecimal() and host.root.text(f"proc/{process}/comm") == "numad":
            yield warns(
                "numad",
                "numad runs and moves processes between NUMA nodes",
                f"/proc/{process}/comm",
                remedy="sudo systemctl disable --now numad",
                spoils=True,
            )


def check_kernel_parameters(host: HostState) -> Iterator[Finding]:
    """Pass-through, as RCCL itself asks for on bare metal, and memory of GPUs left where it is."""
    line = host.root.text(_CMDLINE, 8192)
    if not host.has_amd or line is None or host.is_guest:
        return
    intel = ["intel_iommu=on"] if b"GenuineIntel" in host.cpu else []
    parameters = ("iommu=pt", *intel, "pci=realloc=off")
    missing = [word for word in parameters if word not in line.split()]
    if missing:
        yield warns(
            "kernel-parameters",
            f"the kernel was started without {' and '.join(missing)}",
            _CMDLINE,
            remedy="add it to GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and "
            "restart.",
        )


def check_acs(host: HostState) -> Iterator[Finding]:
    """Access control that sends peer traffic over the root complex."""
    on = [
        name
        for name in host.root.entries(DEVICES) or ()
        if _validates_sources(host.root.read(f"{DEVICES}/{name}/config", _CONFIG_SIZE + 1) or b"")
    ]
    if on:
        yield warns(
            "pci-acs",
            f"PCIe access control is on at {len(on)} bridges, such as {on[0]}: traffic between "
            "GPUs and network cards goes through the root complex",
            f"/{DEVICES}/*/config",
            remedy=f"sudo setpci -s {on[0]} ECAP_ACS+0x6.w=0000, for each of them.",
        )


def _validates_sources(config: bytes) -> bool:
    """Go through the extended capabilities of a device's configuration space."""
    offset = 0x100
    for _ in range(48):
        head = int.from_bytes(config[offset : offset + 4], "little")
        if head & 0xFFFF == _ACS:
            return bool(config[offset + 6 : offset + 7]) and bool(
                config[offset + 6] & _SOURCE_VALIDATION
            )
        offset = head >> 20 & 0xFFC
        if offset < 0x100:
            return False
    return False


CHECKS: Final = (
    check_numa_balancing,
    check_numad,
    check_kernel_parameters,
    check_acs,
    check_governor,
    check_idle_states,
    check_cores,
    check_open_files,
    check_locked_memory,
    check_shared_memory,
)
