"""RCCL's replay files: both forms, of both generations of the C record.

Layouts and words are the recorder's own (ROCm/rccl src/misc/recorder.cc, src/include/recorder.h:
152 bytes up to ROCm 7.0, 160 with all-reduce with bias); the C ABI packs them here.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model import Collective, OutputError, RccltuneError, Scale
from rccltune.workload import Source, Stated, is_replay, merge, read, read_replay, scaled

Put = Callable[[str, "str | bytes"], Path]
FLOAT, BF16 = 7, 9
# rcclCall_t: old number, new number.
ALL_REDUCE, ALL_GATHER, BROADCAST = (4, 4), (2, 2), (0, 0)
SEND, ALLTOALLV, GROUP_START, INIT = (5, 6), (8, 9), (12, 13), (17, 18)


INIT_ALL, BIAS = (18, 19), (4, 5)
_HEAD = [
    *((name, ctypes.c_int) for name in ("pid", "tid", "hip_dev", "group_depth")),
    ("timestamp", ctypes.c_double),
    ("graph_id", ctypes.c_ulonglong),
    ("captured", ctypes.c_int),
    ("type", ctypes.c_int),
    ("op_count", ctypes.c_uint64),
    ("sendbuff", ctypes.c_void_p),
    ("recvbuff", ctypes.c_void_p),
]
_TAIL = [
    *((name, ctypes.c_void_p) for name in ("send_base", "recv_base")),
    *((name, ctypes.c_size_t) for name in ("send_extent", "recv_extent", "count")),
    *((name, ctypes.c_int) for name in ("datatype", "op", "root", "n_ranks")),
    *((name, ctypes.c_void_p) for name in ("comm", "stream")),
    *((name, ctypes.c_int) for name in ("n_tasks", "global_rank")),
    ("comm_id", ctypes.c_uint64),
]


class OldCall(ctypes.Structure):
    """The recorder's rcclApiCall, laid out by this machine's C ABI."""

    _fields_ = (*_HEAD, *_TAIL)


class NewCall(ctypes.Structure):
    """With the accumulator of all-reduce with bias."""

    _fields_ = (*_HEAD, ("acc", ctypes.c_void_p), *_TAIL)


def record(
    kind: tuple[int, int],
    count: int = 0,
    datatype: int = FLOAT,
    *,
    ranks: int = 8,
    captured: int = 0,
    new: bool = True,
    **more: int,
) -> bytes:
    """One rcclApiCall."""
    fields = {"sendbuff": 0x7F0000, "recvbuff": 0x7F1000, "root": -1, **more}
    return bytes(
        (NewCall if new else OldCall)(
            pid=4711,
            tid=4712,
            hip_dev=3,
            group_depth=-1,
            timestamp=1e12,
            captured=captured,
            type=kind[new],
            send_extent=1 << 20,
            recv_extent=1 << 20,
            count=count,
            datatype=datatype,
            n_ranks=ranks,
            comm=0xC0,
            stream=0xE0,
            n_tasks=1,
            global_rank=3,
            **fields,
        )
    )


def test_records_are_as_long_as_amd_says() -> None:
    """160 bytes (rccl's page on recorder and replayer); 152 before there was a bias."""
    assert (ctypes.sizeof(NewCall), ctypes.sizeof(OldCall)) == (160, 152)


LINE = (
    "  {name} : [opCount : 1f, sendbuff : [addr : 0x7f, base : 0x7f, size : 4096], recvbuff : "
    "[addr : 0x7f, base : 0x7f, size : 4096], acc : (nil), count : {count}, datatype : {datatype}, "
    "op : 0, root : 0, comm : 0xc0, nranks : {ranks}, stream : 0xe0, task : 1, globalrank : 3, "
    "context : [time : 1745623615674.781006, thread : 12, device : 3, captured : {captured}, "
    "graphID : 0 ]]"
)
START = (
    "{\n  version : 1,\n  CommInitRank : [size : 8, uniqueID : 17, rank : 3, context : [time : "
    "1.0, thread : 12, device : 3, captured : -1, graphID : 0 ]]"
)


def line(name: str, count: int, datatype: int = FLOAT, ranks: int = 8, captured: int = 0) -> str:
    """One call in the recorder's own words."""
    return LINE.format(name=name, count=count, datatype=datatype, ranks=ranks, captured=captured)


@pytest.mark.parametrize("new", [False, True])
def test_binary_records_are_counted(put: Put, *, new: bool) -> None:
    """All-gather counts a rank's own elements: a tuner sees those of all ranks."""
    content = b"".join(
        [
            record(INIT, new=new, captured=-1),
            record(ALL_REDUCE, 1000, new=new),
            record(ALL_REDUCE, 1000, BF16, new=new),
            record(GROUP_START, new=new, captured=-1, ranks=-1),
            record(ALLTOALLV, 5, new=new) + b"\0" * (4 * 8 * 8),
            record(ALL_GATHER, 100, new=new),
            record(ALL_REDUCE, 1000, new=new),
            record(SEND, 9, new=new),
        ]
    )

    found = read(put("log.4711.node7.bin", content))

    eight = Scale(n_nodes=1, n_ranks=8)
    assert [(c.collective, c.scale, c.nbytes, c.calls) for c in found.counts] == [
        (Collective.ALL_GATHER, eight, 3200, 1),
        (Collective.ALL_REDUCE, eight, 2000, 1),
        (Collective.ALL_REDUCE, eight, 4000, 2),
    ]
    assert found.aside == {"alltoallv": 1, "send": 1}
    (one,) = found.recorders
    assert (one.source, one.host, one.pid, one.calls) == (Source.REPLAY, "node7", 4711, 4)


@pytest.mark.parametrize("new", [False, True])
def test_devices_of_an_init_are_no_call(put: Put, *, new: bool) -> None:
    """ncclCommInitAll with a list of devices writes it behind its record, and none without."""
    named = record(INIT_ALL, captured=-1, ranks=-1, root=3, new=new) + struct.pack("<3i", 0, 1, 2)
    unnamed = record(INIT_ALL, captured=-1, ranks=-1, root=3, sendbuff=0, new=new)

    found = read(put("log.1.n.bin", named + unnamed + record(ALL_REDUCE, 4, new=new)))

    assert [(c.collective, c.calls) for c in found.counts] == [(Collective.ALL_REDUCE, 1)]
    assert found.aside == {}


def test_a_bias_is_asked_for_as_an_all_reduce(put: Put) -> None:
    """collectives.cc enqueues it as ncclFuncAllReduce; both forms count it so."""
    binary = record(BIAS, 1000) + record(ALL_REDUCE, 1000)
    text = ",\n".join([START, line("AllReduceWithBias", 1000), line("AllReduce", 1000)])

    for content in (binary, text):
        (count,) = read(put("log.1.n.bin", content)).counts
        assert (count.collective, count.nbytes, count.calls) == (Collective.ALL_REDUCE, 4000, 2)


def test_text_of_the_first_release_and_what_is_no_call(put: Put) -> None:
    """Version 0 names the host and has no accumulator; level 2 and a HIP tracer add lines."""
    old = line("AllGather", 7).replace("acc : (nil), ", "")
    told = [
        "{\n  hostname : n1, version : 0,\n  GetUniqueId : [uniqueID : 17, context : [time : 1.0]]",
        old,
        "  ncclGetVersion : [time : 1.0]",
        "  HipStreamSynchronize : [stream : 0x7f, event : (nil), context : [time : 1.0]]",
        line("AllToAllv", 3) + ", sendcounts : [1, 2], sdispls : [0, 1], recvcounts : [1, 2]",
    ]

    found = read(put("log.1.n.json", ",\n".join(told) + "\n}\n"))

    assert [(c.collective, c.nbytes) for c in found.counts] == [(Collective.ALL_GATHER, 8 * 28)]
    assert found.aside == {"alltoallv": 1}


def test_text_says_the_same_as_binary(put: Put) -> None:
    """The recorder's JSON is no JSON; groups are braces of their own."""
    text = ",\n".join([START, line("AllReduce", 1000), "  {\n" + line("AllGather", 100)])
    text += "\n  },\n" + line("Send", 9) + "\n}\n"
    binary = record(ALL_REDUCE, 1000) + record(ALL_GATHER, 100) + record(SEND, 9)

    one = read(put("log.4711.node7.json", text))
    other = read(put("log.4711.node7.bin", binary))

    assert one.counts == other.counts
    assert one.aside == other.aside == {"send": 1}


def test_a_bcast_is_not_counted_as_its_broadcast_too(put: Put) -> None:
    """The binary form has both (recorder.cc leaves the second out of the text alone)."""
    bcast = (11, 12)
    content = record(bcast, 5) + record(BROADCAST, 5) + record(BROADCAST, 5) + record(bcast, 6)

    found = read(put("log.1.n.bin", content))

    assert [(c.collective, c.nbytes, c.calls) for c in found.counts] == [
        (Collective.BROADCAST, 20, 2),
        (Collective.BROADCAST, 24, 1),
    ]


def test_captures_do_not_run_and_replays_do(put: Put) -> None:
    """Once at capture, three times when the graph runs: three calls; no factor touches them."""
    content = record(ALL_REDUCE, 4, captured=1) + 3 * record(ALL_REDUCE, 4)

    found = read(put("log.1.n.bin", content))

    assert [count.calls for count in found.counts] == [3]
    assert found.aside == {"captured": 1}
    assert scaled(found, 100) == found


def test_nodes_come_from_the_user(put: Put) -> None:
    """The recorder knows ranks alone."""
    path = put("log.1.n.bin", record(ALL_REDUCE, 4, ranks=16))

    assert read(path, Stated(n_nodes=2)).scales == (Scale(n_nodes=2, n_ranks=16),)


def test_replay_files_of_ranks_merge(put: Put) -> None:
    """Two ranks of one communicator; the same file twice is refused by what it is."""
    paths = [put(f"log.{pid}.n.bin", record(ALL_REDUCE, 4 * pid)) for pid in (1, 2)]

    whole = merge([read(path) for path in paths])

    assert whole.ranks_at(Scale(n_nodes=1, n_ranks=8)) == 2
    with pytest.raises(RccltuneError, match="files"):
        merge([read(paths[0]), read(paths[0])])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (record(ALL_REDUCE, 1) * 2 + b"\1\2\3", "no record of calls from byte 320 on"),
        (record(ALL_REDUCE, 1) + record(ALLTOALLV, 1), "from byte 160 on"),
        (
            START + ",\n" + line("AllReduce", 7)[:60],
            "this call of the replay file is not understood",
        ),
        (START + ",\n" + line("AllReduce", 7, datatype=99), "AllReduce of type 99 on 8 ranks"),
    ],
)
def test_what_was_cut_is_said(put: Put, content: str | bytes, said: str) -> None:
    """With where, and how to take what is whole."""
    with pytest.raises(OutputError, match=said):
        read(put("log.1.n.bin", content))


@given(st.binary(max_size=700), st.booleans())
def test_any_bytes_are_read_or_refused(noise: bytes, whole: bool) -> None:
    """Never another error than one that says what is wrong; also behind a good record."""
    content = record(ALL_REDUCE, 7) + noise if whole else noise
    if is_replay(content):
        try:
            found = read_replay(content, "log.1.n.bin", None)
        except RccltuneError as error:
            assert "log.1.n.bin" in str(error.where)  # noqa: PT017 - a good reading is right too
        else:
            assert all(count.calls > 0 for count in found.counts)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(noise: str) -> None:
    """The same of the form in words."""
    content = ("{\n  version : 1,\n" + line("AllReduce", 7) + noise).encode()
    try:
        read_replay(content, "log", None)
    except RccltuneError as error:
        assert "log" in str(error.where)  # noqa: PT017 - a good reading is right too
