"""Hand-made: other benchmarks' tables, tables of bandwidths alone, tuning in JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from sample_rows import samples_of

from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective, UnusableReason

if TYPE_CHECKING:
    from tests.logs.conftest import ReadText

AR8 = StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=8, n_nodes=1)
# First lines as the programs print them: osu_allreduce 7.5; DeepSpeedExamples'
# benchmarks/communication/utils.py; PARAM's comms.py; TransferBench 1.62; test/mscclpp-test/common.cc.
FOREIGN = {
    "OSU": "# OSU MPI-ROCM Allreduce Latency Test v7.5\n# Size       Avg Latency(us)\n4  15.31\n",
    "DeepSpeed": (
        "---- Performance of all_reduce on 8 devices ---------\n"
        "Size (Bytes)         Description               Duration             Throughput (Gbps)\n"
    ),
    "PARAM": "\tCOMMS-RES-all_reduce-float32\t   size (B)\t num-elements\t Latency(us):p50\n",
    "TransferBench": "TransferBench v1.62.00\n===========\n[Common]\n",
    "mscclpp-test": (
        "#\n#                                        in-place                       out-of-place\n"
        "#       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
        "     1048576        262144    25.00   41.94   73.40      0\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_other_benchmarks_tables_are_refused_by_name(read_text: ReadText, name: str) -> None:
    """What it measures is said, and what can be imported."""
    with pytest.raises(OutputError, match=name) as error:
        read_text(FOREIGN[name], AR8)
    assert "rccltune" in str(error.value.hint) or "import reads" in str(error.value.hint)


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
    assert [s.nbytes for s in samples_of(reading)] == [1048576, 2097152]
    assert [s.time_us for s in samples_of(reading)] == pytest.approx(expected)
    assert Caution.DERIVED_TIME in {one.caution for one in reading.notices}


def test_times_in_another_unit_are_not_taken_for_microseconds(read_text: ReadText) -> None:
    """Nothing is read on a guess."""
    with pytest.raises(OutputError):
        read_text("size,time (ms)\n1048576,0.025\n", AR8)


def test_tuning_in_json_says_what_ran(read_text: ReadText) -> None:
    """nccl-tests 2.20 with -U 1; a path that asks no tuner has no algorithm."""

    def result(nbytes: int, **tuning: object) -> dict[str, object]:
        half = {"time": 10.0, "alg_bw": nbytes / 1e4, "bus_bw": nbytes / 1e4, "nwrong": 0}
        row = {"size": nbytes, "count": nbytes // 4, "type": "float", "redop": "sum", "root": "-1"}
        return {**row, "out_of_place": half, "in_place": None, "tuning": tuning}

    ring = {"implementation": "Legacy", "algo": "RING", "proto": "LL128", "#channels": 24}
    path = {"implementation": "Symmetric", "algo": "N/A", "proto": "N/A", "#channels": 8}
    text = {
        "version": 3, "args": ["all_reduce_perf"], "env": ["NCCL_ALGO=Ring", "NCCL_PROTO=LL128"],
        "config": {}, "results": [result(8192, **ring), result(16384, **path)],
    }  # fmt: skip
    samples = samples_of(read_text(json.dumps(text), StatedFacts(n_ranks=2, n_nodes=1), "x.json"))
    assert [s.executed for s in samples] == [Setting.parse("ring/ll128/24"), None]
    assert [s.doubt for s in samples] == [None, UnusableReason.BYPASSED]
    assert {str(s.key.setting) for s in samples} == {"ring/ll128"}


def test_rows_that_are_not_understood_are_said_to_be_rows(read_text: ReadText) -> None:
    """The first of them is shown with its line."""
    header = (
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    )
    row = (
        "     1048576        262144     float     sum      -1  @@  1626.5  x  0.64    1.24      0\n"
    )
    with pytest.raises(OutputError, match="rows stand here and none is whole") as error:
        read_text("# out-of-place\n" + header + row + row, AR8)
    assert "1626.5" in error.value.message
    assert str(error.value.where).endswith(":3")
