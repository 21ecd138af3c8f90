"""What deploy hands over for batch jobs, in real jobs: sbatch, srun and each real mpirun."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import pytest
from deliveries import delivery, place, rules
from wording import lacks

from rccltune.deploy import Placed

pytestmark = pytest.mark.mpi

# Rules that require nothing of a machine: this one has no MI300X.
ANYWHERE = rules("rccl_tuner.csv", {}, needs=(("NCCL_ODD", "a b,c;d"),))
SHOW = "env | grep -E '^(NCCL|RCCL)' | sort; echo end"
Batch = Callable[..., tuple[int, str]]


class Cluster(Protocol):
    """What is used of the fixture ``three_nodes``."""

    programs: Path
    variables: Mapping[str, str]


class Launcher(Protocol):
    """What is used of what the fixture ``real`` finds."""

    flavour: str
    folder: Path


@pytest.fixture(scope="module")
def free(three_nodes: Cluster) -> Mapping[str, str]:
    """Variables of a Slurm whose nodes are not allocated."""
    given = three_nodes.variables
    variables = {name: value for name, value in given.items() if name != "SLURM_JOB_ID"}
    variables["PATH"] = f"{three_nodes.programs}/bin:{os.environ['PATH']}"
    scancel = [three_nodes.programs / "bin" / "scancel", given["SLURM_JOB_ID"]]
    subprocess.run(scancel, env={**os.environ, **variables}, check=True)
    return variables


@pytest.fixture
def batch(free: Mapping[str, str], tmp_path: Path) -> Batch:
    """Runs a batch script to its end; returns its exit code and what it said."""

    def run(*lines: str, options: tuple[str, ...] = ("-n2",)) -> tuple[int, str]:
        # A job without an environment finds this Slurm all the same.
        known = [f"export {name}='{value}'" for name, value in free.items()]
        script = tmp_path / "job.sh"
        ended, out = tmp_path / "job.code", tmp_path / "job.out"
        ended.unlink(missing_ok=True)
        known.append(f"trap 'echo $? >{ended}.new; mv {ended}.new {ended}' EXIT")
        script.write_text("\n".join(("#!/bin/sh", *known, *lines, "")))
        submit = [_which("sbatch", free), "-Q", f"--output={out}", *options, script]
        subprocess.run(submit, env={**os.environ, **free}, cwd=tmp_path, check=True)
        # sbatch -W asks for the end at long intervals.
        _wait_for(ended)
        return int(ended.read_text()), out.read_text()

    return run


def _wait_for(path: Path, text: str = "") -> None:
    deadline = time.monotonic() + 60
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, path
        time.sleep(0.05)


def _which(name: str, variables: Mapping[str, str]) -> str:
    return f"{variables['PATH'].partition(':')[0]}/{name}"


@pytest.fixture
def placed(tmp_path: Path) -> Placed:
    """A deployed folder whose path has a blank."""
    return place(delivery(ANYWHERE, directory=tmp_path / "a site"))


def handed_over(placed: Placed) -> str:
    """``slurm.sh``, to be copied."""
    return (placed.folder / "slurm.sh").read_text()


def shown(placed: Placed) -> str:
    """What each task shows."""
    return (
        f"NCCL_ODD=a b,c;d\nNCCL_TUNER_CONFIG_FILE={placed.folder}/rccl_tuner.csv\n"
        f"NCCL_TUNER_PLUGIN={placed.folder}/librccl-tuner-rccltune.so\nend\n"
    )


def test_every_task_of_a_job_has_the_variables(placed: Placed, batch: Batch) -> None:
    """After a check of the node, which says that it is ready."""
    code, said = batch(handed_over(placed), f'srun -l -n2 sh -c "{SHOW}"')
    assert code == 0
    assert f": ready: version {placed.name}\n" in said
    for task in "01":
        lines = [line[3:] for line in said.splitlines() if line.startswith(f"{task}: ")]
        assert "\n".join((*lines, "")) == shown(placed)


@pytest.mark.parametrize(
    "options",
    [
        ("-N3",),
        ("-N3", "-n4"),
        *(
            pytest.param(options, marks=pytest.mark.long)
            for options in (
                ("-N3", "--ntasks-per-node=2"),
                ("-N3", "-n3", "-c2", "--exclusive"),
                ("-N3", "-n6", "--distribution=plane=2"),
            )
        ),
    ],
    ids=" ".join,
)
def test_every_node_is_checked_once(placed: Placed, batch: Batch, options: tuple[str, ...]) -> None:
    """However the job asks for its tasks."""
    check = '"$check" --sourced || exit 1'
    lines = handed_over(placed)
    assert check in lines
    told = lines.replace(check, 'sh -c \'echo "on $SLURMD_NODENAME"; "$0" --sourced\' "$check"')
    code, said = batch(told, "echo runs", options=options)
    assert code == 0
    assert sorted(re.findall(r"^on (.*)$", said, re.MULTILINE)) == ["node0", "node1", "node2"]
    assert said.count(f": ready: version {placed.name}\n") == 3


@pytest.mark.parametrize(
    "option", ["NONE", *(pytest.param(o, marks=pytest.mark.long) for o in ("HOME", "NIL"))]
)
def test_a_job_that_passes_nothing_on_is_stopped_and_told_why(
    placed: Placed, batch: Batch, option: str
) -> None:
    """Its steps would run untuned; with the line that is offered for it they have all of it."""
    step = f"srun -n1 --export=ALL true; srun -n1 /bin/sh -c '{SHOW.replace(chr(39), chr(34))}'"
    options = ("-n2", f"--export={option}")
    code, said = batch(handed_over(placed), "echo runs", step, options=options)
    assert code == 1
    assert lacks(said, "FAIL", "NCCL_TUNER_PLUGIN") == []
    assert "unset SLURM_EXPORT_ENV" in said
    assert "runs" not in said
    offered = handed_over(placed).replace("#   unset SLURM_EXPORT_ENV", "unset SLURM_EXPORT_ENV")
    code, said = batch(offered, step, options=options)
    assert code == 0
    assert said.endswith(shown(placed))


def test_a_changed_file_stops_the_job(placed: Placed, batch: Batch) -> None:
    """Before its first step."""
    path = placed.folder / "rccl_tuner.csv"
    path.chmod(0o644)
    path.write_text("# emptied\n")
    code, said = batch(handed_over(placed), "echo runs")
    assert code == 1
    assert lacks(said, "FAIL", "rccl_tuner.csv") == []
    assert "runs" not in said


@pytest.mark.parametrize("plugin", ["/opt/other.so", "librccl-tuner-other.so"])
def test_a_plugin_of_the_users_own_stops_the_job(placed: Placed, batch: Batch, plugin: str) -> None:
    """It stays, so the rules are not what runs; the check says which plugin is in the way."""
    own = f"export NCCL_TUNER_PLUGIN={plugin}"
    code, said = batch(own, handed_over(placed), "echo runs")
    assert code == 1
    assert lacks(said, "FAIL", f"NCCL_TUNER_PLUGIN={plugin}") == []
    assert "runs" not in said


def test_a_folder_that_is_gone_stops_the_job(placed: Placed, batch: Batch) -> None:
    """A file system that is not mounted on the node."""
    lines = handed_over(placed)
    placed.folder.parents[1].rename(placed.folder.parents[2] / "elsewhere")
    code, said = batch(lines, "echo runs")
    assert code != 0
    assert "runs" not in said


def test_a_node_without_the_gpus_stops_the_job(tmp_path: Path, batch: Batch) -> None:
    """Rules for MI300X, and this machine has none."""
    if Path("/sys/class/kfd").exists():
        pytest.skip("this machine may have AMD GPUs")
    placed = place(delivery(directory=tmp_path / "site"))
    code, said = batch(handed_over(placed), "echo runs")
    assert code == 1
    assert lacks(said, "AMD", "GPU") == []
    assert "runs" not in said


def test_a_switch_while_a_job_runs_changes_nothing_for_it(
    placed: Placed, batch: Batch, tmp_path: Path
) -> None:
    """The steps before and after name one version, and the check is of that version."""
    bare = rules("rccl_tuner.csv", {}, needs=())
    other = place(delivery(bare, directory=tmp_path / "a site"))
    link = f'ln -sfn "versions/%s" "{tmp_path}/a site/current"'
    check = '"${NCCL_TUNER_PLUGIN%/*}/check.sh" --sourced'
    code, said = batch(
        link % placed.name,
        handed_over(placed),
        link % other.name,
        f'srun -n1 {check} && srun -n1 sh -c "{SHOW}"',
    )
    assert code == 0
    assert said.endswith(shown(placed))
    assert said.count(f": ready: version {placed.name}\n") == 2


def test_the_check_itself_as_a_job(placed: Placed, free: Mapping[str, str], tmp_path: Path) -> None:
    """By srun as deploy prints it, and by sbatch, which runs a copy from Slurm's spool folder."""
    check = placed.folder.parents[1] / "check.sh"
    variables = {**os.environ, **free}
    done = subprocess.run(
        [_which("srun", free), "--ntasks-per-node=1", "-N", "3", check],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count(f": ready: version {placed.name}\n") == 3
    out = tmp_path / "out"
    submit = [_which("sbatch", free), "-Q", f"--output={out}", check]
    subprocess.run(submit, env=variables, check=True)
    _wait_for(out, f": ready: version {placed.name}\n")


HOSTS = {"openmpi": "--host", "mpich": "-hosts", "intel": "-hosts"}


@pytest.mark.parametrize("name", ["openmpi5", "openmpi4", "mpich", "intel"])
def test_mpirun_takes_the_variables_to_another_host(
    real: Callable[[str], Launcher], another_host: None, placed: Placed, name: str
) -> None:
    """By the options that slurm.sh has for it; the other host has an environment of its own."""
    found = real(name)
    flavour = found.flavour
    program = "mpirun" if flavour == "openmpi" else "mpiexec"
    line = re.search(rf": ({program} .*) \./job", handed_over(placed))
    assert line is not None
    options = f"{HOSTS[flavour]} 127.0.0.2 -n 1 {line[1].removeprefix(program)}"
    if flavour == "openmpi":
        options = f"--oversubscribe --allow-run-as-root {options}"
    job = f'sh -c "echo on \\$ON_ANOTHER_HOST; {SHOW}"'
    # By its path, by which Open MPI 4 finds its daemon on the other host.
    command = f'. "$1/env.sh"; "{found.folder}"/{program} {options} {job}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, "sh", placed.folder],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("on ", "NCCL_", "end"))]
    assert "\n".join((*lines, "")) == f"on there\n{shown(placed)}"
