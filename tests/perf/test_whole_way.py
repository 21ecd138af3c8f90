"""A sweep by the rank program on a simulated node, and all that is made of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from perf_sweeps import Ground

from rccltune.cli import run
from rccltune.model.settings import Setting
from rccltune.perf import runs


def test_a_sweep_and_everything_after_it(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sweep, fit, emit-config, plot, explain, report, as a user types them."""
    assert ground.sweep() == 0
    said = capsys.readouterr()
    assert "SIMULATED node smallest" in said.err.splitlines()[1]
    assert "Next: rccltune fit" in said.out
    samples = ground.samples()
    usable = samples[samples["unusable"] == ""]
    forced = usable[usable["role"] == "forced"]
    assert set(usable["role"]) == {"forced", "baseline", "idle"}
    assert set(forced["setting"]) >= {"ring/ll", "ring/simple"}
    # What counts as a setting's time is what the library said that it ran.
    for asked, ran in zip(forced["setting"], forced["ran"], strict=True):
        assert not Setting.parse(asked).contradicts(Setting.parse(ran))
    baseline = usable[usable["setting"] == "baseline"]
    assert len(baseline.groupby(["process", "communicator"])) == 4
    assert set(samples["nbytes"]) == {4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20}

    for words in (["fit"], ["emit-config"], ["plot", "--format", "svg"], ["report"]):
        assert run([words[0], "s", *words[1:]]) == 0
    (rules,) = Path("s").glob("rccl_tuner*.csv")
    assert "SIMULATED" in rules.read_text()
    assert "library: RCCL 2.28.3" in rules.read_text()
    assert run(["explain", str(rules)]) == 0
    assert len(list(Path("s/plots").iterdir())) > 3
    assert "SIMULATED" in Path("s/report.html").read_text()


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


def test_what_is_left_is_counted(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """One run that is lost is one start."""
    assert ground.sweep("--setting", "ring/ll", "--communicators", "1") == 0
    shutil.rmtree(max(Path("s/runs").iterdir(), key=lambda run: int(run.name)))
    capsys.readouterr()
    assert ground.sweep("--setting", "ring/ll", "--communicators", "1", "--plan") == 0
    assert "\n1 start of all ranks, about" in capsys.readouterr().out


def test_more_is_measured_where_more_is_asked_for(ground: Ground) -> None:
    """Another setting, more communicators: only those."""
    assert ground.sweep("--setting", "ring/ll", "--communicators", "1") == 0
    first = ground.table()
    assert ground.sweep("--setting", "ring/ll", "--setting", "tree/ll", "--communicators", "2") == 0
    table = ground.table()
    rough = table[(table["purpose"] == "rough") & (table["step"] == "measure")]
    assert not rough.duplicated(["setting", "placement", "nbytes", "clock"]).any()
    assert len(rough[rough["setting"] == "tree/ll"]) == len(rough[rough["setting"] == "ring/ll"])
    own = "setting == 'baseline' and step == 'measure'"
    assert len(table.query(own)) == 2 * len(first.query(own))


def test_variants_are_processes_of_their_own(ground: Ground) -> None:
    """In turns with the site's, with and without the plugin; their variables are in both."""
    Path("own.yaml").write_text(
        "format: 1\nvariants:\n  fewer: {summary: fewer channels, environment: {NCCL_MAX_NCHANNELS: 4}}\n"
    )
    words = ("--setting", "ring/simple", "--variants", "own.yaml", "--variant", "fewer")
    assert ground.sweep(*words) == 0
    made = [run_.file for run_ in runs.read_runs(Path("s"))]
    fine = [(one.variant, one.plugin) for one in made if one.purpose == runs.FINE]
    turn = [("default", False), ("default", True), ("fewer", False), ("fewer", True)]
    assert fine == turn
    assert all(
        (("NCCL_MAX_NCHANNELS", "4") in one.added) == (one.variant == "fewer") for one in made
    )
    found = ground.samples().query("unusable == ''")
    assert set(found["variant"]) == {"default", "fewer"}
    assert run(["emit-config", "s"]) == 0


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
    assert "3 starts of all ranks, about" in capsys.readouterr().out
    assert ground.sweep("--plan", "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    assert [one["plugin"] for one in plain["runs"]] == [True, False, True]
    assert plain["simulated"] is True
    assert not Path("s").exists()


def test_a_session_keeps_what_was_asked_for(ground: Ground) -> None:
    """Its sweep.yaml asks for the same again."""
    words = ("--setting", "ring/ll", "--communicators", "2", "--timing", "loop")
    assert ground.sweep(*words) == 0
    text = Path("s/sweep.yaml").read_text()
    assert all(line in text for line in ("runner: perf", "communicators: 2", "timing: loop"))
    assert "repeats" not in text
    n = len(ground.endings())
    assert run(["sweep", "-c", "s/sweep.yaml", "-o", "s"]) == 0
    assert len(ground.endings()) == n


@pytest.mark.parametrize(
    "words",
    [
        ["--collective", "gather"],
    ],
)
def test_what_only_a_benchmark_understands_names_its_runner(
    ground: Ground, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, before anything is looked at."""
    assert ground.sweep(*words) == 2
    assert "--runner rccl-tests" in capsys.readouterr().err


def test_a_session_is_of_one_runner(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """The other one is told so, exit code 7; tune is the rank program's alone."""
    assert ground.sweep("--setting", "ring/ll", "--communicators", "1") == 0
    words = ground.words()[1:]
    assert run(["sweep", *words, "--runner", "rccl-tests"]) == 7
    assert "was measured by rccltune-perf" in capsys.readouterr().err
    assert run(["tune", *words, "--runner", "rccl-tests"]) == 2
    assert "sweep --runner rccl-tests" in capsys.readouterr().err


def test_one_clock_where_it_is_asked_for(ground: Ground) -> None:
    """Loops at every size, and samples say so."""
    assert ground.sweep("--setting", "ring/ll", "--timing", "loop", "--communicators", "1") == 0
    assert set(ground.table().query("step == 'measure'")["clock"]) == {"loop"}
    assert set(ground.samples()["clock"]) == {"loop"}


def test_a_budget_ends_it_and_the_next_command_goes_on(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has a row is kept; exit code 0, or 2 where nothing could be measured."""
    assert ground.sweep("--budget", "0.3s") in (0, 2)
    n_rows = len(ground.table())
    capsys.readouterr()
    assert ground.sweep("--budget", "10m") == 0
    assert len(ground.table()) > n_rows
    table = ground.table().query("step == 'measure'")
    names = ["purpose", "setting", "placement", "nbytes", "clock"]
    assert table.groupby(names).size().max() == 4
    assert set(table["state"]) == {"good", "not-offered"}


def test_a_session_is_of_one_library(
    ground: Ground, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file under the same name is another machine; exit code 7."""
    assert ground.sweep("--setting", "ring/ll", "--communicators", "1") == 0
    monkeypatch.setattr("rccltune.perf.library.digest_of", lambda _: "0" * 64)
    assert ground.sweep("--setting", "ring/ll", "--communicators", "1") == 7
    assert "benchmark_sha256" in capsys.readouterr().err
