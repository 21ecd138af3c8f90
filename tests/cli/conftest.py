"""What tests of verbs share: a working directory, and sessions that several tests begin with."""

from __future__ import annotations

import ast
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import made
import pytest
from builds import make_session_once

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.errors import MachineError


@pytest.fixture(scope="session")
def stand_ins() -> None:
    """Skip where this install was built without the rank program and the stand-in libraries."""
    try:
        folder = plugin.native_folder()
    except MachineError as error:
        pytest.skip(str(error))
    if not all((folder / name).is_file() for name in ("rccltune-perf", "sim/all_reduce_perf")):
        pytest.skip("this install has no rank program or no stand-in benchmarks")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def swept_once(stand_ins: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of the smallest node on two GPUs, made once; nobody may change it."""
    del stand_ins

    def sweep(folder: Path) -> None:
        node = made.node(folder / "node.yaml")
        words = ["sweep", *made.words(node), "-o", str(folder / made.SESSION), "-q"]
        assert run(words) == 0

    return make_session_once(tmp_path_factory, "swept", sweep)


@pytest.fixture
def swept(swept_once: Path, here: Path) -> Path:
    """The same as the session of the working directory."""
    return shutil.copytree(swept_once, here / made.SESSION)


@pytest.fixture(scope="session")
def tuned_once(stand_ins: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same node tuned, and what was said beside the session; nobody may change it."""
    del stand_ins

    def tune(folder: Path) -> None:
        node = made.node(folder / "node.yaml")
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = run(["tune", *made.words(node), "-o", str(folder / made.SESSION)])
        (folder / "stdout").write_text(out.getvalue(), encoding="utf-8")
        (folder / "stderr").write_text(err.getvalue(), encoding="utf-8")
        assert code == 0, err.getvalue()

    return make_session_once(tmp_path_factory, "tuned", tune)


@pytest.fixture
def tuned(tuned_once: Path, here: Path) -> Path:
    """The tuned session as that of the working directory."""
    return shutil.copytree(tuned_once, here / made.SESSION)


@pytest.fixture(scope="session")
def published_once(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """AMD's published table of 64 ranks with its rules; nobody may change it."""

    def choose(folder: Path) -> None:
        session = str(folder / made.SESSION)
        table = repository / "examples/mi300x-cpx-nps4/all_reduce.csv"
        assert run(["import", str(table), "-o", session, "-q"]) == 0
        assert run(["emit-config", session, "-q"]) == 0

    return make_session_once(tmp_path_factory, "published", choose)


@pytest.fixture
def published(published_once: Path, here: Path) -> Path:
    """The same as the session of the working directory."""
    return shutil.copytree(published_once, here / made.SESSION)


@pytest.fixture(scope="session")
def sources(repository: Path) -> dict[str, list[ast.AST]]:
    """Every module of rccltune by its path in the package: all nodes of its tree."""
    package = repository / "rccltune"
    return {
        str(path.relative_to(package)): list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        for path in sorted(package.rglob("*.py"))
    }


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal in which no cell of a table goes on below."""
    monkeypatch.setenv("COLUMNS", "300")
