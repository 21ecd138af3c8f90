"""The record of a machine, each value with the place it was read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rccltune.machine.findings import Finding
from rccltune.model import schema
from rccltune.model.settings import Mode

# Field to the file, program or rule that it was read from.
Sources = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A librccl or libnccl file that a job could load."""

    path: Path
    owner: str
    version: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One program of rccl-tests.

    Attributes:
        version: as written in the file, None where it is not.
        mpi: family of MPI that it is linked to, ``none`` without any, None where unknown.
        simulated: rccltune's own stand-in, never a benchmark of hardware.
    """

    name: str
    path: Path
    version: str | None
    sha256: str | None
    mpi: str | None
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherProgram:
    """A program that starts ranks."""

    path: Path
    flavour: str | None
    version: str | None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiGpu:
    """Answer of amdsmi for one device; None where it said nothing or an error."""

    address: str
    product: str | None = None
    compute: str | None = None
    memory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Smi:
    """End of asking amdsmi.

    Attributes:
        status: ``answered``, ``not installed``, ``not asked``, ``failed``, ``crashed`` or
            ``timed out``.
        source: folder of the bindings.
        detail: what they said when they failed.
    """

    status: str = "not asked"
    source: str | None = None
    version: str | None = None
    detail: str | None = None
    gpus: tuple[SmiGpu, ...] = ()


NOT_ASKED: Final = Smi()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device that a job can use: a whole GPU, or one partition of an OAM.

    Attributes:
        index: position in KFD's order, which is HIP's without ``*_VISIBLE_DEVICES``.
        oam: domain:bus:device of the module that it is on.
        partition: which part of the OAM, 0 for a whole one; None on GPUs of other makers.
        xcds: compute dies, numbered within the OAM; empty where the product is not known.
        iods: I/O dies under them, numbered within the OAM; empty where that is not known.
        identity: what the maker calls this very part, the same for all partitions of an OAM.
        render_minor: number N in ``/dev/dri/renderDN``.
        can_open: whether the render node is there, None where ``/dev`` cannot be seen.
        mec_firmware: version of the command processor's firmware.
        source: where it was read.
    """

    index: int
    oam: str
    partition: int | None = None
    product: str | None = None
    arch: str | None = None
    cu_count: int | None = None
    xcds: tuple[int, ...] = ()
    iods: tuple[int, ...] = ()
    identity: str | None = None
    render_minor: int | None = None
    can_open: bool | None = None
    mec_firmware: int | None = None
    source: str | None = None

    @property
    def address(self) -> str:
        """``0000:05:00.3``, which is how HIP and amdsmi name it."""
        return self.oam if self.partition is None else f"{self.oam}.{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Oam:
    """One module (one PCI device), with all of its partitions.

    Attributes:
        address: domain:bus:device.
        mode: None where the compute mode is not known; ``memory`` is None where that half is not.
        n_gpus: devices of it that this process can see.
        n_expected: devices that it has in this mode, None where the product is not known.
        numa_node: −1 where the firmware names none, None where the driver's file is not there.
        contradiction: why driver and KFD cannot both be right, None where they can.
    """

    address: str
    product: str | None = None
    arch: str | None = None
    device_id: int | None = None
    cu_count: int | None = None
    mode: Mode | None = None
    n_gpus: int = 0
    n_expected: int | None = None
    numa_node: int | None = None
    identity: str | None = None
    contradiction: str | None = None
    sources: Sources = field(default_factory=dict, hash=False)

    @property
    def mode_text(self) -> str:
        """``cpx-nps4``, ``cpx-?`` or ``?``."""
        return format_mode(self.mode)


def format_mode(mode: Mode | None) -> str:
    """A mode for people; an unknown half is a question mark, never left out."""
    if mode is None:
        return "?"
    return f"{mode}-?" if mode.compute is not None and mode.memory is None else str(mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class XgmiLink:
    """XGMI from one device to another, both by ``Gpu.index``.

    Attributes:
        hops: links between OAMs on the way, 0 inside one OAM, None where KFD's weight is of
            another kind.
    """

    origin: int
    target: int
    hops: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The machine.

    Attributes:
        status: ``known``, ``none`` (no AMD GPU, and that is certain) or ``unknown``.
        reason: why it is unknown.
        vendor: ``amd``, ``nvidia`` or None.
        product: of the GPUs where they are alike, as arch, device_id, cu_count and mode are.
        mode: None where unknown or not the same on all GPUs.
        n_hidden: devices that KFD lists and denies.
        launchers: None where no program may be asked: the machine is a captured one.
        disagreements: where amdsmi says something else than the driver's files, a sentence each.
        boot_id: changes with every start of the machine.
        kfd_generation: KFD's own count of changes to its topology.
        driver: version of the GPU driver, ``srcversion`` where amdgpu has none.
    """

    root: Path
    host: str | None = None
    status: str
    reason: str | None = None
    vendor: str | None = None
    product: str | None = None
    arch: str | None = None
    device_id: int | None = None
    cu_count: int | None = None
    mode: Mode | None = None
    n_hidden: int = 0
    oams: tuple[Oam, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    links: tuple[XgmiLink, ...] = ()
    libraries: tuple[Library, ...] = ()
    benchmarks: tuple[Benchmark, ...] = ()
    launchers: tuple[LauncherProgram, ...] | None = None
    amdsmi: Smi = NOT_ASKED
    disagreements: tuple[str, ...] = ()
    boot_id: str | None = None
    kfd_generation: str | None = None
    driver: str | None = None
    kernel: str | None = None
    rocm: str | None = None

    @property
    def has_no_gpu(self) -> bool:
        """Whether it is certain that there is none, of either maker."""
        return self.status == "none" and not self.gpus

    @property
    def tests_word(self) -> str:
        """Name of the vendor's benchmarks."""
        return "nccl-tests" if self.vendor == "nvidia" else "rccl-tests"

    @property
    def live_oams(self) -> tuple[Oam, ...]:
        """OAMs with devices that a job can use; all of them where no device is listed or hidden."""
        nothing_seen = not self.gpus and not self.n_hidden
        return tuple(oam for oam in self.oams if oam.n_gpus or nothing_seen)

    @property
    def mode_text(self) -> str:
        """``cpx-nps4``, ``cpx-?``, ``?`` or ``none``."""
        return format_mode(self.mode)

    def oam_at(self, address: str) -> Oam | None:
        """The OAM that a device address (with or without function) is on."""
        wanted = address.split(".", 1)[0].lower()
        return next((oam for oam in self.oams if oam.address == wanted), None)


def export_system(system: System, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """The whole answer of detect for --json: the mode as text, link hops as one row a device."""
    return {
        "format": 1,
        **schema.to_plain(replace(system, links=())),
        "mode": system.mode_text,
        "n_devices": len(system.gpus),
        "gpus": [{"address": gpu.address, **schema.to_plain(gpu)} for gpu in system.gpus],
        "xgmi_hops": format_hops(system),
        "findings": findings,
    }


def format_hops(system: System) -> list[str]:
    """Hops from each device to all: ``- 0 1 ?``; a dash where there is no link."""
    if not system.links:
        return []
    cells = {(link.origin, link.target): link.hops for link in system.links}
    indices = [gpu.index for gpu in system.gpus]

    def cell(origin: int, target: int) -> str:
        if (origin, target) not in cells:
            return "-"
        hops = cells[origin, target]
        return "?" if hops is None else str(hops)

    return [" ".join(cell(a, b) for b in indices) for a in indices]
