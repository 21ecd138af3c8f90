"""Comparisons on a small simulated node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from comparisons import comparer


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Compare two sides in ./c of an empty working directory."""
    return comparer(tmp_path, monkeypatch)
