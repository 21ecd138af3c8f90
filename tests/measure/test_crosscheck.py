"""rccl-tests beside the rank program: the same settings at sizes four apart, held against each other."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yamls
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.measure import crosscheck
from rccltune.measure.crosscheck import CrosscheckResult
from rccltune.model.errors import MachineError
from rccltune.simulate import sources

COLUMNS = [
    *("collective", "setting", "clock", "placement", "nbytes"),
    *("ours_us", "theirs_us", "ratio"),
]


def row(setting: str, nbytes: int, ratio: float, clock: str = "graph") -> list[object]:
    """A time of ours and one of theirs."""
    cell = ["all_reduce", setting, clock, "out", nbytes]
    return [*cell, 100.0, 100.0 * ratio, ratio]


def checked(*rows: list[object]) -> CrosscheckResult:
    """What a cross-check gave."""
    table = pd.DataFrame(rows, columns=COLUMNS)
    return CrosscheckResult(table=table, failed=(), seconds=1.0, is_whole=True)


def test_a_table_says_where_two_programs_agree() -> None:
    """Within 10 % by ratio, up or down; the furthest size is named."""
    found = checked(
        row("ring/ll", 1024, 1.01),
        row("ring/ll", 4096, 1.02),
        row("tree/ll", 1024, 1.30),
        row("tree/ll", 4096, 0.93),
        row("tree/ll", 1 << 24, 0.99, clock="loop"),
    )
    assert list(found.rows()) == [
        (
            "all_reduce",
            "graph",
            "1 KiB to 4 KiB",
            "75 % of 4",
            "+1.5 %",
            "+30.0 % tree/ll at 1 KiB",
        ),
        (
            "all_reduce",
            "loop",
            "16 MiB to 16 MiB",
            "100 % of 1",
            "-1.0 %",
            "-1.0 % tree/ll at 16 MiB",
        ),
    ]
    assert lacks(found.sentence(), "4 of 5", "10 %", "all_reduce tree/ll (graph)") == []


def test_agreement_is_one_sentence() -> None:
    """Nothing else is named."""
    assert checked(row("ring/ll", 1024, 0.95)).sentence().endswith("within 10 % at 1 of 1 times")
    assert "nothing" in checked().sentence()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped CPX node on four ranks without noise, in an empty working directory."""
    if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")
    monkeypatch.chdir(tmp_path)
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["scale"] |= {"ranks": 4, "devices_per_oam": 4}
    raw["fill"] = [{"ranks": 4, "placement": "node"}]
    raw["curves"] = [c | {"ranks": 4} for c in raw["curves"] if c.get("placement") == "node"]
    path = tmp_path / "node.yaml"
    path.write_text(yamls.dumped(raw | {"noise": {"sigma": 0.0}}), encoding="utf-8")
    return path


def sweep(node: Path, *more: str) -> int:
    """By the rank program: one setting, from 256 KiB to 16 MiB."""
    where = ["--simulate", str(node), "--mode", "cpx-nps4", "--communicators", "1"]
    sizes = ["--collective", "all_reduce", "--min-bytes", "256K", "--max-bytes", "16M"]
    return run(["sweep", *where, *sizes, "--setting", "tree/ll", *more])


@pytest.mark.mpi
def test_a_sweep_ends_with_it(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Loop beside loop, graph beside -G; kept, printed, and nothing is launched twice."""
    assert sweep(node, "--crosscheck") == 0
    table = pd.read_csv("rccltune-session/crosscheck.csv")
    assert list(table.columns) == COLUMNS
    sizes = table.groupby("clock")["nbytes"].agg(lambda own: sorted(set(own))).to_dict()
    assert sizes == {
        "graph": [256 << 10, 1 << 20, 4 << 20],
        "loop": [4 << 20, 16 << 20],
    }
    assert set(table["setting"]) == {"baseline", "tree/ll"}
    assert table["ratio"].between(0.9, 1.1).all()
    assert "agree within 10 % at 20 of 20 times" in capsys.readouterr().out
    commands = [path.read_text() for path in Path("rccltune-session/crosscheck").glob("*/run-id")]
    assert len(commands) == 4

    assert sweep(node, "--crosscheck") == 0
    again = [path.read_text() for path in Path("rccltune-session/crosscheck").glob("*/run-id")]
    assert again == commands


def test_a_simulated_node_is_checked_on_request(node: Path) -> None:
    """It would hold two programs of ours against each other."""
    assert sweep(node) == 0
    assert not Path("rccltune-session/crosscheck.csv").exists()


def test_a_node_without_rccl_tests_is_swept_all_the_same(
    node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Why there is none is one line."""

    def nothing(*_: object) -> None:
        raise MachineError("rccl-tests were not found")

    monkeypatch.setattr(crosscheck, "find_where", nothing)
    assert sweep(node, "--crosscheck") == 0
    assert "Not cross-checked with rccl-tests: rccl-tests were not found" in capsys.readouterr().err
