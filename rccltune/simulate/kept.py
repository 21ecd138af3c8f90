"""A node from its compiled form, as a session keeps it: enough to go on with its sweep.

What a library and a machine say of themselves is read; times and faults are the C program's alone
to read (native_plugin/sim/node_file.c) and pass through as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from rccltune.model import InputFileError, convert, reason_of
from rccltune.simulate.compiled import FIRST_LINE, LAST_LINE
from rccltune.simulate.node import LIBRARY_PATHS, SimulatedNode
from rccltune.simulate.schema import NodeHead

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


def read_kept(path: Path) -> SimulatedNode:
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
        raise _refused(path, f"it does not go from '{FIRST_LINE}' to '{LAST_LINE}'")
    head, mistakes = convert(NodeHead, _head(lines), strict=False)
    if mistakes:
        said = [f"{'.'.join(map(str, at))} {what}" for at, _, what in mistakes]
        raise _refused(path, "; ".join(said))
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


def _head(lines: list[str]) -> dict[str, Any]:
    """The records that a sweep asks, by what they are called in a node file."""
    found: dict[str, Any] = {}
    for line in lines:
        keyword, *words = line.split(" ")
        if keyword in _WORDS and keyword not in found:
            named = zip(_WORDS[keyword], words, strict=False)
            found[keyword] = {name: unquote(word) for name, word in named if name}
    if "name" in found:
        found["name"] = found["name"].get("name", "")
    # Where the I/O dies are is not known.
    if found.get("scale", {}).get("devices_per_iod") == "0":
        del found["scale"]["devices_per_iod"]
    mib = found.get("hardware", {}).get("memory_gib", "")
    if mib.isdigit():
        found["hardware"]["memory_gib"] = str(int(mib) / 1024)
    return found


def _refused(path: Path, why: str) -> InputFileError:
    return InputFileError(
        f"this is no node that was compiled: {why}",
        where=str(path),
        hint="name the .yaml file that it was made from with --simulate.",
    )
