"""Two hosts that are network namespaces, real launchers over a real ssh: swept if they are alike."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import yamls
from installed import FOLDER, REPOSITORY, skip_in_a_path_with_a_blank
from machines import Machine
from namespaces import ADDRESSES, TwoHosts, two_hosts
from slurms import Node, Slurm, running
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.simulate import sources
from rccltune.simulate.compiled import written

SMALL = [
    *("--collective", "all_reduce", "--min-bytes", "4K", "--max-bytes", "16K"),
    *("--setting", "ring/ll", "--setting", "ring/simple"),
]
SWEEP = ["sweep", "--runner", "rccl-tests", "-o", "session"]
MI300X = "gpu at=0000:05:00 device=0x74a1 gfx=90402"
TWO = Machine("two", ("cpus 1", f"{MI300X} xccs=4 cus=152 nodes=2 compute=DPX memory=NPS1"))
# The same module as one device.
ONE = Machine("one", ("cpus 1", f"{MI300X} xccs=8 cus=304 nodes=1 compute=SPX memory=NPS1"))

FORMS = {
    "openmpi": "{} slots=2\n",
    "openmpi4": "{} slots=2\n",
    "mpich": "{}:2\n",
    "intel": "{}:2\n",
    "srun": "{}\n",
}

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]
# What is short stays short: these in scripts/test --long.
LONG = pytest.mark.long


@pytest.fixture
def systems() -> dict[str, Machine]:
    """The /sys of each host."""
    return {"hosta": TWO, "hostb": TWO}


@pytest.fixture
def hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, systems: dict[str, Machine]
) -> Iterator[TwoHosts]:
    """Two hosts with two devices each, and a benchmark that plays a node of two hosts."""
    if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")
    monkeypatch.chdir(tmp_path)
    trees = {name: one.write(tmp_path / name) / "sys" for name, one in systems.items()}
    for device in (path for tree in trees.values() for path in tree.glob("bus/pci/devices/*")):
        # Gloo reads what kind each device is; these are processing accelerators.
        (device / "class").write_text("0x120000\n")
    Path("ssh-files").mkdir()
    with two_hosts(tmp_path / "ssh-files", FOLDER / "ssh" / "usr", trees) as found:
        yield found


def node(tmp_path: Path, **release: str) -> Path:
    """Two hosts with two ranks each, compiled as benchmarks read it."""
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["scale"] |= {"ranks": 4, "nodes": 2, "devices_per_oam": 2}
    raw["release"] |= release
    # Both hosts, and one of them.
    places = [{"ranks": 4, "placement": "node"}, {"ranks": 2, "placement": "one-iod"}]
    raw["fill"] = places
    whole = [curve for curve in raw["curves"] if curve.get("placement") == "node"]
    raw["curves"] = [curve | place for place in places for curve in whole]
    # So fast that a rule is worth its line.
    for curve in raw["curves"]:
        if (curve["collective"], curve["setting"]) == ("all_reduce", "ring/ll"):
            curve["points"] = [[nbytes, time_us / 4] for nbytes, time_us in curve["points"]]
    path = tmp_path / "node.yaml"
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    compiled = tmp_path / "node.node"
    compiled.write_bytes(written(sources.load_node(path)))
    return compiled


def wish(tmp_path: Path, launcher: str = "openmpi", **release: str) -> list[str]:
    """A sweep over both hosts with a benchmark that nothing tells from a real one."""
    bench = tmp_path / "tests" / "all_reduce_perf"
    bench.parent.mkdir(exist_ok=True)
    program = plugin.native_folder() / "sim" / "all_reduce_perf"
    bench.write_text(f'#!/bin/sh\nexec {shlex.quote(str(program))} "$@"\n')
    bench.chmod(0o755)
    form = FORMS[launcher]
    Path("hostfile").write_text("".join(form.format(name) for name in ("hosta", "hostb")))
    wanted = ["--rccl-tests", str(bench.parent), "--np", "4", "--launcher", launcher.rstrip("4")]
    wanted += ["--hostfile", "hostfile", "--env", f"RCCLTUNE_SIM_NODE={node(tmp_path, **release)}"]
    # Both hosts are one kernel, whose memory the stand-in's ranks may share.
    return [*wanted, "--env", "RCCLTUNE_SIM_SHM_DIR=/dev/shm", *SMALL]


def sweep(
    hosts: TwoHosts, tmp_path: Path, *more: str, launcher: str = "openmpi", **variables: str
) -> subprocess.CompletedProcess[str]:
    """One sweep, started on the first host."""
    command = [*SWEEP, *wish(tmp_path, launcher), *more]
    return hosts.run("hosta", [*rccltune(launcher), *command], **variables)


def rccltune(launcher: str) -> list[str]:
    """The command, with a launcher first on PATH, where it is looked for first."""
    folder = Path(sys.prefix) if launcher == "openmpi" else FOLDER / launcher / "bin"
    if launcher not in ("mpich", "srun"):
        skip_in_a_path_with_a_blank(folder, f"{launcher} on another host")
    if launcher in ("openmpi", "srun"):
        return [str(Path(sys.executable).with_name("rccltune"))]
    if not (folder / "mpirun").exists():
        pytest.skip(f"{launcher} is not installed: scripts/launchers does it")
    path = os.pathsep.join((str(folder), os.environ["PATH"]))
    return ["env", f"PATH={path}", sys.executable, "-m", "rccltune"]


@pytest.mark.parametrize(
    "launcher", ["openmpi", *(pytest.param(n, marks=LONG) for n in ("openmpi4", "mpich", "intel"))]
)
def test_alike_hosts_are_swept_and_rules_are_for_two_nodes(
    hosts: TwoHosts, tmp_path: Path, launcher: str
) -> None:
    """Ranks on both hosts, forced and proven there as here; hosts.json says what they are."""
    done = sweep(hosts, tmp_path, launcher=launcher)
    assert done.returncode == 0, done.stderr
    assert lacks(done.stderr, "2 hosts", "are alike") == []
    kept = json.loads(Path("session/hosts.json").read_text())
    assert [(one["name"], one["n_ranks"]) for one in kept["hosts"]] == [("hosta", 2), ("hostb", 2)]
    assert {dict(one["facts"])["mode"] for one in kept["hosts"]} == {"dpx-nps1"}
    # The ranks met through the launcher's own MPI, between two networks.
    assert (kept["met_through"], kept["why_not_mpi4py"]) == ("mpi4py", None)
    header = json.loads(Path("session/session.json").read_text())
    assert header["fingerprint"]["hosts"] == ["hosta", "hostb"]

    table = pd.read_csv("session/samples.csv", keep_default_na=False)
    assert set(table["n_nodes"]) == {2}
    assert set(table["n_ranks"]) == {4}
    assert set(table["unusable"]) == {""}
    # The library's log of every rank, in each host's own name: those that the simulated library has.
    logs = [path.name for path in Path("session/runs").glob("*/nccl-*.log")]
    assert {name.split("-")[1] for name in logs} == {"simnode0", "simnode1"}
    assert run(["emit-config", "session", "-o", "rules.csv"]) == 0
    rules = [line.split(",") for line in Path("rules.csv").read_text().splitlines()]
    assert {tuple(one[6:8]) for one in rules if one[0] == "allreduce"} == {("2", "4")}


def refused(done: subprocess.CompletedProcess[str], code: int = 4) -> str:
    """What a sweep said that stopped before it measured anything."""
    assert done.returncode == code, done.stderr
    assert not list(Path("session").glob("runs/*"))
    return done.stderr


@pytest.mark.parametrize("systems", [{"hosta": TWO, "hostb": ONE}])
def test_a_host_in_another_mode_stops_the_sweep(hosts: TwoHosts, tmp_path: Path) -> None:
    """Exit code 4, and a table with the mode of each host by name."""
    said = refused(sweep(hosts, tmp_path))
    rows = [line.split() for line in said.splitlines()]
    assert ["mode", "dpx-nps1", "hosta"] in rows
    assert ["spx-nps1", "hostb"] in rows
    assert ["GPUs", "2", "hosta"] in rows
    # What is alike is not in the table.
    assert "product" not in said
    kept = json.loads(Path("session/hosts.json").read_text())
    assert [dict(one["facts"])["mode"] for one in kept["hosts"]] == ["dpx-nps1", "spx-nps1"]


@LONG
def test_files_and_variables_that_differ_are_in_one_table(hosts: TwoHosts, tmp_path: Path) -> None:
    """What a login there sets, another library of the same name, another build of the benchmark."""
    library = tmp_path / "librccl.so.1"
    library.write_text("RCCL version 2.28.3+hip7.11\n")
    wanted = wish(tmp_path)
    hosts.replace("hostb", library, "RCCL version 2.26.6+hip7.0\n")
    bench = tmp_path / "tests" / "all_reduce_perf"
    hosts.replace("hostb", bench, bench.read_text() + "# built later\n")
    login = hosts.folder / "home-hostb" / ".ssh" / "environment"
    login.parent.mkdir()
    login.write_text("NCCL_NET=Socket\n")

    command = [*SWEEP, "--librccl", str(library), *wanted]
    said = refused(hosts.run("hosta", [*rccltune("openmpi"), *command]))
    rows = [line.split() for line in said.splitlines()]
    assert ["library", "RCCL", "2.28.3+hip7.11"] in [row[:3] for row in rows]
    assert ["RCCL", "2.26.6+hip7.0"] in [row[:2] for row in rows if row[-1:] == ["hostb"]]
    assert ["all_reduce_perf", "hosta"] in [[*row[:1], *row[-1:]] for row in rows]
    assert ["NCCL_NET", "–", "hosta"] in rows
    assert ["Socket", "hostb"] in rows
    assert "plugin" not in {word for row in rows for word in row[:1]}


@LONG
def test_rules_that_differ_stop_the_verification(hosts: TwoHosts, tmp_path: Path) -> None:
    """A rank that reads another rule than its peers hangs the job."""
    assert sweep(hosts, tmp_path).returncode == 0
    rules = tmp_path / "session" / "rules.csv"
    assert run(["emit-config", "session", "-o", str(rules)]) == 0
    hosts.replace("hostb", rules, rules.read_text().replace("ring,ll", "ring,simple"))

    command = [*rccltune("openmpi"), "verify", "session", "--rules", str(rules)]
    done = hosts.run("hosta", command)
    assert done.returncode == 4, done.stderr
    assert {"rules"} == {
        line.split()[0] for line in done.stderr.splitlines() if line.split()[-1:] == ["hosta"]
    }


@LONG
def test_a_host_that_does_not_answer_stops_the_sweep(hosts: TwoHosts, tmp_path: Path) -> None:
    """In the launcher's own words, at once."""
    command = [*SWEEP, *wish(tmp_path)]
    Path("hostfile").write_text("hosta slots=2\nnowhere slots=2\n")
    said = refused(hosts.run("hosta", [*rccltune("openmpi"), *command]))
    assert lacks(said, "openmpi 5", "4 ranks", "not start") == []


