"""State of the host that checks look at: the machine, and what only this process knows."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rccltune.machine.conf_files import home_of_user
from rccltune.machine.sysroot import SystemRoot
from rccltune.machine.system import System


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """Everything that checks look at.

    Attributes:
        variables: the environment a job would get.
        home: the user's home as passwd says, which is where RCCL looks, whatever HOME is.
        limits: soft limits by name (``nofile``, ``memlock``), None for unlimited.
        n_cpus: cores this process may run on.
        shm_free: free bytes of /dev/shm, None where there is none.
        kernel_log: text of the kernel's log, None where it may not be read.
    """

    system: System
    variables: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    limits: Mapping[str, int | None] = field(default_factory=dict)
    n_cpus: int | None = None
    shm_free: int | None = None
    kernel_log: str | None = None

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


_SHM: Final = "/dev/shm"  # noqa: S108 - looked at, never written
_LOG: Final = "/dev/kmsg"
_LOG_BYTES: Final = 8 << 20


def read_host_state(system: System, *, live: bool) -> HostState:
    """State of this process; nothing of it belongs to a captured machine."""
    if not live:
        return HostState(system=system)
    return HostState(
        system=system,
        variables=dict(os.environ),
        home=home_of_user(),
        limits={
            "nofile": _limit(resource.RLIMIT_NOFILE),
            "memlock": _limit(resource.RLIMIT_MEMLOCK),
        },
        n_cpus=len(os.sched_getaffinity(0)),
        shm_free=_free_bytes(_SHM),
        kernel_log=_kernel_log(),
    )


def _free_bytes(folder: str) -> int | None:
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _limit(which: int) -> int | None:
    soft = resource.getrlimit(which)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _kernel_log() -> str | None:
    """The kernel's log since its start, None where it may not be read."""
    try:
        handle = os.open(_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    records: list[bytes] = []
    # One record per read; "would block" is its end.
    with contextlib.suppress(OSError):
        while sum(map(len, records)) < _LOG_BYTES:
            records.append(os.read(handle, 8192).split(b";", 1)[-1])
    os.close(handle)
    return b"\n".join(records).decode("utf-8", "replace")
