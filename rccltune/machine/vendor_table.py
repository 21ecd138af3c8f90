"""The table of rules that a release of RCCL brings: a file beside the library, or inside it."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.machine.files import SystemRoot, mapped
from rccltune.machine.software import library_files, rocm_folder
from rccltune.model.errors import reason_of

_SHARE: Final = "share/rccl/tuner"
_NAME: Final = (b"\0rccl_tuner", re.compile(rb"\0(rccl_tuner(?:_gfx[0-9a-f]+)?\.csv)(?=\0)"))
# Every collective's name ends in one of these; what stands before it is the row's too.
_ROWS: Final = tuple(
    (word, re.compile(word + rb"\d+,\d+,[a-z_]+,[a-z0-9]+(?:,-?\d+){3}"))
    for word in (b"broadcast,", b"reduce,", b"allgather,", b"reducescatter,")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorTables:
    """A release's own table, and every place that was looked at.

    Attributes:
        place: where it was found, for people; None where none was.
        content: its text.
        looked: places in RCCL's order, to the one found.
    """

    place: str | None
    content: bytes
    looked: tuple[str, ...]


def vendor_table(root: SystemRoot, variables: Mapping[str, str], arch: str | None) -> VendorTables:
    """Look where RCCL 2.28.3 and later do: beside the library, below share, then inside it.

    The order is that of csv_tuner.cc and tuner/README.md of rocm-systems at 22af4d53, where what
    ships is compiled into the library and files on disk go before it.

    Args:
        root: where the machine's files are.
        variables: LD_LIBRARY_PATH and ROCM_PATH.
        arch: ``gfx950``; None looks for the table that is for any.
    """
    looked = []
    libraries = _libraries(root, variables)
    names = [f"rccl_tuner_{arch}.csv"] if arch else []
    names.append("rccl_tuner.csv")
    for folder in dict.fromkeys(_folders(root, variables, libraries)):
        for name in names:
            looked.append(str(folder / name))
            if (folder / name).is_file():
                content = (folder / name).read_bytes()
                return VendorTables(place=looked[-1], content=content, looked=tuple(looked))
    for library in libraries:
        tables, searched = _compiled_in(library, names)
        looked.append(f"{library} ({searched})")
        if tables is not None:
            return VendorTables(
                place=f"{library}: {searched}", content=tables, looked=tuple(looked)
            )
    return VendorTables(place=None, content=b"", looked=tuple(looked))


def _libraries(root: SystemRoot, variables: Mapping[str, str]) -> list[Path]:
    """RCCL's files that a job could load, in the loader's order."""
    rocm = rocm_folder(root, variables)
    found = library_files(root, rocm, (), variables.get("LD_LIBRARY_PATH"))
    return list(dict.fromkeys(path.resolve() for _, path in found if "rccl" in path.name))


def _folders(
    root: SystemRoot, variables: Mapping[str, str], libraries: Sequence[Path]
) -> Iterator[Path]:
    for library in libraries:
        yield from (library.parent / "tuner", library.parent.parent / _SHARE)
    yield (rocm_folder(root, variables) or root.at("opt/rocm")) / _SHARE


def _found(
    content: bytes | mmap.mmap, word: bytes, pattern: re.Pattern[bytes]
) -> Iterator[re.Match[bytes]]:
    """Matches of a pattern that begins with a word, which is found fast in a gigabyte."""
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
