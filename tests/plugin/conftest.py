"""The plugin under test: one that was built already, or one built here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builds import plugin_built

from rccltune.rules.plugin_library import PluginLibrary


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
def host(plugin_path: Path) -> PluginLibrary:
    """The plugin, loaded."""
    return PluginLibrary(plugin_path)


@pytest.fixture(scope="session")
def probe(plugin_build: Path) -> Path:
    """The program that prints what the plugin's detector says."""
    return plugin_build / "tests" / "rccltune-probe"
