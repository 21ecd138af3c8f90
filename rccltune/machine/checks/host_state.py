"""State of the host that checks look at: the machine, and what only this process knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rccltune.machine.files import SystemRoot
from rccltune.machine.records import System


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
