"""The named situations that a node can be in, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rccltune.detect.kfd import NODES
from rccltune.detect.kinds import kinds
from rccltune.detect.records import Finding, Oam, Severity, System

VISIBLE: Final = (
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
)
_KFD: Final = f"/{NODES}"
_SIMULATE: Final = "without a GPU, use --simulate mi300x, or work on logs with rccltune import."


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
            where=dict(system.gpus[0].sources).get("product", "/sys/bus/pci/devices"),
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
