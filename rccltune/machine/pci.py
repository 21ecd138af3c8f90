"""PCI sysfs: partition modes and GPUs that KFD does not show; and sources set beside each other.

amdgpu puts current_compute_partition and current_memory_partition on the PCI device alone, which
is partition 0 of an OAM (Linux amdgpu_gfx.c, amdgpu_gmc.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from rccltune.machine.files import Content, Reading, Root, hexadecimal
from rccltune.machine.kfd import address_text
from rccltune.machine.records import Disagreement, Oam, Smi, SmiGpu, System
from rccltune.model.settings import Mode

DRIVER: Final = "sys/bus/pci/drivers/amdgpu"
DEVICES: Final = "sys/bus/pci/devices"
_NVIDIA: Final = 0x10DE
_DISPLAY_CLASSES: Final = (0x0300, 0x0302)
_COMPUTES: Final = ("NONE", "SPX", "DPX", "TPX", "QPX", "CPX")
_MEMORY: Final = re.compile(rb"(?:NPS|nps)(0*(?:[1-9]|1[0-6]))")
_PARTS: Final = (0xFFFFFFFF, 0xFF, 0x1F, 7)


def parse_address(name: str) -> str | None:
    """``0000:05:00`` of ``0000:05:00.0``; None for ``bind``, ``new_id`` and the like."""
    parts = re.split(r":", name, maxsplit=2)
    if len(parts) != 3 or "." not in parts[2]:
        return None
    device, function = parts[2].split(".", 1)
    numbers = [hexadecimal(p.encode("utf-8", "replace")) for p in (*parts[:2], device, function)]
    values = [n for n, limit in zip(numbers, _PARTS, strict=True) if n is not None and n <= limit]
    return address_text(values[0], values[1] << 8 | values[2] << 3) if len(values) == 4 else None


def driven(root: Root) -> tuple[str, ...]:
    """Addresses of everything that amdgpu drives, in order."""
    found = (parse_address(name) for name in root.entries(DRIVER) or ())
    return tuple(dict.fromkeys(address for address in found if address is not None))


def can_be_listed(root: Root) -> bool:
    """Whether there is a PCI bus to look at: only then is "no GPU" an answer."""
    return root.entries(DEVICES) is not None


def attribute(root: Root, address: str, name: str) -> tuple[bytes, str]:
    """First line of one file of a device and where it was read; empty where there is none."""
    for place in (DRIVER, DEVICES):
        path = f"{place}/{address}.0/{name}"
        content: Content = root.read(path)
        if content.reading is Reading.OK and content.data:
            return content.first_line or b"", f"/{path}"
    return b"", f"/{DRIVER}/{address}.0/{name}"


def compute_mode(text: bytes) -> str | None:
    """SPX … CPX or NONE in any case, None for anything else, such as UNKNOWN during a change."""
    folded = text.upper().decode("latin-1")
    return folded if folded in _COMPUTES and text.isascii() else None


def memory_mode(text: bytes) -> str | None:
    """NPS1 to NPS16, None for anything else."""
    match = _MEMORY.fullmatch(text)
    return f"NPS{int(match[1])}" if match else None


def nvidia_addresses(root: Root) -> tuple[str, ...]:
    """Addresses of NVIDIA's display and compute devices."""
    return tuple(
        name
        for name in root.entries(DEVICES) or ()
        if hexadecimal(root.read(f"{DEVICES}/{name}/vendor").first_line or b"") == _NVIDIA
        and (hexadecimal(root.read(f"{DEVICES}/{name}/class").first_line or b"") or 0) >> 8
        in _DISPLAY_CLASSES
    )


_SMI: Final = "amdsmi"


def with_smi(system: System, said: Smi) -> System:
    """The system with amdsmi's answer beside it, and its values where there were none."""
    by_module: dict[str, list[SmiGpu]] = {}
    for gpu in said.gpus:
        if gpu.address is not None:
            by_module.setdefault(gpu.address.split(".", 1)[0].lower(), []).append(gpu)
    oams = tuple(_filled(oam, by_module.get(oam.address, [])) for oam in system.oams)
    modes = {oam.mode for oam in oams if oam.n_gpus or not system.gpus}
    mode = system.mode
    if system.status == "known" and len(modes) == 1:
        mode = modes.pop()
    return replace(system, oams=oams, mode=mode, smi=said)


