"""``--librccl real`` as a user has it: what is refused before anything starts, and what a session says.

The sweeps run over the real RCCL where scripts/fetch-rccl has fetched it, else they are skipped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sample_records import records

from rccltune.cli import run
from rccltune.measure.real_rccl import (
    check_real_memory,
    real_library,
    real_start_s,
)
from rccltune.model.errors import MachineError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Role
from rccltune.model.vocabulary import Collective
from rccltune.session.samples import load_frame
from rccltune.session.store import open_session

REAL = ("--simulate", "mi300x", "--mode", "spx-nps1", "--librccl", "real")
TWO_HOSTS = Path(__file__).parents[2] / "examples/nodes/two-mi300x.yaml"
SMALL = (*REAL, "--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "64K")


@pytest.fixture
def fetched(stand_ins: None) -> Path:
    """The real library."""
    try:
        return real_library(Path("real"), os.environ)
    except MachineError as error:
        pytest.skip(f"{error}: scripts/fetch-rccl fetches it")


def test_nothing_fetched_says_how(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4 and the command, before anything is started."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    assert run(["sweep", "--runner", "rccl-tests", *SMALL]) == 4
    said = capsys.readouterr().err
    assert "scripts/fetch-rccl" in said
    assert not (here / "rccltune-session").exists()


def test_memory_is_checked_before_anything_starts(tmp_path: Path) -> None:
    """64 ranks took 6.7 GB in 64 processes and 6.2 GB in one (docs/simulated-nodes.md)."""
    meminfo = tmp_path / "meminfo"

    def check(n_ranks: int, n_hosts: int = 1, *, one_process: bool = False, mib: int) -> None:
        meminfo.write_text(f"MemTotal: 4 kB\nMemAvailable:   {1024 * mib} kB\n")
        check_real_memory(n_ranks, n_hosts, one_process=one_process, meminfo=meminfo)

    for one_process in (True, False):
        check(64, one_process=one_process, mib=7_200)
        with pytest.raises(MachineError, match="64 ranks"):
            check(64, one_process=one_process, mib=6_000)
    check(16, 2, mib=400)
    check(8, mib=500)
    meminfo.write_text("")
    check_real_memory(64, one_process=False, meminfo=meminfo)
    assert real_start_s(64, one_process=True) < real_start_s(64, one_process=False)


def test_a_library_that_does_not_load_is_said_before_anything_is_measured(
    stand_ins: None, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4, the file and the loader's own words."""
    file = here / "librccl.so.1"
    file.write_bytes(b"RCCL version 2.27.7")
    assert run(["sweep", "--runner", "rccl-tests", *SMALL, "--librccl", str(file), "-o", "s"]) == 4
    said = capsys.readouterr().err
    assert str(file) in said
    assert "file too short" in said
    assert not (here / "s/launches").exists()


def test_a_session_says_what_is_real_and_is_not_mixed(
    fetched: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its header, what its log proves; the imitation is refused beside it."""
    few = ("--np", "2", "--factor", "8", "--setting", "tree/ll")
    says = ("--env", "NCCL_DEBUG=INFO", "--env", "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING")
    sweep = ("sweep", "--runner", "rccl-tests", *SMALL, "--collective", "alltoall", *few, *says)
    assert run([*sweep, "-o", "s"]) == 0
    assert "times simulated" in capsys.readouterr().err
    header = json.loads((here / "s/session.json").read_text())
    assert header["simulated"] is True
    assert header["fingerprint"]["runner"].startswith("RCCL 2.27.7, real (")
    samples = [
        one
        for one in records(load_frame(open_session(here / "s"), Reporter()))
        if one.doubt is None
    ]
    forced = [one for one in samples if str(one.executed).startswith("tree/ll")]
    assert forced
    alone = [one for one in samples if one.key.collective is Collective.ALLTOALL]
    assert {one.key.setting.role for one in alone} == {Role.BASELINE}
    assert {one.n_wrong for one in samples} == {None}
    assert run(["emit-config", "s", "-o", "-", "--min-gain", "0"]) == 0
    assert "over RCCL 2.27.7, real" in capsys.readouterr().out
    assert run(["sweep", "--runner", "rccl-tests", *SMALL[:4], *SMALL[6:], *few, "-o", "s"]) == 7


@pytest.mark.long
@pytest.mark.timeout(400)
def test_all_that_a_tune_makes_says_what_is_real(
    fetched: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rule file, environment, verdict, fit, page and talk; results are "not checked", never "0 wrong"."""
    sizes = ("--collective", "all_reduce", "--min-bytes", "128K", "--max-bytes", "2M")
    settings = ("--setting", "ring/ll", "--setting", "ring/simple")
    assert run(["tune", *REAL, *sizes, *settings, "-o", "s"]) == 0
    said = capsys.readouterr()
    words = json.loads((here / "s/session.json").read_text())["fingerprint"]["runner"]
    assert words.startswith("RCCL 2.27.7, real (")
    assert words.endswith("); times simulated")
    assert f"({words}; results not checked)" in " ".join(said.out.split())
    for name in ("fit", "verdict"):
        assert json.loads((here / f"s/{name}.json").read_text())["runner"] == words
    verdict = json.loads((here / "s/verdict.json").read_text())
    assert {one.get("n_wrong") for one in verdict["verdicts"]} == {None}
    assert verdict["rules"] > 0
    page = (here / "s/report.html").read_text()
    assert f"{words}; no result was checked" in page
    assert "; results not checked</td>" in page
    rules = (here / "s/rccl_tuner_gfx942_spx-nps1.csv").read_text().replace("\n# ", " ")
    assert f"SIMULATED, no hardware ({words}; results not checked)" in rules
    sourced = (here / "s/rccl_tuner_gfx942_spx-nps1.env").read_text().replace("\n# ", " ")
    assert f"over {words}" in sourced
    capsys.readouterr()
    assert run(["explain", "s/rccl_tuner_gfx942_spx-nps1.csv"]) == 0
    assert f"({words}; results not checked)" in " ".join(capsys.readouterr().out.split())
    assert run(["explain", "s/rccl_tuner_gfx942_spx-nps1.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runner"] == words
    logs = [str(path) for path in (here / "s/runs").glob("*/log-0.txt")]
    assert run(["why", *logs]) == 0
    assert ", real; times simulated" in capsys.readouterr().out


TWO = (
    *("sweep", "--runner", "rccl-tests", "--simulate", str(TWO_HOSTS), "--librccl", "real"),
    *("-o", "s"),
)


@pytest.mark.long
def test_two_hosts_say_what_ran(fetched: Path, here: Path) -> None:
    """This release's number may overwrite a protocol; the benchmark's -A asks the library itself."""
    sizes = ("--collective", "all_reduce", "--max-bytes", "1M", "--factor", "16")
    assert run([*TWO, *sizes, "--setting", "tree/ll128"]) == 0
    samples = records(load_frame(open_session(here / "s"), Reporter()))
    forced = [one for one in samples if one.key.setting.role is Role.FORCED and one.doubt is None]
    assert forced
    assert all(str(one.executed).startswith("tree/ll128") for one in forced)
