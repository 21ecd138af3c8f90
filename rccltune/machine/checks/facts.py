"""What the doctor is told: the machine, and what only the process itself knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rccltune.machine.files import Root
from rccltune.machine.records import Finding, Severity, System


def free_bytes(path: Path) -> int | None:
    """Free space of a file system, None where there is none."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def nobody(name: str) -> bool:
    """No variable is cleared."""
    del name
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Everything that checks look at.

    Attributes:
        variables: the environment a job would get.
        chooses: whether a sweep clears a variable, because it chooses settings.
        home: the user's home as passwd says, which is where RCCL looks, whatever HOME is.
        limits: soft limits by name (``nofile``, ``memlock``), None for unlimited.
        n_cpus: cores this process may run on.
        free: free bytes of a file system.
        kernel_log: text of the kernel's log, None where it may not be read.
    """

    system: System
    variables: Mapping[str, str] = field(default_factory=dict)
    chooses: Callable[[str], bool] = nobody
    home: Path | None = None
    limits: Mapping[str, int | None] = field(default_factory=dict)
    n_cpus: int | None = None
    free: Callable[[Path], int | None] = free_bytes
    kernel_log: str | None = None

    @property
    def root(self) -> Root:
        """Where files are read."""
        return Root(self.system.root)

    @property
    def has_amd(self) -> bool:
        """Whether what is said of HIP, KFD and ROCm applies."""
        return self.system.vendor == "amd"

    @property
    def is_guest(self) -> bool:
        """Whether a hypervisor is underneath."""
        flags = (self.root.read("proc/cpuinfo", 1 << 22) or b"").split(b"\nflags", 1)
        return len(flags) == 2 and b" hypervisor" in flags[1].split(b"\n", 1)[0]


def _finding(
    severity: Severity,
    name: str,
    message: str,
    where: str,
    *,
    remedy: str,
    expected: str | None = None,
    spoils: bool = False,
) -> Finding:
    return Finding(
        name=name,
        severity=severity,
        message=message,
        where=where,
        expected=expected,
        remedy=remedy,
        spoils=spoils,
    )


# A sweep does not survive the first, survives the second, and the third is only to know.
stops = partial(_finding, Severity.STOPS)
warns = partial(_finding, Severity.WARNS)
notes = partial(_finding, Severity.NOTES)
