"""From KFD and PCI sysfs to OAMs and devices, reasoning as the plugin's ``partition.c``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.detect import pci
from rccltune.detect.files import Root, hexadecimal
from rccltune.detect.kfd import Node, Topology, hops_of, read_links, read_topology
from rccltune.detect.products import dies_of, io_dies_of, product_of
from rccltune.detect.records import Gpu, Link, Oam
from rccltune.model import Mode

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
        Link(origin=index, target=index_of[target], hops=hops_of(weight), weight=weight)
        for index, node in enumerate(topology.nodes)
        for target, weight in read_links(root, node)
        if target in index_of
    )
