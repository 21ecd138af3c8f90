"""A Python with PyTorch for the CPU, and ranks started in it for real."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MAIN = REPOSITORY / "rccltune" / "torchbench" / "__main__.py"
DRIVER = Path(__file__).with_name("driver.py")
SMALL = ("-b", "64", "-e", "4K", "-f", "4", "-n", "2", "-w", "1")


def torch_python() -> str:
    """The Python of scripts/torch, or the one that RCCLTUNE_TEST_TORCH names; skips without."""
    folder = Path(os.environ.get("RCCLTUNE_TORCH") or REPOSITORY / ".venv-torch")
    found = os.environ.get("RCCLTUNE_TEST_TORCH") or str(folder / "bin" / "python")
    if not Path(found).exists():
        pytest.skip("PyTorch for the CPU is not installed: scripts/torch does it where it can")
    return found


@dataclass(frozen=True)
class Ran:
    """How a job of several ranks ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """Words of the table's rows."""
        lines = (line.split() for line in self.out.splitlines() if not line.startswith("#"))
        return [words for words in lines if words and words[0].isdigit()]


GLOO = (str(MAIN), "--backend", "gloo")


def run(
    python: str,
    *words: str,
    n_ranks: int = 2,
    program: Sequence[str] = GLOO,
    **variables: str,
) -> Ran:
    """Start ranks as MPI does, which takes half the time of torchrun; they meet at a file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, *program, "--store", f"{folder}/store", *words]
        ranks = [
            subprocess.Popen(
                command,
                env={**os.environ, **variables, **_variables(rank, n_ranks)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(n_ranks)
        ]
        try:
            said = [rank.communicate(timeout=280) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    codes = {rank.returncode for rank in ranks}
    assert len(codes) == 1, said
    return Ran(codes.pop(), said[0][0], "".join(err for _, err in said))


def _variables(rank: int, n_ranks: int) -> dict[str, str]:
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    values = (rank, n_ranks, rank, n_ranks)
    pairs = zip(names, values, strict=True)
    return {f"OMPI_COMM_WORLD_{name}": str(value) for name, value in pairs}


def torchrun(python: str, *words: str, n_ranks: int = 2) -> Ran:
    """Start ranks with torchrun."""
    start = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={n_ranks}"]
    done = subprocess.run(
        [python, *start, "--no_python", python, *GLOO, *words],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
