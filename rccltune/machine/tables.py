"""The rows that a release of RCCL brings for its own tuner: on disk, or compiled in."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.machine.content import mapped
from rccltune.machine.files import Root
from rccltune.machine.software import rocm_folder
from rccltune.model import reason_of

_LIBRARIES: Final = ("librccl.so.1", "librccl.so")
_SHARE: Final = "share/rccl/tuner"
_NAME: Final = (b"\0rccl_tuner", re.compile(rb"\0(rccl_tuner(?:_gfx[0-9a-f]+)?\.csv)(?=\0)"))
# Every collective's name ends in one of these; what stands before it is the row's too.
_ROWS: Final = tuple(
    (word, re.compile(word + rb"\d+,\d+,[a-z_]+,[a-z0-9]+(?:,-?\d+){3}"))
    for word in (b"broadcast,", b"reduce,", b"allgather,", b"reducescatter,")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """A release's own table, and every place that was looked at.

    Attributes:
        place: where it was found, for people; None where none was.
        content: its text.
        looked: places in RCCL's order, to the one found.
    """

    place: str | None
    content: bytes
    looked: tuple[str, ...]


def vendor_table(root: Root, variables: Mapping[str, str], arch: str | None) -> Tables:
    """Look where RCCL 2.28.3 and later do: beside the library, below share, then inside it.

    The order is that of csv_tuner.cc and tuner/README.md of rocm-systems at 22af4d53, where what
    ships is compiled into the library and files on disk go before it.

    Args:
        root: where the machine's files are.
        variables: LD_LIBRARY_PATH and ROCM_PATH.
        arch: ``gfx950``; None looks for the table that is for any.
    """
    looked = []
    names = [f"rccl_tuner_{arch}.csv"] if arch else []
    names.append("rccl_tuner.csv")
    for folder in dict.fromkeys(_folders(root, variables)):
        for name in names:
            looked.append(str(folder / name))
            if (folder / name).is_file():
                content = (folder / name).read_bytes()
                return Tables(place=looked[-1], content=content, looked=tuple(looked))
    for library in dict.fromkeys(_libraries(root, variables)):
        found, said = _compiled_in(library, names)
        looked.append(f"{library} ({said})")
        if found is not None:
            return Tables(place=f"{library}: {said}", content=found, looked=tuple(looked))
    return Tables(place=None, content=b"", looked=tuple(looked))


def _libraries(root: Root, variables: Mapping[str, str]) -> Iterator[Path]:
    """Those that a job could load, in the loader's order, then ROCm's own."""
    rocm = rocm_folder(root, variables)
    named = [root.at(name) for name in variables.get("LD_LIBRARY_PATH", "").split(":") if name]
    for folder in (*named, *([rocm / "lib"] if rocm is not None else [])):
        file = next((folder / name for name in _LIBRARIES if (folder / name).is_file()), None)
        if file is not None:
            yield file.resolve()


def _folders(root: Root, variables: Mapping[str, str]) -> Iterator[Path]:
    for library in _libraries(root, variables):
        yield from (library.parent / "tuner", library.parent.parent / _SHARE)
    rocm = rocm_folder(root, variables)
    yield (rocm if rocm is not None else root.at("opt/rocm")) / _SHARE


def _found(
    content: bytes | mmap.mmap, word: bytes, pattern: re.Pattern[bytes]
) -> Iterator[re.Match[bytes]]:
    """Where a pattern that begins with a word stands; a gigabyte is searched for words fast."""
    at = content.find(word)
    while at >= 0:
        match = pattern.match(content, at)
        if match is not None:
            yield match
        at = content.find(word, at + 1)


def _compiled_in(library: Path, names: list[str]) -> tuple[bytes | None, str]:
    """The text of a table inside a library, and what was seen there in words."""
    try:
        with mapped(library) as content:
            held = {match[1].decode() for match in _found(content, *_NAME)}
            wanted = next((name for name in names if name in held), None)
            if wanted is None:
                return None, f"has none compiled in: {', '.join(sorted(held)) or 'no names'}"
            texts = set()
            for match in (one for pair in _ROWS for one in _found(content, *pair)):
                start = content.rfind(b"\0", 0, match.start()) + 1
                texts.add(content[start : content.find(b"\0", match.end())])
    except (OSError, ValueError) as error:
        return None, f"cannot be read: {reason_of(error)}"
    if len(texts) != 1 or len(held) != 1:
        # Which text belongs to which name only the library's own code knows.
        return (
            None,
            f"{len(texts)} tables compiled in under {len(held)} names, cannot be told apart",
        )
    return texts.pop(), f"compiled-in {wanted}"
