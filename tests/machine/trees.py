"""The plugin's made-up machines with what they leave out: links, render nodes, firmware, files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from machines import DESCRIPTIONS, Machine, load

from rccltune.machine.detection import detect_system
from rccltune.machine.system import System

NODES = "sys/class/kfd/kfd/topology/nodes"

EIGHT = "0000:05:00,0000:15:00,0000:65:00,0000:75:00,0000:85:00,0000:95:00,0000:e5:00,0000:f5:00"
MI325X = Machine(
    "mi325x-spx-nps1",
    (
        "cpus 2",
        f"gpu at={EIGHT} device=0x74a5 gfx=90402 xccs=8 cus=304 nodes=1 compute=SPX memory=NPS1",
        "expect status=known arch=gfx942 device=0x74a5 cus=304 mode=spx-nps1 visible=8",
    ),
)
MI355X = Machine(
    "mi355x-no-kfd",
    (
        "no-kfd",
        f"gpu at={EIGHT} device=0x75a3 gfx=90500 xccs=8 cus=256 nodes=1 compute=SPX memory=NPS1",
        "expect status=known arch=gfx950 device=0x75a3 cus=0 mode=spx-nps1 visible=0 sockets=0",
    ),
)
_MADE_HERE = {one.name: one for one in (MI325X, MI355X)}


def named(name: str) -> Machine:
    """One described machine."""
    return _MADE_HERE.get(name) or load(DESCRIPTIONS / f"{name}.machine")


def write(name: str, root: Path) -> Path:
    """Write it and return its root."""
    return named(name).write(root)


def seen(root: Path, **more: object) -> System:
    """What the room makes of a tree."""
    return detect_system(root, **more)


def put(root: Path, name: str, content: str | bytes) -> Path:
    """Write one file of the tree."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())
    return path


def add(root: Path, node: int, properties: Mapping[str, int]) -> None:
    """Append properties to a KFD node."""
    path = root / NODES / str(node) / "properties"
    path.write_text(
        path.read_text(encoding="ascii") + "".join(f"{k} {v}\n" for k, v in properties.items()),
        encoding="ascii",
    )


def add_links(root: Path) -> None:
    """Weights as in a real CPX capture: 13 inside an OAM, 41 between OAMs; PCIe to the CPU."""
    location = {}
    for folder in (root / NODES).iterdir():
        lines = (folder / "properties").read_text(encoding="ascii").splitlines()
        pairs = dict(line.split() for line in lines)
        if int(pairs.get("location_id", "0")):
            location[int(folder.name)] = int(pairs["location_id"]) & 0xFFF8
    for origin, slot in location.items():
        links = [(2, 0, 20)]
        links += [
            (11, target, 13 if other == slot else 41)
            for target, other in sorted(location.items())
            if target != origin
        ]
        for index, (kind, target, weight) in enumerate(links):
            text = f"type {kind}\nnode_from {origin}\nnode_to {target}\nweight {weight}"
            put(root, f"{NODES}/{origin}/io_links/{index}/properties", text)
