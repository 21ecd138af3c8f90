"""The module for jobs, run under a Python with PyTorch for the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from copied import Run
from torches import torch_python


@pytest.fixture
def run(tmp_path: Path, repository: Path) -> Run:
    """Run a program that has the module as a copied file, with nothing else of rccltune's."""
    source = repository / "rccltune" / "torch.py"
    (tmp_path / "rccltune_torch.py").write_bytes(source.read_bytes())

    def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "job.py").write_text(program, encoding="utf-8")
        # Of the system: in our own environment the rest of rccltune would be found.
        python = torch_python() if "import torch" in program else sys._base_executable
        environment = {n: v for n, v in os.environ.items() if not n.startswith("RCCLTUNE_")}
        environment["RCCLTUNE_JOB_STEPS"] = str(tmp_path / "steps-%h-%p.json")
        return subprocess.run(
            [python, "job.py"],
            cwd=tmp_path,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run
