"""What RCCL's own recorder wrote under RCCL_REPLAY_FILE (ROCm 7.0 and later).

Two forms, told apart by the first byte. Text has a call a line, in words of its own
(``AllReduce : [opCount : 0, …, count : 1024, datatype : 7, …, nranks : 8, …, context : […]]``).
Binary is the recorder's C record once for each call, 152 bytes, or 160 since all-reduce with bias
was added, which also moved the numbers of what follows it; behind a call of alltoallv stand four
lists of 8-byte numbers, one for each rank, and behind ncclCommInitAll its devices, where it named
any (``src/misc/recorder.cc``, ``src/include/recorder.h``; field by field the same in RCCL's own
``tools/RcclReplayer/replay_log_converter.py``).

A call inside of a graph capture is written at capture, marked, and once more at each replay: here
captures are set aside and replays count. The recorder sees every call of the interface, also those
that never ask a tuner, and knows nothing of nodes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import PurePath
from typing import Final

from rccltune.model import TUNABLE, Collective, OutputError, Scale
from rccltune.workload.records import Count, Recorder, Source, Workload, gathered

# Bytes of an element by ncclDataType_t (NCCL 2.28, RCCL 2.27 nccl.h).
_ELEMENT: Final = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
# rcclCall_t, before and since all-reduce with bias.
_CALLS: Final = (
    *("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"),
    *("Send", "Recv", "AllToAll", "AllToAllv", "Gather", "Scatter", "Bcast"),
)
_N_KINDS: Final = 31
_WITH_BIAS: Final = (*_CALLS[:5], "AllReduceWithBias", *_CALLS[5:])
# What is not called as it is asked of a tuner.
_ASKED_AS: Final = {"Bcast": "Broadcast", "AllReduceWithBias": "AllReduce"}
# ncclCommInitAll, counted from the last collective.
_INIT_ALL: Final = 6
_MOST_DEVICES: Final = 1 << 12
_OLD: Final = struct.Struct("<4idQ2iQ7Q4i2Q2iQ")
_NEW: Final = struct.Struct("<4idQ2iQ8Q4i2Q2iQ")
_LINE: Final = re.compile(
    r"^\s*(\w+) : \[opCount : .*?\bcount : (\d+), datatype : (\d+),.*?\bcomm : (\S+), "
    r"nranks : (-?\d+),(.*)$"
)
_CAPTURED: Final = re.compile(r"\bcaptured : (-?\d+)")
_NAMED: Final = re.compile(r"\.(\d+)\.([^/]+?)(?:\.json|\.bin)?$")
# Of these a tuner sees the total over all ranks.
_LARGEST_TYPE: Final = len(_ELEMENT)


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    count: int
    datatype: int
    comm: str
    n_ranks: int
    is_captured: bool


def is_replay(content: bytes) -> bool:
    """Whether a file looks like one of the recorder's."""
    head = content[:4096]
    if head.startswith(b"{"):
        return b"version : " in head or b" : [" in head
    return _layout(content) is not None


def read_replay(content: bytes, name: str, n_nodes: int | None) -> Workload:
    """Read a file of either form.

    Args:
        content: the file's bytes.
        name: its path: the recorder's own names hold the process and the host.
        n_nodes: that the communicators span; None is one node.

    Raises:
        OutputError: a record that cannot be, or one that was cut in the middle.
    """
    calls = _of_text(content, name) if content.startswith(b"{") else _of_records(content, name)
    counts: list[Count] = []
    aside: dict[str, int] = {}
    by_comm: dict[tuple[str, Scale], int] = {}
    for call in _without_echoes(calls):
        collective = _tunable(call.name)
        if collective is None or call.is_captured or call.n_ranks < 2:
            key = "captured" if call.is_captured else _plain(call, collective)
            aside[key] = aside.get(key, 0) + 1
            continue
        one = _count(call, collective, n_nodes or 1, name)
        counts.append(one)
        key_ = (call.comm, one.scale)
        by_comm[key_] = by_comm.get(key_, 0) + 1
    return Workload(
        counts=gathered(counts),
        recorders=_recorders(by_comm, content, name),
        aside=dict(sorted(aside.items())),
    )


def _without_echoes(calls: Iterator[_Call]) -> Iterator[_Call]:
    """A Bcast calls Broadcast; the binary form has a record of both, and it ran once."""
    before = None
    for call in calls:
        named = replace(call, name="Bcast")
        if call.name != "Broadcast" or before != named:
            yield call
        before = call