@LONG
@pytest.mark.parametrize(
    ("hidden", "said"),
    [(REPOSITORY / "rccltune", "no rccltune"), (Path("tests"), "no all_reduce_perf")],
)
def test_what_another_host_lacks_is_named(
    hosts: TwoHosts, tmp_path: Path, hidden: Path, said: str
) -> None:
    """rccltune is not installed there, or the benchmark."""
    command = [*SWEEP, *wish(tmp_path)]
    hosts.hide("hostb", tmp_path / hidden)
    assert f"hostb: {said}" in refused(hosts.run("hosta", [*rccltune("openmpi"), *command]))


@pytest.fixture
def slurm(hosts: TwoHosts) -> Callable[..., contextlib.AbstractContextManager[Slurm]]:
    """A real Slurm with a daemon on each host."""
    nodes = [
        Node(name=name, address=address, enter=partial(hosts.enter, name))
        for name, address in ADDRESSES.items()
    ]

    def start(*, allocates: bool) -> contextlib.AbstractContextManager[Slurm]:
        return running(FOLDER / "slurm" / "usr", nodes, allocates=allocates)

    return start


Slurms = Callable[..., contextlib.AbstractContextManager[Slurm]]


def on_path(found: Slurm) -> dict[str, str]:
    """What finds its programs, and those of this environment."""
    places = [found.programs / "bin", Path(sys.executable).parent, os.environ["PATH"]]
    return {**found.variables, "PATH": os.pathsep.join(map(str, places))}


