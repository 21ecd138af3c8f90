"""Whatever goes wrong is named; the rest is measured, nothing hangs, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from perf_sweeps import Ground, is_program

from rccltune.cli import run
from rccltune.ranks import runs

# Ways of what another one guards in every run.
ALSO = pytest.mark.long
SETTINGS = ("--setting", "ring/ll", "--setting", "ring/simple", "--setting", "tree/ll")
# Rows for a second or so, in which to strike.
LONG = ("--min-bytes", "16", "--max-bytes", "512M", "--factor", "2", *SETTINGS)


def communicators(samples: pd.DataFrame) -> int:
    """How many are in a table."""
    return len(samples[["run", "communicator"]].drop_duplicates())


def others_are_whole(ground: Ground, *settings: str) -> None:
    """Every other setting has its times at every size, in every communicator."""
    usable = ground.samples().query("unusable == ''")
    for name in (*settings, "idle"):
        own = usable[usable["setting"] == name]
        assert own["nbytes"].nunique() == 5, name
        assert set(own["placement"]) == {"in", "out"}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        pytest.param({"kind": "hang"}, "hung", marks=ALSO),
        ({"kind": "hang", "rank": 1}, "hung"),
        ({"kind": "crash", "how": "segv", "rank": 1}, "crashed"),
        pytest.param(
            *({"kind": "crash", "how": "exit", "exit_code": 1, "rank": 1}, "crashed"), marks=ALSO
        ),
        pytest.param({"kind": "crash", "how": "kill", "rank": 1}, "was killed", marks=ALSO),
        ({"kind": "wrong", "elements": 3}, "gave wrong results"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_a_setting_that_fails_is_excluded(
    ground: Ground, fault: dict[str, object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 5; it is named, chosen nowhere, and not tried again by the same command."""
    # The library itself takes it nowhere.
    ground.change(faults=[{**fault, "setting": "tree/ll", "bytes": [32768, 1 << 30]}])
    assert ground.sweep(*SETTINGS, "--timeout", "1.5s") == 5
    err = capsys.readouterr().err
    assert f"all_reduce tree/ll: it {words}" in err
    assert "hung (" not in err
    assert ("WRONG RESULTS: all_reduce tree/ll" in err) is (fault["kind"] == "wrong")
    others_are_whole(ground, "ring/ll", "ring/simple")
    samples = ground.samples()
    mine = samples[samples["setting"] == "tree/ll"]
    assert (mine["unusable"] != "").all()

    n = len(ground.endings())
    assert ground.sweep(*SETTINGS, "--timeout", "1.5s") == 5
    assert len(ground.endings()) == n
    assert run(["emit-config", "s"]) == 0
    (rules,) = Path("s").glob("rccl_tuner*.csv")
    assert ",tree,ll," not in rules.read_text()


