"""What tests of the room share: rule files, putting them there, and the shells of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rccltune import session
from rccltune.deploy import Delivery, Placed, Rules, assemble, put

CPX = {"arch": "gfx942", "cus": "38", "compute": "CPX", "memory": "NPS4"}
NAME = "rccl_tuner_gfx942_cpx-nps4.csv"
SHELLS = ("sh", "dash", "bash", "bash --posix", "busybox sh", "zsh")


def rules(
    name: str = NAME,
    requires: Mapping[str, str] | None = None,
    *,
    needs: tuple[tuple[str, str], ...] = (("RCCL_LL128_FORCE_ENABLE", "1"),),
    verified: str | None = None,
) -> Rules:
    """A file of one rule."""
    found = CPX if requires is None else requires
    pairs = " ".join(f"{key}={value}" for key, value in found.items())
    lines = ["#@ format 1", *([f"#@ requires {pairs}"] if pairs else [])]
    lines += [f"#@ needs {key}={value}" for key, value in needs]
    lines += ["allreduce,0,4096,ring,ll,-1,1,64,-1,-1", ""]
    return Rules(
        name=name,
        content="\n".join(lines).encode(),
        n_rules=1,
        requires=found,
        needs=needs,
        verified=verified,
    )


Make = Callable[..., Delivery]


def place(delivery: Delivery, *, force: bool = False) -> Placed:
    """Put it where it belongs."""
    write = session.write_atomically
    return put(delivery.directory, assemble(delivery), write=write, force=force)


def shell_here(name: str) -> list[str]:
    """The shell's command; skips where it is not installed."""
    words = name.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]} here")
    return words


def run_shell(
    shell: str, script: str, *, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script under ``set -eu`` with little in the environment."""
    given = {"PATH": os.environ["PATH"], "HOME": "/nowhere", **(env or {})}
    command = [*shell_here(shell), "-euc", script]
    return subprocess.run(
        command, cwd=cwd, env=given, capture_output=True, text=True, check=False, timeout=60
    )
