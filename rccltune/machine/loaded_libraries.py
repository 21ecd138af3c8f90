"""The library that a benchmark loads: the one that was named, or the one that ld.so finds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rccltune.launch.variables import launch_environment
from rccltune.machine import software
from rccltune.model.errors import MachineError


def named_library(named: Path) -> Path:
    """The file that was named, or the librccl in the folder that was.

    Raises:
        MachineError: there is no such file.
    """
    file = next((named / name for name in software.NAMES if (named / name).is_file()), named)
    if not file.is_file():
        raise MachineError(
            "there is no such library",
            where=str(named),
            hint="--librccl takes a librccl.so or libnccl.so, or a folder with one.",
        )
    return file.resolve()


def loads(library: Path | None) -> tuple[tuple[str, str], ...]:
    """Variables that make the benchmark load a library instead of the site's."""
    if library is None:
        return ()
    folders = (str(library.parent), os.environ.get("LD_LIBRARY_PATH"))
    return (("LD_LIBRARY_PATH", os.pathsep.join(filter(None, folders))),)


def loaded(
    program: Path,
    library: Path | None,
    added: Sequence[tuple[str, str]],
) -> Path | None:
    """The library that the benchmark will load, None where that is not seen."""
    seen = launch_environment(os.environ, added)
    # Of a script around the benchmark the loader knows nothing; what was named counts then.
    return software.library_of(program, seen.variables) or library
