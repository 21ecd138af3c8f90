"""One look at the machine: KFD and PCI to OAMs and devices, beside what other sources say."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from rccltune.machine import pci, smi, software
from rccltune.machine.files import Root, hexadecimal
from rccltune.machine.kfd import (
    Node,
    Topology,
    dies_of,
    hops_of,
    io_dies_of,
    product_of,
    read_links,
    read_topology,
)
from rccltune.machine.pci import disagreements, with_smi
from rccltune.machine.records import Gpu, Link, Oam, Smi, Starter, System
from rccltune.machine.smi import nvidia_gpus
from rccltune.model.measured import Fingerprint
from rccltune.model.settings import Mode

# gfx940 to gfx950: the parts whose compute dies can be partitioned.
_PARTITIONED: Final = range(90400, 90600)
_TABLE: Final = "PCI device id"


@dataclass(frozen=True, slots=True)
class Survey:
    """What sysfs says, before anybody else is asked."""

    oams: tuple[Oam, ...]
    gpus: tuple[Gpu, ...]
    links: tuple[Link, ...]
    n_hidden: int


def survey(root: Root, *, with_links: bool = True) -> Survey:
    """Read KFD's topology and the PCI directory of every GPU."""
    topology = read_topology(root)
    nodes_of: dict[str, list[Node]] = {}
    for node in topology.nodes:
        nodes_of.setdefault(node.oam, []).append(node)
    for address in pci.driven(root):
        nodes_of.setdefault(address, [])
    oams = tuple(_oam(root, address, nodes) for address, nodes in nodes_of.items())
    by_address = {oam.address: oam for oam in oams}
    gpus = tuple(
        _gpu(root, index, node, by_address[node.oam]) for index, node in enumerate(topology.nodes)
    )
    links = _links(root, topology) if with_links else ()
    return Survey(oams=oams, gpus=gpus, links=links, n_hidden=topology.n_hidden)


def arch_text(gfx: int) -> str | None:
    """``gfx90a`` of 90010: the step is one hexadecimal digit."""
    return f"gfx{gfx // 10000}{gfx // 100 % 100}{gfx % 100:x}" if gfx else None


def _gfx_of_device(device_id: int | None) -> int:
    """Stands in for the arch where KFD cannot be read; ranges as in the plugin."""
    family = (device_id or 0) & ~0x1F
    return {0x74A0: 90402, 0x75A0: 90500}.get(family, 0)


def _oam(root: Root, address: str, nodes: Sequence[Node]) -> Oam:
    first = nodes[0] if nodes else None
    values = first.values if first else {}
    text, device_place = pci.attribute(root, address, "device")
    device_id = values.get("device_id") or None
    if device_id is None:
        read = hexadecimal(text)
        device_id = read if read is not None and 0 < read <= 0xFFFFFFFF else None
    elif first is not None:
        device_place = f"/{first.folder}/properties"
    gfx = values.get("gfx_target_version", 0) or _gfx_of_device(device_id)
    n_xccs = values.get("num_xcc", 0)
    mode, mode_place, memory_place = _mode(root, address, gfx, n_xccs)
    product = product_of(device_id)
    unique = values.get("unique_id")
    numa, numa_place = _numa(root, address)
    known = first is not None and values.get("gfx_target_version", 0) != 0
    return Oam(
        address=address,
        product=product.name if product else None,
        arch=arch_text(gfx),
        device_id=device_id,
        cu_count=(first.n_cus or None) if first else None,
        mode=mode,
        n_gpus=len(nodes),
        n_expected=product.n_xcds // n_xccs if product and product.n_xcds and n_xccs else None,
        numa_node=numa,
        identity=f"{unique:016x}" if unique else None,
        contradiction=_contradiction(mode, len(nodes), n_xccs),
        sources=(
            ("device_id", device_place),
            ("product", _TABLE),
            ("arch", f"/{first.folder}/properties" if first and known else _TABLE),
            ("compute", mode_place),
            ("memory", memory_place),
            ("numa_node", numa_place),
        ),
    )


def _mode(root: Root, address: str, gfx: int, n_xccs: int) -> tuple[Mode | None, str, str]:
    text, place = pci.attribute(root, address, "current_compute_partition")
    memory_text, memory_place = pci.attribute(root, address, "current_memory_partition")
    compute = pci.compute_mode(text)
    memory = pci.memory_mode(memory_text)
    if compute is None and gfx in _PARTITIONED and n_xccs == 1:
        # An old driver has no such file. One die per node can only be CPX; anything else depends
        # on how many dies the product has, and is left unknown.
        return Mode(compute="CPX", memory=memory), "one XCC per KFD node", memory_place
    if compute is None and (gfx in _PARTITIONED or gfx == 0):
        return None, place, memory_place
    if compute is None or compute == "NONE":
        reason = "the arch has no partitions" if compute is None else place
        return Mode(compute=None, memory=None), reason, reason
    return Mode(compute=compute, memory=memory), place, memory_place


