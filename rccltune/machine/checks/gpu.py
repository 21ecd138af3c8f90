"""The GPUs: device files, firmware, clocks, power and other users."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from rccltune.machine.findings import Finding, stops, warns
from rccltune.machine.host_state import HostState
from rccltune.machine.kfd import PROCESSES
from rccltune.machine.pci import DEVICES
from rccltune.releases import release_in

_MIN_MEC: Final = 177
_RECLAIM: Final = "HSA_NO_SCRATCH_RECLAIM"
_USED_BYTES: Final = 2 << 30


def check_device_nodes(host: HostState) -> Iterator[Finding]:
    """HIP opens /dev/kfd and every render node; one that is refused ends its start."""
    if not host.has_amd or not host.root.at("dev").is_dir():
        return
    nodes = [f"/dev/dri/renderD{gpu.render_minor}" for gpu in host.system.gpus if gpu.can_open]
    for node in ("/dev/kfd", *nodes):
        path = host.root.at(node)
        if not os.access(path, os.R_OK | os.W_OK):
            yield stops(
                "device-nodes",
                f"you may not open {node}" if path.exists() else f"there is no {node} here",
                node,
                remedy="sudo usermod -aG render,video $USER, then log in again"
                if path.exists()
                else "load the driver (modprobe amdgpu); in a container: --device=/dev/kfd "
                "--device=/dev/dri.",
            )
            return


def check_firmware(host: HostState) -> Iterator[Finding]:
    """RCCL's own gate: it refuses to start, as "unhandled system error"."""
    if host.variables.get(_RECLAIM) == "1":
        return
    versions = [gpu.mec_firmware for gpu in host.system.gpus if gpu.arch == "gfx942"]
    old_versions = [version for version in versions if version and version < _MIN_MEC]
    release = release_in(host.system.rocm)
    if old_versions:
        yield warns(
            "mec-firmware",
            f"firmware {old_versions[0]} of the command processor is older than RCCL of ROCm 7 "
            f"takes ({_MIN_MEC}): it ends with 'unhandled system error'",
            "KFD, fw_version",
            remedy=f"export {_RECLAIM}=1, or update the GPU's firmware.",
            spoils=True,
        )
    elif host.has_amd and release is not None and not release.keeps_scratch:
        yield warns(
            "scratch-reclaim",
            f"ROCm {host.system.rocm} gives scratch memory back between kernels",
            "<rocm>/.info/version",
            remedy=f"export {_RECLAIM}=1",
            spoils=True,
        )


def check_clocks(host: HostState) -> Iterator[Finding]:
    """A level that somebody forced and forgot."""
    for oam in host.system.oams:
        place = f"{DEVICES}/{oam.address}.0/power_dpm_force_performance_level"
        level = host.root.text(place)
        if level is not None and level not in ("auto", "perf_determinism"):
            yield warns(
                "clocks",
                f"the clocks of {oam.address} are forced to '{level}'",
                f"/{place}",
                remedy="sudo rocm-smi --resetperfdeterminism, or for steadier results sudo "
                "rocm-smi --setperfdeterminism 1900",
                spoils=True,
            )


def check_power_caps(host: HostState) -> Iterator[Finding]:
    """The slowest GPU sets the pace of all, so caps should be the same and the default."""
    caps: dict[str, int] = {}
    is_low = False
    for oam in host.system.oams:
        folder = f"{DEVICES}/{oam.address}.0/hwmon"
        sensors = f"{folder}/{next(iter(host.root.entries(folder) or ()), '')}"
        cap = host.root.number(f"{sensors}/power1_cap")
        if cap is not None:
            caps[oam.address] = cap
            is_low |= cap < (host.root.number(f"{sensors}/power1_cap_default") or cap)
    if is_low or len(set(caps.values())) > 1:
        words = ", ".join(f"{a} {cap // 1_000_000} W" for a, cap in sorted(caps.items()))
        yield warns(
            "power-cap",
            f"the power caps are lowered or not alike: {words}",
            "hwmon power1_cap",
            remedy="sudo amd-smi reset --gpu all --power-cap",
            spoils=True,
        )


def check_other_users(host: HostState) -> Iterator[Finding]:
    """Other jobs in the same memory and on the same links."""
    if host.gpu_processes:
        pids = ",".join(host.gpu_processes[:8])
        yield warns(
            "other-users",
            f"{len(host.gpu_processes)} processes use the GPUs: {pids}",
            f"/{PROCESSES}" if host.has_amd else "nvidia-smi",
            remedy=f"ps -o pid,user,cmd -p {pids}; wait until they have ended.",
            spoils=True,
        )
        return
    for oam in host.system.oams:
        place = f"{DEVICES}/{oam.address}.0/mem_info_vram_used"
        n_bytes = host.root.number(place)
        if n_bytes is not None and n_bytes > _USED_BYTES:
            yield warns(
                "memory-in-use",
                f"{n_bytes / (1 << 30):.1f} GiB of {oam.address} are in use, by a process that is "
                "not seen here",
                f"/{place}",
                remedy="sudo fuser -v /dev/kfd shows it; outside this container, perhaps.",
                spoils=True,
            )


CHECKS: Final = (
    check_device_nodes,
    check_firmware,
    check_clocks,
    check_power_caps,
    check_other_users,
)
