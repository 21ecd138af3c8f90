"""Where ``scripts/launchers`` puts what it installs, and what cannot be done from there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("RCCLTUNE_LAUNCHERS") or REPOSITORY / ".venv-mpi")


def skip_in_a_path_with_a_blank(folder: Path, what: str) -> None:
    """Skip where somebody else's program splits its own path into words."""
    if " " in str(folder):
        pytest.skip(f"{what} does not work from a path with a blank")
