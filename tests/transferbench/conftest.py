"""The article that the ceiling is held against, where it is beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def article(repository: Path) -> Path:
    """AMD's article on xGMI with TransferBench's output and the AllReduce log; read in place."""
    path = repository.parent / "shared" / "seeds" / "2-xgmi-bandwidth-blog.txt"
    if not path.is_file():
        pytest.skip("the shared seeds are not beside this checkout")
    return path
