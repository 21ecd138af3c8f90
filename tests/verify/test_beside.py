"""Rules beside computing: chosen, verified and dropped by what calls and products take together."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from rccltune.cli import run
from rccltune.rules.reader import read_rules
from rccltune.session import store
from rccltune.verify.lost_beside import lost_beside

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"
WHERE = ("--simulate", str(NODE), "--mode", "spx-nps1", "--collective", "all_reduce", "--np", "2")
SIZES = ("--min-bytes", "64K", "--max-bytes", "256K", "--communicators", "2")
# Slower than what the library takes there, alone and beside.
SLOW = "allreduce,196608,262144,tree,ll,2,1,2,-1,-1\n"


def test_a_sweep_beside_products_chooses_channels_and_its_rules_are_verified_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the sweep to the page; every file says beside what, and a sweep alone is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    beside = ("--beside", "gemm", "--compute-share", "60")
    assert run(["sweep", *WHERE, *SIZES, *beside, "-o", "s", "-q"]) == 0
    assert run(["emit-config", "s", "-q"]) == 0
    # Chosen for any placement of ranks or for this one, it is by the same rows: one file is enough.
    (file,) = Path("s").glob("rccl_tuner*.csv")
    assert run(["verify", "s", "--compute-share", "30"]) == 7
    assert "measured beside gemm" in capsys.readouterr().err
    for words in (["verify"], ["plot", "--figure", "trade"], ["report"]):
        assert run([words[0], "s", *words[1:], "-q"]) == 0
    name = "gemm bf16 4096, 60 % of the work"
    assert name in capsys.readouterr().out
    samples = pd.read_csv("s/samples.csv", keep_default_na=False)
    timed = samples[(samples["beside"] == "gemm bf16 4096") & (samples["unusable"] == "")]
    # Of products alone and calls alone 60 % are products, within what whole ones allow.
    numbers = timed[timed["role"] == "baseline"][["alone_us", "call_us"]].astype(float)
    assert (numbers["call_us"] > numbers["alone_us"]).all()
    assert timed["setting"].str.contains(r"/\d+$").any()
    rules = read_rules(file.read_bytes()).rules
    assert rules
    assert f"chosen by what calls and products take together ({name})" in file.read_text()
    assert "verified: with and without" in file.read_text()
    verdict = json.loads(next(Path("s").glob("verdict*.json")).read_text())
    assert verdict["computing"] == {"dtype": "bf16", "size": 4096, "share": 60}
    zones = json.loads(Path("s/choice.json").read_text())["zones"]
    assert all((one["setting"] is not None) == ("costs" in one) for one in zones)
    assert Path("s/plots/trade.png").stat().st_size > 10_000
    assert name in Path("s/report.html").read_text()
    assert store.open_session(Path("s")).computing is not None
    assert run(["sweep", *WHERE, *SIZES, "-o", "s"]) == 7
    assert "measured beside gemm" in capsys.readouterr().err


def test_a_rule_that_loses_beside_products_is_dropped_and_remembered(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason says beside what; tune alone can tell it later."""
    Path("hand.csv").write_text(SLOW)
    assert run(["verify", str(swept), "--rules", "hand.csv", "--beside", "gemm"]) == 0
    said = capsys.readouterr().out
    assert "Beside gemm bf16 4096, 50 % of the work" in said
    assert "slower, down to 0." in said
    assert ") beside computing" in said
    assert "0 rules of 1 stand" in said
    rules = read_rules(SLOW.encode()).rules
    (sentence,) = lost_beside(swept, rules)
    assert sentence.startswith(
        "all_reduce 192 KiB to 256 KiB: tree/ll/2 wins alone and loses beside"
    )
    # What was verified alone says nothing of it.
    assert not list(lost_beside(swept, read_rules(SLOW.replace("tree", "ring").encode()).rules))
