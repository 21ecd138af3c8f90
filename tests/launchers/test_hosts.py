"""Two hosts that are network namespaces, real launchers over a real ssh: measured if alike."""

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
from typing import Any

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
from rccltune.measure import library
from rccltune.simulate import sources

SMALL = [
    *("--collective", "all_reduce", "--min-bytes", "4K", "--max-bytes", "16K"),
    *("--setting", "ring/ll", "--setting", "ring/simple"),
]
SWEEP = ["sweep", "-o", "session", "--communicators", "1"]
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
    """Two hosts with two devices each, for ranks over a library that plays a node of two hosts."""
    if not (plugin.native_folder() / library.STAND_IN).is_file():
        pytest.skip("this install has no stand-in library")
    monkeypatch.chdir(tmp_path)
    trees = {name: one.write(tmp_path / name) / "sys" for name, one in systems.items()}
    for device in (path for tree in trees.values() for path in tree.glob("bus/pci/devices/*")):
        # Gloo reads what kind each device is; these are processing accelerators.
        (device / "class").write_text("0x120000\n")
    Path("ssh-files").mkdir()
    with two_hosts(tmp_path / "ssh-files", FOLDER / "ssh" / "usr", trees) as found:
        yield found


def node(tmp_path: Path) -> Path:
    """Two hosts with two ranks each."""
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["scale"] |= {"ranks": 4, "nodes": 2, "devices_per_oam": 2}
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
    return path


def wish(tmp_path: Path, launcher: str = "openmpi") -> list[str]:
    """A sweep over both hosts."""
    form = FORMS[launcher]
    Path("hostfile").write_text("".join(form.format(name) for name in ("hosta", "hostb")))
    wanted = ["--simulate", str(node(tmp_path)), "--np", "4", "--launcher", launcher.rstrip("4")]
    # Both hosts are one kernel, whose memory the ranks may share.
    return [*wanted, "--hostfile", "hostfile", "--env", "RCCLTUNE_SIM_SHM_DIR=/dev/shm", *SMALL]


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


def kept() -> list[dict[str, Any]]:
    """What hosts.json says of each host."""
    found: list[dict[str, Any]] = json.loads(Path("session/hosts.json").read_text())["hosts"]
    return found


def refused(done: subprocess.CompletedProcess[str], code: int = 4) -> str:
    """What a sweep said that stopped before it timed anything."""
    assert done.returncode == code, done.stderr
    assert ",measure," not in "".join(
        path.read_text() for path in Path("session").glob("runs/*/rank-*.csv")
    )
    return done.stderr


def rows_of(said: str) -> list[list[str]]:
    """Words of each line."""
    return [line.split() for line in said.splitlines()]


@pytest.mark.parametrize(
    "launcher", ["openmpi", *(pytest.param(n, marks=LONG) for n in ("openmpi4", "mpich", "intel"))]
)
def test_alike_hosts_are_swept_and_rules_are_for_two_nodes(
    hosts: TwoHosts, tmp_path: Path, launcher: str
) -> None:
    """Ranks on both hosts, forced and proven there as here; hosts.json says what they are."""
    done = sweep(hosts, tmp_path, launcher=launcher)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 hosts are alike: hosta, hostb") == 1
    assert [(one["name"], one["n_ranks"]) for one in kept()] == [("hosta", 2), ("hostb", 2)]
    facts = dict(kept()[1]["facts"])
    assert (facts["mode"], facts["GPUs"]) == ("dpx-nps1", "2")
    assert {"library", "plugin", "rank program", "arch", "NCCL_TUNER_CONFIG_FILE"} <= set(facts)
    header = json.loads(Path("session/session.json").read_text())
    assert header["setup"]["runner"] == "perf"

    table = pd.read_csv("session/samples.csv", keep_default_na=False)
    assert set(table["n_nodes"]) == {2}
    assert set(table["n_ranks"]) == {4}
    assert set(table["unusable"]) == {""}
    assert run(["emit-config", "session", "-o", "rules.csv"]) == 0
    rules = [line.split(",") for line in Path("rules.csv").read_text().splitlines()]
    assert {tuple(one[6:8]) for one in rules if one[0] == "allreduce"} == {("2", "4")}


@pytest.mark.parametrize("systems", [{"hosta": TWO, "hostb": ONE}])
def test_a_host_in_another_mode_stops_the_sweep(hosts: TwoHosts, tmp_path: Path) -> None:
    """Exit code 4, and a table with the mode of each host by name."""
    said = refused(sweep(hosts, tmp_path))
    rows = rows_of(said)
    assert ["mode", "dpx-nps1", "hosta"] in rows
    assert ["spx-nps1", "hostb"] in rows
    assert ["GPUs", "2", "hosta"] in rows
    # What is alike is not in the table.
    assert "driver" not in said
    assert [dict(one["facts"])["mode"] for one in kept()] == ["dpx-nps1", "spx-nps1"]
    # Once more with --force: all is there, and is said.
    done = sweep(hosts, tmp_path, "--force")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Measured all the same: the hosts are not alike:") == 1


@LONG
@pytest.mark.parametrize(
    ("name", "what"),
    [
        (library.STAND_IN, "library"),
        ("rccltune-perf", "rank"),
        ("librccl-tuner-rccltune.so", "plugin"),
    ],
)
def test_files_that_differ_are_named(hosts: TwoHosts, tmp_path: Path, name: str, what: str) -> None:
    """Another build of the library, of the program or of the plugin, at the same path."""
    file = plugin.native_folder() / name
    hosts.replace("hostb", file, file.read_bytes() + b"built later")
    said = refused(sweep(hosts, tmp_path))
    (row,) = [row for row in rows_of(said) if row[-1:] == ["hosta"]]
    assert row[0] == what


