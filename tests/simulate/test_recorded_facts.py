"""What the real library ran for what was asked, recorded: held to a closed form."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

RECORDED = Path(__file__).parent / "recorded"
# Channels of the communicator, as this release's log says: 8 MI300X in SPX, 64 ranks in CPX, 2 x 8 in SPX.
PLACES = {"spx-8": 56, "cpx-64": 38, "two-hosts": 64}
CELL = 16384

each_place = pytest.mark.parametrize("place", PLACES)


def recorded(place: str) -> Path:
    """The file of one place."""
    return RECORDED / f"rccl-2.27.7-{place}.csv"


def rows(place: str) -> list[dict[str, str]]:
    """The table, without the line that says where it is from."""
    return list(csv.DictReader(recorded(place).read_text().splitlines()[1:]))


def channels(row: dict[str, str], asked: int, most: int) -> int:
    """RCCL 2.27.7, enqueue.cc: cells of 16 KiB of traffic, shared evenly between the channels."""
    traffic = int(row["nbytes"]) * (2 if row["collective"] == "all_reduce" else 1)
    cells = math.ceil(traffic * (4 if row["ran"].endswith("/ll") else 1) / CELL)
    each = math.ceil(cells / min(asked, most))
    return math.ceil(cells / each)


@each_place
def test_channels_that_ran_follow_from_those_asked_for(place: str) -> None:
    """At every size of every setting that was offered, and the grid is the same."""
    asked = [row for row in rows(place) if row["asked"].rsplit("/", 1)[0] == row["ran"]]
    counted = [(row, int(row["asked"].rsplit("/", 1)[1])) for row in asked]
    with_count = [(row, n) for row, n in counted if n > 0]
    assert len(with_count) > 300
    for row, n in with_count:
        assert int(row["channels"]) == channels(row, n, PLACES[place]), row
        assert row["blocks"] == row["channels"], row


@each_place
def test_what_is_not_offered_is_the_librarys_own_choice(place: str) -> None:
    """The plugin gives no cell that the library closed: what runs is what runs in silence."""
    found = rows(place)
    silent = {(r["collective"], r["nbytes"]): r["ran"] for r in found if r["asked"] == "silent"}
    closed = [r for r in found if r["asked"].rsplit("/", 1)[0] not in (r["ran"], "silent")]
    assert closed
    assert all(r["ran"] == silent[r["collective"], r["nbytes"]] for r in closed)
    offered = {
        (r["collective"], r["ran"]) for r in found if r["asked"].rsplit("/", 1)[0] == r["ran"]
    }
    assert ("all_reduce", "tree/ll") in offered
    assert {c for c, ran in offered if ran.startswith("tree")} == {"all_reduce"}
