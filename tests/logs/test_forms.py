"""Hand-made: mscclpp-test's table, tables of bandwidths alone, cvs' graphs, tuning in JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective, Placement, UnusableReason

if TYPE_CHECKING:
    from tests.logs.conftest import ReadText

AR8 = StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=8, n_nodes=1)
OUT, IN = Placement.OUT_OF_PLACE, Placement.IN_PLACE
# As test/mscclpp-test/common.cc prints it: the block in place comes first, and alone.
MSCCLPP = """#
#                                        in-place                       out-of-place
#       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)     (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        262144    25.00   41.94   73.40      0
     2097152        524288    40.00   52.43   91.75      0

"""
SECOND = "     4194304       1048576" + " " * 33 + "    80.00   52.43   91.75      0\n"


def test_mscclpp_prints_in_place_first(read_text: ReadText) -> None:
    """Rows of one block are in place; one behind a gap is out of place."""
    samples = read_text(MSCCLPP.rstrip("\n") + "\n" + SECOND, AR8).samples
    assert [(s.nbytes, s.time_us, s.key.placement) for s in samples] == [
        (1048576, 25.0, IN),
        (2097152, 40.0, IN),
        (4194304, 80.0, OUT),
    ]


@pytest.mark.parametrize(
    "table",
    [
        "size busbw\n1048576 73.40\n2097152 91.75\n",
        "# size(B)   busbw(GB/s)\n  1048576  73.40\n  2097152  91.75\n",
        "| Message size | Bus bandwidth (GB/s) |\n|---|---:|\n| 1 MiB | 73.40 |\n| 2 MiB | 91.75 |\n",
        "size,busbw\n1048576,73.40\n2097152,91.75\n",
    ],
)
def test_bandwidths_alone(read_text: ReadText, table: str) -> None:
    """Time = factor x size / busbw, and it is said to be worked out."""
    reading = read_text(table, AR8)
    expected = [1.75 * 1048576 / 73.40e3, 1.75 * 2097152 / 91.75e3]
    assert [s.nbytes for s in reading.samples] == [1048576, 2097152]
    assert [s.time_us for s in reading.samples] == pytest.approx(expected)
    assert Caution.DERIVED_TIME in {one.caution for one in reading.notices}


def test_times_in_another_unit_are_not_taken_for_microseconds(read_text: ReadText) -> None:
    """Nothing is read on a guess."""
    with pytest.raises(OutputError):
        read_text("size,time (ms)\n1048576,0.025\n", AR8)


def test_graphs_of_cvs(read_text: ReadText) -> None:
    """By series and size; the series tells what was asked for."""
    graph = {
        "all_reduce_perf-ring-simple-1": {
            "1048576": {"bus_bw": 73.4, "alg_bw": 41.94, "time": 25.0},
            "2097152": {"bus_bw": 91.75, "alg_bw": 52.43, "time": 40.0},
        },
        "all_gather_perf-tree-ll-1": {"1024": {"bus_bw": 0.1, "alg_bw": 0.1, "time": 9.5}},
    }
    samples = read_text(json.dumps(graph), StatedFacts(n_ranks=8, n_nodes=1), "graph.json").samples
    assert [(s.key.collective.value, str(s.key.setting), s.nbytes, s.time_us) for s in samples] == [
        ("all_reduce", "ring/simple", 1048576, 25.0),
        ("all_reduce", "ring/simple", 2097152, 40.0),
        ("all_gather", "tree/ll", 1024, 9.5),
    ]


def test_tuning_in_json_says_what_ran(read_text: ReadText) -> None:
    """nccl-tests 2.20 with -U 1; a path that asks no tuner has no algorithm."""

    def result(nbytes: int, **tuning: object) -> dict[str, object]:
        half = {"time": 10.0, "alg_bw": nbytes / 1e4, "bus_bw": nbytes / 1e4, "nwrong": 0}
        row = {"size": nbytes, "count": nbytes // 4, "type": "float", "redop": "sum", "root": "-1"}
        return {**row, "out_of_place": half, "in_place": None, "tuning": tuning}

    ring = {"implementation": "Legacy", "algo": "RING", "proto": "LL128", "#channels": 24}
    path = {"implementation": "Symmetric", "algo": "N/A", "proto": "N/A", "#channels": 8}
    text = {
        "version": 3, "args": ["all_reduce_perf"], "env": ["NCCL_ALGO=Ring", "HOME=/root"],
        "config": {}, "results": [result(8192, **ring), result(16384, **path)],
    }  # fmt: skip
    samples = read_text(json.dumps(text), StatedFacts(n_ranks=2, n_nodes=1), "x.json").samples
    assert [s.executed for s in samples] == [Setting.parse("ring/ll128/24"), None]
    assert [s.doubt for s in samples] == [None, UnusableReason.BYPASSED]
    assert {str(s.key.setting) for s in samples} == {"ring/-"}


def test_rows_that_are_not_understood_are_said_to_be_rows(read_text: ReadText) -> None:
    """The first of them is shown with its line."""
    header = (
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    )
    row = (
        "     1048576        262144     float     sum      -1  @@  1626.5  x  0.64    1.24      0\n"
    )
    with pytest.raises(OutputError, match="rows stand here and are not understood") as error:
        read_text("# out-of-place\n" + header + row + row, AR8)
    assert "1626.5" in error.value.message
    assert str(error.value.where).endswith(":3")