def _recorders(
    by_comm: dict[tuple[str, Scale], int], content: bytes, name: str
) -> tuple[Recorder, ...]:
    named = _NAMED.search(PurePath(name).name)
    digest = sha256(content).hexdigest()[:12]
    return tuple(
        Recorder(
            source=Source.REPLAY,
            host=named[2] if named else "",
            pid=int(named[1]) if named else 0,
            comm=comm,
            context=number,
            since=digest,
            scale=scale,
            calls=n,
        )
        for number, ((comm, scale), n) in enumerate(by_comm.items())
    )


def _plain(call: _Call, collective: Collective | None) -> str:
    if collective is not None:
        return "of-one-rank"
    return call.name.lower()


def _tunable(name: str) -> Collective | None:
    try:
        found = Collective.parse(_ASKED_AS.get(name, name))
    except ValueError:
        return None
    return found if found in TUNABLE else None


def _count(call: _Call, collective: Collective, n_nodes: int, name: str) -> Count:
    try:
        nbytes = call.count * _ELEMENT[call.datatype]
        nbytes *= call.n_ranks if collective.is_shared else 1
        scale = Scale(n_nodes=n_nodes, n_ranks=call.n_ranks)
    except (IndexError, ValueError) as error:
        raise OutputError(
            f"a call of the replay file cannot be: {call.name} of type {call.datatype} on "
            f"{call.n_ranks} ranks",
            where=name,
            hint="an unknown release of RCCL? Record with RCCLTUNE_RECORD instead.",
        ) from error
    return Count(
        collective=collective,
        scale=scale,
        min_nbytes=nbytes,
        max_nbytes=nbytes,
        calls=1,
        total_nbytes=nbytes,
    )


def _of_text(content: bytes, name: str) -> Iterator[_Call]:
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        if " : [opCount : " not in line:
            continue
        found = _LINE.match(line)
        if found is None:
            raise OutputError(
                "this call of the replay file is not understood",
                where=f"{name}:{number}",
                hint="a job that was killed may have cut its last line: remove it.",
            )
        captured = _CAPTURED.search(found[6])
        yield _Call(
            found[1],
            int(found[2]),
            int(found[3]),
            found[4],
            int(found[5]),
            captured is not None and captured[1] == "1",
        )


def _layout(content: bytes) -> struct.Struct | None:
    """How long the records are: their first number is the process, the same in all of them.

    None where neither length gives records that can be.
    """
    fitting = [one for one in (_NEW, _OLD) if _fits(content, one)]
    return fitting[0] if fitting else None


def _fits(content: bytes, layout: struct.Struct) -> bool:
    pid, at, n = None, 0, 0
    while at + layout.size <= len(content) and n < 64:
        record = layout.unpack_from(content, at)
        call, skipped = _record(record, layout)
        if pid not in (None, record[0]) or record[0] <= 0 or call is None:
            return False
        pid, at, n = record[0], at + layout.size + skipped, n + 1
    return n > 0


def _record(record: tuple[int, ...], layout: struct.Struct) -> tuple[_Call | None, int]:
    """A call, None where there can be none such, and how many bytes follow it."""
    more = layout is _NEW
    kinds = _WITH_BIAS if more else _CALLS
    kind, captured = record[7], record[6]
    count, datatype, n_ranks, comm = (record[k + more] for k in (15, 16, 19, 20))
    if not (0 <= kind < _N_KINDS + more and -1 <= captured <= 1):
        return None, 0
    name = kinds[kind] if kind < len(kinds) else ""
    if name and not (0 < n_ranks <= 1 << 24 and 0 <= datatype < _LARGEST_TYPE):
        return None, 0
    skipped = 32 * n_ranks if name == "AllToAllv" else 0
    if kind == len(kinds) + _INIT_ALL and record[9]:
        n_devices = record[18 + more]
        if not 0 < n_devices <= _MOST_DEVICES:
            return None, 0
        skipped = 4 * n_devices
    return _Call(name, count, datatype, hex(comm), n_ranks, captured == 1), skipped


def _of_records(content: bytes, name: str) -> Iterator[_Call]:
    layout = _layout(content) or _NEW
    at = 0
    while at < len(content):
        call, skipped = None, 0
        if at + layout.size <= len(content):
            call, skipped = _record(layout.unpack_from(content, at), layout)
        if call is None or at + layout.size + skipped > len(content):
            raise OutputError(
                f"the replay file is no record of calls from byte {at} on",
                where=name,
                hint="a job that was killed may have cut its last record: "
                f"head -c {at} gives what is whole.",
            )
        if call.name:
            yield call
        at += layout.size + skipped
