"""Detection of the machine: every source is read once, into one record.

/sys/class/kfd (kfd), /sys/bus/pci (pci) ─────► Oam, Gpu, XgmiLink ──┐
nvidia-smi, /proc, /sys/bus/pci (nvidia) ─────► Gpu ─────────────────┤
amdsmi in a child process (smi) ──────────────► what is left unknown ┼─► System ─► detect, doctor,
libraries, benchmarks, launchers (installed_software) ───────────────┘   modes, placements, sweeps
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from rccltune.machine import installed_software, nvidia, pci, smi
from rccltune.machine.kfd import KfdNode, count_hops, read_links, read_nodes
from rccltune.machine.products import find_product, list_iods, list_xcds
from rccltune.machine.sysroot import SystemRoot, parse_hexadecimal
from rccltune.machine.system import Gpu, Oam, Smi, System, XgmiLink
from rccltune.model.measurement import Fingerprint
from rccltune.model.settings import Mode

# gfx940 to gfx950: the parts whose compute dies can be partitioned.
_PARTITIONED: Final = range(90400, 90600)
_TABLE: Final = "PCI device id"
_NONE: Final = Mode(compute=None, memory=None)
_LIVE: Final = Path("/")
T = TypeVar("T")


def detect_system(
    root: Path = _LIVE,
    variables: Mapping[str, str] | None = None,
    *,
    deep: bool = True,
    site_packages: Sequence[Path] = (),
    ask_smi: Callable[[], Smi] | None = None,
) -> System:
    """Everything that can be known without changing it; no state of a machine raises.

    Args:
        root: directory under which /sys, /proc and /dev are read; programs of the machine are
            asked only where it is ``/``.
        variables: the environment, which is not read here.
        deep: whether to hash files and start programs; without, only sysfs is read.
        site_packages: folders whose wheels may bring amdsmi and librccl.
        ask_smi: stands in for amdsmi; None asks the real one.
    """
    below, environment = SystemRoot(root), variables or {}
    rocm = installed_software.find_rocm(below, environment)
    release = SystemRoot(rocm).text(".info/version")
    system = replace(
        _read_sysfs(below, with_links=deep),
        host=below.text("proc/sys/kernel/hostname"),
        boot_id=below.text("proc/sys/kernel/random/boot_id"),
        kfd_generation=below.text("sys/class/kfd/kfd/topology/generation_id"),
        driver=below.text("sys/module/amdgpu/version")
        or below.text("sys/module/amdgpu/srcversion"),
        kernel=below.text("proc/sys/kernel/osrelease"),
        rocm=release.split("-")[0] if release else None,
    )
    if not deep:
        return system
    ask = ask_smi or (lambda: _ask_smi(below, system, environment, rocm, site_packages))
    return replace(
        add_nvidia(smi.add_amdsmi(system, ask()), environment),
        libraries=installed_software.find_libraries(below, environment, site_packages),
        benchmarks=installed_software.find_benchmarks(
            installed_software.list_benchmark_folders(below, environment)
        ),
        launchers=installed_software.find_launchers(environment) if below.is_live else None,
    )


def add_nvidia(system: System, variables: Mapping[str, str]) -> System:
    """Add NVIDIA's GPUs, where none of AMD's was found.

    Their own program is asked for their names, which takes too long for every launch.
    """
    if system.gpus or system.oams:
        return system
    root = SystemRoot(system.root)
    gpus = nvidia.find_gpus(root, variables)
    if not gpus:
        return system
    return replace(
        system,
        status="none",
        reason=None,
        vendor="nvidia",
        gpus=gpus,
        product=_find_common(gpu.product for gpu in gpus),
        mode=_NONE,
        driver=root.text("sys/module/nvidia/version"),
    )


def make_fingerprint(system: System) -> Fingerprint:
    """Fingerprint that must agree inside a session, as far as the machine says it."""
    return Fingerprint(
        product=system.product,
        # NVIDIA's library has other limits than RCCL, whatever its GPUs are called.
        arch=system.arch or ("nvidia" if system.vendor == "nvidia" else None),
        cu_count=system.cu_count,
        mode=system.mode,
        hosts=(system.host,) if system.host else (),
        devices=tuple(f"{g.address} {g.identity or ''}".rstrip() for g in system.gpus),
    )


def compare_systems(before: System, after: System) -> tuple[str, ...]:
    """Changes of the machine between two detections; results of both must not be pooled."""
    olds, news = _list_state(before), _list_state(after)
    return tuple(
        f"{what} was {olds.get(what) or 'unknown'}, is {news.get(what) or 'unknown'}"
        for what in sorted(olds.keys() | news.keys())
        if olds.get(what) != news.get(what)
    )


def _list_state(system: System) -> dict[str, str | None]:
    """What must stay as it is, by name."""
    return {
        "the start of the machine": system.boot_id,
        "KFD's generation": system.kfd_generation,
        "the driver": system.driver,
        "the mode": system.mode_text,
        **{
            oam.address: f"{oam.mode_text} with {oam.n_gpus} devices ({oam.identity})"
            for oam in system.oams
        },
    }


def _read_sysfs(root: SystemRoot, *, with_links: bool) -> System:
    """Read the system from sysfs, before anybody else is asked."""
    nodes, n_hidden = read_nodes(root)
    nodes_of: dict[str, list[KfdNode]] = {}
    for node in nodes:
        nodes_of.setdefault(node.oam, []).append(node)
    for address in pci.list_driven_devices(root):
        nodes_of.setdefault(address, [])
    oams = {address: _read_oam(root, address, there) for address, there in nodes_of.items()}
    system = System(
        root=root.path,
        status="unknown",
        vendor="amd" if oams else None,
        oams=tuple(oams.values()),
        gpus=tuple(
            _read_gpu(root, index, node, oams[node.oam]) for index, node in enumerate(nodes)
        ),
        links=_read_links(root, nodes) if with_links else (),
        n_hidden=n_hidden,
    )
    return _add_common_mode(root, system)


def _add_common_mode(root: SystemRoot, system: System) -> System:
    """The common answer for the machine, as the plugin gives it where no HIP names a GPU."""
    live = system.live_oams
    if not live and system.n_hidden:
        return replace(system, reason="all GPUs are hidden from this process")
    # Only where there is a PCI bus to look at "no GPU" is an answer.
    if not live and root.entries(pci.DEVICES) is not None:
        return replace(system, status="none", mode=_NONE)
    if not live:
        return replace(system, reason="/sys/bus/pci cannot be read")
    system = replace(
        system,
        product=_find_common(oam.product for oam in live),
        arch=_find_common(oam.arch for oam in live),
        device_id=_find_common(oam.device_id for oam in live),
        cu_count=_find_common(oam.cu_count for oam in live),
        mode=_find_common(oam.mode for oam in live),
    )
    if len({(oam.arch, oam.device_id, oam.mode) for oam in live}) > 1:
        return replace(system, reason="the GPUs are not alike")
    wrong = next((oam.contradiction for oam in live if oam.contradiction), None)
    if wrong is not None:
        return replace(system, reason=wrong, mode=None)
    return replace(system, status="known")


def _find_common(values: Iterable[T]) -> T | None:
    """Return the value that all are, None where they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _format_arch(gfx: int) -> str | None:
    """``gfx90a`` of 90010: the step is one hexadecimal digit."""
    return f"gfx{gfx // 10000}{gfx // 100 % 100}{gfx % 100:x}" if gfx else None


