"""A machine made again of what rccltune gather wrote about it: machine/gathered-system.txt.

    python tests/machine/gathered.py FILE DIR && rccltune detect --root DIR

A test case is such a file in ``tests/machine/gathered`` with ``expect`` lines added by hand, in the
words of the made-up machines' descriptions (``tests/plugin/machines.py``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FORMAT: Final = "# rccltune gathered system, format 1"
# Reading it is denied to everybody, root included, as KFD's files outside the device cgroup are.
_DENIED: Final = Path("/proc/sys/vm/compact_memory")
_FILES: Final = ("file", "excerpt")
_KINDS: Final = (*_FILES, "link", "folder", "denied", "unreadable", "told", "variable", "fact")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A machine that was gathered.

    Attributes:
        root: where its files were written.
        variables: those of its environment that matter.
        facts: what only the process knew: home, cores, nofile, memlock.
        told: what programs printed, by their command line.
        expected: what a detector must say of it, one for each ``expect`` line.
    """

    root: Path
    variables: Mapping[str, str]
    facts: Mapping[str, str]
    told: Mapping[str, str]
    expected: tuple[Mapping[str, str], ...]


def unpack(text: str, root: Path) -> Gathered:
    """Write the files below ``root``.

    Raises:
        ValueError: the text is of another format, has an unknown kind, or names a place outside.
    """
    lines = text.split("\n")
    if lines[0] != FORMAT:
        raise ValueError(f"no gathered system: the first line is {lines[0]!r}, not {FORMAT!r}")
    said: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
    expected = []
    for kind, name, content in _blocks(lines[1:]):
        if kind == "expect":
            expected.append(dict(word.split("=", 1) for word in name.split()))
        elif kind not in said:
            raise ValueError(f"no kind of block: {kind!r}, before {name!r}")
        else:
            said[kind][name] = content
    for kind in _KINDS[:6]:
        for name, content in said[kind].items():
            _write(root, kind, name, content)
    plain = {k: {n: c.rstrip("\n") for n, c in said[k].items()} for k in _KINDS[6:]}
    return Gathered(
        root=root,
        variables=plain["variable"],
        facts=plain["fact"],
        told=plain["told"],
        expected=tuple(expected),
    )


def _blocks(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """(kind, name, content) of each; a backslash alone says that the last line has no end."""
    kind, name, content = "", "", ""
    for line in lines:
        if line.startswith("\t"):
            content += line[1:] + "\n"
        elif line == "\\":
            content = content.removesuffix("\n")
        elif line and not line.startswith("#"):
            if kind:
                yield kind, name, content
            (kind, _, name), content = line.partition(" "), ""
    if kind:
        yield kind, name, content


def _write(root: Path, kind: str, name: str, content: str) -> None:
    path = _inside(root, name)
    if kind == "folder":
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind in _FILES:
        path.write_bytes(content.encode("latin-1"))
    elif kind == "link":
        _inside(root, os.path.normpath(Path(name).parent / content.rstrip("\n")))
        path.symlink_to(content.rstrip("\n"))
    elif kind == "denied":
        path.symlink_to(_DENIED)
    else:
        # Opening a folder works and reading it fails, as with a file of a driver that is stuck.
        path.mkdir()


def _inside(root: Path, name: str) -> Path:
    """A file of somebody else's names places below the root alone."""
    if name.startswith("/") or ".." in Path(name).parts:
        raise ValueError(f"a place outside of the machine: {name!r}")
    return root / name


if __name__ == "__main__":
    unpack(Path(sys.argv[1]).read_text(encoding="utf-8"), Path(sys.argv[2]))
