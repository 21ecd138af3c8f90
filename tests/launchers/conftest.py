"""Real launchers, each from a folder of its own; Slurm with its own controller and daemon.

``scripts/launchers`` makes the folders.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from installed import FOLDER, skip_in_a_path_with_a_blank
from slurms import Node, Slurm, running

HOST = socket.gethostname().partition(".")[0]
NAMES = ("openmpi5", "openmpi4", "mpich", "intel", "srun")


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """One launcher to be started for real.

    Attributes:
        flavour: as --launcher has it.
        folder: where its program is.
        variables: what must be set for it to work.
    """

    flavour: str
    folder: Path
    variables: Mapping[str, str]


@pytest.fixture
def real(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Real]:
    """Puts a launcher first on PATH and says what it is; skips where it is not installed."""

    def choose(name: str) -> Real:
        if name == "srun":
            found = _srun(request)
        else:
            folder = (Path(sys.prefix) if name == "openmpi5" else FOLDER / name) / "bin"
            if not (folder / "mpirun").exists():
                pytest.skip(f"{name} is not installed: scripts/launchers does it")
            if name != "mpich" and "another_host" in request.fixturenames:
                skip_in_a_path_with_a_blank(folder, f"{name} on another host")
            found = Real(flavour=name.rstrip("45"), folder=folder, variables={})
        monkeypatch.setenv("PATH", f"{found.folder}:{os.environ['PATH']}")
        for variable, value in found.variables.items():
            monkeypatch.setenv(variable, value)
        return found

    return choose


def _srun(request: pytest.FixtureRequest) -> Real:
    slurm: Slurm = request.getfixturevalue("slurm")
    return Real(flavour="srun", folder=slurm.programs / "bin", variables=slurm.variables)


# An ssh to another host: options dropped, nothing of the environment carried, the command run here.
SSH = """#!/bin/sh
: >"$0.used"
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec env -i PATH=/usr/bin:/bin HOME=/tmp ON_ANOTHER_HOST=there sh -c "$*"
"""
# Where Open MPI 5 and 4, Hydra and Intel MPI are told what to use for ssh.
AGENTS = (
    "PRTE_MCA_plm_ssh_agent",
    "OMPI_MCA_plm_rsh_agent",
    "HYDRA_LAUNCHER_EXEC",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC",
)


@pytest.fixture
def another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.2 is another host for every launcher."""
    agent = tmp_path / "ssh"
    agent.write_text(SSH)
    agent.chmod(0o755)
    for name in AGENTS:
        monkeypatch.setenv(name, str(agent))


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """Controller, daemon and munged on loopback, gone afterwards whatever happened."""
    with running(FOLDER / "slurm" / "usr", [Node(name=HOST, address="127.0.0.1")]) as found:
        yield found