def _guess_gfx(device_id: int | None) -> int:
    """Stands in for the arch where KFD cannot be read; ranges as in the plugin."""
    family = (device_id or 0) & ~0x1F
    return {0x74A0: 90402, 0x75A0: 90500}.get(family, 0)


def _read_oam(root: SystemRoot, address: str, nodes: Sequence[KfdNode]) -> Oam:
    first = nodes[0] if nodes else None
    values = first.values if first else {}
    node_place = f"/{first.folder}/properties" if first else _TABLE
    text, device_place = pci.read_attribute(root, address, "device")
    device_id = values.get("device_id") or None
    if device_id is not None:
        device_place = node_place
    elif 0 < (number := parse_hexadecimal(text) or 0) <= 0xFFFFFFFF:
        device_id = number
    gfx = values.get("gfx_target_version", 0)
    arch_place = node_place if gfx else _TABLE
    gfx = gfx or _guess_gfx(device_id)
    n_xccs = values.get("num_xcc", 0)
    mode, mode_place, memory_place = _read_mode(root, address, gfx, n_xccs)
    product = find_product(device_id)
    numa_place = f"{pci.DEVICES}/{address}.0/numa_node"
    return Oam(
        address=address,
        product=product.name if product else None,
        arch=_format_arch(gfx),
        device_id=device_id,
        cu_count=(first.n_cus or None) if first else None,
        mode=mode,
        n_gpus=len(nodes),
        n_expected=product.n_xcds // n_xccs if product and product.n_xcds and n_xccs else None,
        numa_node=root.number(numa_place),
        identity=first.identity if first else None,
        contradiction=_find_contradiction(mode, len(nodes), n_xccs),
        sources={
            "device_id": device_place,
            "product": _TABLE,
            "arch": arch_place,
            "compute": mode_place,
            "memory": memory_place,
            "numa_node": f"/{numa_place}",
            "iods": "partition id and num_xcc, XCDs in order",
        },
    )


