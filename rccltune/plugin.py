"""Paths of the installed plugin and of the stand-in benchmarks.

``buildinfo.json`` stands beside them because the redirecting editable installs of
scikit-build-core only know files whose names are Python identifiers; through it their folder is
found from a wheel and from an editable install alike.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, Final

from rccltune.model.errors import MachineError

LIBRARY: Final = "librccl-tuner-rccltune.so"


def native_folder() -> Path:
    """The folder of everything that was compiled.

    Raises:
        MachineError: this install has no compiled part.
    """
    info = resources.files("rccltune").joinpath("_native").joinpath("buildinfo.json")
    path = Path(str(info))
    if not path.is_file():
        raise MachineError(
            "this install of rccltune has no compiled plugin",
            where=str(path.parent),
            hint="install it with a C compiler present (pip install .), or build native_plugin/ "
            "with CMake and name the file yourself.",
        )
    return path.parent


def library() -> Path:
    """Absolute path of the plugin.

    Raises:
        MachineError: it is not in this install.
    """
    path = native_folder() / LIBRARY
    if not path.is_file():
        raise MachineError(
            "the compiled plugin is missing", where=str(path), hint="install rccltune again."
        )
    return path.resolve()


def build_info() -> dict[str, Any]:
    """Content of buildinfo.json: version, compiler, ABI versions."""
    loaded = json.loads((native_folder() / "buildinfo.json").read_text(encoding="utf-8"))
    return loaded if isinstance(loaded, dict) else {}