def _contradiction(mode: Mode | None, n_nodes: int, n_xccs: int) -> str | None:
    compute = mode.compute if mode else None
    if compute == "SPX" and n_nodes > 1:
        return f"the driver says SPX, KFD lists {n_nodes} devices on it"
    if compute == "CPX" and n_xccs > 1:
        return f"the driver says CPX, KFD lists a device of {n_xccs} XCCs"
    return None


def _numa(root: Root, address: str) -> tuple[int | None, str]:
    path = f"{pci.DEVICES}/{address}.0/numa_node"
    node = root.number(path)
    return (node if node is not None and node >= 0 else None), f"/{path}"


def _gpu(root: Root, index: int, node: Node, oam: Oam) -> Gpu:
    place = f"/{node.folder}/properties"
    n_xccs = node.values.get("num_xcc")
    device_id = node.values.get("device_id") or oam.device_id
    product = product_of(device_id)
    xcds = dies_of(device_id, node.partition, n_xccs)
    minor = node.values.get("drm_render_minor") or None
    unique = node.values.get("unique_id")
    derived = "partition id and num_xcc, XCDs in order"
    return Gpu(
        index=index,
        node=node.number,
        oam=node.oam,
        partition=node.partition,
        product=product.name if product else None,
        arch=arch_text(node.values.get("gfx_target_version", 0)) or oam.arch,
        device_id=device_id,
        cu_count=node.n_cus or None,
        n_xccs=n_xccs,
        xcds=xcds,
        iods=io_dies_of(device_id, xcds),
        identity=f"{unique:016x}" if unique else None,
        numa_node=oam.numa_node,
        render_minor=minor,
        can_open=_can_open(root, minor),
        mec_firmware=node.values.get("fw_version"),
        sources=(
            ("cu_count", place),
            ("partition", place),
            ("render_minor", place),
            ("xcds", derived),
            ("iods", derived),
        ),
    )


def _can_open(root: Root, minor: int | None) -> bool | None:
    if minor is None or not root.at("dev").is_dir():
        return None
    return root.at(f"dev/dri/renderD{minor}").exists()


def _links(root: Root, topology: Topology) -> tuple[Link, ...]:
    index_of = {node.number: index for index, node in enumerate(topology.nodes)}
    return tuple(
        Link(origin=index, target=index_of[target], hops=hops_of(weight))
        for index, node in enumerate(topology.nodes)
        for target, weight in read_links(root, node)
        if target in index_of
    )


_NONE: Final = Mode(compute=None, memory=None)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Where to look and whom to ask.

    Attributes:
        root: directory under which /sys, /proc and /dev are read; programs of the machine are
            asked only where it is ``/``.
        variables: the environment, which is not read here.
        site_packages: folders whose wheels may bring amdsmi and librccl.
        programs: folders searched for launchers before PATH.
        ask_smi: stands in for amdsmi; None asks the real one.
        deep: whether to hash files and start programs; without, only sysfs is read.
    """

    root: Path = Path("/")
    variables: Mapping[str, str] = field(default_factory=dict)
    site_packages: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    ask_smi: Callable[[], Smi] | None = None
    deep: bool = True


def look(where: Look) -> System:
    """Everything that can be known without changing it; no state of a machine raises."""
    root = Root(where.root)
    seen = survey(root, with_links=where.deep)
    system = _judged(root, seen)
    rocm = software.rocm_folder(root, where.variables)
    system = _with_circumstances(root, system, rocm)
    if not where.deep:
        return system
    said = _asked(root, where, rocm, found=bool(seen.oams))
    system = with_smi(system, said)
    if not system.oams:
        system = _with_nvidia(root, where, system)
    folders = software.benchmark_folders(root, rocm, where.variables.get("PATH"))
    return replace(
        system,
        disagreements=disagreements(system),
        libraries=software.libraries(
            root, rocm, where.site_packages, where.variables.get("LD_LIBRARY_PATH")
        ),
        benchmarks=software.benchmarks(folders),
        starters=_starters(where) if root.is_live else None,
    )


def look_quickly(variables: Mapping[str, str]) -> System:
    """This machine's GPUs of either maker, without amdsmi and without hashing anything."""
    return with_nvidia(look(Look(variables=variables, deep=False)), variables)


def with_nvidia(system: System, variables: Mapping[str, str]) -> System:
    """The same machine with NVIDIA's GPUs, where a quick look at it found none of AMD's.

    Their own program is asked for their names, which takes too long for every launch.
    """
    if system.gpus or system.oams:
        return system
    where = Look(root=system.root, variables=variables)
    return _with_nvidia(Root(system.root), where, system)


def fingerprint(system: System) -> Fingerprint:
    """What must agree inside a session, as far as the machine says it."""
    return Fingerprint(
        product=system.product,
        arch=system.arch,
        cu_count=system.cu_count,
        mode=system.mode,
        hosts=(system.host,) if system.host else (),
        devices=tuple(f"{g.address} {g.identity or ''}".rstrip() for g in system.gpus),
    )


