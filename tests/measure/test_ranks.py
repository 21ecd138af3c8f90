"""How runs are started: which variables every rank has, and by which command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import make, step

from rccltune.launch import launch_processes, process
from rccltune.launch.launchers import LAUNCHERS, Launcher
from rccltune.measure import hopeless_runs, rank_program
from rccltune.measure.rank_program import LaunchSetup, LibraryUnderTest
from rccltune.model.errors import LaunchError, MachineError, RccltuneError, SessionError
from rccltune.model.settings import RankLocation, Scale
from rccltune.ranks import runs
from rccltune.ranks.hangs_and_crashes import describe_end

# What the lent machines and their jobs have (law 11), and what chooses.
SITE = {
    "PATH": "/usr/bin",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_SOCKET_IFNAME": "ib0",
    "NCCL_IB_HCA": "=mlx5_0",
    "NCCL_NET": "Socket",
    "NCCL_DEBUG": "WARN",
    "NCCL_MIN_NCHANNELS": "16",
    "NCCL_NTHREADS": "256",
    "LD_LIBRARY_PATH": "/opt/rocm/lib",
}
CHOOSING = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "LL",
    "NCCL_TUNER_PLUGIN": "/site.so",
    "NCCL_TUNER_CONFIG_FILE": "/site.csv",
    "RCCL_OVERRIDE_ALGO": "allreduce:tree",
    "RCCL_LL128_FORCE_ENABLE": "1",
    "RCCL_MSCCL_ENABLE": "1",
    "RCCLTUNE_CONFIG_DIR": "/rules",
}
PLACE = RankLocation(name="node", scale=Scale(n_nodes=1, n_ranks=8))
LIBRARY = LibraryUnderTest(file=Path("/opt/rocm/lib/librccl.so.1"))
GROUND = LaunchSetup(library=LIBRARY, place=PLACE, launcher=Launcher())


FOLDER = Path("/s/runs/1")


def seen(*, plugin: bool, ground: LaunchSetup = GROUND) -> dict[str, str]:
    """What every rank sees."""
    site = {**SITE, **CHOOSING, "NCCL_COMM_ID": "127.0.0.1:9999"}
    made = rank_program.environment_of(ground, FOLDER, site, "word", with_plugin=plugin)
    return dict(made.variables)


@pytest.mark.parametrize("plugin", [True, False])
def test_what_belongs_to_the_site_reaches_every_rank(*, plugin: bool) -> None:
    """Interfaces, transports, NVLS off, channels and threads: in every run, baseline included."""
    found = seen(plugin=plugin)
    assert SITE.items() <= found.items()
    assert found[rank_program._ALL_RANKS] == "word"
    assert "NCCL_COMM_ID" not in found


def test_what_chooses_is_cleared_with_our_plugin_and_kept_in_the_baseline() -> None:
    """The baseline is the site as it is."""
    found = seen(plugin=True)
    assert found.pop("NCCL_TUNER_CONFIG_FILE") == "/s/runs/1/rules.csv"
    assert CHOOSING.keys().isdisjoint(found)
    assert CHOOSING.items() <= seen(plugin=False).items()


def test_the_environment_of_the_session_is_in_both() -> None:
    """What --env sets wins over what is cleared."""
    added = (("RCCL_LL128_FORCE_ENABLE", "1"), ("NCCL_ALGO", "Tree"))
    ground = replace(GROUND, added=added, cleared=("NCCL_DEBUG",))
    for plugin in (True, False):
        found = seen(plugin=plugin, ground=ground)
        assert found["RCCL_LL128_FORCE_ENABLE"] == "1"
        assert found["NCCL_ALGO"] == "Tree"
        assert "NCCL_DEBUG" not in found


def command(ground: LaunchSetup, *, plugin: bool = True) -> list[str]:
    """The command line."""
    made = rank_program.environment_of(ground, FOLDER, SITE, "word", with_plugin=plugin)
    try:
        return list(rank_program.argv_of(ground, FOLDER, made, with_plugin=plugin)[0])
    except MachineError as error:
        pytest.skip(str(error))


def test_on_one_node_the_program_starts_its_ranks() -> None:
    """With the plugin or without."""
    words = command(GROUND)
    assert words[1:3] == ["--start", "8"]
    assert "--plugin" in words
    assert "--runtime" not in words
    bare = command(GROUND, plugin=False)
    assert "--plugin" not in bare


def test_a_launcher_takes_every_variable_along() -> None:
    """Also to other hosts: Open MPI takes those alone that it is told by name."""
    launcher = LAUNCHERS["openmpi"](program=Path("/usr/bin/mpirun"))
    words = command(replace(GROUND, launcher=launcher, hostfile=Path("/hosts")))
    named = {words[at + 1] for at, word in enumerate(words) if word == "-x"}
    assert {
        "NCCL_NVLS_ENABLE",
        "RCCLTUNE_PERF_TOKEN",
        launch_processes.TAG,
        "LD_LIBRARY_PATH",
    } <= named
    assert words[words.index("-np") + 1] == "8"
    assert "--start" not in words


def test_a_host_that_plays_several_tells_each_rank_which(tmp_path: Path) -> None:
    """The real library tells simulated hosts apart by a variable of each rank."""
    ground = replace(GROUND, host_ids=("a", "a", "b", "b"))
    made = rank_program.environment_of(ground, tmp_path, SITE, "word", with_plugin=False)
    argv, _ = rank_program.argv_of(ground, tmp_path, made, with_plugin=False)
    lines = (tmp_path / "start.sh").read_text().splitlines()
    assert argv[:2] == ("/bin/sh", str(tmp_path / "start.sh"))
    assert [line.split()[0] for line in lines[1:5]] == ["NCCL_HOSTID=a"] * 2 + ["NCCL_HOSTID=b"] * 2
    assert "--rank 3 --ranks 4 --local-rank 1" in lines[4]


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (2, LaunchError, "refused its plan"),
        (3, MachineError, "--librccl"),
        (4, MachineError, "--np"),
        (5, MachineError, "--max-bytes"),
        (8, SessionError, "free space"),
        (64, MachineError, "another node"),
    ],
)
def test_what_no_setting_is_to_blame_for_stops(
    tmp_path: Path, code: int, error: type[RccltuneError], said: str
) -> None:
    """In the program's own words."""
    end = {"exit_code": code, "failure": "crash", "words": "its own words"}
    make(tmp_path, [step("check", "ring/ll")], done=[1, 1], ending=end)
    with pytest.raises(error, match="its own words") as caught:
        hopeless_runs.raise_if_hopeless(runs.read_runs(tmp_path)[0])
    assert said in str(caught.value)


