"""What tests of the room share: rule files, putting them there, and the shells of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rccltune import plugin, session
from rccltune.deploy import Delivery, File, Placed, Rules, assemble, put
from rccltune.model import MachineError, RuleCount

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
        count=RuleCount(rules=1, fallbacks=0),
        requires=found,
        needs=needs,
        verified=verified,
    )


Make = Callable[..., Delivery]


def delivery(*files: Rules, directory: Path, **more: object) -> Delivery:
    """The real plugin with some rule files; skips where it is not built."""
    try:
        library = plugin.library()
    except MachineError as error:
        pytest.skip(str(error))
    given = files or (rules(),)
    return Delivery(
        **{
            "directory": directory,
            "library": File(name=library.name, content=library.read_bytes(), run=True),
            "abi_versions": (2, 3, 4, 5, 6, 7),
            "glibc": (2, 14),
            "rules": given,
            "environment": tuple(sorted({pair for one in given for pair in one.needs})),
            "choosing": ("NCCL_ALGO", "NCCL_MIN_NCHANNELS", "RCCL_MSCCL*", "RCCLTUNE_*"),
            "provenance": ("made up",),
            **more,
        }
    )


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
    given = {"PATH": os.environ["PATH"], "HOME": "/proc/nowhere", **(env or {})}
    command = [*shell_here(shell), "-euc", script]
    return subprocess.run(
        command, cwd=cwd, env=given, capture_output=True, text=True, check=False, timeout=60
    )


def sourced(site: Path, shell: str = "sh") -> dict[str, str]:
    """What a job has that sources env.sh, of ours."""
    done = subprocess.run(
        [*shell_here(shell), "-euc", f". '{site.absolute()}/env.sh'; env"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    pairs = (line.partition("=")[::2] for line in done.stdout.splitlines())
    return {name: value for name, value in pairs if name.startswith(("NCCL", "RCCL"))}


def let_others_in(folder: Path) -> None:
    """pytest's own folders are closed to other users."""
    for one in (folder, *folder.parents):
        mode = one.stat().st_mode
        if mode & 0o001 == 0:
            one.chmod(mode | 0o011)
