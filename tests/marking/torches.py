"""A Python with PyTorch for the CPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def torch_python() -> str:
    """The Python of scripts/torch, or the one that RCCLTUNE_TEST_TORCH names; skips without."""
    folder = Path(os.environ.get("RCCLTUNE_TORCH") or REPOSITORY / ".venv-torch")
    found = os.environ.get("RCCLTUNE_TEST_TORCH") or str(folder / "bin" / "python")
    if not Path(found).exists():
        pytest.skip("PyTorch for the CPU is not installed: scripts/torch does it where it can")
    return found
