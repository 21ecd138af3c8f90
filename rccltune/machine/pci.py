"""PCI sysfs: partition modes, and GPUs that KFD does not show.

amdgpu puts current_compute_partition and current_memory_partition on the PCI device alone, which
is partition 0 of an OAM (Linux amdgpu_gfx.c, amdgpu_gmc.c).
"""

from __future__ import annotations

import re
from typing import Final

from rccltune.machine.kfd import format_address
from rccltune.machine.sysroot import SystemRoot, parse_hexadecimal, take_first_line

DRIVER: Final = "sys/bus/pci/drivers/amdgpu"
DEVICES: Final = "sys/bus/pci/devices"
_COMPUTES: Final = ("NONE", "SPX", "DPX", "TPX", "QPX", "CPX")
_MEMORY: Final = re.compile(rb"(?:NPS|nps)(0*(?:[1-9]|1[0-6]))")
_PARTS: Final = (0xFFFFFFFF, 0xFF, 0x1F, 7)


def parse_address(name: str) -> str | None:
    """``0000:05:00`` of ``0000:05:00.0``; None for ``bind``, ``new_id`` and the like."""
    parts = re.split(r":", name, maxsplit=2)
    if len(parts) != 3 or "." not in parts[2]:
        return None
    device, function = parts[2].split(".", 1)
    numbers = [
        parse_hexadecimal(p.encode("utf-8", "replace")) for p in (*parts[:2], device, function)
    ]
    values = [n for n, limit in zip(numbers, _PARTS, strict=True) if n is not None and n <= limit]
    return format_address(values[0], values[1] << 8 | values[2] << 3) if len(values) == 4 else None


def list_driven_devices(root: SystemRoot) -> tuple[str, ...]:
    """Addresses of everything that amdgpu drives, in order."""
    addresses = (parse_address(name) for name in root.entries(DRIVER) or ())
    return tuple(dict.fromkeys(address for address in addresses if address is not None))


def read_attribute(root: SystemRoot, address: str, name: str) -> tuple[bytes, str]:
    """First line of one file of a device and where it was read; empty where there is none."""
    for place in (DRIVER, DEVICES):
        path = f"{place}/{address}.0/{name}"
        content = root.read(path)
        if content:
            return take_first_line(content), f"/{path}"
    return b"", f"/{DRIVER}/{address}.0/{name}"


def parse_compute_mode(text: bytes) -> str | None:
    """SPX … CPX or NONE in any case, None for anything else, such as UNKNOWN during a change."""
    folded = text.upper().decode("latin-1")
    return folded if folded in _COMPUTES and text.isascii() else None


def parse_memory_mode(text: bytes) -> str | None:
    """NPS1 to NPS16, None for anything else."""
    match = _MEMORY.fullmatch(text)
    return f"NPS{int(match[1])}" if match else None


def list_devices(root: SystemRoot, vendor: int, classes: tuple[int, ...]) -> tuple[str, ...]:
    """Addresses of a maker's devices of some classes (the upper two bytes of ``class``)."""
    return tuple(
        name
        for name in root.entries(DEVICES) or ()
        if parse_hexadecimal(root.line(f"{DEVICES}/{name}/vendor")) == vendor
        and (parse_hexadecimal(root.line(f"{DEVICES}/{name}/class")) or 0) >> 8 in classes
    )
