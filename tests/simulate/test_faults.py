"""What goes wrong, goes wrong as on a real machine, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from math import sqrt
from pathlib import Path

import pytest
from simulation import Sim, Small, leftovers, plugin_env
from wording import lacks


def stop(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End a launch as a user would, and collect what it said."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=30)


def busy_seconds(pid: int) -> float:
    """CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_hang_of_one_setting(sim: Sim, small: Small) -> None:
    """The rows before it are out, the process sleeps."""
    node = small("faults: [{kind: hang, setting: tree/ll, bytes: [4096, 8192]}]\n")
    assert sim.run(node, "-b 8 -e 1M -f 2").code == 0  # ring/ll runs: nothing happens
    process = sim.start(
        node,
        "-b 1K -e 64K -f 2 -w 0",
        NCCL_ALGO="tree",
    )
    used = -1.0
    deadline = time.monotonic() + 30
    while (now := busy_seconds(process.pid)) > used and time.monotonic() < deadline:
        used = now
        time.sleep(1)
    assert now == used
    assert process.poll() is None
    out, _ = stop(process)
    sizes = [int(x.split()[0]) for x in out.splitlines() if " float " in x and len(x.split()) > 8]
    assert sizes == [1024, 2048]


@pytest.mark.mpi
def test_one_rank_that_differs_hangs_all_processes_asleep(sim: Sim, small: Small) -> None:
    """As in the library, and without burning the machine."""
    node = small("faults: [{kind: differs, rank: 2, with: tree/ll, bytes: [2048, 2048]}]\n")
    process = sim.start(node, "-b 1K -e 4K -f 2", np=4, RCCLTUNE_RUN_ID=f"hang-{os.getpid()}")
    ranks: list[int] = []
    # Starting takes as long as the machine makes it; asleep is what they must come to be.
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        before = sum(busy_seconds(p) for p in ranks)
        time.sleep(1)
        asleep = len(ranks) == 4 and sum(busy_seconds(p) for p in ranks) - before < 0.1
        if asleep and not leftovers(sim):  # their name is gone as soon as all have arrived
            break
        ranks = [p for p in children(process.pid) if "all_reduce_perf" in command(p)]
    else:
        pytest.fail("the ranks never came to rest")
    assert process.poll() is None
    stop(process)
    deadline = time.monotonic() + 10
    # A dead rank that nobody has waited for yet has no command line any more.
    while any(command(p) for p in ranks) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(command(p) for p in ranks)


def command(pid: int) -> str:
    """What a process was started as."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """All descendants."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry.name), *children(int(entry.name))]
    return found


@pytest.mark.parametrize(
    ("how", "code"),
    [("segv", -signal.SIGSEGV), ("kill", -signal.SIGKILL), ("exit", 7)],
)
def test_crash(sim: Sim, small: Small, how: str, code: int) -> None:
    """One process that plays all ranks dies as a rank would."""
    node = small(
        f"faults: [{{kind: crash, setting: ring/ll, how: {how}, exit_code: 7, bytes: [2048, 2048]}}]\n"
    )
    got = sim.run(node, "-b 1K -e 4K -f 2 -w 0")
    assert got.code == code
    assert "1024" in got.out
    assert "Out of bounds" not in got.out


def test_wrong_results(sim: Sim, small: Small) -> None:
    """#wrong, FAILED and exit code 1; unseen with -c 0."""
    node = small("faults: [{kind: wrong, setting: tree/ll, elements: 12, bytes: [2048, 4096]}]\n")
    good = sim.run(node, "-b 1K -e 8K -f 2")
    assert good.code == 0
    got = sim.run(node, "-b 1K -e 8K -f 2", NCCL_ALGO="tree")
    assert got.code == 1
    assert [row.wrong for row in got.rows] == ["0", "12", "12", "0"]
    # Each of the 4 processes counts each of the 4 halves.
    assert "# Out of bounds values : 16 FAILED" in got.out
    unchecked = sim.run(node, "-b 1K -e 8K -f 2 -c 0", NCCL_ALGO="tree")
    assert unchecked.code == 0


