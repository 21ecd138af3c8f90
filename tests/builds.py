"""Folders that the workers of pytest-xdist share: whoever comes first makes them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rccltune.measure.ownership import remember_session
from rccltune.model.defaults import SESSION


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder of this name, beside those of all workers; nobody may change it.

    Args:
        factory: of this worker.
        name: of the folder; whoever gives it makes the same in it.
        make: is given the empty folder.
    """
    place = factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    folder, done = place / name, place / f"{name}.done"
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def make_session_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]
) -> Path:
    """The same for a session in a folder of this name, which each worker takes for its own."""
    session = make_once(factory, name, make) / SESSION
    remember_session(session)
    return session


def built(
    factory: pytest.TempPathFactory, name: str, source: Path, options: Sequence[str], *targets: str
) -> Path:
    """The build tree of this name.

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

    def build(tree: Path) -> None:
        wanted = ["--target", *targets] if targets else []
        for words in (
            ["-S", str(source), "-B", str(tree), *options],
            ["--build", str(tree), "-j2", *wanted],
        ):
            subprocess.run([cmake, *words], check=True, capture_output=True, timeout=300)

    return make_once(factory, name, build)


def plugin_built(factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The plugin and its probe; RCCLTUNE_TEST_BUILD names a ready one."""
    ready = os.environ.get("RCCLTUNE_TEST_BUILD")
    if ready is not None:
        return Path(ready)
    targets = ("rccltune_plugin", "rccltune-perf", "rccltune-probe")
    source = repository / "native_plugin"
    # Compiled as fast as can be: what it does is the same.
    options = ["-DRCCLTUNE_TESTS=ON", "-DCMAKE_BUILD_TYPE=Debug"]
    return built(factory, "plugin-build", source, options, *targets)
