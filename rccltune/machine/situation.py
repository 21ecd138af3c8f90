"""The named situations that a node can be in, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rccltune.machine.kfd import NODES
from rccltune.machine.products import product_of
from rccltune.machine.records import Finding, Oam, Severity, System
from rccltune.machine.visible import VISIBLE

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
            where=live[0].sources.get("compute", "current_compute_partition"),
            remedy="say it with --mode, and RCCLTUNE_MODE for the plugin; "
            "a driver of 6.12.12 or newer has the file.",
        )
    elif any(oam.mode and oam.mode.compute and oam.mode.memory is None for oam in live):
        yield Finding(
            name="memory-mode-unknown",
            severity=Severity.WARNS,
            message="the memory mode is not known; it does not follow from the memory's size",
            where=live[0].sources.get("memory", "current_memory_partition"),
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
    if system.disagreements:
        first, *others = system.disagreements
        yield Finding(
            name="sources-disagree",
            severity=Severity.WARNS,
            message=first + (f"; {len(others)} more (rccltune detect --json)" if others else ""),
            where=system.smi.source or "amdsmi",
            remedy="look again when no mode change is under way; the driver's own is used.",
            spoils=True,
        )


_SIMULATE: Final = (
    "without a GPU, use --simulate mi300x --mode cpx-nps4, or work on logs with rccltune import."
)


def situations(system: System, variables: Mapping[str, str]) -> tuple[Finding, ...]:
    """Everything about the GPUs themselves that changes what can be measured."""
    return (
        *_presence(system),
        *_hidden(system),
        *_partitions(system),
        *kinds(system),
        *_visible(variables),
    )


def _presence(system: System) -> Iterator[Finding]:
    if system.vendor == "nvidia":
        yield Finding(
            name="nvidia-gpus",
            severity=Severity.NOTES,
            message=f"the GPUs are NVIDIA's ({len(system.gpus)}), so the mode is none",
            where=system.gpus[0].sources.get("product", "/sys/bus/pci/devices"),
            remedy="measure with nccl-tests (--rccl-tests DIR); what is said of partitions, "
            "HIP and ROCm does not apply.",
        )
    elif system.status == "none":
        yield Finding(
            name="no-gpu",
            severity=Severity.STOPS,
            message="this machine has no GPU that amdgpu drives",
            where="/sys/bus/pci/drivers/amdgpu",
            expected="amdgpu loaded: lsmod | grep amdgpu",
            remedy=_SIMULATE,
        )
    elif not system.oams and not system.n_hidden:
        yield Finding(
            name="no-sysfs",
            severity=Severity.STOPS,
            message="there is no /sys to look at, so nothing is known of the GPUs",
            where="/sys/bus/pci/devices",
            remedy="mount sysfs into the sandbox or container (docker run mounts it by default).",
        )


def _hidden(system: System) -> Iterator[Finding]:
    unseen = [oam.address for oam in system.oams if oam.n_gpus == 0]
    if system.n_hidden:
        every = not system.gpus
        yield Finding(
            name="hidden-gpus",
            severity=Severity.STOPS if every else Severity.WARNS,
            message=f"{'all' if every else system.n_hidden} devices are denied to this process"
            + (f", {len(system.gpus)} are left" if system.gpus else ""),
            where=_KFD,
            expected="all devices of the node",
            remedy="start the container with --device=/dev/kfd --device=/dev/dri and the groups "
            "video and render; or ask the scheduler for the whole node.",
            spoils=True,
        )
    elif unseen and system.gpus:
        yield Finding(
            name="hidden-gpus",
            severity=Severity.WARNS,
            message=f"amdgpu drives {', '.join(unseen)}, and KFD lists no device on "
            f"{'it' if len(unseen) == 1 else 'them'}",
            where=_KFD,
            remedy="dmesg | grep -i kfd says why; reload the driver: modprobe -r amdgpu; "
            "modprobe amdgpu (root).",
            spoils=True,
        )
    elif unseen:
        yield Finding(
            name="no-kfd",
            severity=Severity.WARNS,
            message="KFD's topology cannot be seen, so the number of devices is not known",
            where=_KFD,
            remedy="start the container with --device=/dev/kfd --device=/dev/dri.",
        )
    yield from _unopened(system)


def _unopened(system: System) -> Iterator[Finding]:
    shut = [gpu for gpu in system.gpus if gpu.can_open is False]
    if shut:
        yield Finding(
            name="hidden-gpus",
            severity=Severity.STOPS if len(shut) == len(system.gpus) else Severity.WARNS,
            message=f"{len(shut)} of {len(system.gpus)} devices have no render node here, such as "
            f"renderD{shut[0].render_minor} of {shut[0].address}; HIP will not see them",
            where="/dev/dri",
            expected="one renderD node per device",
            remedy="start the container with --device=/dev/dri, all of it.",
            spoils=True,
        )


def _partitions(system: System) -> Iterator[Finding]:
    short = [oam for oam in system.oams if oam.n_expected and 0 < oam.n_gpus < oam.n_expected]
    if not short or system.n_hidden:
        return
    expected = sum(oam.n_expected or oam.n_gpus for oam in system.oams if oam.n_gpus)
    named = "; ".join(f"{oam.address} lacks {_missing(system, oam)}" for oam in short)
    yield Finding(
        name="missing-partitions",
        severity=Severity.WARNS,
        message=f"{len(system.gpus)} devices of {expected}: {named}",
        where=_KFD,
        expected=f"{expected} devices",
        remedy="older kernels have 64 DRM minors and a display card (ast, mgag200) takes one: "
        "modprobe -r ast; modprobe -r amdgpu; modprobe amdgpu (root), or blacklist ast; else "
        f"sweep with --np {len(system.gpus)}, knowing that rules for {expected} ranks need all.",
        spoils=True,
    )


def _missing(system: System, oam: Oam) -> str:
    there = {gpu.partition for gpu in system.gpus if gpu.oam == oam.address}
    gone = [str(n) for n in range(oam.n_expected or 0) if n not in there]
    return f"partition {', '.join(gone)}"


def _visible(variables: Mapping[str, str]) -> Iterator[Finding]:
    given = [name for name in VISIBLE if name in variables]
    for name in given:
        yield Finding(
            name="visible-devices",
            severity=Severity.NOTES,
            message=f"{name}={variables[name]} chooses and orders the devices of every job here",
            where=f"environment, {name}",
            remedy=f"unset {name}, unless it belongs to what is measured.",
            spoils=True,
        )
