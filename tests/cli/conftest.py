"""What tests of verbs share: a working directory, and the simulated node's benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import kept
import pytest

from rccltune import plugin
from rccltune.measure import site
from rccltune.model.errors import MachineError
from rccltune.plan import rounds


@pytest.fixture(scope="session")
def stand_ins() -> None:
    """Skip where this install was built without the stand-in benchmarks."""
    try:
        there = (plugin.native_folder() / "sim" / "all_reduce_perf").is_file()
    except MachineError as error:
        pytest.skip(str(error))
    if not there:
        pytest.skip("this install has no stand-in benchmarks")


@pytest.fixture(scope="session", autouse=True)
def kept_sessions(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where sessions lie that several tests begin with."""
    kept.folder = tmp_path_factory.mktemp("kept")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def per_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark that cannot repeat its table: each setting has a launch of its own."""
    real = site._simulated_letters
    monkeypatch.setattr(site, "_simulated_letters", lambda *given: real(*given) - frozenset("Ns"))


@pytest.fixture(scope="module")
def whole() -> Iterator[None]:
    """Every setting at every size, as at a workload's: launches of a search depend on its noise."""
    real = rounds.parted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "parted", lambda sweep, *more: real(sweep, *more) or (sweep,))
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """tune makes no files of figures, which take longer than all that it measures here.

    For whoever asks what it proves or says; the page has its own figures all the same.
    """
    monkeypatch.setattr("rccltune.tune.plot_session", lambda *_, **__: None)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal in which no cell of a table goes on below."""
    monkeypatch.setenv("COLUMNS", "300")
