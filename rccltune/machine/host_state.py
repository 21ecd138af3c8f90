"""State of the host that checks look at: the machine, and what only this process knows."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rccltune.machine import kfd, nvidia
from rccltune.machine.conf_files import find_home
from rccltune.machine.sysroot import SystemRoot
from rccltune.machine.system import System

SHM: Final = "/dev/shm"  # noqa: S108 - looked at, never written


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """Everything that checks look at.

    Attributes:
        variables: the environment a job would get.
        home: the user's home as passwd says, which is where RCCL looks, whatever HOME is.
        limits: soft limits by name (``nofile``, ``memlock``), None for unlimited.
        n_cpus: cores this process may run on.
        shm_free: free bytes of /dev/shm, None where there is none.
        gpu_processes: numbers of the processes that use the GPUs.
    """

    system: System
    variables: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    limits: Mapping[str, int | None] = field(default_factory=dict)
    n_cpus: int | None = None
    shm_free: int | None = None
    gpu_processes: tuple[str, ...] = ()

    @property
    def root(self) -> SystemRoot:
        """The root below which files are read."""
        return SystemRoot(self.system.root)

    @property
    def has_amd(self) -> bool:
        """Whether what is said of HIP, KFD and ROCm applies."""
        return self.system.vendor == "amd"

    @property
    def cpu(self) -> bytes:
        """Fields of /proc/cpuinfo for the first core."""
        return (self.root.read("proc/cpuinfo", 1 << 22) or b"").split(b"\n\n", 1)[0]

    @property
    def is_guest(self) -> bool:
        """Whether a hypervisor is underneath."""
        return b" hypervisor" in self.cpu


def read_host_state(system: System) -> HostState:
    """State of this process and its host; of a captured machine only what its files say."""
    processes = kfd.list_processes(SystemRoot(system.root))
    if not SystemRoot(system.root).is_live:
        return HostState(system=system, gpu_processes=processes)
    return HostState(
        system=system,
        variables=dict(os.environ),
        home=find_home(),
        limits={
            "nofile": _soft_limit(resource.RLIMIT_NOFILE),
            "memlock": _soft_limit(resource.RLIMIT_MEMLOCK),
        },
        n_cpus=len(os.sched_getaffinity(0)),
        shm_free=_free_bytes(SHM),
        gpu_processes=processes or nvidia.list_processes(os.environ),
    )


def _free_bytes(folder: str) -> int | None:
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _soft_limit(which: int) -> int | None:
    soft = resource.getrlimit(which)[0]
    return None if soft == resource.RLIM_INFINITY else soft