def changes(before: System, after: System) -> tuple[str, ...]:
    """What became another between two looks; results of both must not be pooled."""
    said = [
        f"{what} was {old or 'unknown'}, is {new or 'unknown'}"
        for what, old, new in (
            ("the start of the machine", before.boot_id, after.boot_id),
            ("KFD's generation", before.generation, after.generation),
            ("the driver", before.driver, after.driver),
            ("the mode", before.mode_text, after.mode_text),
        )
        if old != new
    ]
    old_oams = {oam.address: oam for oam in before.oams}
    new_oams = {oam.address: oam for oam in after.oams}
    for address in sorted(old_oams.keys() | new_oams.keys()):
        old, new = (_state(oams.get(address)) for oams in (old_oams, new_oams))
        if old != new:
            said.append(f"{address} was {old}, is {new}")
    return tuple(said)


def _state(oam: Oam | None) -> str:
    return f"{oam.mode_text} with {oam.n_gpus} devices ({oam.identity})" if oam else "not there"


def _judged(root: Root, seen: Survey) -> System:
    """The common answer for the machine, as the plugin gives it where no HIP names a GPU."""
    system = System(
        root=root.path,
        status="unknown",
        oams=seen.oams,
        gpus=seen.gpus,
        links=seen.links,
        n_hidden=seen.n_hidden,
        vendor="amd" if seen.oams else None,
    )
    n_visible = len(seen.gpus)
    live = [o for o in seen.oams if o.n_gpus or (n_visible == 0 and seen.n_hidden == 0)]
    if not live and seen.n_hidden:
        return replace(system, reason="all GPUs are hidden from this process")
    if not live and pci.can_be_listed(root):
        return replace(system, status="none", mode=_NONE)
    if not live:
        return replace(system, reason="/sys/bus/pci cannot be read")
    first = live[0]
    system = _alike(system, live)
    if len({(o.arch, o.device_id, o.mode) for o in live}) > 1:
        mixed = any(o.mode != first.mode for o in live if o.arch == first.arch)
        return replace(system, reason="the GPUs are not alike", is_mixed=mixed)
    wrong = next((o.contradiction for o in live if o.contradiction), None)
    if wrong is not None:
        return replace(system, reason=wrong, mode=None)
    return replace(system, status="known")


def _alike(system: System, live: Sequence[Oam]) -> System:
    """The system with what all its OAMs agree on."""

    def common(values: Iterable[T]) -> T | None:
        found = set(values)
        return found.pop() if len(found) == 1 else None

    return replace(
        system,
        product=common(oam.product for oam in live),
        arch=common(oam.arch for oam in live),
        device_id=common(oam.device_id for oam in live),
        cu_count=common(oam.cu_count for oam in live),
        mode=common(oam.mode for oam in live),
    )


def _with_circumstances(root: Root, system: System, rocm: Path | None) -> System:
    driver = root.text("sys/module/amdgpu/version") or root.text("sys/module/amdgpu/srcversion")
    version = None
    if rocm is not None:
        text = Root(rocm).text(".info/version")
        version = text.split("-")[0] if text else None
    return replace(
        system,
        host=root.text("proc/sys/kernel/hostname"),
        boot_id=root.text("proc/sys/kernel/random/boot_id"),
        generation=root.text("sys/class/kfd/kfd/topology/generation_id"),
        driver=driver,
        kernel=root.text("proc/sys/kernel/osrelease"),
        rocm=version,
    )


def _asked(root: Root, where: Look, rocm: Path | None, *, found: bool) -> Smi:
    """Ask amdsmi, which speaks of the running machine: a captured tree is never held against it."""
    if where.ask_smi is not None:
        return where.ask_smi()
    if not root.is_live:
        return Smi(status="not asked", detail="it speaks of the running machine alone")
    folder = smi.bindings(rocm, where.site_packages)
    if folder is None:
        return Smi(status="not installed")
    if not found and not root.at("dev/kfd").exists():
        return Smi(status="not asked", source=str(folder), detail="there is no AMD GPU")
    return smi.query(smi.runner(folder, where.variables), folder)


def _with_nvidia(root: Root, where: Look, system: System) -> System:
    program = shutil.which("nvidia-smi", path=where.variables.get("PATH")) if root.is_live else None
    gpus = nvidia_gpus(root, Path(program) if program else None)
    if not gpus:
        return system
    names = {gpu.product for gpu in gpus}
    return replace(
        system,
        status="none",
        reason=None,
        vendor="nvidia",
        gpus=gpus,
        product=names.pop() if len(names) == 1 else None,
        mode=_NONE,
        driver=root.text("sys/module/nvidia/version"),
    )


def _starters(where: Look) -> tuple[Starter, ...]:
    folders = [*map(str, where.programs), where.variables.get("PATH", "")]
    found: list[Path] = []
    for name in ("mpirun", "srun"):
        for folder in folders:
            program = shutil.which(name, path=folder)
            if program is not None and Path(program) not in found:
                found.append(Path(program))
    return software.starters(found)
