"""What is in a file, looked for where it lies: a library for every GPU has a gigabyte and more."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def mapped(path: Path) -> Iterator[bytes | mmap.mmap]:
    """Its bytes, mapped and not read.

    Raises:
        OSError: it cannot be read.
        ValueError: it cannot be mapped.
    """
    with path.open("rb") as stream:
        # Of an empty file nothing can be mapped.
        if os.fstat(stream.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def has_any(path: Path, *marks: bytes) -> bool:
    """Whether one of these stands in it; raises as :func:`mapped` does."""
    with mapped(path) as content:
        return any(content.find(mark) >= 0 for mark in marks)
