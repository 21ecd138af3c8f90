"""Sources of a node: shipped with rccltune, a user's file, or what a session keeps of it.

What a library and a machine say of themselves is read; times and faults are the C program's alone
to read (native_plugin/sim/node.c) and pass through as they are.

A node file says what a node's library knows of it and how the node really behaves;
``native_plugin/sim`` plays it. This package checks such files, fills in what no publication gives,
compiles them, and computes the noise-free truth that tests and regret are judged by.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from rccltune.model.errors import CommandLineError, InputFileError, reason_of
from rccltune.model.schema import convert
from rccltune.model.text import unknown
from rccltune.simulate.compiled import FIRST_LINE, LAST_LINE
from rccltune.simulate.modelled import fill_node
from rccltune.simulate.node import (
    LIBRARY_PATHS,
    FileText,
    SimulatedNode,
    node_file,
    read_records,
)
from rccltune.simulate.node_schema import NodeHead

SUFFIX: Final = ".node"
# The largest that comes with rccltune has 0.2 MB.
_MOST_BYTES: Final = 32 << 20
# What their words are called in a node file; those without a name are of no use here.
_WORDS: Final = {
    "name": ("name",),
    "hardware": ("product", "arch", "mode", "host", "compute_units", "memory_gib"),
    "scale": ("ranks", "nodes", "devices_per_oam", "devices_per_iod"),
    "release": ("rccl", "benchmark", "library"),
    "library": ("", "", "all_xgmi", "", "", "", "channels"),
    "start": ("startup_s", "first_use_us", "first_use_calls"),
}


def read_compiled(path: Path) -> SimulatedNode:
    """Read the head of a compiled node file; the whole of it is kept as it is.

    Raises:
        InputFileError: it cannot be read, is no such file, or its head has mistakes.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
        lines = content.decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(
            f"Cannot read the node file: {reason_of(error)}", where=str(path)
        ) from error
    if len(content) > _MOST_BYTES or lines[:1] != [FIRST_LINE] or lines[-1:] != [LAST_LINE]:
        raise _refusal(path, f"it does not go from '{FIRST_LINE}' to '{LAST_LINE}'")
    head, mistakes = convert(NodeHead, _read_head(lines), strict=False)
    if mistakes:
        sentences = [f"{'.'.join(map(str, at))} {what}" for at, _, what in mistakes]
        raise _refusal(path, "; ".join(sentences))
    raw: dict[str, Any] = dict(head)
    scale = raw["scale"]
    return SimulatedNode(
        name=raw["name"],
        library=raw["release"]["library"],
        ranks=scale["ranks"],
        nodes=scale["nodes"],
        devices_per_oam=scale["devices_per_oam"],
        devices_per_iod=scale.get("devices_per_iod", 0),
        channels=raw["library"]["channels"],
        curves=(),
        effects=(),
        variants=(),
        bypasses=(),
        faults=(),
        paths=LIBRARY_PATHS,
        raw=raw,
        compiled=content,
    )


def _read_head(lines: list[str]) -> dict[str, Any]:
    """The records that a sweep asks, by what they are called in a node file."""
    head: dict[str, Any] = {}
    for line in lines:
        keyword, *words = line.split(" ")
        if keyword in _WORDS and keyword not in head:
            pairs = zip(_WORDS[keyword], words, strict=False)
            head[keyword] = {name: unquote(word) for name, word in pairs if name}
    if "name" in head:
        head["name"] = head["name"].get("name", "")
    # Where the I/O dies are is not known.
    if head.get("scale", {}).get("devices_per_iod") == "0":
        del head["scale"]["devices_per_iod"]
    mib = head.get("hardware", {}).get("memory_gib", "")
    if mib.isdigit():
        head["hardware"]["memory_gib"] = str(int(mib) / 1024)
    return head


def _refusal(path: Path, why: str) -> InputFileError:
    return InputFileError(
        f"this is no node that was compiled: {why}",
        where=str(path),
        hint="name the .yaml file that it was made from with --simulate.",
    )


# Not importlib.resources: in editable installs it does not see file names that are no identifiers.
DATA: Final = Path(__file__).parents[1] / "data"


def shipped_nodes() -> tuple[str, ...]:
    """Names of the node files that come with rccltune: ``mi300x-cpx-nps4`` …."""
    return tuple(sorted(path.stem for path in (DATA / "nodes").glob("*.yaml")))


def _split_name(name: str) -> tuple[str, str]:
    """``mi300x-cpx-nps4`` as product and mode."""
    product, _, mode = name.rpartition("-")
    product, _, compute = product.rpartition("-")
    return product, f"{compute}-{mode}"


def node_path(text: str, mode: str | None = None) -> Path:
    """The file meant by ``--simulate``: a path, a shipped name, or a shipped product with its mode.

    Raises:
        CommandLineError: there is no such node; or a product has several modes, and none is named.
    """
    path = Path(text)
    if path.suffix in (".yaml", ".yml", SUFFIX):
        return path
    known = shipped_nodes()
    for name in (text, f"{text}-{mode}"):
        if name in known:
            return DATA / f"nodes/{name}.yaml"
    modes = [mode for name, mode in (_split_name(name) for name in known) if name == text]
    if mode is None and modes:
        raise CommandLineError(
            f"which mode of {text} to simulate is not said",
            hint=f"add {' or '.join(f'--mode {one}' for one in modes)}.",
        )
    names = dict.fromkeys((*(_split_name(name)[0] for name in known), *known))
    if text in names:
        raise CommandLineError(
            f"there is no simulated node '{text}' in mode {mode}",
            hint=f"name a .yaml file or one of: {', '.join(known)}.",
        )
    raise CommandLineError(
        unknown("simulated node", text, names), hint="name one, or a .yaml file."
    )


def load_node(path: Path) -> SimulatedNode:
    """Read, check and fill a node file, or take a compiled one as it is.

    Raises:
        InputFileError: every mistake with line and column.
    """
    if path.suffix == SUFFIX:
        return read_compiled(path)
    return _load(node_file(path))


@lru_cache(maxsize=4)
def _load(file: FileText) -> SimulatedNode:
    """One command asks for its node several times, and a program for the same one in many."""
    return fill_node(read_records(file))
