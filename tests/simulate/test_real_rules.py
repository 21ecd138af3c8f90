"""Rule files of vendors, of users and of ours, asked of the real RCCL on all ranks (scripts/bench real).

What a row says is read there by a reader of its own; a size without a row has to run as without the plugin.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rccltune.cli import run
from rccltune.measure.real_rccl import real_library
from rccltune.model.errors import MachineError

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "scripts/bench_real.py"
ON_ONE_HOST = (
    "amd_test_valid_config_with_wildcards.conf",
    "amd_test_singlenode_config.conf",
    "gpu107_v4_validated.csv",
    "gpu107_sc2_plus_amd.conf",
    "nvidia_example_nccl_tuner.conf",
    "fork_gfx950_cpx_12fields.csv",
)


@pytest.fixture(autouse=True)
def _fetched() -> None:
    try:
        real_library(Path("real"), os.environ)
    except MachineError as error:
        pytest.skip(f"{error}: scripts/fetch-rccl fetches it")


def asked(*words: str | Path) -> list[list[str]]:
    """The bench's rows: file, place, sizes with a row, ran, closed, else."""
    ended = subprocess.run(
        [sys.executable, BENCH, *words], check=False, capture_output=True, text=True, timeout=850
    )
    assert ended.returncode == 0, ended.stderr
    lines = [line.strip("|").split("|") for line in ended.stdout.splitlines()]
    return [[cell.strip() for cell in line] for line in lines[2:]]


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [ON_ONE_HOST[:1], ON_ONE_HOST[1:]],
    ids=["one", "the others"],
)
def test_vendors_files_on_eight_ranks(shared_data: Path, names: tuple[str, ...]) -> None:
    """Every row that the library leaves open runs, and nothing else changes."""
    files = [shared_data / "configs" / name for name in names]
    rows = asked("--place", "spx-8", *files)
    assert [row[0] for row in rows] == [f"configs/{name}" for name in names]
    for _, _, sizes, ran, closed, wrong in rows:
        assert int(ran) > 0
        assert int(ran) + int(closed) == int(sizes)
        assert wrong == "0"


@pytest.mark.long
def test_shipped_files_on_as_many_ranks_as_they_are_for() -> None:
    """Made on NVIDIA's GPUs: what RCCL leaves open of them runs too."""
    shipped = sorted((ROOT / "examples").glob("*/rccl_tuner.csv"))
    assert len(shipped) == 4
    rows = asked("--place", "spx-2", "--place", "spx-4", *shipped)
    assert {row[0].split("/")[0] for row in rows} == {file.parent.name for file in shipped}
    assert all(row[5] == "0" for row in rows)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "place",
    ["spx-2", *(pytest.param(p, marks=pytest.mark.long) for p in ("spx-8", "two-hosts", "cpx-64"))],
)
def test_rows_for_groups_and_registered_buffers(place: str) -> None:
    """Each runs in groups of as many calls, and with buffers registered by the program or for a graph; nowhere else."""
    rows = asked("--place", place, "--calls", Path(__file__).parent / "rows_of_calls.csv")
    manners = [row[1].removeprefix(place).split()[:2] for row in rows]
    assert [options[0] for options in manners] == ["-m", "-m", "-R", "-G"]
    for _, _, sizes, ran, closed, wrong in rows:
        assert int(ran) > 0
        assert (int(ran) + int(closed), wrong) == (int(sizes), "0")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", ["spx-8", pytest.param("cpx-64", marks=pytest.mark.long)])
def test_reduce_scatter_runs_what_a_tuner_answers(place: str) -> None:
    """ROCm 7.2.4 leaves small shares as they were answered, of which other builds of 2.27.7 make LL.

    rccl_wrap.cc:52 of meta-pytorch/torchcomms 76271ffa, comms/rcclx/develop/src: up to 352128 bytes.
    """
    ((_, _, sizes, ran, closed, wrong),) = asked(
        "--place", place, Path(__file__).parent / "rows_of_shares.csv"
    )
    assert (closed, wrong) == ("0", "0")
    assert int(ran) == int(sizes) > 30


@pytest.mark.long
def test_a_file_for_two_hosts(shared_data: Path) -> None:
    """The rows that RCCL 2.30 has built in."""
    file = shared_data / "configs/rocm_builtin_gfx950_7rows.csv"
    ((_, place, sizes, ran, closed, wrong),) = asked("--place", "two-hosts", file)
    assert (place, closed, wrong) == ("two-hosts", "0", "0")
    assert int(sizes) == int(ran) > 0


@pytest.mark.long
def test_amds_table_for_two_hosts(shared_data: Path) -> None:
    """All five collectives, LL128 and Tree with Simple among them."""
    file = shared_data / "configs/amd_ext_tuner_gfx950.conf"
    ((*_, wrong),) = asked("--place", "two-hosts", file)
    assert wrong == "0"


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("place", "node"),
    [
        ("spx-8", ("mi300x", "--mode", "spx-nps1")),
        ("two-hosts", (str(ROOT / "examples/nodes/two-mi300x.yaml"),)),
    ],
)
def test_rules_emitted_from_a_sweep(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    node: tuple[str, ...],
) -> None:
    """Swept over the imitation, asked of the real library: each rule runs, or was closed, and nothing else changes."""
    monkeypatch.chdir(tmp_path)
    collectives = ("--collective", "all_reduce", "--collective", "reduce_scatter")
    sizes = ("--min-bytes", "1K", "--max-bytes", "16M", "--factor", "4")
    assert (
        run(
            [
                "sweep",
                "--runner",
                "rccl-tests",
                "-o",
                "s",
                "--simulate",
                *node,
                *collectives,
                *sizes,
            ]
        )
        == 0
    )
    assert run(["emit-config", "s", "-o", "rules.csv", "--min-gain", "0"]) == 0
    ((*_, n_sizes, ran, closed, wrong),) = asked("--place", place, tmp_path / "rules.csv")
    assert int(ran) > 0
    assert (int(ran) + int(closed), wrong) == (int(n_sizes), "0")


# Each launch makes a communicator of 64 ranks, 13 s on two cores that nobody else uses.
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["fork_gfx950_cpx_12fields.csv", "nvidia_example_nccl_tuner.conf"])
def test_a_file_on_64_ranks(shared_data: Path, name: str) -> None:
    """In CPX, all ranks alike: what the library leaves open runs, and every other size as without the plugin."""
    ((_, place, sizes, ran, closed, wrong),) = asked(
        "--place", "cpx-64", shared_data / "configs" / name
    )
    assert (place, wrong) == ("cpx-64", "0")
    assert int(ran) > 0
    assert int(ran) + int(closed) == int(sizes)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_rules_emitted_from_the_published_table_on_64_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MI300X in CPX: each rule runs on every rank; LL128, which is off, falls back to the row behind it."""
    monkeypatch.chdir(tmp_path)
    table = str(ROOT / "examples/mi300x-cpx-nps4/all_reduce.csv")
    assert run(["import", "-o", "s", table]) == 0
    assert run(["emit-config", "s", "-o", "rules.csv", "--baseline", "ring/simple"]) == 0
    ((_, place, sizes, ran, _, wrong),) = asked("--place", "cpx-64", tmp_path / "rules.csv")
    assert (place, wrong) == ("cpx-64", "0")
    assert int(sizes) == int(ran) > 0
