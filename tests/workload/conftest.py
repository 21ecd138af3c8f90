"""Workloads by hypothesis, and files by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Put = Callable[[str, "str | bytes"], Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write a file."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
