"""A node from its compiled form: what a session keeps is enough to go on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.model.errors import InputFileError
from rccltune.simulate import compiled, sources
from rccltune.simulate.node import SimulatedNode

ASKED = ("product", "arch", "mode", "compute_units", "memory_gib")


def kept(name: str, folder: Path) -> tuple[SimulatedNode, SimulatedNode]:
    """A shipped node, and the same from its compiled form."""
    node = sources.load_node(sources.node_path(name))
    path = folder / "node.node"
    path.write_bytes(compiled.compile_node(node))
    return node, sources.load_node(sources.node_path(str(path)))


@pytest.mark.parametrize("name", sources.shipped_nodes())
def test_it_says_of_the_node_what_its_file_says(name: str, tmp_path: Path) -> None:
    """Its hardware, its scale, its library; and the bytes go on as they are."""
    node, again = kept(name, tmp_path)

    def head(one: SimulatedNode) -> tuple[object, ...]:
        scale = (one.ranks, one.nodes, one.devices_per_oam, one.devices_per_iod)
        hardware = [one.raw["hardware"][key] for key in ASKED]
        release = [one.raw["release"][key] for key in ("rccl", "benchmark")]
        start = one.raw.get("start", {}).get("startup_s", 0)
        xgmi = one.raw["library"].get("all_xgmi", True)
        return one.name, one.library, scale, hardware, release, one.channels, xgmi, start

    assert head(again) == head(node)
    assert compiled.compile_node(again) == compiled.compile_node(node)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rccltune-node 3", "rccltune-node 2", "does not go from"),
        ("\nend\n", "\n", "does not go from"),
        ("\nscale ", "\nscales ", "scale"),
        ("hardware AMD", "hardware %1b[2J", "hardware.product"),
        (" cpx-nps4 ", " /etc/passwd ", "hardware.mode"),
        ("scale 64 ", "scale 64000 ", "scale.ranks"),
        ("scale 64 ", "scale nan ", "scale.ranks"),
        ("name mi300x", "name \u00fc", "Cannot read"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    """It may come with somebody else's session."""
    kept("mi300x-cpx-nps4", tmp_path)
    path = tmp_path / "node.node"
    text = path.read_text(encoding="ascii")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputFileError, match=said):
        sources.load_node(path)