def test_a_setting_that_replays_wrong_is_chosen_nowhere(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its calls are right, its replayed graph is not: jobs would replay it; loops alone may go on."""
    fault = {"kind": "wrong-replay", "elements": 3, "setting": "tree/ll"}
    ground.change(faults=[{**fault, "bytes": [32768, 1 << 30]}])
    assert ground.sweep(*SETTINGS) == 5
    err = capsys.readouterr().err
    assert "WRONG RESULTS in replayed graphs: all_reduce tree/ll at 32 KiB" in err
    assert "--timing loop" in err
    others_are_whole(ground, "ring/ll", "ring/simple")
    samples = ground.samples()
    assert (samples.query("setting == 'tree/ll'")["unusable"] != "").all()
    assert ground.sweep(*SETTINGS, "--timing", "loop", session="loops") == 0
    assert "WRONG" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"kind": "init-error", "message": "no such network"}, "no such network"),
        ({"kind": "crash", "how": "segv", "rank": 1}, "failed twice"),
        ({"kind": "hang", "bytes": [4096, 1 << 30]}, "hung"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_a_library_that_fails_as_it_is_stops_the_sweep(
    ground: Ground, fault: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing could be compared: exit code 5 after a second try, in its own words."""
    ground.change(faults=[fault])
    assert ground.sweep(*SETTINGS, "--timeout", "1.5s") == 5
    err = capsys.readouterr().err
    assert "tried once more" in err
    assert "failed twice" in err
    assert said in err
    assert len(ground.endings()) == 2


@pytest.mark.parametrize(
    ("faults", "said", "doubt"),
    [
        (
            [{"kind": "substitute", "setting": "ring/simple", "with": "ring/ll"}],
            "another setting ran",
            "substituted",
        ),
        ([{"kind": "no-plugin", "rank": rank} for rank in (0, 1)], "asked no tuner", "bypassed"),
    ],
    ids=["overrides the answer", "asks nobody"],
)
def test_a_time_of_something_else_is_no_settings_own(
    ground: Ground,
    faults: list[dict[str, object]],
    said: str,
    doubt: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A library that does not do what it is told loses these rows, and it is said."""
    ground.change(faults=faults)
    assert ground.sweep(*SETTINGS) == 0
    assert said in capsys.readouterr().out
    samples = ground.samples()
    mine = samples[samples["setting"] == "ring/simple"]
    assert set(mine["unusable"]) == {doubt}
    usable = samples[samples["unusable"] == ""]
    assert "idle" in set(usable["setting"])


def test_a_path_that_asks_nobody_loses_its_rows(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the sizes that it serves alone."""
    ground.change(
        paths=["direct"],
        bypasses=[{"collective": "all_reduce", "path": "direct", "bytes": [0, 65536]}],
        curves=[
            *ground.raw["curves"],
            {
                "collective": "all_reduce",
                "setting": "direct",
                "kind": "modelled",
                "source": "made up",
                "points": [[8, 5], [65536, 20]],
            },
        ],
    )
    assert ground.sweep(*SETTINGS) == 0
    assert "512 B to 32 KiB: the library asked no tuner" in capsys.readouterr().out
    samples = ground.samples()
    forced = samples[samples["setting"] == "ring/ll"]
    assert set(forced.query("nbytes <= 65536")["unusable"]) == {"bypassed"}
    assert set(forced.query("nbytes > 65536")["unusable"]) == {""}


def test_ranks_that_are_answered_differently_are_an_error(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """They hang: the setting is excluded."""
    fault = {"kind": "differs", "setting": "tree/ll", "with": "ring/ll", "rank": 1}
    ground.change(faults=[fault])
    assert ground.sweep(*SETTINGS, "--timeout", "1.5s") == 5
    assert "all_reduce tree/ll" in capsys.readouterr().err


def test_too_little_device_memory_is_told_before_anything_is_lost(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the largest size that fits; exit code 4."""
    ground.raw["hardware"]["memory_gib"] = 4
    ground.change()
    assert ground.sweep("--max-bytes", "8G") == 4
    err = capsys.readouterr().err
    assert "--max-bytes" in err
    assert len(ground.table()) == 0
    assert ground.sweep("--max-bytes", "1M", "--setting", "ring/ll") == 0


def test_fewer_gpus_than_ranks_are_told(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 4, and how many there are; by the plan as by the sweep."""
    for plan in ([], ["--plan"]):
        assert ground.sweep("--np", "4", *plan) == 4
        assert "4 ranks need as many GPUs, and 2 can be used here" in capsys.readouterr().err
    assert not Path("s").exists()


def test_a_configuration_file_that_chooses_is_named(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It refills what was cleared; exit code 4. Without it the same command goes on."""
    Path("nccl.conf").write_text("NCCL_ALGO=Ring\n")
    monkeypatch.setenv("NCCL_CONF_FILE", str(Path("nccl.conf").resolve()))
    assert ground.sweep(*SETTINGS) == 4
    assert "still sees NCCL_ALGO=Ring" in capsys.readouterr().err
    monkeypatch.delenv("NCCL_CONF_FILE")
    assert ground.sweep(*SETTINGS) == 0
    others_are_whole(ground, "ring/ll", "tree/ll")


def test_a_library_that_does_not_load_is_told(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the loader's words; exit code 4."""
    Path("librccl.so.1").write_text("RCCL version 2.27.7 is not in here\n")
    assert ground.sweep("--librccl", "librccl.so.1") == 4
    assert "librccl.so.1" in capsys.readouterr().err


# On a file system of its own that is full at first, and then is not.
_FULL = """
import subprocess, sys
from rccltune.cli import run
subprocess.run(["mount", "-o", "remount,size=64k", "s"], check=True)
print("code", run(sys.argv[1:]))
subprocess.run(["mount", "-o", "remount,size=100m", "s"], check=True)
print("code", run(sys.argv[1:]))
"""
_MOUNTED = 'mkdir s && mount -t tmpfs none s || exit 99; "$@" && cp -r s kept'


def test_a_full_disk_is_told_and_the_same_command_goes_on(ground: Ground) -> None:
    """Exit code 7, from the program's rows or from rccltune's own files."""
    words = [sys.executable, "-c", _FULL, *ground.words(*SETTINGS)]
    done = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", _MOUNTED, "sh", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 99:
        pytest.skip("nothing can be mounted here")
    codes = [line for line in done.stdout.splitlines() if line.startswith("code")]
    assert codes == ["code 7", "code 0"], done.stderr
    assert "free space" in done.stderr
    quick = ground.table("kept").query("step == 'measure' and purpose == 'first'")
    assert not quick.duplicated(["setting", "placement", "nbytes", "timing"]).any()
    assert len(set(quick.groupby("setting").size())) == 1
    assert set(quick["setting"]) == {"idle", "ring/ll", "ring/simple", "tree/ll"}


def strike(ground: Ground, whom: str, process: subprocess.Popen[bytes]) -> None:
    """SIGKILL: one rank, rccltune, or everything at once."""
    program = ground.marked(is_program)
    victims = {"rank": program[-1:], "starter": program[:1], "rccltune": [process.pid]}
    for pid in victims.get(whom, [process.pid, *ground.marked()]):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.parametrize("whom", [pytest.param("rccltune", marks=ALSO), "everything"])
def test_rccltune_is_killed_and_goes_on_from_the_next_row(ground: Ground, whom: str) -> None:
    """Nothing stays; no row is measured twice, and no setting is blamed."""
    process = ground.start(*LONG)
    ground.until_rows(60)
    strike(ground, whom, process)
    process.wait(timeout=60)
    assert ground.vanished()
    assert ground.endings()[1:] == [None]
    _, first = runs.read_runs(Path("s"))
    assert first.n_done >= 59

    assert ground.sweep(*LONG) == 0
    assert all(end is None or end.get("failure") is None for end in ground.endings())
    quick = ground.table().query("purpose == 'first' and step != 'communicator'")
    assert not quick.duplicated(["step", "setting", "placement", "nbytes", "timing"]).any()
    assert quick["run"].nunique() == 2
    usable = ground.samples().query("unusable == ''")
    assert communicators(usable.query("setting == 'idle' and not rough")) == 4


@pytest.mark.parametrize("whom", ["rank", pytest.param("starter", marks=ALSO)])
def test_a_rank_that_is_killed_costs_no_setting(ground: Ground, whom: str) -> None:
    """What was under way is measured by new processes in the same sweep."""
    process = ground.start(*LONG)
    ground.until_rows(60)
    strike(ground, whom, process)
    code = process.wait(timeout=120)
    assert ground.vanished()
    first = ground.endings()[1]
    assert first is not None
    assert first["failure"] == "killed"
    assert code == 0
    usable = ground.samples().query("unusable == ''")
    assert communicators(usable.query("setting == 'idle' and not rough")) == 4
    assert usable["setting"].nunique() >= 4


@pytest.mark.parametrize("kind", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=ALSO)])
def test_ctrl_c_ends_everything(ground: Ground, kind: signal.Signals) -> None:
    """Exit code 130 within seconds; the session is whole, so that the same command may go on."""
    process = ground.start(*LONG)
    ground.until_rows(60)
    start = time.monotonic()
    process.send_signal(kind)
    assert process.wait(timeout=60) == 130
    assert time.monotonic() - start < 15
    assert ground.vanished()
    assert not Path("s/writer.lock").exists()
    assert len(ground.samples()) > 0 or len(ground.table()) > 0


def test_two_sessions_at_once_know_nothing_of_each_other(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the site has a port for all."""
    monkeypatch.setenv("NCCL_COMM_ID", "127.0.0.1:9998")
    other = ground.start(*SETTINGS, session="a")
    ground.until_rows(1, session="a", run_number=1)
    assert ground.sweep(*SETTINGS, session="b") == 0
    assert other.wait(timeout=120) == 0
    a, b = (ground.samples(name) for name in "ab")
    columns = ["setting", "placement", "nbytes"]
    assert a[columns].equals(b[columns])


@pytest.mark.mpi
def test_a_launcher_starts_the_same(ground: Ground) -> None:
    """mpirun on this host: the same rows, whoever starts the ranks."""
    assert ground.sweep(*SETTINGS, "--launcher", "openmpi", "--communicators", "1") == 0
    others_are_whole(ground, "ring/ll", "tree/ll")
