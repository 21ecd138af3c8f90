"""The plugin under test: one that was built already, or one built here."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest
from builds import plugin_built

from rccltune.rules.host import Host


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
    return plugin_built(tmp_path_factory, repository)


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
