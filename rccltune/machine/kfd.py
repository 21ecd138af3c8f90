"""KFD's topology: the devices that a job can use and their links, without root or ROCm.

``properties`` has simd_count, simd_per_cu, num_xcc, gfx_target_version (major*10000 + minor*100 +
step), device_id, domain and location_id, whose low 16 bits are bus:device.function. The partition
is the function, or bits 28 to 31 with newer drivers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rccltune.machine.sysroot import (
    MAX_PROPERTIES,
    SystemRoot,
    parse_unsigned,
    split_words,
    take_first_line,
)

NODES: Final = "sys/class/kfd/kfd/topology/nodes"
PROCESSES: Final = "sys/class/kfd/kfd/proc"
_LIMIT: Final = 0xFFFFFFFF
_WIDE: Final = ("unique_id", "hive_id")
_XGMI: Final = 11
# kfd_crat.c: 13 inside a socket, 15 for one link, and 13 + 15 + 13 from a partition of one OAM to
# a partition of another.
_INSIDE: Final = 13
_ONE_LINK: Final = 15
_BETWEEN: Final = 2 * _INSIDE + _ONE_LINK


@dataclass(frozen=True, slots=True)
class KfdNode:
    """A KFD node that is a GPU.

    Attributes:
        number: KFD's own, by which links name it.
        oam: domain:bus:device.
        values: its ``properties``.
    """

    number: int | None
    folder: str
    oam: str
    partition: int
    values: Mapping[str, int]

    @property
    def n_cus(self) -> int:
        """Compute units, 0 where the node does not say."""
        per_cu = self.values.get("simd_per_cu", 0)
        return self.values.get("simd_count", 0) // per_cu if per_cu else 0

    @property
    def identity(self) -> str | None:
        """The number of this very part, the same for all nodes of an OAM."""
        unique = self.values.get("unique_id")
        return f"{unique:016x}" if unique else None


def format_address(domain: int, slot: int) -> str:
    """``0000:05:00``."""
    return f"{domain:04x}:{slot >> 8 & 0xFF:02x}:{slot >> 3 & 0x1F:02x}"


def read_nodes(root: SystemRoot) -> tuple[list[KfdNode], int]:
    """Read all GPU nodes in KFD's order, and count those that are denied (by a device cgroup)."""
    nodes: list[KfdNode] = []
    n_hidden = 0
    for name in root.entries(NODES) or ():
        folder = f"{NODES}/{name}"
        try:
            # Zero for CPUs; a line that is no number is a GPU's, as for the plugin.
            gpu_id = take_first_line(root.content(f"{folder}/gpu_id", MAX_PROPERTIES))
            if parse_unsigned(gpu_id) == 0:
                continue
            data = root.content(f"{folder}/properties", MAX_PROPERTIES)
        except PermissionError:
            n_hidden += 1
        except OSError:
            continue
        else:
            nodes.append(_make_node(name, folder, parse_properties(data)))
    return nodes, n_hidden


def list_processes(root: SystemRoot) -> tuple[str, ...]:
    """Numbers of the processes that use AMD's GPUs."""
    return root.entries(PROCESSES) or ()


def parse_properties(data: bytes) -> dict[str, int]:
    """``name value`` lines; as for the plugin, a number of 2**32 and more is left out.

    Identities are 64 bits wide and kept.
    """
    values: dict[str, int] = {}
    for line in data.split(b"\n"):
        pair = split_words(line)
        value = parse_unsigned(pair[1]) if len(pair) == 2 else None
        name = pair[0].decode("latin-1") if pair else ""
        if value is not None and (value <= _LIMIT or name in _WIDE):
            values[name] = value
    return values


def read_links(root: SystemRoot, node: KfdNode) -> list[tuple[int, int]]:
    """(KFD node, weight) of each XGMI link that leaves a node."""
    links = []
    folder = f"{node.folder}/io_links"
    for name in root.entries(folder) or ():
        values = parse_properties(root.read(f"{folder}/{name}/properties", MAX_PROPERTIES) or b"")
        if values.get("type") == _XGMI and "node_to" in values and "weight" in values:
            links.append((values["node_to"], values["weight"]))
    return links


def count_hops(weight: int) -> int | None:
    """Links between OAMs that a weight stands for; None for a weight of another kind."""
    if weight == _INSIDE:
        return 0
    if weight == _BETWEEN:
        return 1
    return weight // _ONE_LINK if weight > 0 and weight % _ONE_LINK == 0 else None


def _make_node(name: str, folder: str, values: Mapping[str, int]) -> KfdNode:
    location = values.get("location_id", 0)
    return KfdNode(
        number=int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else None,
        folder=folder,
        oam=format_address(values.get("domain", 0), location & 0xFFF8),
        partition=(location >> 28 & 0xF) or location & 7,
        values={"num_xcc": 1} | dict(values),
    )
