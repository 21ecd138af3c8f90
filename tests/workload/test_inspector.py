"""Dumps of NCCL's Inspector plugin: calls, and what is not in them.

Lines by hand, with the fields of inspector_json.cc (NVIDIA/nccl, plugins/profiler/inspector) and
its README's example; and dumps of two H100 (inspector/README.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wording import lacks

from rccltune.logs import parsed_log
from rccltune.model.errors import OutputError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective
from rccltune.workload import add_workloads, read_workload

Put = Callable[[str, str], Path]
_DUMPS = Path(__file__).parent / "inspector"


def line(
    coll: str = "AllReduce",
    nbytes: int = 1 << 20,
    taken: int = 50,
    number: int = 0,
    rank: int = 0,
    **more: Any,  # noqa: ANN401 - whatever a line may say
) -> str:
    """One call, as the plugin writes it."""
    return json.dumps(
        {
            "header": {"id": "0x7f8c", "comm_name": "x", "rank": rank, "n_ranks": 8, "nnodes": 2},
            "metadata": {
                "inspector_output_format_version": "v4.0",
                "git_rev": "",
                "rec_mechanism": "nccl_profiler_interface",
                "dump_timestamp_us": 1748030377748202,
                "hostname": "node1",
                "pid": 100 + rank,
            },
            "coll_perf": {
                "coll": coll,
                "coll_sn": number,
                "coll_msg_size_bytes": nbytes,
                "coll_exec_time_us": taken,
                "coll_timing_source": "kernel_gpu",
                "coll_algobw_gbs": 277.21,
                "coll_busbw_gbs": 485.11,
            },
            **more,
        }
    )


def dump(*lines: str) -> str:
    """A file of them."""
    return "".join(f"{one}\n" for one in lines)


def test_calls_are_counted_as_a_tuner_sees_them(put: Put) -> None:
    """A rank's own part of all_gather and reduce_scatter times the ranks, else the size."""
    names = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce")
    found = read_workload(put("a.log", dump(*(line(name) for name in names))))
    assert {one.collective: one.nbytes for one in found.counts} == {
        Collective.ALL_REDUCE: 1 << 20,
        Collective.ALL_GATHER: 8 << 20,
        Collective.REDUCE_SCATTER: 8 << 20,
        Collective.BROADCAST: 1 << 20,
        Collective.REDUCE: 1 << 20,
    }
    assert {one.scale for one in found.counts} == {Scale(n_nodes=2, n_ranks=8)}


# What nccl-tests calls with -b 64K -e 4M -f 4 -n 3 -w 1: it warms up once at 64 KiB, twice that and
# so on to 4 MiB; each of its four rows is a warm-up call and three timed ones, for two placements.
_CALLED = {64 << k << 10: 1 + (8 if k % 2 == 0 else 0) for k in range(7)}


def test_dumps_of_two_gpus() -> None:
    """Every call of both ranks at the size of nccl-tests' table, none missing."""
    found = add_workloads(
        [read_workload(_DUMPS / f"all_gather-rank{rank}.jsonl") for rank in range(2)]
    )
    assert {one.nbytes: one.calls for one in found.counts} == {n: 2 * c for n, c in _CALLED.items()}
    assert {one.collective for one in found.counts} == {Collective.ALL_GATHER}
    assert found.ranks_at(Scale(n_nodes=1, n_ranks=2)) == 2
    assert [one.missing for one in found.recordings] == [0, 0]
    assert (found.aside, found.cuts) == ({}, ())


def test_no_session_is_made_of_one(put: Put) -> None:
    """import says what a dump cannot give, and which verb takes it."""
    path = put("a.log", dump(line()))
    with pytest.raises(OutputError) as told:
        parsed_log.read_log(path, StatedFacts(), "launch")
    assert lacks(told.value.message, "no algorithm") == []
    assert lacks(told.value.message, "waited") == []
    assert f"rccltune workload {path}" in str(told.value.hint)


def test_what_is_missing_shows_by_its_numbers(put: Put) -> None:
    """Numbers 2, 3 and 9 of one function: five are not there; another function counts apart."""
    text = dump(*(line(number=n) for n in (2, 9, 3)), line("Broadcast", number=7))
    [recorder] = read_workload(put("a.log", text)).recordings
    assert recorder.missing == 5
    assert recorder.calls == 4


def test_sends_and_others_are_aside(put: Put) -> None:
    """Point-to-point asks no tuner; a function without a name here is counted as unknown."""
    sent = json.loads(line())
    del sent["coll_perf"]
    sent["p2p_perf"] = {"p2p": "Send", "p2p_sn": 1}
    found = read_workload(put("a.log", dump(json.dumps(sent), line("AllGatherV"), line())))
    assert found.aside == {"send": 1}
    assert found.calls == 1
    assert sum(one.unknown for one in found.recordings) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (line().replace("v4.0", "v5.1"), "Inspector's format v5.1"),
        (line().replace('"coll_sn": 0', '"coll_sn": -1'), "is no whole number"),
        (line().replace('"n_ranks": 8', '"n_ranks": "8"'), "is no whole number"),
        (line().replace('"coll": "AllReduce", ', ""), "'coll'"),
        (line() + "\n[1]", "this line is not understood"),
        (line() + "\n{", "this line is not understood"),
    ],
)
def test_lines_that_are_none(put: Put, text: str, told: str) -> None:
    """Each with its line."""
    with pytest.raises(OutputError, match=told) as caught:
        read_workload(put("a.log", text + "\n"))
    assert f"a.log:{1 + text.count(chr(10))}" in str(caught.value.where)


def test_a_line_of_its_own_heads_the_calls_below_it(put: Put) -> None:
    """From format v4.1 on: header, metadata and dump_stats once, then calls without them."""
    first = json.loads(line())
    head = {name: first[name] for name in ("header", "metadata")} | {
        "dump_stats": {"coll_records": 2}
    }
    head["metadata"]["inspector_output_format_version"] = "v4.3"
    calls = [{"coll_perf": {**first["coll_perf"], "coll_sn": number}} for number in (7, 8)]
    found = read_workload(put("a.log", "".join(json.dumps(one) + "\n" for one in (head, *calls))))
    assert [(c.collective, c.min_nbytes, c.calls, c.scale) for c in found.counts] == [
        (Collective.ALL_REDUCE, 1 << 20, 2, Scale(n_nodes=2, n_ranks=8))
    ]
