"""Dumps of the Inspector plugin that NCCL and RCCL ship: a line of JSON for each call.

Fields relied on, as ``inspector_json.cc`` writes them (format ``v4.0``, NCCL 2.28.3 to 2.30.7;
from v4.1 on ``header`` and ``metadata`` stand once, in a line above their calls):

    ``header``     ``id`` of the communicator, ``rank``, ``n_ranks``, ``nnodes``
    ``metadata``   ``inspector_output_format_version``, ``dump_timestamp_us``, ``hostname``, ``pid``
    ``coll_perf``  ``coll`` (``AllReduce``), ``coll_sn``, ``coll_msg_size_bytes``; ``p2p_perf``
                   has ``p2p`` (``Send``) instead

The size is count times element, so a rank's own part of all_gather and reduce_scatter: its bus
bandwidth multiplies it by the ranks (``inspectorComputeOpBw``). ``coll_sn`` counts the calls of one
function in one communicator from 0, small ones and those that did not fit into the ring included,
so what is missing shows. JSON has no algorithm; only the plugin's Prometheus form names one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from rccltune.logs.file_kinds import INSPECTOR_FORMAT
from rccltune.model.errors import OutputError
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.workload.records import (
    CallCount,
    CallSource,
    CommunicatorCalls,
    Workload,
    merged_counts,
)

# Later ones of the same number add fields; another number may mean others by the same names.
_KNOWN: Final = "v4."
_Key = tuple[str, int, str, int]


@dataclass(slots=True)
class _RankCalls:
    """Calls of one rank in one communicator.

    Attributes:
        by_size: calls, by collective and size as a tuner sees it.
        numbers: of each function: least and largest sequence number, and how many.
    """

    scale: Scale
    since: str
    by_size: dict[tuple[Collective, int], int] = field(default_factory=dict)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    unknown: int = 0


def read_dump(text: str, name: str) -> Workload:
    """Count a dump's calls.

    A last line without its end is left out: the plugin was still writing.

    Args:
        text: the file's.
        name: its path, for messages.

    Raises:
        OutputError: another format, or a line that is none of its own.
    """
    calls_by_rank: dict[_Key, _RankCalls] = {}
    aside: dict[str, int] = {}
    head: dict[str, Any] = {}
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        if line.strip():
            plain = _parsed(line, f"{name}:{number}")
            # From v4.1 on a line of its own heads the calls below it.
            if "header" in plain and not plain.keys() & {"coll_perf", "p2p_perf"}:
                head = plain
            else:
                _take(head | plain, f"{name}:{number}", calls_by_rank, aside)
    cuts = (
        (f"{name}:{len(lines)}: a line without its end is left out",) if lines[-1].strip() else ()
    )
    return Workload(
        counts=merged_counts(count for one in calls_by_rank.values() for count in _counts(one)),
        recorders=tuple(_recorder(key, one) for key, one in sorted(calls_by_rank.items())),
        aside=dict(sorted(aside.items())),
        cuts=cuts,
    )


def _parsed(line: str, where: str) -> dict[str, Any]:
    try:
        plain = json.loads(line)
    except ValueError as error:
        raise _bad(where, f"this line is no JSON: {error}") from error
    if not isinstance(plain, dict):
        raise _bad(where, "this line is no call")
    return plain


def _take(
    plain: dict[str, Any], where: str, seen: dict[_Key, _RankCalls], aside: dict[str, int]
) -> None:
    try:
        header, metadata = plain["header"], plain["metadata"]
        version = str(metadata[INSPECTOR_FORMAT])
        if not version.startswith(_KNOWN):
            raise _bad(where, f"this is Inspector's format {version}, and not {_KNOWN}x")
        if "p2p_perf" in plain:
            word = str(plain["p2p_perf"]["p2p"]).lower()
            aside[word] = aside.get(word, 0) + 1
            return
        rank = _whole(header["rank"])
        key = (str(metadata["hostname"]), _whole(metadata["pid"]), str(header["id"]), rank)
        scale = Scale(n_nodes=_whole(header["nnodes"]), n_ranks=_whole(header["n_ranks"]))
        since = str(_whole(metadata["dump_timestamp_us"]))
        _add(seen.setdefault(key, _RankCalls(scale=scale, since=since)), plain["coll_perf"], aside)
    except (KeyError, TypeError, ValueError) as error:
        raise _bad(where, f"this line is not understood: {error!r}") from error


def _add(rank_calls: _RankCalls, call: dict[str, Any], aside: dict[str, int]) -> None:
    word = str(call["coll"])
    nbytes = _whole(call["coll_msg_size_bytes"])
    number = _whole(call["coll_sn"])
    numbers = rank_calls.numbers.setdefault(word, [number, number, 0])
    numbers[:] = [min(numbers[0], number), max(numbers[1], number), numbers[2] + 1]
    try:
        collective = Collective.parse(word)
    except ValueError:
        rank_calls.unknown += 1
        return
    if collective not in TUNABLE:
        aside[word.lower()] = aside.get(word.lower(), 0) + 1
        return
    total = nbytes * (rank_calls.scale.n_ranks if collective.is_shared else 1)
    rank_calls.by_size[collective, total] = rank_calls.by_size.get((collective, total), 0) + 1


def _counts(one: _RankCalls) -> list[CallCount]:
    return [
        CallCount(
            collective=collective,
            scale=one.scale,
            min_nbytes=nbytes,
            max_nbytes=nbytes,
            calls=calls,
            total_nbytes=nbytes * calls,
        )
        for (collective, nbytes), calls in one.by_size.items()
    ]


def _recorder(key: _Key, rank_calls: _RankCalls) -> CommunicatorCalls:
    host, pid, comm, rank = key
    return CommunicatorCalls(
        source=CallSource.INSPECTOR,
        host=host,
        pid=pid,
        comm=comm,
        context=rank,
        since=rank_calls.since,
        scale=rank_calls.scale,
        calls=sum(rank_calls.by_size.values()),
        unknown=rank_calls.unknown,
        missing=sum(last - first + 1 - n for first, last, n in rank_calls.numbers.values()),
    )


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _bad(where: str, what: str) -> OutputError:
    return OutputError(
        what,
        where=where,
        hint="give what NCCL's Inspector plugin wrote as JSON (NCCL_INSPECTOR_DUMP_DIR), as it "
        "wrote it.",
    )
