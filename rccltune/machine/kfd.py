"""KFD's topology, without root and without ROCm; and files that set variables unseen.

``properties`` has simd_count, simd_per_cu, num_xcc, gfx_target_version (major*10000 + minor*100 +
step), device_id, domain and location_id, whose low 16 bits are bus:device.function. The partition
is the function, or bits 28 to 31 with newer drivers.

AMD's Instinct parts by PCI device id: the arch alone does not tell them apart.

Names are those of AMD's own SR-IOV host driver (amd/MxGPU-Virtualization,
``amdgv_marketing_name.c``), which has no entry for 0x74a0 and 0x74b9: MI300A is in a published
capture, the MI325X function follows the pattern of the others. Dies: MI300X and MI325X have eight
XCDs on four I/O dies, MI300A six on three of its four, MI350 eight on two. An MI308X has four
XCDs; how they lie on its I/O dies is not published, so that is left unknown.

NCCL and RCCL read NAME=VALUE lines of a user's and of every user's file at start and put them into
the environment where it does not have them already (``setEnvFile`` in ``src/misc/param.cc``). So
clearing a variable makes room for the file's. Where NCCL_CONF_FILE is set, newer releases leave
the home's file out and older ones do not know the variable: both are listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.machine.files import MAX_PROPERTIES, Content, Reading, Root, unsigned, words

NODES: Final = "sys/class/kfd/kfd/topology/nodes"
_LIMIT: Final = 0xFFFFFFFF
_WIDE: Final = ("unique_id", "hive_id")
_XGMI: Final = 11
# kfd_crat.c: 13 inside a socket, 15 for one link, and 13 + 15 + 13 from a partition of one OAM to
# a partition of another.
_INSIDE: Final = 13
_ONE_LINK: Final = 15
_BETWEEN: Final = 2 * _INSIDE + _ONE_LINK


@dataclass(frozen=True, slots=True)
class Node:
    """A KFD node that is a GPU.

    Attributes:
        slot: bus and device, function cleared.
    """

    number: int | None
    folder: str
    domain: int
    slot: int
    partition: int
    values: Mapping[str, int]

    @property
    def oam(self) -> str:
        """domain:bus:device."""
        return address_text(self.domain, self.slot)

    @property
    def n_cus(self) -> int:
        """Compute units, 0 where the node does not say."""
        per_cu = self.values.get("simd_per_cu", 0)
        return self.values.get("simd_count", 0) // per_cu if per_cu else 0


@dataclass(frozen=True, slots=True)
class Topology:
    """All GPU nodes, in KFD's order, and how many more were denied."""

    nodes: tuple[Node, ...]
    n_hidden: int


def address_text(domain: int, slot: int) -> str:
    """``0000:05:00``."""
    return f"{domain:04x}:{slot >> 8 & 0xFF:02x}:{slot >> 3 & 0x1F:02x}"


def read_topology(root: Root) -> Topology:
    """Read every node; one that is denied (by a container's device cgroup) counts as hidden."""
    nodes: list[Node] = []
    n_hidden = 0
    for name in root.entries(NODES) or ():
        folder = f"{NODES}/{name}"
        content = root.read(f"{folder}/gpu_id", MAX_PROPERTIES)
        if content.reading is Reading.OK and _is_cpu(content):
            continue
        if content.reading is Reading.OK:
            content = root.read(f"{folder}/properties", MAX_PROPERTIES)
        if content.reading is Reading.OK:
            nodes.append(_node(name, folder, properties(content.data)))
        elif content.reading is Reading.DENIED:
            n_hidden += 1
    return Topology(tuple(nodes), n_hidden)


def properties(data: bytes) -> dict[str, int]:
    """``name value`` lines; as for the plugin, a number of 2**32 and more is left out.

    Identities are 64 bits wide and kept.
    """
    found: dict[str, int] = {}
    for line in data.split(b"\n"):
        pair = words(line)
        value = unsigned(pair[1]) if len(pair) == 2 else None
        name = pair[0].decode("latin-1") if pair else ""
        if value is not None and (value <= _LIMIT or name in _WIDE):
            found[name] = value
    return found


def read_links(root: Root, node: Node) -> list[tuple[int, int]]:
    """(KFD node, weight) of each XGMI link that leaves a node."""
    links = []
    folder = f"{node.folder}/io_links"
    for name in root.entries(folder) or ():
        values = properties(root.read(f"{folder}/{name}/properties", MAX_PROPERTIES).data)
        if values.get("type") == _XGMI and "node_to" in values and "weight" in values:
            links.append((values["node_to"], values["weight"]))
    return links


def hops_of(weight: int) -> int | None:
    """Links between OAMs that a weight stands for; None for a weight of another kind."""
    if weight == _INSIDE:
        return 0
    if weight == _BETWEEN:
        return 1
    return weight // _ONE_LINK if weight > 0 and weight % _ONE_LINK == 0 else None


