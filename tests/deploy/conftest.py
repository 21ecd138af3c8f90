"""A delivery with the real plugin."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from deliveries import Make, delivery


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes deliveries into ``tmp_path/site``, with some rule files."""
    return partial(delivery, directory=tmp_path / "site")