@LONG
def test_variables_that_differ_are_in_one_table(hosts: TwoHosts, tmp_path: Path) -> None:
    """What a login there sets."""
    login = hosts.folder / "home-hostb" / ".ssh" / "environment"
    login.parent.mkdir()
    login.write_text("NCCL_NET=Socket\n")
    rows = rows_of(refused(sweep(hosts, tmp_path)))
    assert ["NCCL_NET", "–", "hosta"] in rows
    assert ["Socket", "hostb"] in rows


@LONG
def test_a_file_that_only_the_library_reads_is_seen(hosts: TwoHosts, tmp_path: Path) -> None:
    """In the home of one host, once the first communicator is made; nothing is timed before."""
    (hosts.folder / "home-hostb" / ".nccl.conf").write_text("NCCL_IB_TC=106\n")
    rows = rows_of(refused(sweep(hosts, tmp_path)))
    assert ["NCCL_IB_TC", "–", "hosta"] in rows
    assert ["106", "hostb"] in rows


@LONG
def test_verification_compares_anew(hosts: TwoHosts, tmp_path: Path) -> None:
    """What was alike when it was swept need not be so any more."""
    assert sweep(hosts, tmp_path).returncode == 0
    assert run(["emit-config", "session", "-o", "rules.csv"]) == 0
    file = plugin.native_folder() / "librccl-tuner-rccltune.so"
    hosts.replace("hostb", file, file.read_bytes() + b"built later")
    command = [*rccltune("openmpi"), "verify", "session", "--rules", "rules.csv"]
    done = hosts.run("hosta", command)
    assert done.returncode == 4, done.stderr
    assert {row[0] for row in rows_of(done.stderr) if row[-1:] == ["hosta"]} == {"plugin"}


@LONG
def test_a_host_that_does_not_answer_stops_the_sweep(hosts: TwoHosts, tmp_path: Path) -> None:
    """In the launcher's own words."""
    command = [*SWEEP, *wish(tmp_path)]
    Path("hostfile").write_text("hosta slots=2\nnowhere slots=2\n")
    said = refused(hosts.run("hosta", [*rccltune("openmpi"), *command]))
    assert lacks(said, "0 of 4 ranks started", "daemon") == []


@LONG
@pytest.mark.parametrize(
    ("hidden", "code", "words"),
    [
        ("native", 4, ("ranks started", "rccltune-perf", "Node: hostb")),
        ("native/sim", 4, ("hostb: the library does not load",)),
        ("session", 7, ("hostb: the run's folder", "is not here", "all hosts share")),
    ],
)
def test_what_another_host_lacks_is_named(
    hosts: TwoHosts, tmp_path: Path, hidden: str, code: int, words: tuple[str, ...]
) -> None:
    """The program, the library, or the session."""
    Path("session").mkdir()
    Path("native").symlink_to(plugin.native_folder())
    hosts.hide("hostb", Path(hidden).resolve())
    assert lacks(refused(sweep(hosts, tmp_path), code), *words) == []


@LONG
@pytest.mark.parametrize("systems", [{"hosta": TWO, "hostb": ONE}])
def test_the_rank_program_compares_hosts_for_rccl_tests(hosts: TwoHosts, tmp_path: Path) -> None:
    """Once, before the first launch."""
    wanted = [*wish(tmp_path), "--runner", "rccl-tests", "-o", "session"]
    command = [*rccltune("openmpi"), "sweep", *wanted]
    rows = rows_of(refused(hosts.run("hosta", command)))
    assert ["mode", "dpx-nps1", "hosta"] in rows
    assert not list(Path("session").glob("runs/*"))
    done = hosts.run("hosta", [*command, "--force"])
    assert done.returncode == 0, done.stderr
    assert "Measured all the same" in done.stderr


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


def test_srun_over_two_nodes_of_an_allocation(
    hosts: TwoHosts, slurm: Slurms, tmp_path: Path
) -> None:
    """A real controller and a daemon on each host; ranks need no MPI to meet."""
    with slurm(allocates=True) as found:
        done = sweep(hosts, tmp_path, launcher="srun", **on_path(found))
    assert done.returncode == 0, done.stderr
    assert "2 hosts are alike" in done.stderr
    assert [(one["name"], one["n_ranks"]) for one in kept()] == [("hosta", 2), ("hostb", 2)]
    assert set(pd.read_csv("session/samples.csv")["n_nodes"]) == {2}


@LONG
def test_the_example_for_sbatch(hosts: TwoHosts, slurm: Slurms, tmp_path: Path) -> None:
    """Submitted for real: rules for two nodes, verified, in the folder that it came from."""
    script = REPOSITORY / "examples" / "slurm" / "sweep.sbatch"
    # All but what the script itself says.
    _, _, rest = shlex.join(wish(tmp_path, "srun")).partition(" --hostfile hostfile ")
    what = ["--simulate", str(tmp_path / "node.yaml"), *shlex.split(rest)]
    with slurm(allocates=False) as found:
        command = [str(found.programs / "bin" / "sbatch"), "--wait", str(script), *what]
        done = hosts.run("hosta", command, **on_path(found), RANKS_PER_NODE="2")
    logs = [path.read_text() for path in tmp_path.glob("rccltune-*.log")]
    assert done.returncode == 0, (done.stderr, logs)
    assert Path("rccltune-session.hosts").read_text() == "hosta\nhostb\n"
    (rules,) = Path("rccltune-session").glob("rccl_tuner_*.csv")
    found_rules = [line.split(",") for line in rules.read_text().splitlines()]
    assert {tuple(one[6:8]) for one in found_rules if one[0] == "allreduce"} == {("2", "4")}
    assert json.loads(Path("rccltune-session/verdict.json").read_text())
