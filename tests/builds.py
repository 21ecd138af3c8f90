"""Build trees of native code that the workers of pytest-xdist share: whoever comes first builds."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest


def built(
    factory: pytest.TempPathFactory, name: str, source: Path, options: Sequence[str], *targets: str
) -> Path:
    """The build tree of this name, beside the folders of all workers.

    Args:
        factory: of this worker.
        name: of the tree; whoever gives it gives the same of the rest.
        source: of the CMake project.
        options: of its configuration.
        targets: what is built; everything where none is given.
    """
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if cmake is None:
        pytest.skip("no cmake")
    place = factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    tree, done = place / name, place / f"{name}.done"
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            wanted = ["--target", *targets] if targets else []
            for words in (
                ["-S", str(source), "-B", str(tree), *options],
                ["--build", str(tree), "-j2", *wanted],
            ):
                subprocess.run([cmake, *words], check=True, capture_output=True, timeout=300)
            done.touch()
    return tree


def plugin_built(factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The plugin and its probe; RCCLTUNE_TEST_BUILD names a ready one."""
    ready = os.environ.get("RCCLTUNE_TEST_BUILD")
    if ready is not None:
        return Path(ready)
    targets = ("rccltune_plugin", "rccltune-perf", "rccltune-probe")
    source = repository / "native_plugin"
    return built(factory, "plugin-build", source, ["-DRCCLTUNE_TESTS=ON"], *targets)
