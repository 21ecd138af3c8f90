"""ROCm 7.0 and 7.1 choose the protocol again on several nodes: said, and never believed blindly."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yamls
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.simulate import sources

SMALL = "--collective all_reduce --min-bytes 1M --max-bytes 16M --launcher none"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nodes of two hosts with two ranks each."""
    if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep(folder: Path, rccl: str, benchmark: str, nodes: int = 2) -> int:
    """Ring with three protocols; model 5 has the ranges by which RCCL chooses anew."""
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["scale"] |= {"ranks": 4, "nodes": nodes, "devices_per_oam": 2}
    raw["release"] |= {"rccl": rccl, "benchmark": benchmark}
    raw["library"]["tuning_model"] = 5
    raw["fill"] = [{"ranks": 4, "placement": "node"}]
    raw["curves"] = [
        {**curve, "ranks": 4} for curve in raw["curves"] if curve.get("placement") == "node"
    ]
    path = folder / "node.yaml"
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    settings = ["--setting", "ring/ll", "--setting", "ring/simple"]
    wish = ["--mode", "cpx-nps4", "--simulate", str(path), "-o", "session"]
    return run(["sweep", "--runner", "rccl-tests", *wish, *settings, *SMALL.split()])


def doubts(setting: str) -> set[str]:
    """Of a setting's half-rows."""
    table = pd.read_csv("session/samples.csv", keep_default_na=False)
    return set(table[table["setting"] == setting]["unusable"])


def test_a_forced_protocol_runs_all_the_same_and_rules_say_what_they_are_worth(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """rcclUpdateCollectiveProtocol is off under NCCL_PROTO; said in talk, header and as a warning."""
    sweep(node, "2.26.6", "rtnew")
    said = capsys.readouterr().err
    assert lacks(said, "all_reduce", "all_gather", "reduce_scatter", "NCCL_PROTO") == []
    assert doubts("ring/ll") == {""}
    assert doubts("ring/simple") == {""}
    assert run(["emit-config", "session", "-o", "rules.csv", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    header = [line for line in Path("rules.csv").read_text().splitlines() if line.startswith("#")]
    assert any("chooses the protocol" in line for line in header)
    warned = "protocol-overwritten" in {notice["caution"] for notice in plain["notices"]}
    assert warned == (plain["rules"] > 0)
