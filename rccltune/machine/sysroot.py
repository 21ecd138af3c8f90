"""Files of the machine, below a root that tests put elsewhere.

The rules are those of the plugin's reader (``native_plugin/src/sysroot.c`` and ``text.c``), so
that both see the same machine: bytes, not text; lines end in ``\\n`` alone; blanks are space,
tab and CR; a file that does not fit its limit counts as unreadable.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_ATTRIBUTE: Final = 256
MAX_PROPERTIES: Final = 8192
BLANKS: Final = b" \t\r"
_WORDS: Final = re.compile(rb"[ \t\r]+")
_UNSIGNED: Final = re.compile(rb"[0-9]{1,20}")
_HEX: Final = re.compile(rb"(?:0[xX])?([0-9a-fA-F]+)")


@dataclass(frozen=True, slots=True)
class SystemRoot:
    """The directory under which ``/sys``, ``/proc``, ``/dev`` and ``/etc`` are looked for."""

    path: Path = Path("/")

    @property
    def is_live(self) -> bool:
        """Whether this is the running machine, so that programs of it may be asked too."""
        return self.path == Path("/")

    def at(self, name: str) -> Path:
        """Path of a file of the machine."""
        return self.path / name.lstrip("/")

    def content(self, name: str, limit: int = MAX_ATTRIBUTE) -> bytes:
        """Read a small file; never waits for a pipe.

        Raises:
            OSError: it cannot be read, or is larger than such a file can be.
        """
        handle = os.open(self.at(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        data = b""
        try:
            while len(data) < limit and (piece := os.read(handle, limit - len(data))):
                data += piece
        finally:
            os.close(handle)
        if len(data) >= limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
        return data

    def read(self, name: str, limit: int = MAX_ATTRIBUTE) -> bytes | None:
        """Content of a small file, None where it cannot be read."""
        with contextlib.suppress(OSError, ValueError):
            return self.content(name, limit)
        return None

    def line(self, name: str, limit: int = MAX_ATTRIBUTE) -> bytes:
        """First line of a small file, trimmed; empty where there is none."""
        return take_first_line(self.read(name, limit) or b"")

    def text(self, name: str, limit: int = MAX_ATTRIBUTE) -> str | None:
        """First line of a small file for people, None where it cannot be read or is empty."""
        return self.line(name, limit).decode("utf-8", "replace") or None

    def number(self, name: str) -> int | None:
        """A whole number in a small file, possibly negative."""
        line = self.line(name)
        value = parse_unsigned(line.removeprefix(b"-"))
        return -value if value is not None and line.startswith(b"-") else value

    def entries(self, name: str) -> tuple[str, ...] | None:
        """Names in a directory, numbers first and in order; None where it cannot be listed."""
        try:
            names = [path.name for path in self.at(name).iterdir()]
        except (OSError, ValueError):
            return None
        return tuple(sorted((n for n in names if not n.startswith(".")), key=_natural))


def _natural(name: str) -> tuple[int, str]:
    return (
        (int(name), "")
        if name.isascii() and name.isdecimal() and len(name) < 10
        else (1 << 40, name)
    )


def take_first_line(data: bytes) -> bytes:
    """The first line of a file's content, trimmed."""
    return data.split(b"\n", 1)[0].strip(BLANKS)


def split_words(line: bytes) -> list[bytes]:
    """Words of a line, at blanks."""
    return [word for word in _WORDS.split(line.strip(BLANKS)) if word]


def parse_unsigned(text: bytes) -> int | None:
    """A decimal number below 2**64, None for anything else."""
    digits = text.lstrip(b"0") or text[-1:]
    value = int(digits) if _UNSIGNED.fullmatch(digits) else None
    return value if value is not None and value < 1 << 64 else None


def parse_hexadecimal(text: bytes) -> int | None:
    """A hexadecimal number below 2**64, with or without 0x; None for anything else."""
    match = _HEX.fullmatch(text)
    digits = (match[1].lstrip(b"0") or b"0") if match else b""
    return int(digits, 16) if match and len(digits) <= 16 else None


def is_file(path: Path) -> bool:
    """Whether a file can be seen there."""
    # pathlib's own raises where a folder may not be entered, as root's on the PATH of another.
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Whether a folder can be seen there."""
    # As above.
    return os.path.isdir(path)  # noqa: PTH112