def _filled(oam: Oam, said: list[SmiGpu]) -> Oam:
    """The missing memory half and product name; partition 0 is the one that answers for an OAM."""
    primary = _primary(said)
    if primary is None:
        return oam
    sources = dict(oam.sources)
    mode = oam.mode
    memory = _memory(primary)
    if mode is not None and mode.compute is not None and mode.memory is None and memory:
        mode = Mode(compute=mode.compute, memory=memory)
        sources["memory"] = f"{_SMI} {primary.address}"
    product = oam.product
    if product is None and primary.market_name is not None:
        product = primary.market_name.removeprefix("AMD Instinct ")
        sources["product"] = f"{_SMI} {primary.address}"
    return replace(oam, mode=mode, product=product, sources=tuple(sources.items()))


def _primary(said: Iterable[SmiGpu]) -> SmiGpu | None:
    answers = sorted(said, key=lambda gpu: (gpu.partition or 0, gpu.address or ""))
    return next((gpu for gpu in answers if gpu.compute or gpu.memory), None) or next(
        iter(answers), None
    )


def _memory(gpu: SmiGpu) -> str | None:
    return memory_mode(gpu.memory.encode("utf-8", "replace")) if gpu.memory else None


def disagreements(system: System) -> tuple[Disagreement, ...]:
    """Everything on which two sources differ; one that says nothing does not disagree."""
    return (*_of_driver(system), *_of_smi(system))


def _of_driver(system: System) -> Iterator[Disagreement]:
    for oam in system.oams:
        if oam.contradiction is not None:
            place = dict(oam.sources).get("compute", "sysfs")
            said = ((place, oam.mode_text), ("KFD", oam.contradiction))
            yield Disagreement(what="compute mode", part=oam.address, said=said)


def _of_smi(system: System) -> Iterator[Disagreement]:
    said = system.smi
    if said.status != "answered" or not said.gpus:
        return
    if len(said.gpus) != len(system.gpus):
        yield Disagreement(
            what="number of devices",
            part="the machine",
            said=(("KFD", str(len(system.gpus))), (_SMI, str(len(said.gpus)))),
        )
    for gpu in said.gpus:
        oam = system.oam_at(gpu.address) if gpu.address else None
        if oam is None:
            continue
        yield from _of_module(oam, gpu)
        yield from _of_device(system, gpu)


def _of_module(oam: Oam, gpu: SmiGpu) -> Iterator[Disagreement]:
    sources = dict(oam.sources)
    mode = oam.mode or Mode(compute=None, memory=None)
    pairs = (
        ("compute mode", "compute", mode.compute, gpu.compute),
        ("memory mode", "memory", mode.memory, gpu.memory),
        ("arch", "arch", oam.arch, gpu.arch),
        ("device id", "device_id", _hex(oam.device_id), _hex(gpu.device_id)),
    )
    for what, key, ours, theirs in pairs:
        if ours is not None and theirs is not None and ours != theirs:
            said = ((sources.get(key, "sysfs"), ours), (_SMI, theirs))
            yield Disagreement(what=what, part=gpu.address or oam.address, said=said)


def _of_device(system: System, gpu: SmiGpu) -> Iterator[Disagreement]:
    device = next((g for g in system.gpus if g.node is not None and g.node == gpu.node), None)
    if device is None:
        return
    pairs = (
        ("compute units", device.cu_count, gpu.cu_count),
        ("partition", device.partition, gpu.partition),
    )
    for what, ours, theirs in pairs:
        if ours is not None and theirs is not None and ours != theirs:
            said = ((f"KFD node {device.node}", str(ours)), (_SMI, str(theirs)))
            yield Disagreement(what=what, part=gpu.address or device.address, said=said)


def _hex(value: int | None) -> str | None:
    return f"0x{value:x}" if value is not None else None