def test_substitution_is_what_runs_and_what_is_logged(sim: Sim, small: Small) -> None:
    """Requested is not executed (law 6)."""
    node = small(
        "faults: [{kind: substitute, setting: tree/ll, with: ring/simple, bytes: [0, 2048]}]\n"
    )
    got = sim.run(node, "-b 1K -e 4K -f 2 -A 1", NCCL_ALGO="tree")
    assert [s.rsplit("/", 1)[0] for s in got.settings.values()] == [
        "ring/simple",
        "ring/simple",
        "tree/ll",
    ]
    assert got.times[1024] > 60


def test_slow_rank_of_a_share_of_the_launches(sim: Sim, small: Small) -> None:
    """As many as its probability says; such a launch is slow in all passes, with that setting."""
    launches, probability = 100, 0.3
    node = small(
        "faults: [{kind: slow-rank, rank: 3, setting: ring/simple, factor: 1.5, probability: 0.3}]\n"
    )
    env = {"NCCL_PROTO": "LL,Simple", **plugin_env(sim, "ring/simple,16-16")}
    plain = sim.run(small(), "-b 8 -e 16 -f 2", **env).times
    slow = 0
    for launch in range(launches):
        rows = sim.run(node, "-b 8 -e 16 -f 2 -N 3", RCCLTUNE_SIM_LAUNCH=f"l{launch}", **env).rows
        assert {row.time_us for row in rows if row.size == 8} == {plain[8]}  # ring/ll
        (factor,) = {round(row.time_us / plain[16], 3) for row in rows if row.size == 16}
        assert factor in (1, 1.5)
        slow += factor == 1.5
    chance = 4 * sqrt(probability * (1 - probability) / launches)
    assert slow / launches == pytest.approx(probability, abs=chance)


def fake_launch(sim: Sim, node: Path, rank: int, size: int, **env: str) -> subprocess.Popen[str]:
    """A rank as Hydra would start it; its siblings have the same parent."""
    return subprocess.Popen(
        sim.argv("all_reduce", "-b 1K -e 4K -f 2", None),
        env=sim.environment(node, env | {"PMI_RANK": str(rank), "PMI_SIZE": str(size)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ranks_of_hydra_and_srun_meet(sim: Sim, small: Small, tmp_path: Path) -> None:
    """PMI_RANK under one parent, SLURM_PROCID within a step."""
    node = small()
    env = {"RCCLTUNE_SIM_SHM_DIR": str(tmp_path)}
    hydra = [fake_launch(sim, node, rank, 4, **env) for rank in range(4)]
    outs = [p.communicate(timeout=30)[0] for p in hydra]
    assert [p.returncode for p in hydra] == [0] * 4
    assert lacks(outs[0], "0 OK", "of bounds") == []
    assert not any(outs[1:])
    step = {"SLURM_NTASKS": "2", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    two = small(ranks=2)
    srun = [
        subprocess.Popen(
            sim.argv("all_reduce", "-b 1K -e 4K -f 2", None),
            env=sim.environment(two, env | step | {"SLURM_PROCID": str(rank)}),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    assert all(p.wait(timeout=30) == 0 for p in srun)
    assert not list(tmp_path.glob("rccltune-sim-*"))
    for p in srun:
        p.stdout.close()


def kill_in_waiting(process: subprocess.Popen[str], folder: Path) -> None:
    """Kill a rank that has made its meeting place and waits there for the others."""
    deadline = time.monotonic() + 30
    while not list(folder.glob("rccltune-sim-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    process.kill()
    process.communicate()


def test_what_a_killed_launch_left_is_swept_by_the_next(
    sim: Sim, small: Small, tmp_path: Path
) -> None:
    """A meeting place whose maker is dead is removed."""
    node = small()
    env = {"RCCLTUNE_SIM_SHM_DIR": str(tmp_path), "RCCLTUNE_RUN_ID": "killed"}
    lonely = fake_launch(sim, node, 0, 4, **env)  # the other three never come
    kill_in_waiting(lonely, tmp_path)
    (left,) = tmp_path.glob("rccltune-sim-*")
    other = [
        fake_launch(sim, node, rank, 4, **(env | {"RCCLTUNE_RUN_ID": "next"})) for rank in range(4)
    ]
    for p in other:
        p.communicate(timeout=30)
    assert [p.returncode for p in other] == [0] * 4
    assert not left.exists()
