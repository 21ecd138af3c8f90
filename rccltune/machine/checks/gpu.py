"""The GPUs: device files, driver, firmware, clocks, power, heat and other users."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from rccltune.machine.findings import Finding, stops, warns
from rccltune.machine.host_state import HostState
from rccltune.machine.pci import DEVICES
from rccltune.releases import release_in, version_of

_PROCESSES: Final = "sys/class/kfd/kfd/proc"
_MIN_DRIVER: Final = (6, 12, 12)
_MIN_MEC: Final = 177
_RECLAIM: Final = "HSA_NO_SCRATCH_RECLAIM"
_USED_BYTES: Final = 2 << 30
_HOT: Final = 90_000


def device_nodes(facts: HostState) -> Iterator[Finding]:
    """HIP opens /dev/kfd and every render node; one that is refused ends its start."""
    if not facts.has_amd or not facts.root.at("dev").is_dir():
        return
    if not facts.root.at("dev/kfd").exists():
        yield stops(
            "device-nodes",
            "there is no /dev/kfd here",
            "/dev/kfd",
            remedy="load the driver (modprobe amdgpu); in a container: --device=/dev/kfd "
            "--device=/dev/dri.",
        )
        return
    names = [f"dri/renderD{gpu.render_minor}" for gpu in facts.system.gpus if gpu.can_open]
    shut = [
        name
        for name in ("kfd", *names)
        if not os.access(facts.root.at(f"dev/{name}"), os.R_OK | os.W_OK)
    ]
    if shut:
        yield stops(
            "device-nodes",
            f"you may not open /dev/{shut[0]}",
            f"/dev/{shut[0]}",
            remedy="sudo usermod -aG render,video $USER, then log in again",
        )


def driver(facts: HostState) -> Iterator[Finding]:
    """The driver's release from which partitions work."""
    mode = facts.system.mode
    version = version_of(facts.system.driver)
    # A driver of the kernel's own tree has a hash instead: no dots.
    is_old = facts.has_amd and len(version) > 1 and version < _MIN_DRIVER
    if is_old and mode is not None and mode.compute not in (None, "SPX"):
        yield warns(
            "driver",
            f"amdgpu {facts.system.driver} is older than the partition modes",
            "/sys/module/amdgpu/version",
            remedy="install the amdgpu driver of ROCm 6.4 (6.12.12) or newer.",
            spoils=True,
        )


def firmware(facts: HostState) -> Iterator[Finding]:
    """RCCL's own gate: it refuses to start, as "unhandled system error"."""
    if facts.variables.get(_RECLAIM) == "1":
        return
    versions = [gpu.mec_firmware for gpu in facts.system.gpus if gpu.arch == "gfx942"]
    old = [version for version in versions if version and version < _MIN_MEC]
    release = release_in(facts.system.rocm)
    if old:
        yield warns(
            "mec-firmware",
            f"firmware {old[0]} of the command processor is older than RCCL of ROCm 7 takes "
            f"({_MIN_MEC}): it ends with 'unhandled system error'",
            "KFD, fw_version",
            remedy=f"export {_RECLAIM}=1, or update the GPU's firmware.",
            spoils=True,
        )
    elif facts.has_amd and release is not None and not release.keeps_scratch:
        yield warns(
            "scratch-reclaim",
            f"ROCm {facts.system.rocm} gives scratch memory back between kernels",
            "<rocm>/.info/version",
            remedy=f"export {_RECLAIM}=1",
            spoils=True,
        )


def clocks(facts: HostState) -> Iterator[Finding]:
    """A level that somebody forced and forgot."""
    for oam in facts.system.oams:
        place = f"{DEVICES}/{oam.address}.0/power_dpm_force_performance_level"
        level = facts.root.text(place)
        if level is not None and level not in ("auto", "perf_determinism"):
            yield warns(
                "clocks",
                f"the clocks of {oam.address} are forced to '{level}'",
                f"/{place}",
                remedy="sudo rocm-smi --resetperfdeterminism, or for steadier results sudo "
                "rocm-smi --setperfdeterminism 1900",
                spoils=True,
            )


def power(facts: HostState) -> Iterator[Finding]:
    """The slowest GPU sets the pace of all, so caps should be the same and the default."""
    caps = {}
    for oam in facts.system.oams:
        folder = _sensors(facts, oam.address)
        cap = facts.root.number(f"{folder}/power1_cap") if folder else None
        default = facts.root.number(f"{folder}/power1_cap_default") if folder else None
        if cap is not None:
            caps[oam.address] = (cap, default if default is not None else cap)
    is_low = any(cap < default for cap, default in caps.values())
    if is_low or len({cap for cap, _ in caps.values()}) > 1:
        named = ", ".join(f"{a} {cap // 1_000_000} W" for a, (cap, _) in sorted(caps.items()))
        yield warns(
            "power-cap",
            f"the power caps are lowered or not alike: {named}",
            "hwmon power1_cap",
            remedy="sudo amd-smi reset --gpu all --power-cap",
            spoils=True,
        )


def heat(facts: HostState) -> Iterator[Finding]:
    """A GPU that is hot before the start will be throttled."""
    for oam in facts.system.oams:
        folder = _sensors(facts, oam.address)
        names = (facts.root.entries(folder) or ()) if folder else ()
        inputs = [name for name in names if name.startswith("temp") and name.endswith("_input")]
        hottest = max((facts.root.number(f"{folder}/{name}") or 0 for name in inputs), default=0)
        if hottest >= _HOT:
            yield warns(
                "heat",
                f"{oam.address} is at {hottest // 1000} °C before anything was started",
                f"/{folder}",
                remedy="let it cool, and look for another job or a fault in the cooling.",
                spoils=True,
            )


def _sensors(facts: HostState, address: str) -> str | None:
    folder = f"{DEVICES}/{address}.0/hwmon"
    entries = facts.root.entries(folder)
    return f"{folder}/{entries[0]}" if entries else None


def other_users(facts: HostState) -> Iterator[Finding]:
    """Other jobs in the same memory and on the same links."""
    processes = facts.root.entries(_PROCESSES) or ()
    if processes:
        yield warns(
            "other-users",
            f"{len(processes)} processes use the GPUs: {', '.join(processes[:8])}",
            f"/{_PROCESSES}",
            remedy=f"ps -o pid,user,cmd -p {','.join(processes[:8])}; wait until they have ended.",
            spoils=True,
        )
        return
    for oam in facts.system.oams:
        place = f"{DEVICES}/{oam.address}.0/mem_info_vram_used"
        used = facts.root.number(place)
        if used is not None and used > _USED_BYTES:
            yield warns(
                "memory-in-use",
                f"{used / (1 << 30):.1f} GiB of {oam.address} are in use, by a process that is not "
                "seen here",
                f"/{place}",
                remedy="sudo fuser -v /dev/kfd shows it; outside this container, perhaps.",
                spoils=True,
            )


CHECKS: Final = (device_nodes, driver, firmware, clocks, power, heat, other_users)