def _read_mode(
    root: SystemRoot, address: str, gfx: int, n_xccs: int
) -> tuple[Mode | None, str, str]:
    """Find the partition mode of a GPU from its driver's files.

    Returns:
        The mode, None where it is not known; where the compute mode was found; where the memory
        mode was.
    """
    text, place = pci.read_attribute(root, address, "current_compute_partition")
    memory_text, memory_place = pci.read_attribute(root, address, "current_memory_partition")
    compute = pci.parse_compute_mode(text)
    memory = pci.parse_memory_mode(memory_text)
    if compute is None and gfx in _PARTITIONED and n_xccs == 1:
        # An old driver has no such file. One die per node can only be CPX; anything else depends
        # on how many dies the product has, and is left unknown.
        return Mode(compute="CPX", memory=memory), "one XCC per KFD node", memory_place
    if compute is None and (gfx in _PARTITIONED or gfx == 0):
        return None, place, memory_place
    if compute is None or compute == "NONE":
        reason = "the arch has no partitions" if compute is None else place
        return _NONE, reason, reason
    return Mode(compute=compute, memory=memory), place, memory_place


def _find_contradiction(mode: Mode | None, n_nodes: int, n_xccs: int) -> str | None:
    compute = mode.compute if mode else None
    if compute == "SPX" and n_nodes > 1:
        return f"the driver says SPX, KFD lists {n_nodes} devices on it"
    if compute == "CPX" and n_xccs > 1:
        return f"the driver says CPX, KFD lists a device of {n_xccs} XCCs"
    return None


def _read_gpu(root: SystemRoot, index: int, node: KfdNode, oam: Oam) -> Gpu:
    device_id = node.values.get("device_id") or oam.device_id
    product = find_product(device_id)
    xcds = list_xcds(device_id, node.partition, node.values.get("num_xcc"))
    minor = node.values.get("drm_render_minor") or None
    sees_dev = minor is not None and root.at("dev").is_dir()
    return Gpu(
        index=index,
        oam=node.oam,
        partition=node.partition,
        product=product.name if product else None,
        arch=_format_arch(node.values.get("gfx_target_version", 0)) or oam.arch,
        cu_count=node.n_cus or None,
        xcds=xcds,
        iods=list_iods(device_id, xcds),
        identity=node.identity,
        render_minor=minor,
        can_open=root.at(f"dev/dri/renderD{minor}").exists() if sees_dev else None,
        mec_firmware=node.values.get("fw_version"),
        source=f"/{node.folder}/properties",
    )


def _read_links(root: SystemRoot, nodes: Sequence[KfdNode]) -> tuple[XgmiLink, ...]:
    index_of = {node.number: index for index, node in enumerate(nodes)}
    return tuple(
        XgmiLink(origin=index, target=index_of[target], hops=count_hops(weight))
        for index, node in enumerate(nodes)
        for target, weight in read_links(root, node)
        if target in index_of
    )


def _ask_smi(
    root: SystemRoot,
    system: System,
    variables: Mapping[str, str],
    rocm: Path,
    site_packages: Sequence[Path],
) -> Smi:
    """Ask amdsmi, which speaks of the running machine: a captured tree is never held against it."""
    if not root.is_live:
        return Smi(detail="it speaks of the running machine alone")
    folder = smi.find_bindings(rocm, site_packages)
    if folder is None:
        return Smi(status="not installed")
    if not system.oams and not root.at("dev/kfd").exists():
        return Smi(source=str(folder), detail="there is no AMD GPU")
    return smi.query_devices(smi.make_runner(folder, variables), folder)
