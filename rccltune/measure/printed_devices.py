"""Devices that ranks of rccl-tests say they ran on, held against those where they were to be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rccltune.logs import benchmark_job
from rccltune.machine.system import Gpu

_ADDRESS: Final = re.compile(
    r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE
)


def misplaced(log: Path, gpus: Sequence[Gpu]) -> str | None:
    """The first rank that says it ran on another device than it was to; None where none does.

    Older benchmarks print a bus, newer ones the OAM's whole address; what is not printed is not
    compared. The partition is, where any rank prints one.

    Args:
        log: what a launch printed.
        gpus: where each rank was to be; with none nothing is checked.
    """
    if not gpus:
        return None
    printed = {
        rank: match.groups()
        for rank, bus in benchmark_job.find_buses(log.read_bytes()).items()
        if (match := _ADDRESS.fullmatch(bus)) is not None
    }
    numbered = any(part not in (None, "0") for *_, part in printed.values())
    for rank, (domain, bus, device, part) in sorted(printed.items()):
        if rank >= len(gpus):
            return f"rank {rank} was not to be started"
        gpu = gpus[rank]
        device_there = _place(domain, bus, device)
        other = numbered and part is not None and gpu.partition not in (None, int(part))
        address = _ADDRESS.fullmatch(gpu.oam)
        # NVIDIA's driver names a function too.
        if address is not None and (device_there != _place(*address.groups()[:3]) or other):
            ran = device_there if part is None else f"{device_there}.{part}"
            return f"rank {rank} ran on {ran} instead of {gpu.address}"
    return None


def _place(domain: str | None, bus: str, device: str) -> str:
    return f"{domain or '0000'}:{bus}:{device}".lower()
