"""The real RCCL over the simulated machine: it chooses, it is asked and it says what it ran.

Kernels are noted and not run, and times come from the node file; nothing here is a measurement.
"""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from rccltune.cli import run
from rccltune.measure.real_rccl import real_library
from rccltune.model.errors import MachineError
from rccltune.ranks import rows, runs

FEW_SIZES = ("--min-bytes", "64K", "--max-bytes", "16M", "--factor", "16")


def sweep(*words: str) -> pd.DataFrame:
    """Rows of a sweep of all_reduce."""
    try:
        real_library(Path("real"), os.environ)
    except MachineError as error:
        pytest.skip(f"no real RCCL here: {error.message}")
    what = ("--librccl", "real", "--collective", "all_reduce", *FEW_SIZES, "-o", "s")
    assert run(["sweep", *words, *what]) == 0
    return rows.rows_of_runs(runs.read_runs(Path("s")))


def told(table: pd.DataFrame) -> set[tuple[str, str]]:
    """What a tuner was told of registered buffers, by timing."""
    asked = table[(table["step"] == "measure") & (table["asked"] > 0)]
    return set(zip(asked["timing"], asked["registered"], strict=True))


def is_obeyed(table: pd.DataFrame, *settings: str) -> None:
    """Every time of these settings is their own, says the library; no result could be checked."""
    timed = table[table["step"] == "measure"]
    assert (timed["ran"] != "").all()
    assert table["checked"].isna().all()
    for setting in settings:
        own = timed[timed["setting"] == setting]
        assert not own.empty
        assert (own["unusable"] == "").all()
        assert own["ran"].str.startswith(setting).all()
    called = table[table["step"].isin(("call", "check"))].drop_duplicates(["setting", "nbytes"])
    baseline, silent = (
        called[called["setting"] == name].set_index("nbytes")["ran"].sort_index()
        for name in ("baseline", "idle")
    )
    # At four sizes an octave, where they have a whole number of KiB; so idle stands for the site.
    assert len(baseline) > timed["nbytes"].nunique()
    assert baseline.to_dict() == silent.to_dict()


def test_eight_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One node of eight whole MI300X; RCCL 2.27.7 registers nothing by itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NCCL_GRAPH_REGISTER", raising=False)
    table = sweep("--mode", "spx-nps1", "--simulate", "mi300x", "--communicators", "1")
    is_obeyed(table, "ring/ll", "ring/simple", "tree/ll")
    assert told(table) == {("loop", "0"), ("graph", "0")}


def test_a_tuner_hears_of_registered_buffers_where_the_site_asks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable reaches every rank as it is, and calls one by one are not registered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NCCL_GRAPH_REGISTER", "1")
    words = ("--np", "2", "--communicators", "1", "--setting", "ring/ll")
    table = sweep("--mode", "spx-nps1", "--simulate", "mi300x", *words)
    assert told(table) == {("loop", "0"), ("graph", "1")}


@pytest.mark.long
def test_two_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Communicators that only an abort ends are made one after the other."""
    node = str(Path(__file__).parents[2] / "examples" / "nodes" / "two-mi300x.yaml")
    monkeypatch.chdir(tmp_path)
    table = sweep("--simulate", node, "--communicators", "2")
    is_obeyed(table, "ring/simple")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_sixty_four_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPX/NPS4: half a minute a communicator on two cores, about 8 GB."""
    monkeypatch.chdir(tmp_path)
    words = ("--mode", "cpx-nps4", "--simulate", "mi300x", "--communicators", "1")
    table = sweep(*words, "--setting", "ring/ll", "--timeout", "5m")
    is_obeyed(table, "ring/ll")
