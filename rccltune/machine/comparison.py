"""Sources set beside each other: amdsmi only fills what sysfs left open, and never overrules it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from rccltune.machine import pci
from rccltune.machine.records import Disagreement, Oam, Smi, SmiGpu, System
from rccltune.model import Mode

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
    return pci.memory_mode(gpu.memory.encode("utf-8", "replace")) if gpu.memory else None


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
