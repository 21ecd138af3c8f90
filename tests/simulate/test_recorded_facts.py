"""What the real library ran for what was asked, recorded: held to a closed form, and to the library itself."""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rccltune.machine import real_library
from rccltune.model import MachineError

RECORDED = Path(__file__).parent / "recorded/rccl-2.27.7-spx-nps1.csv"
BENCH = Path(__file__).parents[2] / "scripts/bench_real.py"
CHANNELS = 56  # of 8 MI300X in SPX, as this release's log says
CELL = 16384


def rows() -> list[dict[str, str]]:
    """The table, without the line that says where it is from."""
    return list(csv.DictReader(RECORDED.read_text().splitlines()[1:]))


def channels(row: dict[str, str], asked: int) -> int:
    """RCCL 2.27.7, enqueue.cc: cells of 16 KiB of traffic, shared evenly between the channels."""
    traffic = int(row["nbytes"]) * (2 if row["collective"] == "all_reduce" else 1)
    cells = math.ceil(traffic * (4 if row["ran"].endswith("/ll") else 1) / CELL)
    each = math.ceil(cells / min(asked, CHANNELS))
    return math.ceil(cells / each)


def test_channels_that_ran_follow_from_those_asked_for() -> None:
    """At every size of every setting that was offered, and the grid is the same."""
    asked = [row for row in rows() if row["asked"].rsplit("/", 1)[0] == row["ran"]]
    counted = [(row, int(row["asked"].rsplit("/", 1)[1])) for row in asked]
    with_count = [(row, n) for row, n in counted if n > 0]
    assert len(with_count) > 300
    for row, n in with_count:
        assert int(row["channels"]) == channels(row, n), row
        assert row["blocks"] == row["channels"], row


def test_what_is_not_offered_is_the_librarys_own_choice() -> None:
    """The plugin gives no cell that the library closed: what runs is what runs in silence."""
    found = rows()
    silent = {(r["collective"], r["nbytes"]): r["ran"] for r in found if r["asked"] == "silent"}
    closed = [r for r in found if r["asked"].rsplit("/", 1)[0] not in (r["ran"], "silent")]
    assert closed
    assert all(r["ran"] == silent[r["collective"], r["nbytes"]] for r in closed)
    offered = {
        (r["collective"], r["ran"]) for r in found if r["asked"].rsplit("/", 1)[0] == r["ran"]
    }
    assert ("all_reduce", "tree/ll") in offered
    assert {c for c, ran in offered if ran.startswith("tree")} == {"all_reduce"}


def test_the_library_still_says_so(tmp_path: Path) -> None:
    """The recording is made again and compared, letter by letter."""
    try:
        real_library(Path("real"), os.environ)
    except MachineError as error:
        pytest.skip(f"{error}: scripts/fetch-rccl fetches it")
    again = tmp_path / "again.csv"
    subprocess.run(
        [sys.executable, str(BENCH), "--save", str(again)], check=True, capture_output=True
    )
    assert again.read_text() == RECORDED.read_text()
