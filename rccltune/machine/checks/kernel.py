"""The kernel: NUMA balancing, IOMMU, PCI, huge pages, its log, and whether it is a guest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rccltune.machine.checks.facts import Circumstances, notes, warns
from rccltune.machine.pci import DEVICES
from rccltune.machine.records import Finding

_BALANCING: Final = "/proc/sys/kernel/numa_balancing"
_CMDLINE: Final = "/proc/cmdline"
_PAGES: Final = "/sys/kernel/mm/transparent_hugepage/enabled"
_GRUB: Final = "add it to GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and restart"
_ACS: Final = 0x000D
_SOURCE_VALIDATION: Final = 1
_CONFIG_SIZE: Final = 4096
# (pattern, what it means, whether the GPU is ill); amdgpu and KFD.
_LOG: Final = (
    (r"Runlist is getting oversubscribed", "more queues than the GPU has: other jobs run on it"),
    (r"GPU reset begin", "a GPU was reset"),
    (r"fence wait loop timeout", "a GPU did not answer"),
    (r"Queue preemption failed", "a GPU did not answer"),
    (r"No more SDMA queue to allocate", "a GPU ran out of copy queues"),
    (r"Skip xcp node #\d+ when out of drm node", "DRM minors ran out: a device is missing"),
    (r"Won't add GPU \(ID: \w+\) to topology", "KFD left a device out"),
)


def numa_balancing(facts: Circumstances) -> Iterator[Finding]:
    """Pages that move during a run."""
    value = facts.root.number(_BALANCING)
    if value:
        yield warns(
            "numa-balancing",
            "the kernel moves memory between NUMA nodes while programs run",
            _BALANCING,
            expected="0",
            remedy="sudo sysctl kernel.numa_balancing=0",
            spoils=True,
        )


def numad(facts: Circumstances) -> Iterator[Finding]:
    """The daemon that does the same from outside."""
    for process in facts.root.entries("proc") or ():
        if process.isdecimal() and facts.root.text(f"proc/{process}/comm") == "numad":
            yield warns(
                "numad",
                "numad runs and moves processes between NUMA nodes",
                f"/proc/{process}/comm",
                expected="not running",
                remedy="sudo systemctl disable --now numad",
                spoils=True,
            )


def iommu(facts: Circumstances) -> Iterator[Finding]:
    """Pass-through, as RCCL itself asks for on bare metal."""
    line = facts.root.text(_CMDLINE, 8192)
    if not facts.has_amd or line is None or facts.is_guest:
        return
    given = line.split()
    intel = "GenuineIntel" in facts.root.read("proc/cpuinfo", 1 << 22).data.decode("latin-1")
    wanted = ["iommu=pt", *(["intel_iommu=on"] if intel else [])]
    missing = [word for word in wanted if word not in given]
    if missing:
        yield warns(
            "iommu",
            f"the kernel was started without {' and '.join(missing)}",
            _CMDLINE,
            expected=" ".join(wanted),
            remedy=f"{_GRUB}.",
        )
    if "pci=realloc=off" not in given:
        yield warns(
            "pci-realloc",
            "the kernel was started without pci=realloc=off",
            _CMDLINE,
            expected="pci=realloc=off",
            remedy=f"{_GRUB}.",
        )


def acs(facts: Circumstances) -> Iterator[Finding]:
    """Access control that sends peer traffic over the root complex."""
    on = [
        name
        for name in (facts.root.entries(DEVICES) or () if facts.has_amd else ())
        if _validates_sources(facts.root.read(f"{DEVICES}/{name}/config", _CONFIG_SIZE + 1).data)
    ]
    if on:
        yield warns(
            "pci-acs",
            f"PCIe access control is on at {len(on)} bridges, such as {on[0]}: traffic between "
            "GPUs and network cards goes through the root complex",
            f"/{DEVICES}/*/config",
            expected="off (lspci -vv | grep ACSCtl | grep SrcValid+ prints nothing)",
            remedy=f"sudo setpci -s {on[0]} ECAP_ACS+0x6.w=0000, for each of them.",
        )


def _validates_sources(config: bytes) -> bool:
    """Go through the extended capabilities of a device's configuration space."""
    offset = 0x100
    for _ in range(48):
        head = int.from_bytes(config[offset : offset + 4], "little")
        if head & 0xFFFF == _ACS:
            return bool(config[offset + 6 : offset + 7]) and bool(
                config[offset + 6] & _SOURCE_VALIDATION
            )
        offset = head >> 20 & 0xFFC
        if offset < 0x100:
            return False
    return False


def huge_pages(facts: Circumstances) -> Iterator[Finding]:
    """To be recorded; both values are in use."""
    value = facts.root.text(_PAGES)
    chosen = re.search(r"\[(\w+)\]", value or "")
    if chosen is not None and chosen[1] != "always":
        yield notes(
            "huge-pages",
            f"transparent huge pages are '{chosen[1]}'",
            _PAGES,
            remedy="keep it the same between runs that are compared.",
            spoils=True,
        )


def kernel_log(facts: Circumstances) -> Iterator[Finding]:
    """What the driver complained of since the machine was started."""
    for pattern, meaning in _LOG:
        lines = re.findall(f".*{pattern}.*", facts.kernel_log or "")
        if lines:
            yield warns(
                "kernel-log",
                f"{meaning} ({len(lines)} times; last: {lines[-1].strip()[:160]})",
                "dmesg",
                expected="no such line since the start",
                remedy="find the job or the fault behind it before measuring; sudo dmesg -T.",
                spoils=True,
            )


def guest(facts: Circumstances) -> Iterator[Finding]:
    """A hypervisor underneath: neighbours and hidden settings."""
    if facts.has_amd and facts.is_guest:
        yield notes(
            "virtual-machine",
            "this is a virtual machine: partition settings and the host's load are not shown here",
            "/proc/cpuinfo",
            remedy="ask the host's administrator which mode the GPUs are in and who shares them.",
            spoils=True,
        )


CHECKS: Final = (numa_balancing, numad, iommu, acs, huge_pages, kernel_log, guest)
