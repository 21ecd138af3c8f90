"""The runner with torchrun and gloo on the CPU: real ranks, real results, rccl-tests' table."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from torches import DRIVER, MAIN, SMALL, run, torch_python, torchrun
from wording import lacks

from rccltune.logs import jobs, reader
from rccltune.model.measured import Stated
from rccltune.model.settings import BASELINE
from rccltune.model.vocabulary import Collective, Placement

# Ranks import torch, which takes each of them seconds of a busy machine.
pytestmark = pytest.mark.timeout(300)
PLACEMENTS = {
    "all_reduce": {Placement.IN_PLACE},
    "broadcast": {Placement.IN_PLACE},
    "reduce": {Placement.IN_PLACE},
    "all_gather": {Placement.IN_PLACE, Placement.OUT_OF_PLACE},
    "reduce_scatter": {Placement.IN_PLACE, Placement.OUT_OF_PLACE},
}
# One of those that torch has in place only, and one with both halves.
SHORT = ("all_reduce", "all_gather")


@pytest.mark.parametrize(
    "name",
    [
        "all_reduce",
        "all_gather",
        *(pytest.param(n, marks=pytest.mark.long) for n in PLACEMENTS if n not in SHORT),
    ],
)
def test_the_parser_of_rccl_tests_reads_it(name: str) -> None:
    """Sizes, passes, placements, ranks and types are those that were asked for; nothing is wrong."""
    start = torchrun if name == "all_reduce" else run
    ran = start(torch_python(), name, *SMALL, "-N", "2")
    assert ran.code == 0, ran.err
    stated = Stated(setting=BASELINE)
    reading = reader.read_stream(io.BytesIO(ran.out.encode()), "log", stated, "launch")

    assert not reading.notices
    assert reading.benchmark is not None
    assert reading.benchmark.startswith("rccltune PyTorch runner version")
    assert {sample.key.placement for sample in reading.samples} == PLACEMENTS[name]
    first = [s for s in reading.samples if s.key.placement is Placement.IN_PLACE]
    assert [sample.nbytes for sample in first] == [64, 256, 1024, 4096] * 2
    for sample in reading.samples:
        assert sample.key.collective is Collective.parse(name)
        assert sample.key.scale is not None
        assert (sample.key.scale.n_ranks, sample.key.dtype) == (2, "float")
        assert sample.n_wrong == 0
        assert sample.time_us is not None
        assert sample.doubt is None


@pytest.mark.long
def test_the_head_says_that_no_gpu_is_measured() -> None:
    """Whoever finds the log alone must not take it for a GPU's."""
    ran = run(torch_python(), "all_reduce", *SMALL)
    head = ran.out.splitlines()[:2]
    assert "PyTorch runner" in head[0]
    assert "backend gloo" in head[0]
    assert "no GPU" in head[1]
    assert ran.out.count("CPU (gloo, for tests)") == 2


@pytest.mark.parametrize(
    ("dtype", "redop"),
    [
        ("bfloat16", "sum"),
        pytest.param("int8", "sum", marks=pytest.mark.long),
        pytest.param("uint8", "prod", marks=pytest.mark.long),
        pytest.param("int64", "min", marks=pytest.mark.long),
        pytest.param("half", "sum", marks=pytest.mark.long),
        pytest.param("double", "max", marks=pytest.mark.long),
    ],
)
def test_every_type_is_checked_exactly(dtype: str, redop: str) -> None:
    """Three ranks, an odd number of elements: what must come out is the same to the last bit."""
    ran = run(
        torch_python(), "all_reduce", "-b", "24", "-e", "2400", "-i", "792", "-n", "1", "-w", "1",
        "-d", dtype, "-o", redop, n_ranks=3,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert [row[0] for row in ran.rows] == ["24", "816", "1608", "2400"]
    assert [row[-1] for row in ran.rows] == ["0"] * 4


@pytest.mark.parametrize(
    "name",
    [
        "reduce_scatter",
        *(pytest.param(n, marks=pytest.mark.long) for n in PLACEMENTS if n != "reduce_scatter"),
    ],
)
def test_a_wrong_element_is_found(name: str) -> None:
    """One wrong element of one rank in each half-row: told, counted, and exit code 1."""
    spoil = (str(DRIVER), "spoil", "--backend", "gloo")
    # Rank 1 is the root, since reduce promises a result to no other.
    ran = run(torch_python(), name, *SMALL, "-r", "1", program=spoil)
    assert ran.code == 1
    n_halves = len(PLACEMENTS[name])
    assert lacks(ran.out, f"{4 * n_halves}", "FAILED") == []
    for row in ran.rows:
        assert row[8::4] == ["1"] * n_halves


@pytest.mark.long
def test_unchecked_results_are_said_to_be() -> None:
    """As rccl-tests: N/A, and no failure."""
    spoil = (str(DRIVER), "spoil", "--backend", "gloo")
    ran = run(torch_python(), "all_reduce", *SMALL, "-c", "0", program=spoil)
    assert ran.code == 0
    assert {row[-1] for row in ran.rows} == {"N/A"}


@pytest.mark.long
def test_sizes_below_one_element_each_are_rows_of_nothing() -> None:
    """As rccl-tests: 8 bytes of all_gather are no element for each of two ranks."""
    ran = run(torch_python(), "all_gather", "-b", "8", "-e", "64", "-f", "8", "-n", "1")
    assert ran.code == 0, ran.err
    assert [row[:2] for row in ran.rows] == [["0", "0"], ["64", "8"]]


@pytest.mark.mpi
def test_ranks_that_mpi_started_meet_at_a_file(tmp_path: Path) -> None:
    """Without torchrun's variables; one job of three ranks, not three jobs."""
    mpirun = Path(sys.prefix) / "bin" / "mpirun"
    if not mpirun.exists():
        pytest.skip("mpirun is not installed")
    python = torch_python()
    root = ("--allow-run-as-root",)
    done = subprocess.run(
        [mpirun, *root, "-np", "3", "--map-by", ":OVERSUBSCRIBE", python, MAIN, "--backend", "gloo",
         "--store", tmp_path / "store", "all_gather", *SMALL],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert jobs.jobs_in(done.stdout.encode()) == 1
    assert done.stdout.count("# Avg bus bandwidth") == 1
    assert "Rank  2" in done.stdout


def test_one_rank_alone_needs_nobody() -> None:
    """Started by hand, with neither launcher nor place to meet."""
    done = subprocess.run(
        [torch_python(), MAIN, "--backend", "gloo", "reduce", *SMALL],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Rank  0" in done.stdout


def test_a_python_without_torch_says_so() -> None:
    """Exit code 4, and which Python it was."""
    done = subprocess.run(
        [sys.executable, MAIN, "all_reduce"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        pytest.skip("the tests' own Python has torch")
    assert done.returncode == 4
    assert "no PyTorch" in done.stderr
    assert sys.executable in done.stderr
    assert "Traceback" not in done.stderr


def test_no_gpu_is_an_error_that_names_the_way_out() -> None:
    """Never the CPU in silence."""
    done = subprocess.run(
        [torch_python(), MAIN, "all_reduce", *SMALL],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert lacks(done.stderr, "GPU") == []
    assert "--backend gloo" in done.stderr


def test_ranks_without_a_place_to_meet_say_what_is_missing() -> None:
    """Two ranks of an MPI, and neither a file nor an address."""
    done = subprocess.run(
        [torch_python(), MAIN, "--backend", "gloo", "all_reduce", *SMALL],
        env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert "--store" in done.stderr
