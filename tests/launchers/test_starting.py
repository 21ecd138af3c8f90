"""What each real launcher makes of our options: ranks, binding, environment, hosts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from installed import skip_in_a_path_with_a_blank

from rccltune.launch.binding import find_binding
from rccltune.launch.hostfiles import hosts_used
from rccltune.launch.launchers import Launcher, find_launcher
from rccltune.launch.process import LaunchCommand, run
from rccltune.machine import installed_software

Real = Callable[[str], object]
MPI = ("openmpi5", "openmpi4", "mpich", "intel")
NAMES = (*MPI, "srun")
# A value with everything that a shell or a list would trip over.
AWKWARD = "a;b c:d,e=f"

pytestmark = pytest.mark.mpi


def launcher(real: Real, name: str) -> Launcher:
    """The real one, found as sweep finds it."""
    flavour = real(name).flavour
    found = find_launcher(flavour, path=os.environ["PATH"], in_allocation=True)
    assert found.flavour == flavour
    return found


def variables(found: Launcher, **more: str) -> dict[str, str]:
    """The environment that launches get."""
    return {**os.environ, **dict(found.environment), **more}


def told(folder: Path, argv: tuple[str, ...], environment: Mapping[str, str]) -> list[str]:
    """What the ranks say, sorted: each into a file, as launchers may mix what ranks print."""
    job = LaunchCommand(
        argv=argv,
        variables=environment,
        folder=folder,
        timeout_s=60,
        is_complete=lambda _: False,
    )
    ending = run(job)
    errors = (folder / "stderr.log").read_text(errors="replace")
    assert ending.exit_code == 0, errors
    return sorted(path.read_text() for path in (folder / "said").iterdir())


def rank(folder: Path, expression: str) -> tuple[str, ...]:
    """A rank that says what this is; all of them live for a while."""
    said = folder / "said"
    said.mkdir()
    program = (
        "import os, tempfile, time; time.sleep(0.5); "
        f"os.write(tempfile.mkstemp(dir={str(said)!r})[0], ({expression}).encode())"
    )
    return (sys.executable, "-c", program)


@pytest.mark.parametrize("name", NAMES)
def test_ranks_are_bound_to_numa_sets_where_that_works(
    real: Real, tmp_path: Path, name: str
) -> None:
    """More ranks than cores bind all the same; nothing is refused on an ordinary machine."""
    found = launcher(real, name)
    n_ranks = 2 * (os.cpu_count() or 1) + 1

    binding = find_binding(
        found, n_ranks, hostfile=None, variables=variables(found), folder=tmp_path
    )
    assert (binding.bind, binding.refused) == ("numa", None)


@pytest.mark.parametrize("name", NAMES)
def test_every_rank_sees_each_variable_as_it_was_set(real: Real, tmp_path: Path, name: str) -> None:
    """Values with blanks, colons, commas and semicolons; empty is empty and not unset."""
    found = launcher(real, name)
    argv = found.argv(3, rank(tmp_path, _seen("NCCL_AWKWARD", "NCCL_EMPTY")), bind="none")

    seen = told(tmp_path, argv, variables(found, NCCL_AWKWARD=AWKWARD, NCCL_EMPTY=""))
    assert seen == [f"{AWKWARD}||here"] * 3


@pytest.mark.parametrize("name", MPI)
def test_ranks_start_where_home_is_unset(
    real: Real, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As in a service or a container; Open MPI 5 by itself ends there."""
    monkeypatch.delenv("HOME", raising=False)
    found = launcher(real, name)

    argv = found.argv(2, rank(tmp_path, "'up'"), bind="none")
    assert told(tmp_path, argv, variables(found)) == ["up"] * 2


HOSTS = {"openmpi": "{} slots=2\n", "mpich": "{}:2\n", "intel": "{}:2\n"}


