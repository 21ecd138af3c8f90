"""A sweep by the rank program on a simulated node, and all that is made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from perf_sweeps import Ground
from wording import lacks

from rccltune.cli import run
from rccltune.ranks import runs


def test_the_same_command_again_starts_nothing(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a lost samples.csv is made again of the runs, to the byte."""
    assert ground.sweep("--setting", "ring/ll") == 0
    before, n = Path("s/samples.csv").read_bytes(), len(ground.endings())
    capsys.readouterr()
    assert ground.sweep("--setting", "ring/ll") == 0
    assert "everything is measured already" in capsys.readouterr().err
    assert len(ground.endings()) == n
    assert Path("s/samples.csv").read_bytes() == before
    Path("s/samples.csv").unlink()
    assert run(["fit", "s"]) == 0
    assert Path("s/samples.csv").read_bytes() == before


def test_more_is_measured_where_more_is_asked_for(ground: Ground) -> None:
    """Another setting, more communicators: only those."""
    assert ground.sweep("--setting", "ring/ll", "--communicators", "1") == 0
    first = ground.table()
    assert ground.sweep("--setting", "ring/ll", "--setting", "tree/ll", "--communicators", "2") == 0
    table = ground.table()
    quick = table[(table["purpose"] == "first") & (table["step"] == "measure")]
    assert not quick.duplicated(["setting", "placement", "nbytes", "timing"]).any()
    assert len(quick[quick["setting"] == "tree/ll"]) == len(quick[quick["setting"] == "ring/ll"])
    own = "purpose == 'second' and setting == 'ring/ll'"
    assert len(table.query(own)) == 2 * len(first.query(own))


@pytest.mark.usefixtures("undrawn")
def test_a_library_that_asks_three_times_a_call_is_tuned(ground: Ground) -> None:
    """As one that asks once (NCCL 2.31.2, 2.32.3): every call is asked about, and rules are proven."""
    ground.change(release={"rccl": "2.32.3", "benchmark": "rtnew"})
    settings = ("--setting", "ring/simple", "--setting", "tree/ll")
    # LL128 is forced from the start, so that there is no second session for it.
    words = ground.words("--max-bytes", "256K", *settings, "--env", "RCCL_LL128_FORCE_ENABLE=1")
    assert run(["tune", *words[1:]]) == 0
    table = ground.table()
    asked = table[(table["step"] != "communicator") & (table["setting"] != "baseline")]
    assert (asked["asked"] == asked["made"]).all()
    assert set(asked["note"]) == {""}
    forced = asked[asked["setting"].isin(("ring/simple", "tree/ll")) & (asked["step"] == "measure")]
    assert set(forced["unusable"]) == {""}
    (path,) = Path("s").glob("rccl_tuner*.csv")
    assert "allreduce,32768,32768,ring,simple,-1,1,2,-1," in path.read_text()


def test_a_session_is_of_one_environment(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """--env is in every run, and in session.json; another one is refused, with a folder for it."""
    words = ("--setting", "ring/simple", "--env", "NCCL_MAX_NCHANNELS=4")
    assert ground.sweep(*words) == 0
    made = [run_.file for run_ in runs.read_runs(Path("s"))]
    assert [one.plugin for one in made] == [False, True]
    assert all(("NCCL_MAX_NCHANNELS", "4") in one.added for one in made)
    setup = json.loads(Path("s/session.json").read_text("utf-8"))["setup"]
    assert setup["environment"] == {"NCCL_MAX_NCHANNELS": "4"}
    assert setup["runner"] == "perf"
    capsys.readouterr()
    assert ground.sweep("--setting", "ring/simple") == 7
    said = capsys.readouterr().err
    assert lacks(said, "NCCL_MAX_NCHANNELS=4 in it", "nothing added now", "-o s-2") == []
    assert run(["emit-config", "s"]) == 0


@pytest.mark.parametrize(
    ("release", "by_graph"),
    [
        pytest.param("2.21.5", "0", marks=pytest.mark.long),
        ("2.26.6", "1"),
        pytest.param("2.27.7", "0", marks=pytest.mark.long),
        ("2.28.3", "0"),
        pytest.param("2.30.4", "1", marks=pytest.mark.long),
    ],
)
def test_every_row_says_what_the_tuner_was_told_of_buffers(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, release: str, by_graph: str
) -> None:
    """Calls one by one are not registered; ROCm 7.0 and from 7.13 on say that captured ones are."""
    monkeypatch.delenv("NCCL_GRAPH_REGISTER", raising=False)
    ground.change(release={"rccl": release, "benchmark": "rtnew"})
    # Above 4 MiB calls are timed one by one.
    words = ("--setting", "ring/ll", "--communicators", "1", "--max-bytes", "16M")
    assert ground.sweep(*words) == 0
    table = ground.table()
    asked = table[(table["step"] == "measure") & (table["asked"] > 0)]
    assert set(zip(asked["timing"], asked["registered"], strict=True)) == {
        ("loop", "0"),
        ("graph", by_graph),
    }


def test_what_the_site_has_reaches_the_library(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law 11, as the library itself sees it; what chooses is there in the baseline alone."""
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("NCCL_COMM_ID", "127.0.0.1:1")
    assert ground.sweep("--setting", "ring/ll") == 0
    assert "NCCL_ALGO=Ring" in capsys.readouterr().err
    for one in runs.read_runs(Path("s")):
        variables = dict(one.remarks.variables)
        assert variables["NCCL_NVLS_ENABLE"] == "0"
        assert variables["NCCL_SOCKET_IFNAME"] == "lo"
        assert ("NCCL_ALGO" in variables) is not one.file.plugin
        assert "NCCL_COMM_ID" not in variables
        passed = json.loads((one.folder / "environment.json").read_text())["passed"]
        assert passed["NCCL_NVLS_ENABLE"] == "0"
        assert all("nvls" not in str(step.step) for step in one.steps)


def test_a_plan_shows_and_starts_nothing(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text, and as JSON."""
    assert ground.sweep("--plan") == 0
    assert "2 starts of all ranks, about" in capsys.readouterr().out
    assert ground.sweep("--plan", "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    assert [one["plugin"] for one in plain["runs"]] == [False, True, True]
    assert plain["starts"] == 2
    assert plain["simulated"] is True
    assert not Path("s").exists()


def test_a_budget_ends_it_and_the_next_command_goes_on(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has a row is kept; exit code 0, or 2 where nothing could be measured."""
    many = ("--max-bytes", "512M", "--factor", "2")
    assert ground.sweep(*many, "--budget", "0.1s") in (0, 2)
    n_rows = len(ground.table())
    capsys.readouterr()
    assert ground.sweep(*many, "--budget", "10m") == 0
    assert len(ground.table()) > n_rows
    table = ground.table().query("step == 'measure' and setting != 'idle'")
    names = ["purpose", "setting", "placement", "nbytes", "timing"]
    assert table.groupby(names).size().max() == 4
    assert set(table["unusable"]) == {"", "ineligible"}
