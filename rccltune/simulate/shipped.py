"""Simulated nodes: their YAML files, the form that the C program reads, and their truth.

A node file says what a node's library knows of it and how the node really behaves;
``native_plugin/sim`` plays it. This package checks such files, fills in what no publication gives,
compiles them, and computes the noise-free truth that tests and regret are judged by.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rccltune.model import CommandLineError, InputFileError
from rccltune.simulate.compiled import written
from rccltune.simulate.kept import SUFFIX, read_kept
from rccltune.simulate.modelled import filled
from rccltune.simulate.node import SimulatedNode, read_records

# Not importlib.resources: in editable installs it does not see file names that are no identifiers.
DATA: Final = Path(__file__).parents[1] / "data"


def shipped_nodes() -> tuple[str, ...]:
    """Names of the node files that come with rccltune: ``mi300x-cpx-nps4`` …."""
    return tuple(sorted(path.stem for path in (DATA / "nodes").glob("*.yaml")))


def _parted(name: str) -> tuple[str, str]:
    """``mi300x-cpx-nps4`` as product and mode."""
    product, _, mode = name.rpartition("-")
    product, _, compute = product.rpartition("-")
    return product, f"{compute}-{mode}"


def node_path(text: str, mode: str | None = None) -> Path:
    """The file meant by ``--simulate``: a path, a shipped name, or a shipped product with its mode.

    Raises:
        CommandLineError: a product has several modes, and none is named.
        InputFileError: there is no such file.
    """
    path = Path(text)
    if path.suffix in (".yaml", ".yml", SUFFIX):
        return path
    known = shipped_nodes()
    for name in (text, f"{text}-{mode}"):
        if name in known:
            return DATA / f"nodes/{name}.yaml"
    modes = [mode for name, mode in (_parted(name) for name in known) if name == text]
    if mode is None and modes:
        raise CommandLineError(
            f"which mode of {text} to simulate is not said",
            hint=f"add {' or '.join(f'--mode {one}' for one in modes)}.",
        )
    raise InputFileError(
        f"There is no simulated node '{text}'" + (f" in mode {mode}." if mode else "."),
        hint=f"Name a .yaml file or one of: {', '.join(known)}.",
    )


def load_node(path: Path) -> SimulatedNode:
    """Read, check and fill a node file, or take a compiled one as it is.

    Raises:
        InputFileError: every mistake with line and column.
    """
    if path.suffix == SUFFIX:
        return read_kept(path)
    return filled(read_records(path))


def compile_node(path: Path) -> bytes:
    """A node file as ``native_plugin/sim`` reads it.

    Raises:
        InputFileError: every mistake with line and column.
    """
    return written(load_node(path))
