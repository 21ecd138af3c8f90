"""The plugin under test: one that was built already, or one built here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from rccltune.rules import Host


def _fixtures_of(folder: Path) -> ModuleType:
    """Another folder's conftest: the simulation is built once, by whoever comes first."""
    spec = importlib.util.spec_from_file_location("sim_conftest", folder / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_simulation = _fixtures_of(Path(__file__).parents[1] / "simulate")
sim = _simulation.sim
small = _simulation.small


@pytest.fixture(scope="session")
def plugin_build(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build tree with the plugin and its probe; RCCLTUNE_TEST_BUILD names a ready one."""
    ready = os.environ.get("RCCLTUNE_TEST_BUILD")
    if ready is not None:
        return Path(ready)
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not here, and RCCLTUNE_TEST_BUILD names no build")
    build = tmp_path_factory.mktemp("plugin-build")
    configure = ["cmake", "-S", str(repository / "native_plugin"), "-B", str(build)]
    for command in (
        [*configure, "-DRCCLTUNE_TESTS=ON"],
        ["cmake", "--build", str(build), "-j2", "--target", "rccltune_plugin", "rccltune-probe"],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    return build


@pytest.fixture(scope="session")
def plugin_path(plugin_build: Path) -> Path:
    """The shared library; RCCLTUNE_TEST_PLUGIN names another one."""
    given = os.environ.get("RCCLTUNE_TEST_PLUGIN")
    return Path(given) if given is not None else plugin_build / "librccl-tuner-rccltune.so"


@pytest.fixture(scope="session")
def host(plugin_path: Path) -> Host:
    """The plugin, loaded."""
    return Host(plugin_path)


@pytest.fixture(scope="session")
def probe(plugin_build: Path) -> Path:
    """The program that prints what the plugin's detector says."""
    return plugin_build / "tests" / "rccltune-probe"
