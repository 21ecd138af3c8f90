"""Opening somebody's file: bytes to lines, in bounded memory, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from rccltune.errors import OutputError

# Longer than any line that a benchmark prints; a file without line breaks must not fill memory.
MAX_LINE: Final = 64 * 1024
HEAD: Final = 64 * 1024
_TEXT_SUFFIXES: Final = frozenset((".log", ".txt", ".out", ".csv", ".json", ".dat", ".md", ".err"))
_MAGIC: Final = {
    b"\x1f\x8b": "gzip: unpack it with gunzip",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd: unpack it with unzstd",
    b"BZh": "bzip2: unpack it with bunzip2",
    b"\xfd7zXZ": "xz: unpack it with unxz",
    b"\x7fELF": "a program, not its output",
}


def open_log(path: Path) -> BinaryIO:
    """Open a file for reading.

    Raises:
        OutputError: a directory, or a file that cannot be read.
    """
    try:
        if path.is_dir():
            raise OutputError(
                "this is a directory, not a benchmark's output",
                where=str(path),
                hint=_candidates(path),
            )
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise OutputError(
            f"the file cannot be read: {error}",
            where=str(path),
            hint="check the name and its permissions.",
        ) from error


def head_of(stream: BinaryIO, name: str) -> bytes:
    """First bytes of a file, as text they must be, without moving on.

    Raises:
        OutputError: empty, binary, or in an encoding of two bytes a character.
    """
    try:
        head = stream.read(HEAD)
        stream.seek(0)
    except OSError as error:
        raise OutputError(
            f"the file cannot be read: {error}", where=name, hint="copy it to a local disk first."
        ) from error
    if not head.strip():
        raise OutputError(
            "the file is empty" if not head else "the file holds nothing but blanks",
            where=name,
            hint="run the benchmark again and look at how it ended.",
        )
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise OutputError(
            "the file is UTF-16, not UTF-8",
            where=f"{name}:1",
            hint=f"convert it: iconv -f UTF-16 -t UTF-8 {name}",
        )
    for magic, meaning in _MAGIC.items():
        if head.startswith(magic):
            raise OutputError(
                f"the file is binary ({meaning})", where=name, hint="give the text it holds."
            )
    return head


def lines_of(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Lines with their line ends; a line over 64 KiB loses what is beyond.

    Raises:
        OutputError: a byte that no text has, or the disk fails.
    """
    number = 0
    read = stream.readline
    try:
        while line := read(MAX_LINE):
            number += 1
            if b"\0" in line:
                raise OutputError(
                    "the file is binary: it holds a zero byte",
                    where=f"{name}:{number}",
                    hint="give the benchmark's text, CSV or JSON output.",
                )
            yield line
            while len(line) == MAX_LINE and line[-1:] != b"\n":
                line = read(MAX_LINE)
    except OSError as error:
        raise OutputError(
            f"the file cannot be read to its end: {error}",
            where=f"{name}:{number}",
            hint="copy it to a local disk first.",
        ) from error


def _candidates(path: Path) -> str:
    names = sorted(each.name for each in path.iterdir() if each.suffix in _TEXT_SUFFIXES)
    if not names:
        return "name the file; nothing in the directory looks like a log."
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"name the file: {shown}."
