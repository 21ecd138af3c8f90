"""Somebody's files: opened, looked at, and read line by line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from rccltune.logs.file_kinds import FileKind, detect_kind
from rccltune.logs.wrappers import label_lines, unwrap_lines
from rccltune.model.errors import OutputError, reason_of

# Longer than any line that a benchmark prints; a file without line breaks must not fill memory.
MAX_LINE: Final = 64 * 1024
_HEAD: Final = 64 * 1024
_MAGIC: Final = {
    b"\x1f\x8b": "gzip: unpack it with gunzip",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd: unpack it with unzstd",
    b"BZh": "bzip2: unpack it with bunzip2",
    b"\xfd7zXZ": "xz: unpack it with unxz",
    b"\x7fELF": "a program, not its output",
}
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
# What import reads.
MEASUREMENTS: Final = (FileKind.TEXT, FileKind.RESULTS, FileKind.RECORDS, FileKind.DELIMITED)


def open_log(path: Path) -> BinaryIO:
    """Open a file for reading; what Windows writes in UTF-16 is read as UTF-8.

    Raises:
        OutputError: a directory, or a file that cannot be read.
    """
    try:
        if (path / "session.json").is_file():
            raise OutputError(
                "this folder is a session, which every verb reads as it is",
                where=str(path),
                hint=f"nothing need be imported: rccltune fit {shlex.quote(str(path))}",
            )
        if path.is_dir():
            raise OutputError(
                "this is a folder, and files are read one by one",
                where=str(path),
                hint="name the files that hold the measurements.",
            )
        stream = path.open("rb")
        begin = stream.read(2)
        stream.seek(0)
        if begin not in _UTF_16:
            return stream
        with stream:
            return BytesIO(stream.read().decode("utf-16", "replace").encode())
    except (OSError, ValueError) as error:
        raise OutputError(
            f"the file cannot be read: {reason_of(error)}",
            where=str(path),
            hint="check the name and its permissions.",
        ) from error


def read_head(stream: BinaryIO, name: str) -> bytes:
    """First bytes of a file, as text they must be, without moving on.

    Raises:
        OutputError: empty or binary.
    """
    try:
        head = stream.read(_HEAD)
        stream.seek(0)
    except OSError as error:
        raise OutputError(
            f"the file cannot be read: {reason_of(error)}",
            where=name,
            hint="copy it to a local disk first.",
        ) from error
    if not head.strip():
        raise OutputError(
            "the file is empty" if not head else "the file holds nothing but blanks",
            where=name,
            hint="look at how the program ended that wrote it, and run that again.",
        )
    for magic, meaning in _MAGIC.items():
        if head.startswith(magic):
            raise OutputError(
                f"the file is binary ({meaning})", where=name, hint="give the text it holds."
            )
    return head


def detect_kind_of_head(head: bytes) -> FileKind:
    """Kind of a file that begins so, whatever wraps its lines."""
    lines = unwrap_lines(head.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True))
    return detect_kind(b"".join(lines).decode("utf-8", "replace"))


def read_lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Lines with their line ends and without what wraps them; one over 64 KiB loses what is beyond.

    Raises:
        OutputError: a byte that no text has, or the disk fails.
    """
    return unwrap_lines(_lines(stream, name))


def read_labelled_lines(stream: BinaryIO, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Lines, each behind what wraps it; for arguments and errors see :func:`read_lines`."""
    return label_lines(_lines(stream, name))


def _lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    number = 0
    read_line = stream.readline
    try:
        while line := read_line(MAX_LINE):
            number += 1
            if b"\0" in line:
                raise OutputError(
                    "the file is binary: it holds a zero byte",
                    where=f"{name}:{number}",
                    hint="give the benchmark's text, CSV or JSON output.",
                )
            yield line if number > 1 else line.removeprefix(b"\xef\xbb\xbf")
            while len(line) == MAX_LINE and line[-1:] != b"\n":
                line = read_line(MAX_LINE)
    except OSError as error:
        raise OutputError(
            f"the file cannot be read to its end: {reason_of(error)}",
            where=f"{name}:{number}",
            hint="copy it to a local disk first.",
        ) from error
