"""A simulated node of four ranks whose channels have one ring order, or two."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yamls
from builds import make_session_once

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.defaults import SESSION
from rccltune.model.errors import MachineError

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"
# Of the channels the first three go round alike.
TWO_ORDERS = ("0 1 2 3", "0 1 2 3", "0 1 2 3", "0 2 1 3")


def write_node(folder: Path, *rings: str) -> Path:
    """Write node.yaml, which is also returned; ring orders that are given replace its own."""
    raw: dict[str, Any] = yamls.loaded(NODE.read_text(encoding="utf-8"))
    raw["scale"]["ranks"] = 4
    if rings:
        raw["library"]["graph"]["rings"] = list(rings)
    path = folder / "node.yaml"
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def native() -> None:
    """Skip where this install has no rank program."""
    try:
        plugin.native_folder()
    except MachineError as error:
        pytest.skip(str(error))


@pytest.fixture
def four_ranks(
    native: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Write the node in the working directory, which is empty."""
    del native
    monkeypatch.chdir(tmp_path)
    return lambda *rings: write_node(tmp_path, *rings)


@pytest.fixture
def two_orders(four_ranks: Callable[..., Path]) -> Path:
    """The node file with two orders."""
    return four_ranks(*TWO_ORDERS)


@pytest.fixture(scope="session")
def chosen_once(native: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of that node whose rules keep the bits; nobody may change it."""
    del native

    def choose(folder: Path) -> None:
        node, session = write_node(folder, *TWO_ORDERS), str(folder / SESSION)
        words = ["--simulate", str(node), "--mode", "spx-nps1", "--collective", "all_reduce"]
        words += ["--min-bytes", "16K", "--max-bytes", "1M", "--factor", "8"]
        words += ["--same-bits", "--communicators", "1", "-o", session]
        assert run(["sweep", *words]) == 0
        assert run(["emit-config", session, "--same-bits"]) == 0

    return make_session_once(tmp_path_factory, "same-bits", choose)


@pytest.fixture
def rules(chosen_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The rule file of a copy of it in the working directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(chosen_once, SESSION)
    return next(Path(SESSION).glob("rccl_tuner*.csv"))
