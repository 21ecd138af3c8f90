"""This machine and this process: where to look, and what the process knows of itself."""

from __future__ import annotations

import os
import site
import sysconfig
from pathlib import Path

from rccltune.machine.detection import detect_system
from rccltune.machine.system import System


def detect_this_machine(root: Path | None) -> System:
    """The machine, or the captured one below ``root``."""
    if root is not None:
        return detect_system(root.resolve())
    return detect_system(
        variables=dict(os.environ),
        site_packages=list_site_packages(),
    )


def list_site_packages() -> tuple[Path, ...]:
    """Folders with packages of the running Python, and of the environment that is activated."""
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders = [*sorted(packages), site.getusersitepackages()]
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        base = os.environ.get(variable)
        if base:
            folders += map(str, sorted(Path(base).glob("lib/python3*/site-packages")))
    return tuple(map(Path, dict.fromkeys(folders)))
