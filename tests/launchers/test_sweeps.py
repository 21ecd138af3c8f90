"""A sweep under each real launcher gives what one process gives, and leaves nothing running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yamls
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.launch.launch_processes import TAG
from rccltune.simulate import sources

Real = Callable[[str], object]
LONG = pytest.mark.long
# Each starts a whole sweep; how each starts ranks is in test_starting.py at any size.
MORE = [pytest.param(name, marks=LONG) for name in ("openmpi4", "mpich", "intel")]
NAMES = ["openmpi5", "srun", *MORE]
SMALL = [
    "--collective",
    "all_reduce",
    "--min-bytes",
    "4K",
    "--max-bytes",
    "32K",
]
COLUMNS = ["setting", "placement", "nbytes", "time_us", "wrong", "unusable", "ran"]

pytestmark = pytest.mark.mpi


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """The shipped CPX node with four ranks, in an empty working directory."""
    if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")
    monkeypatch.chdir(tmp_path)

    def write(**changes: object) -> Path:
        raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
        raw["scale"] |= {"ranks": 4, "devices_per_oam": 4}
        raw["fill"] = [{"ranks": 4, "placement": "node"}]
        # Curves of the placement that four ranks of one OAM have; all else is filled in.
        raw["curves"] = [
            {**curve, "ranks": 4} for curve in raw["curves"] if curve.get("placement") == "node"
        ]
        path = tmp_path / "node.yaml"
        path.write_text(yamls.dumped(raw | changes), encoding="utf-8")
        return path

    return write


def sweep(node: Path, launcher: str, *more: str) -> int:
    """One simulated sweep into a session named like its launcher."""
    where = ["--simulate", str(node), "--launcher", launcher, "-o", launcher]
    return run(["sweep", "--runner", "rccl-tests", "--mode", "cpx-nps4", *where, *SMALL, *more])


def samples(launcher: str) -> pd.DataFrame:
    """What is in samples.csv, in an order of its own."""
    table = pd.read_csv(Path(launcher) / "samples.csv", keep_default_na=False)[COLUMNS]
    return table.sort_values(COLUMNS).reset_index(drop=True)


def left_running(session: Path) -> list[str]:
    """Processes of any launch of a session: ranks carry its tag and a path into the session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        ours = f"={session}/".encode() in environ and TAG.encode() in environ
        if ours and int(entry.name) != os.getpid():
            found.append(entry.name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_rank_program_does_the_same_under_every_launcher(
    node: Callable[..., Path], real: Real, name: str
) -> None:
    """Rank and size come from the launcher's variables: the rows are those of our own start."""
    path = node()
    sizes = ["--collective", "all_reduce", "--min-bytes", "4K", "--max-bytes", "32K"]

    def swept(launcher: str) -> int:
        where = ["--simulate", str(path), "--launcher", launcher, "-o", launcher]
        few = ["--setting", "ring/ll", "--communicators", "1"]
        return run(["sweep", "--mode", "cpx-nps4", *where, *sizes, *few])

    assert swept("local") == 0
    flavour = real(name).flavour
    assert swept(flavour) == 0
    pd.testing.assert_frame_equal(samples("local"), samples(flavour))
    assert set(samples(flavour)["setting"]) == {"idle", "ring/ll"}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("openmpi5", "127.0.0.2 slots=4"),
        pytest.param("openmpi4", "127.0.0.2 slots=4", marks=LONG),
        pytest.param("mpich", "127.0.0.2:4", marks=LONG),
        pytest.param("intel", "127.0.0.2:4", marks=LONG),
        ("srun", os.uname().nodename.partition(".")[0]),
    ],
)
def test_a_host_file_sends_a_sweep_to_another_host(
    node: Callable[..., Path], real: Real, another_host: None, name: str, line: str
) -> None:
    """Nothing that a rank needs is left behind: settings are forced and proven there as here."""
    path = node()
    Path("hosts").write_text(line + "\n")
    settings = ["--setting", "ring/ll"]
    assert sweep(path, "none", *settings) == 0
    flavour = real(name).flavour

    assert sweep(path, flavour, *settings, "--hostfile", "hosts") == 0
    pd.testing.assert_frame_equal(samples("none"), samples(flavour))
    assert Path("ssh.used").exists() or flavour == "srun"


# A hang takes as long as its time limit: under each launcher in scripts/test --long.
@pytest.mark.parametrize("name", ["openmpi5", pytest.param("srun", marks=LONG), *MORE])
def test_a_hanging_setting_is_ended_under_every_launcher(
    node: Callable[..., Path], real: Real, tmp_path: Path, name: str
) -> None:
    """Time-out: the launcher and all its ranks are gone, all but that setting keeps its samples."""
    path = node(faults=[{"kind": "hang", "setting": "tree/ll", "rank": 2}])
    flavour = real(name).flavour

    assert sweep(path, flavour, "--setting", "tree/ll", "--timeout", "8") == 5
    assert set(samples(flavour)["setting"]) == {"baseline"}
    assert left_running(tmp_path / flavour) == []


@pytest.mark.parametrize("name", ["openmpi5", pytest.param("srun", marks=LONG), *MORE])
def test_no_rank_outlives_a_killed_sweep(
    node: Callable[..., Path], real: Real, tmp_path: Path, name: str
) -> None:
    """SIGKILL of rccltune while its ranks hang: the launcher is told and takes them with it."""
    path = node(faults=[{"kind": "hang", "setting": "tree/ll"}])
    found = real(name)
    flavour = found.flavour
    command = [sys.executable, "-m", "rccltune", "sweep", "--runner", "rccl-tests"]
    command += ["--mode", "cpx-nps4", "-o", flavour, *SMALL]
    command += ["--simulate", str(path), "--launcher", flavour, "--setting", "tree/ll"]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    session = tmp_path / flavour
    # The library as it is comes first; then tree/ll hangs.
    _wait_for(lambda: (session / "runs/2").exists() or started.poll())
    _wait_for(lambda: len(left_running(session)) >= 4)
    assert started.poll() is None
    assert left_running(session)
    started.kill()
    started.wait()
    _wait_for(lambda: not left_running(session))
    assert left_running(session) == []


def _wait_for(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("name", "linked"),
    [("mpich", "openmpi"), ("intel", "openmpi"), ("openmpi4", "mpich"), ("srun", "openmpi")],
)
def test_ranks_that_run_alone_are_named_as_that(
    node: Callable[..., Path],
    real: Real,
    capsys: pytest.CaptureFixture[str],
    name: str,
    linked: str,
) -> None:
    """Launcher and benchmark of different MPIs: N one-rank jobs, exit code 0, not one sample."""
    path = node()
    flavour = real(name).flavour

    assert sweep(path, flavour, "--env", f"RCCLTUNE_SIM_LINKED={linked}") == 5
    said = capsys.readouterr().err
    assert lacks(said, "4 jobs", "4 ranks", "ran instead") == []
    assert "different MPIs" in said
    ends = [json.loads(p.read_text()) for p in Path(flavour).glob("runs/*/ending.json")]
    assert {end["failure"] for end in ends} == {"unreadable"}