def test_a_host_that_does_not_see_the_session_is_told_so(tmp_path: Path) -> None:
    """No disk is full there."""
    words = "node7: the run's folder /tmp/s/runs/1 is not here"
    make(tmp_path, [], ending={"exit_code": 8, "failure": "crash", "words": words})
    with pytest.raises(SessionError, match="node7") as caught:
        hopeless_runs.raise_if_hopeless(runs.read_runs(tmp_path)[0])
    assert "that all hosts share" in str(caught.value)


# As Open MPI 5.0.11 says it of a program that the other host lacks.
LAUNCHER = """\
--------------------------------------------------------------------------
prterun was unable to launch the specified application as it could not
access or execute an executable:

Executable: /opt/rccltune-perf
Node: node7

while attempting to start process rank 2.
--------------------------------------------------------------------------
2 total processes failed to start
"""


def test_ranks_that_a_launcher_does_not_start_are_counted(tmp_path: Path) -> None:
    """In the launcher's words, at once: no setting is to blame, and trying again does not help."""
    own = make(tmp_path, [], n_nodes=2)
    (own / "rank-1.csv").unlink()
    (own / "plan.txt").write_text("")
    (own / "log.txt").write_text(LAUNCHER)
    ended = process.LaunchEnd(
        exit_code=1, signal=None, timed_out=False, lingered=False, duration_s=1.0
    )
    end = describe_end(runs.read_run(own), ended, hung=False)
    made = replace(runs.read_run(own), ended=end)
    with pytest.raises(MachineError, match="1 of 2 ranks started") as caught:
        hopeless_runs.raise_if_hopeless(made)
    assert "Node: node7 while attempting to start process rank 2" in str(caught.value)
