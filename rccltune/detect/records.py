"""What is known of a machine: frozen records, each value with the place it was read from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rccltune.detect.found import NOT_ASKED, Benchmark, Library, Smi, Sources, Starter
from rccltune.model import Mode


class Severity(Enum):
    """What a finding means for a sweep."""

    STOPS = "stops"
    WARNS = "warns"
    NOTES = "notes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about the machine that a user should know, with what to do about it.

    Attributes:
        name: one word with hyphens, the same in every release.
        message: what is there.
        where: file, variable or program that said so.
        expected: what a machine fit for measuring has there, None where nothing is expected.
        remedy: the command, or one imperative sentence.
        spoils: whether results stop being repeatable.
    """

    name: str
    severity: Severity
    message: str
    where: str
    expected: str | None = None
    remedy: str
    spoils: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device that a job can use: a whole GPU, or one partition of an OAM.

    Attributes:
        index: position in KFD's order, which is HIP's without ``*_VISIBLE_DEVICES``.
        node: number of the KFD node, None for GPUs that KFD does not know.
        oam: domain:bus:device of the module that it is on.
        partition: which part of the OAM, 0 for a whole one; None on GPUs of other makers.
        xcds: compute dies, numbered within the OAM; empty where the product is not known.
        iods: I/O dies under them, numbered within the OAM; empty where that is not known.
        identity: what the maker calls this very part, the same for all partitions of an OAM.
        render_minor: number N in ``/dev/dri/renderDN``.
        can_open: whether the render node is there, None where ``/dev`` cannot be seen.
        mec_firmware: version of the command processor's firmware.
        sources: (field, where it was read).
    """

    index: int
    node: int | None = None
    oam: str
    partition: int | None = None
    product: str | None = None
    arch: str | None = None
    device_id: int | None = None
    cu_count: int | None = None
    n_xccs: int | None = None
    xcds: tuple[int, ...] = ()
    iods: tuple[int, ...] = ()
    identity: str | None = None
    numa_node: int | None = None
    render_minor: int | None = None
    can_open: bool | None = None
    mec_firmware: int | None = None
    sources: Sources = ()

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
    sources: Sources = ()

    @property
    def mode_text(self) -> str:
        """``cpx-nps4``, ``cpx-?`` or ``?``."""
        return mode_text(self.mode)


def mode_text(mode: Mode | None) -> str:
    """A mode for people; an unknown half is a question mark, never left out."""
    if mode is None:
        return "?"
    return f"{mode}-?" if mode.compute is not None and mode.memory is None else str(mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """XGMI from one device to another, both by ``Gpu.index``.

    Attributes:
        hops: links between OAMs on the way, 0 inside one OAM, None where the weight is not known.
        weight: KFD's own figure, from which the hops follow.
    """

    origin: int
    target: int
    hops: int | None
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two sources that say different things of one part of the machine."""

    what: str
    part: str
    said: Sources


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
        boot_id: changes with every start of the machine.
        generation: KFD's own count of changes to its topology.
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
    is_mixed: bool = False
    n_hidden: int = 0
    oams: tuple[Oam, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    links: tuple[Link, ...] = ()
    libraries: tuple[Library, ...] = ()
    benchmarks: tuple[Benchmark, ...] = ()
    starters: tuple[Starter, ...] | None = None
    smi: Smi = NOT_ASKED
    disagreements: tuple[Disagreement, ...] = ()
    boot_id: str | None = None
    generation: str | None = None
    driver: str | None = None
    kernel: str | None = None
    rocm: str | None = None
    sources: Sources = ()

    @property
    def mode_text(self) -> str:
        """``cpx-nps4``, ``cpx-?``, ``?`` or ``none``."""
        return mode_text(self.mode)

    def oam_at(self, address: str) -> Oam | None:
        """The OAM that a device address (with or without function) is on."""
        wanted = address.split(".", 1)[0].lower()
        return next((oam for oam in self.oams if oam.address == wanted), None)
