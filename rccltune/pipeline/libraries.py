"""Which collective library a benchmark loads, and how it is made to load another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rccltune import detect, launch
from rccltune.errors import MachineError

_NAMES: Final = ("librccl.so.1", "librccl.so", "libnccl.so.2", "libnccl.so")


def named(wish: Path) -> Path:
    """The file that was named, or the librccl in the folder that was.

    Raises:
        MachineError: there is no such file.
    """
    found = next((wish / name for name in _NAMES if (wish / name).is_file()), wish)
    if not found.is_file():
        raise MachineError(
            "there is no such library",
            where=str(wish),
            hint="name the librccl.so.1 that was built with --librccl.",
        )
    return found.resolve()


def loads(library: Path | None) -> tuple[tuple[str, str], ...]:
    """What makes the benchmark load a library instead of the site's."""
    if library is None:
        return ()
    folders = (str(library.parent), os.environ.get("LD_LIBRARY_PATH"))
    return (("LD_LIBRARY_PATH", os.pathsep.join(filter(None, folders))),)


def loaded(
    program: Path,
    library: Path | None,
    added: Sequence[tuple[str, str]],
    cleared: Sequence[str],
) -> Path | None:
    """The library that the benchmark will load, None where that is not seen."""
    seen = launch.environment(os.environ, added, clear=cleared)
    # Of a script around the benchmark the loader knows nothing; what was named counts then.
    return detect.library_of(program, seen.variables) or library