@pytest.mark.parametrize("meets", [pytest.param(False, marks=LONG), True])
def test_srun_over_two_nodes_of_an_allocation(
    hosts: TwoHosts, slurm: Slurms, tmp_path: Path, meets: bool
) -> None:
    """A real controller and a daemon on each host, with a way for MPICH's ranks to meet or none."""
    library = FOLDER / "mpich" / "lib" / "libmpi.so.12"
    if meets and not library.exists():
        pytest.skip("mpich is not installed: scripts/launchers does it")
    kind = {"SLURM_MPI_TYPE": "pmi2", "MPI4PY_LIBMPI": str(library)} if meets else {}
    with slurm(allocates=True) as found:
        done = sweep(hosts, tmp_path, launcher="srun", **on_path(found), **kind)
    assert done.returncode == 0, done.stderr
    # MpiDefault=none: every rank is a job of its own, and that is said.
    assert (lacks(done.stderr, "4 ranks made 4 jobs") == []) == (not meets)
    assert ("SLURM_MPI_TYPE" in done.stderr) == (not meets)
    kept = json.loads(Path("session/hosts.json").read_text())
    assert (kept["met_through"] == "mpi4py") == meets
    assert [(one["name"], one["n_ranks"]) for one in kept["hosts"]] == [("hosta", 2), ("hostb", 2)]
    assert set(pd.read_csv("session/samples.csv")["n_nodes"]) == {2}


@LONG
def test_the_example_for_sbatch(hosts: TwoHosts, slurm: Slurms, tmp_path: Path) -> None:
    """Submitted for real: rules for two nodes, verified, in the folder that it came from."""
    script = REPOSITORY / "examples" / "slurm" / "sweep.sbatch"
    # All but what the script itself says.
    _, _, rest = shlex.join(wish(tmp_path, "srun")).partition(" --hostfile hostfile ")
    tests = ["--rccl-tests", str(tmp_path / "tests"), *shlex.split(rest)]
    with slurm(allocates=False) as found:
        command = [str(found.programs / "bin" / "sbatch"), "--wait", str(script), *tests]
        done = hosts.run("hosta", command, **on_path(found), RANKS_PER_NODE="2")
    logs = [path.read_text() for path in tmp_path.glob("rccltune-*.log")]
    assert done.returncode == 0, (done.stderr, logs)
    assert Path("rccltune-session.hosts").read_text() == "hosta\nhostb\n"
    (rules,) = Path("rccltune-session").glob("rccl_tuner_*.csv")
    found_rules = [line.split(",") for line in rules.read_text().splitlines()]
    assert {tuple(one[6:8]) for one in found_rules if one[0] == "allreduce"} == {("2", "4")}
    assert json.loads(Path("rccltune-session/verdict.json").read_text())
