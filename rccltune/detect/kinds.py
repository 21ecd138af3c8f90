"""Situations of the second sort: which mode and which part, and whether the sources agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rccltune.detect.kfd import NODES
from rccltune.detect.products import product_of
from rccltune.detect.records import Finding, Oam, Severity, System

_KFD: Final = f"/{NODES}"
_ASSUME: Final = "set it anew with amd-smi (root): amd-smi set --gpu all --compute-partition SPX"
# gfx942 parts that a rule file for an MI300X must not be taken on: arch and mode look the same.
_OTHERS: Final = {
    "MI300A": "six XCDs per APU, four APUs a node",
    "MI308X": "four XCDs per OAM: 32 devices in CPX, not 64",
    "MI325X": "eight XCDs as an MI300X, with other memory and clocks",
}


def kinds(system: System) -> Iterator[Finding]:
    """Everything about modes, parts and sources."""
    yield from _modes(system)
    yield from _products(system)
    yield from _sources(system)


def _modes(system: System) -> Iterator[Finding]:
    live = [oam for oam in system.oams if oam.n_gpus or not system.gpus]
    if any(oam.contradiction for oam in live):
        yield Finding(
            name="mode-changing",
            severity=Severity.STOPS,
            message=system.reason or "driver and KFD disagree on the mode",
            where="current_compute_partition and KFD",
            remedy=f"wait for the change to end, then look again; or {_ASSUME}.",
            spoils=True,
        )
        return
    if system.is_mixed:
        by_mode: dict[str, list[str]] = {}
        for oam in live:
            by_mode.setdefault(oam.mode_text, []).append(oam.address)
        named = "; ".join(f"{mode} on {', '.join(where)}" for mode, where in by_mode.items())
        yield Finding(
            name="mixed-modes",
            severity=Severity.STOPS,
            message=f"the GPUs are in different modes: {named}",
            where="current_compute_partition, current_memory_partition",
            expected="one mode on all",
            remedy="amd-smi set --gpu all --compute-partition CPX, then --memory-partition NPS4 "
            "(root, idle GPUs); or hide the others with ROCR_VISIBLE_DEVICES.",
            spoils=True,
        )
    elif len({oam.arch for oam in live}) > 1 or len({oam.device_id for oam in live}) > 1:
        named = ", ".join(sorted({oam.product or oam.arch or "an unknown GPU" for oam in live}))
        yield Finding(
            name="mixed-gpus",
            severity=Severity.WARNS,
            message=f"the GPUs are not alike: {named}",
            where=_KFD,
            remedy="hide the ones that are not measured with ROCR_VISIBLE_DEVICES.",
            spoils=True,
        )
    yield from _halves(live)


def _halves(live: list[Oam]) -> Iterator[Finding]:
    if any(oam.mode is None and oam.n_gpus for oam in live):
        yield Finding(
            name="mode-unknown",
            severity=Severity.WARNS,
            message="the driver does not say the compute mode",
            where=dict(live[0].sources).get("compute", "current_compute_partition"),
            remedy="say it with --mode, and RCCLTUNE_MODE for the plugin; "
            "a driver of 6.12.12 or newer has the file.",
        )
    elif any(oam.mode and oam.mode.compute and oam.mode.memory is None for oam in live):
        yield Finding(
            name="memory-mode-unknown",
            severity=Severity.WARNS,
            message="the memory mode is not known; it does not follow from the memory's size",
            where=dict(live[0].sources).get("memory", "current_memory_partition"),
            remedy="amd-smi static --partition shows it (root); say it with --mode, and "
            "RCCLTUNE_MODE for the plugin.",
        )


def _products(system: System) -> Iterator[Finding]:
    parts = [product_of(oam.device_id) for oam in system.oams]
    place = f"PCI device id 0x{system.device_id:x}" if system.device_id else "PCI device id"
    if any(part.is_virtual for part in parts if part):
        yield Finding(
            name="sriov-guest",
            severity=Severity.WARNS,
            message=f"the GPUs are virtual functions ({system.product or 'several kinds'}): the "
            "mode shown here is the guest's, not the host's",
            where=place,
            remedy="ask the host's administrator for the mode, and measure again after the guest "
            "has moved; rules of bare metal do not hold here.",
            spoils=True,
        )
    for name, meaning in _OTHERS.items():
        if any(part.name == name for part in parts if part):
            yield Finding(
                name=name.lower(),
                severity=Severity.NOTES,
                message=f"{name}: {meaning}. It is gfx942 as the MI300X is",
                where=place,
                remedy="measure here; rules of an MI300X are not rules of this machine.",
            )


def _sources(system: System) -> Iterator[Finding]:
    if system.smi.status in ("failed", "crashed", "timed out"):
        yield Finding(
            name="amdsmi-failed",
            severity=Severity.NOTES,
            message=f"amdsmi {system.smi.status}: {system.smi.detail}",
            where=system.smi.source or "amdsmi",
            remedy="what is shown comes from sysfs; use the bindings of the installed ROCm, under "
            "<rocm>/share/amd_smi.",
        )
    for differs in system.disagreements:
        said = ", ".join(f"{source} says {value}" for source, value in differs.said)
        yield Finding(
            name="sources-disagree",
            severity=Severity.WARNS,
            message=f"{differs.what} of {differs.part}: {said}",
            where=differs.said[0][0],
            remedy="look again when no mode change is under way; the first is the one used.",
            spoils=True,
        )
