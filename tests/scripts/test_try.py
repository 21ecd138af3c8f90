"""scripts/try, README's first command: what it does not know it does not run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/try"


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("--hlep", 2)])
def test_an_argument_starts_nothing(word: str, code: int, tmp_path: Path) -> None:
    """It says how it is used; nothing is installed."""
    environment = {"PATH": "/usr/bin:/bin", "RCCLTUNE_VENV": str(tmp_path / "venv")}
    done = subprocess.run(
        [SCRIPT, word], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert "usage: scripts/try" in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []
