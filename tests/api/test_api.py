"""rccltune.load and rccltune.api: tables and functions for programs and notebooks.

Expected values come from the session's files, read here by csv, json and pandas alone.
"""

from __future__ import annotations

import csv
import json
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yamls
from builds import make_session_once

import rccltune
from rccltune import api, plugin
from rccltune.model.defaults import SESSION
from rccltune.model.errors import (
    CommandLineError,
    InputFileError,
    OutputError,
    RccltuneError,
    SessionError,
    TooLittleDataError,
)
from rccltune.model.reporter import Reporter
from rccltune.model.schema import to_plain

REPOSITORY = Path(__file__).resolve().parents[2]


# Two settings at five sizes, where ring/simple is faster than the library's ring/ll.
WISH: dict[str, Any] = {
    "mode": "spx-nps1",
    "collective": ["all_reduce"],
    "min_bytes": "64K",
    "max_bytes": "1M",
    "setting": ["ring/ll", "ring/simple"],
    # LL128 is forced from the start, so that tune makes no second session for it.
    "env": {"RCCL_LL128_FORCE_ENABLE": "1"},
}


def small(path: Path) -> Path:
    """The smallest node on two GPUs."""
    raw = yamls.loaded((REPOSITORY / "examples/nodes/smallest.yaml").read_text(encoding="utf-8"))
    raw["scale"]["ranks"] = 2
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that was swept, chosen from and verified through these functions."""
    if not (plugin.native_folder() / "rccltune-perf").is_file():
        pytest.skip("this install has no rank program")

    def make(place: Path) -> None:
        folder = place / SESSION
        done = api.sweep(folder, **WISH, simulate=small(place / "node.yaml"))
        assert done.n_samples > 0
        emitted = api.emit_config(folder)
        assert emitted.path is not None
        api.verify(folder)

    return make_session_once(tmp_path_factory, "api", make)


def test_samples_are_the_files(made: Path) -> None:
    """The same numbers as pandas reads from samples.csv without rccltune."""
    ours = rccltune.load(made).samples
    plain = pd.read_csv(made / "samples.csv")
    assert list(ours.columns) == list(plain.columns)
    assert len(ours) == len(plain) > 100
    for name in ("run", "setting", "nbytes", "time_us", "communicator", "rough"):
        assert ours[name].tolist() == plain[name].tolist()
    assert (ours["unusable"].isna() == plain["unusable"].isna()).all()
    assert ours["wrong"].isna().sum() == plain["wrong"].isna().sum()


def test_curves_and_crossovers_are_the_fits(made: Path) -> None:
    """As fit.json has them."""
    loaded = rccltune.load(made)
    kept = json.loads((made / "fit.json").read_text())
    points = [
        (
            curve["key"]["placement"],
            point["nbytes"],
            point["time_us"],
            point.get("n_communicators", 1),
        )
        for curve in kept["curves"]
        for point in curve["points"]
    ]
    found = loaded.points
    assert len(points) > 20
    assert len(found) == len(points)
    assert found["placement"].tolist() == [one[0] for one in points]
    assert found["nbytes"].tolist() == [one[1] for one in points]
    assert found["time_us"].tolist() == pytest.approx([one[2] for one in points])
    assert found["n_communicators"].tolist() == [one[3] for one in points]
    assert (found["low_us"] <= found["time_us"]).all()
    assert (found["time_us"] <= found["high_us"]).all()
    curves = loaded.curves
    assert len(curves) == len(kept["curves"])
    assert curves["n_sizes"].tolist() == [len(one["points"]) for one in kept["curves"]]
    assert curves["model"].tolist() == [one["chosen"] for one in kept["curves"]]
    for row, curve in zip(curves.itertuples(), kept["curves"], strict=True):
        (fit,) = (one for one in curve["fits"] if one["model"] == row.model)
        if fit["segments"]:
            # Of 1 GB a call the slope alone counts: bytes over time.
            last = fit["segments"][-1]
            assert row.latency_us == fit["segments"][0]["latency_us"]
            if last["us_per_byte"] > 0:
                assert row.gb_per_s * 1e9 * last["us_per_byte"] * 1e-6 == pytest.approx(1)
    crossed = loaded.crossovers
    assert crossed["at_nbytes"].tolist() == [one["at_nbytes"] for one in kept["crossovers"]]
    assert set(crossed["evidence"]) <= {"interval", "bracket"}


def test_a_rule_file_is_a_table(made: Path, tmp_path: Path) -> None:
    """With a session's columns; what the plugin would refuse, and what is not there, is said."""
    [path] = made.glob("rccl_tuner_*.csv")
    read = api.read_rules(path)
    assert set(read["file"]) == {str(path)}
    pd.testing.assert_frame_equal(
        read.drop(columns="file"), rccltune.load(made).rules.drop(columns="file")
    )
    file = tmp_path / "theirs.csv"
    file.write_text("allreduce,0,1024,tree,ll,-1,1,64,-1,-1\n")
    [row] = api.read_rules(file).to_dict("records")
    assert (row["setting"], row["max_nbytes"], row["n_ranks"]) == ("tree/ll", 1024, 64)
    file.write_text("allreduce,0,1024,bush,ll,-1,1,64,-1,-1\n")
    for bad in (file, tmp_path / "none.csv"):
        with pytest.raises(InputFileError):
            api.read_rules(bad)


def test_rules_are_the_rule_files(made: Path) -> None:
    """Rows and holes of the CSV, and no candidate's."""
    loaded = rccltune.load(made)
    [path] = made.glob("rccl_tuner_*.csv")
    text = path.read_text()
    rows = list(csv.reader(line for line in text.splitlines() if line and line[0] != "#"))
    rules = loaded.rules[loaded.rules["setting"].notna()]
    assert set(loaded.rules["file"]) == {path.name}
    assert len(rows) == len(rules) > 0
    assert rules["min_nbytes"].tolist() == [int(row[1]) for row in rows]
    assert rules["max_nbytes"].tolist() == [int(row[2]) for row in rows]
    assert [one.split("/")[:2] for one in rules["setting"]] == [row[3:5] for row in rows]
    assert rules["n_ranks"].tolist() == [int(row[7]) for row in rows]
    holes = re.findall(r"^#@ hole (\d+) (\d+) (.*)$", text, re.MULTILINE)
    found = loaded.rules[loaded.rules["setting"].isna()]
    shown = zip(found["min_nbytes"], found["max_nbytes"], found["reason"], strict=True)
    assert [(str(low), str(high), why) for low, high, why in shown] == holes
    assert set(found["collective"]) == {"all_reduce"}


def test_verdicts_are_the_verification(made: Path) -> None:
    """Each size of verdict.json."""
    kept = json.loads((made / "verdict.json").read_text())["verdicts"]
    verdict = rccltune.load(made).verdicts
    assert len(verdict) == len(kept) > 0
    for name in ("nbytes", "verdict", "baseline_us", "tuned_us"):
        assert verdict[name].tolist() == [one[name] for one in kept]
    for column, name in (("ratio", "value"), ("low", "low"), ("n_replicates", "n")):
        assert verdict[column].tolist() == [one["gain"][name] for one in kept]


def test_nothing_is_printed_and_everything_is_logged(
    made: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where samples must be read again; the logger rccltune is told of it."""
    folder = tmp_path / "copied"
    shutil.copytree(made, folder)
    (folder / "samples.csv").unlink()
    with caplog.at_level(logging.INFO, "rccltune"):
        assert api.fit(folder).curves
        assert api.emit_config(folder, "-").text.startswith("#@ format 1")
        drawn = api.plot(folder, tmp_path / "figures", figures=["time"])
        assert [path.name for path in drawn] == ["time.png"]
        assert api.report(folder, tmp_path / "page.html").path.exists()
        [rules] = folder.glob("rccl_tuner_*.csv")
        assert api.explain(rules, collective="all_reduce", n_ranks=2).parts
    assert capfd.readouterr() == ("", "")
    assert "made again from the raw runs and logs" in caplog.text


def test_a_sweep_tells_of_its_steps(tmp_path: Path, made: Path) -> None:
    """Whoever wants to know gives a reporter; a session that is there has nothing left to do."""

    class Counting(Reporter):
        n_steps = 0

        def progress(self, step: object) -> None:
            self.n_steps += step is not None

    folder = tmp_path / "session"
    shutil.copytree(made, folder)
    node = made.parent / "node.yaml"
    told = Counting()
    api.sweep(folder, **WISH, simulate=node, reporter=told)
    assert told.n_steps == 0
    api.sweep(folder, **{**WISH, "setting": ["tree/ll"]}, simulate=node, reporter=told)
    assert told.n_steps > 0
    assert "tree/ll" in set(rccltune.load(folder).samples["setting"])


@pytest.mark.usefixtures("undrawn")
def test_tune_goes_on_with_what_is_there(
    made: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The whole way in a session that was swept: no run of its sweep again, rules, page; deployed."""
    folder = tmp_path / "session"
    shutil.copytree(made, folder)
    before = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/rank-*.csv")}
    done = api.tune(folder, **WISH, simulate=made.parent / "node.yaml")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert done.simulated
    assert done.verified
    assert done.report.path.exists()
    assert done.emitted.zones
    placed = api.deploy(tmp_path / "site", folder)
    assert (tmp_path / "site" / "env.sh").exists()
    assert to_plain(placed)
    assert capfd.readouterr().out == ""


def test_workload_and_why_read_what_jobs_leave(tmp_path: Path) -> None:
    """A record of the plugin: counted, and its rules explained; a file of nothing is refused."""
    record = tmp_path / "record.csv"
    record.write_text(
        "#@ format 1\n"
        "collective,nBytes,nRanks,nNodes,calls,maxBytes,totalBytes\n"
        "allreduce,1048576,8,1,40,1048576,41943040\n"
    )
    other = tmp_path / "other.txt"
    other.write_text("hello\n")
    with pytest.raises(OutputError):
        api.workload([other])
    with pytest.raises(RccltuneError):
        api.why([other])


def test_mistakes_are_raised_with_their_exit_codes(made: Path, tmp_path: Path) -> None:
    """As the command line would end, and with what to do next."""
    with pytest.raises(SessionError) as session:
        rccltune.load(tmp_path)
    with pytest.raises(SessionError) as swept:
        api.verify(tmp_path)
    with pytest.raises(InputFileError) as options:
        api.sweep(tmp_path / "s", mode="cpx", max_bytes="many", colective="all_reduce")
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(CommandLineError) as there:
        api.report(made, tmp_path / "page.html")
    for told, code in ((session, 7), (swept, 7), (options, 3), (there, 2)):
        assert told.value.exit_code == code
        assert told.value.hint
    for word in ("many", "colective"):
        assert word in options.value.message
    assert not (tmp_path / "s").exists()
    assert (tmp_path / "page.html").read_text() == "mine"
    assert issubclass(TooLittleDataError, RccltuneError)


def test_importing_it_costs_nothing() -> None:
    """No table, no figure, no verb is loaded until it is asked for; other names are no names."""
    program = (
        "import sys, rccltune\n"
        "assert 'load' in rccltune.__all__\n"
        "print([name for name in sys.modules if name.startswith('rccltune.') "
        "and not name.startswith('rccltune.model') "
        "or name in ('pandas', 'numpy', 'pydantic', 'yaml')])\n"
        "try: rccltune.nothing\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [
        "[]",
        "module 'rccltune' has no attribute 'nothing'",
    ]
