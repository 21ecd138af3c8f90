"""What every measurement says of itself: where it was made, and what a command cost."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# NVLink multicast stays off in every process that a measurement starts.
SAFETY = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


def machine() -> str:
    """Where these figures were made."""
    python = platform.python_version()
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {python}"


def timed(arguments: Sequence[str], folder: Path) -> tuple[float, float]:
    """Seconds and peak MB of one verb of rccltune in a process of its own, run in ``folder``."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "rccltune", *arguments, "-q"], cwd=folder, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"rccltune {arguments[0]} failed with status {status}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def ended_well(
    command: Sequence[str], environment: Mapping[str, str], limit_s: float
) -> subprocess.CompletedProcess[str]:
    """A program with its output; ends this one when it fails."""
    done = subprocess.run(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    if done.returncode:
        sys.exit(f"failed ({done.returncode}): {command}\n{done.stdout}\n{done.stderr}")
    return done