@pytest.mark.parametrize("name", MPI)
def test_ranks_on_another_host_see_the_same(
    real: Real, another_host: None, tmp_path: Path, name: str
) -> None:
    """Two hosts in the launcher's own host file; Open MPI by itself takes no variable along."""
    found = launcher(real, name)
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(HOSTS[found.flavour].format(h) for h in ("127.0.0.1", "127.0.0.2")))
    program = rank(tmp_path, _seen("NCCL_AWKWARD", "NCCL_EMPTY"))
    argv = found.argv(4, program, bind="numa", hostfile=hosts)
    names = ["NCCL_AWKWARD", "NCCL_EMPTY"]
    options, seen = found.carry(names, variables(found, NCCL_AWKWARD=AWKWARD, NCCL_EMPTY=""))
    argv = (argv[0], *options, *argv[1:])

    assert hosts_used(hosts, found.flavour, 4) == ("127.0.0.1", "127.0.0.2")
    assert told(tmp_path, argv, seen) == [
        *[f"{AWKWARD}||here"] * 2,
        *[f"{AWKWARD}||there"] * 2,
    ]


HELLO = """#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("of %d\\n", size);
    fflush(stdout);
    return MPI_Finalize();
}
"""


# Each launcher with a program of its own MPI, and both families with the other's.
QUICK = {
    *(("openmpi5", "openmpi5"), ("openmpi4", "openmpi4"), ("mpich", "mpich"), ("intel", "mpich")),
    *(("openmpi5", "mpich"), ("mpich", "openmpi5")),
}


@pytest.mark.parametrize(
    ("name", "built"),
    [
        pytest.param(name, built, marks=[pytest.mark.long] * ((name, built) not in QUICK))
        for built in ("openmpi5", "openmpi4", "mpich")
        for name in MPI
    ],
)
def test_ranks_meet_exactly_where_we_say_that_they_do(
    real: Real, tmp_path: Path, name: str, built: str
) -> None:
    """A program of each MPI under each launcher: one job of three, or else three of one or none."""
    home = Path(real(built).folder)
    source, program = tmp_path / "hello.c", tmp_path / "hello"
    source.write_text(HELLO)
    if shutil.which("cc") is None or not (home / "mpicc").exists():
        pytest.skip("there is no C compiler, or this MPI has no mpicc")
    if built == "mpich":
        skip_in_a_path_with_a_blank(home, "MPICH's mpicc")
    # Open MPI's compiler needs a HOME as its launcher does.
    subprocess.run(
        [home / "mpicc", "-o", program, source],
        env={"HOME": str(tmp_path), **os.environ},
        check=True,
        capture_output=True,
    )
    found = launcher(real, name)
    seen = variables(found, LD_LIBRARY_PATH=str(home.parent / "lib"))

    job = LaunchCommand(
        argv=found.argv(3, (str(program),), bind="none"),
        variables=seen,
        folder=tmp_path,
        timeout_s=60,
        is_complete=lambda _: False,
    )
    run(job)
    # Launchers may mix the lines of ranks, as Intel MPI does.
    met = re.findall(r"of \d+", (tmp_path / "stdout.log").read_text()) == ["of 3"] * 3
    family = installed_software.find_linked_mpi(program)
    assert family == built.rstrip("45")
    assert met == (family in found.families)


@pytest.mark.parametrize(
    ("name", "program", "family"),
    [
        ("openmpi5", "ompi_info", "openmpi"),
        ("openmpi4", "ompi_info", "openmpi"),
        ("mpich", "mpivars", "mpich"),
        ("intel", "IMB-MPI1", "mpich"),
    ],
)
def test_a_programs_mpi_is_read_off_it(real: Real, name: str, program: str, family: str) -> None:
    """Programs that came with each MPI name its library, as a benchmark built with it does."""
    path = Path(real(name).folder) / program
    if not path.is_file():
        pytest.skip(f"this {name} has no {program}")

    assert installed_software.find_linked_mpi(path) == family
    assert installed_software.find_linked_mpi(Path("/bin/sh")) is None


def _seen(*names: str) -> str:
    """Variables and where the rank runs, as an expression."""
    listed = ", ".join(f"os.environ.get({name!r}, 'unset')" for name in names)
    where = "os.environ.get('ON_ANOTHER_HOST', 'here')"
    return f"'|'.join([{listed}, {where}])"