def _is_cpu(content: Content) -> bool:
    line = content.first_line
    return line is not None and unsigned(line) == 0


def _node(name: str, folder: str, values: Mapping[str, int]) -> Node:
    location = values.get("location_id", 0)
    return Node(
        number=int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else None,
        folder=folder,
        domain=values.get("domain", 0),
        slot=location & 0xFFF8,
        partition=(location >> 28 & 0xF) or location & 7,
        values={"num_xcc": 1} | dict(values),
    )


@dataclass(frozen=True, slots=True)
class Product:
    """One part.

    Attributes:
        per_iod: XCDs on one I/O die, None where unknown.
        is_virtual: a virtual function in an SR-IOV guest.
    """

    name: str
    n_xcds: int | None
    per_iod: int | None
    is_virtual: bool = False


PRODUCTS: Final = {
    0x7408: Product("MI250X", None, None),
    0x740C: Product("MI250X/MI250", None, None),
    0x740F: Product("MI210", None, None),
    0x74A0: Product("MI300A", 6, 2),
    0x74A1: Product("MI300X", 8, 2),
    0x74A2: Product("MI308X", 4, None),
    0x74A5: Product("MI325X", 8, 2),
    0x74A8: Product("MI308X", 4, None),
    0x74A9: Product("MI300X HF", 8, 2),
    0x74B5: Product("MI300X VF", 8, 2, is_virtual=True),
    0x74B6: Product("MI308X VF", 4, None, is_virtual=True),
    0x74B9: Product("MI325X VF", 8, 2, is_virtual=True),
    0x74BC: Product("MI308X VF", 4, None, is_virtual=True),
    0x74BD: Product("MI300X HF VF", 8, 2, is_virtual=True),
    0x75A0: Product("MI350X", 8, 4),
    0x75A3: Product("MI355X", 8, 4),
    0x75B0: Product("MI350X VF", 8, 4, is_virtual=True),
    0x75B3: Product("MI355X VF", 8, 4, is_virtual=True),
}


def product_of(device_id: int | None) -> Product | None:
    """The part with a PCI device id, None for one that is not in the table."""
    return PRODUCTS.get(device_id) if device_id is not None else None


def dies_of(device_id: int | None, partition: int, n_xccs: int | None) -> tuple[int, ...]:
    """XCDs of a partition, numbered within its OAM: partitions take them in order."""
    product = product_of(device_id)
    if product is None or product.n_xcds is None or not n_xccs:
        return ()
    first = partition * n_xccs
    dies = tuple(range(first, min(first + n_xccs, product.n_xcds)))
    return dies if len(dies) == n_xccs else ()


def io_dies_of(device_id: int | None, xcds: tuple[int, ...]) -> tuple[int, ...]:
    """I/O dies under some XCDs; empty where the layout is not known."""
    product = product_of(device_id)
    if product is None or product.per_iod is None:
        return ()
    return tuple(sorted({xcd // product.per_iod for xcd in xcds}))


_LINE: Final = re.compile(rb"\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*")
_MOST: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenFile:
    """One such file that is there.

    Attributes:
        whose: why the library reads it.
        pairs: (name, value) in the file's order, each name once with its last value.
    """

    path: Path
    whose: str
    pairs: tuple[tuple[str, str], ...]

    def fills(self, variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """What of it takes effect in an environment."""
        return tuple((name, value) for name, value in self.pairs if name not in variables)


def hidden_files(
    root: Root, variables: Mapping[str, str], home: Path | None, *, amd: bool
) -> tuple[HiddenFile, ...]:
    """The files that a library would read here, in the order in which it does.

    Args:
        root: where files are looked for.
        variables: the environment, for ``NCCL_CONF_FILE``.
        home: the user's home as passwd says, which is where the library looks, whatever HOME is.
        amd: RCCL's names instead of NCCL's.
    """
    stems = (".rccl.conf", "rccl.conf") if amd else (".nccl.conf", "nccl.conf")
    places: list[tuple[str, Path]] = []
    if home is not None:
        places.append(("the home that passwd names", root.at(str(home)) / stems[0]))
    places.append(("every user's", root.at(f"etc/{stems[1]}")))
    named = variables.get("NCCL_CONF_FILE")
    if named:
        places.append(("NCCL_CONF_FILE", root.at(named)))
    found = []
    for whose, path in places:
        pairs = _pairs(path)
        if pairs is not None:
            found.append(HiddenFile(path=path, whose=whose, pairs=tuple(pairs.items())))
    return tuple(found)


def _pairs(path: Path) -> dict[str, str] | None:
    try:
        with path.open("rb") as stream:
            content = stream.read(_MOST)
    except OSError:
        return None
    found = (_LINE.fullmatch(line.split(b"#", 1)[0]) for line in content.split(b"\n"))
    return {m[1].decode(): m[2].decode("utf-8", "replace") for m in found if m is not None}
