"""The table of examples/torch_all_reduce.py is rccl-tests' own form, without torch and with it."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from torches import torch_python

from rccltune.cli import run

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "torch_all_reduce.py"
# Two ranks of PyTorch 2.11.0 on a virtual machine's CPUs, 2026-11-28:
# torchrun --nproc_per_node=2 torch_all_reduce.py --backend gloo -b 1K -e 4M -f 4 -n 5 -w 2
KEPT = Path(__file__).with_name("torch-gloo-2.txt")


@pytest.fixture
def program() -> ModuleType:
    """The program, loaded as a file."""
    spec = importlib.util.spec_from_file_location("torch_all_reduce", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def imported(table: Path) -> pd.DataFrame:
    """The samples of a session that a table was imported into, nothing said but --baseline."""
    assert run(["import", str(table), "--baseline", "-o", "session"]) == 0
    return pd.read_csv("session/samples.csv", keep_default_na=False)


def test_a_real_table_is_imported(here: Path) -> None:
    """Ranks, type, collective and placement are known without an option; times are the table's."""
    del here
    samples = imported(KEPT)
    assert samples[["nbytes", "time_us"]].to_numpy().tolist() == [
        [1024, 371.12],
        [4096, 265.73],
        [16384, 272.36],
        [65536, 328.08],
        [262144, 401.41],
        [1048576, 751.19],
        [4194304, 2210.10],
    ]
    known = samples[["collective", "setting", "placement", "dtype", "op", "n_nodes", "n_ranks"]]
    assert set(known.itertuples(index=False, name=None)) == {
        ("all_reduce", "baseline", "in", "float", "sum", 1, 2)
    }
    assert set(samples["wrong"]) == {0}
    assert set(samples["unusable"]) == {""}


# Four ranks, 4096 bfloat16 a count: 8192 bytes of a message, 32768 where each rank has a share.
# In 8 us these are 1.024 and 4.096 GB/s; times 2 x 3/4, 3/4 or 1 that is the bus bandwidth.
ROWS = {
    "all_reduce": ("8192 4096 bfloat16 sum -1 8.00 1.02 1.54 0", "in"),
    "all_gather": ("32768 4096 bfloat16 none -1 8.00 4.10 3.07 0", "out"),
    "reduce_scatter": ("32768 4096 bfloat16 sum -1 8.00 4.10 3.07 0", "out"),
    "broadcast": ("8192 4096 bfloat16 none 0 8.00 1.02 1.02 0", "in"),
    "reduce": ("8192 4096 bfloat16 sum 0 8.00 1.02 1.02 0", "in"),
}


@pytest.mark.parametrize("collective", ROWS)
def test_every_collective_has_its_row(program: ModuleType, collective: str, here: Path) -> None:
    """Size, count and bandwidths as rccl-tests count them; import finds the same in the table."""
    assert tuple(ROWS) == program.COLLECTIVES
    asked = argparse.Namespace(
        collective=collective,
        datatype="bfloat16",
        minbytes=8192,
        maxbytes=32768,
        stepfactor=2,
        warmup=5,
        iters=20,
    )
    seats = [f"Pid 17 on host device {n} [cuda] AMD Instinct MI300X" for n in range(4)]
    head = program.head(asked, ["RCCL version : 2.27.7"], seats)
    row = program.row(asked, 4096, 4, 8.0, 0)
    wanted, placement = ROWS[collective]
    assert row.split() == wanted.split()

    table = here / "table.txt"
    table.write_text(f"{head}\n{row}\n", encoding="utf-8")
    (sample,) = imported(table).to_dict("records")
    assert (sample["collective"], sample["dtype"], sample["n_ranks"]) == (collective, "bfloat16", 4)
    assert (sample["nbytes"], sample["time_us"]) == (int(wanted.split()[0]), 8.0)
    assert (sample["placement"], sample["unusable"]) == (placement, "")


@pytest.mark.timeout(400)
def test_two_real_ranks_are_timed(here: Path) -> None:
    """Over gloo, where a Python has torch: every size, right results, a table that is imported."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(PROGRAM)]
    words = [
        "--collective",
        "reduce_scatter",
        "--backend",
        "gloo",
        "-b",
        "64",
        "-e",
        "4K",
        "-n",
        "2",
    ]
    done = subprocess.run(
        [torch_python(), *start, *words], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    table = here / "table.txt"
    table.write_text(done.stdout, encoding="utf-8")
    samples = imported(table)
    assert list(samples["nbytes"]) == [64, 128, 256, 512, 1024, 2048, 4096]
    assert set(samples["wrong"]) == {0}
