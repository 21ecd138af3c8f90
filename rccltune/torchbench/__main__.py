"""Start, by module name or by this file's path; then rccltune need not be installed there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def _find_rccltune() -> None:
    """Make rccltune importable without its site-packages, which belong to another Python.

    It must be this file's own rccltune, even where another version is installed.
    """
    folder = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "rccltune", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no rccltune in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["rccltune"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    if not __package__:
        # Python put this folder first, where modules have names that others use too.
        sys.path.pop(0)
        _find_rccltune()
    from rccltune.torchbench.program import main

    sys.exit(main(sys.argv[1:]))
