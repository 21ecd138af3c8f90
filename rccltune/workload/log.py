"""Calls in a job's own log, written under NCCL_DEBUG=INFO with the subsystem TUNING.

One line for every call that was tuned, from rank 0 of each communicator alone:

    ``8 Bytes -> Algo 1 proto 0 time 12.8``                               2.20.3 to 2.22
    ``AllReduce: 8 Bytes -> Algo 1 proto 0 time 12.8``                    2.23
    ``AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}``   2.24 and later

A line with a time gives the size as a tuner would see it, one with channels the bytes of a rank's
own buffer (``src/enqueue.cc`` of NCCL and RCCL). The line names no communicator: how many ranks it
has is taken from the lines at its start where a process has communicators of one scale only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from rccltune.model import TUNABLE, Collective, CommandLineError, Scale
from rccltune.workload.records import Count, Recorder, Source, Workload, gathered

# "host:pid:tid [device] NCCL INFO …"; whatever a launcher puts in front is left alone.
_PLACE: Final = r"(?:([^\s:]{1,255}):(\d+):\d+ (?:\[\d+\] )?)?NCCL INFO "
_CALL: Final = re.compile(
    _PLACE + r"(?:(\w+): )?(\d{1,19}) Bytes -> Algo \w+ proto \w+ (time \S|channel\{)"
)
_START: Final = re.compile(_PLACE + r".*?\bcomm 0x\w+ .*?\bn[rR]anks (\d+)(?:.*?\bnNodes (\d+))?")
_Process = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the user says about files that do not say it."""

    collective: Collective | None = None
    n_ranks: int | None = None
    n_nodes: int | None = None


@dataclass(slots=True)
class _Seen:
    """Of one process."""

    ranks: set[int] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)
    calls: dict[tuple[str, int, bool], int] = field(default_factory=dict)


def is_log(text: str) -> bool:
    """Whether a text has lines of the library's."""
    return "NCCL INFO" in text


def read_log(text: str, name: str, stated: Stated) -> Workload:
    """Count the calls of a log.

    Args:
        text: the log's.
        name: its path, for messages.
        stated: what the user says where the log does not.

    Raises:
        CommandLineError: the log does not say how many ranks a communicator has, or which
            collective was called, and the user does not either; or it has no such line.
    """
    seen: dict[_Process, _Seen] = {}
    for line in text.splitlines():
        _take(line, seen)
    if not any(one.calls for one in seen.values()):
        raise CommandLineError(
            "no line of this log says what a call was tuned to",
            where=name,
            hint="run the job with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,TUNING, "
            "or with RCCLTUNE_RECORD.",
        )
    digest = sha256(text.encode()).hexdigest()[:12]
    counts: list[Count] = []
    recorders: list[Recorder] = []
    aside: dict[str, int] = {}
    for process, one in seen.items():
        if one.calls:
            scale = _scale(one, name, stated)
            own = _counts(one, scale, name, stated, aside)
            counts += own
            recorders.append(_recorder(process, scale, digest, sum(c.calls for c in own)))
    return Workload(counts=gathered(counts), recorders=tuple(recorders), aside=aside)


def _take(line: str, seen: dict[_Process, _Seen]) -> None:
    if "NCCL INFO" not in line:
        return  # a job's log has lines of any length
    if (found := _CALL.search(line)) is not None:
        own = seen.setdefault(_process(found), _Seen())
        key = (found[3] or "", int(found[4]), found[5].startswith("channel"))
        own.calls[key] = own.calls.get(key, 0) + 1
    elif (found := _START.search(line)) is not None:
        own = seen.setdefault(_process(found), _Seen())
        own.ranks |= {int(found[3])}
        own.nodes |= {int(found[4])} if found[4] else set()


def _process(found: re.Match[str]) -> _Process:
    return (found[1] or "", int(found[2] or 0))


def _recorder(process: _Process, scale: Scale, digest: str, calls: int) -> Recorder:
    return Recorder(
        source=Source.LOG,
        host=process[0],
        pid=process[1],
        comm="log",
        context=0,
        since=digest,
        scale=scale,
        calls=calls,
    )


def _scale(one: _Seen, name: str, stated: Stated) -> Scale:
    ranks = {stated.n_ranks} if stated.n_ranks else {n for n in one.ranks if n > 1}
    if len(ranks) != 1:
        told = ", ".join(map(str, sorted(one.ranks))) or "none"
        raise CommandLineError(
            f"the log does not say whose its calls are: communicators of {told} ranks are in it",
            where=name,
            hint="say --ranks N (and --nodes N), log the subsystem INIT too, or record with "
            "RCCLTUNE_RECORD, which knows.",
        )
    n_ranks = next(iter(ranks))
    nodes = {stated.n_nodes} if stated.n_nodes else one.nodes
    n_nodes = next(iter(nodes)) if len(nodes) == 1 else 1
    if len(nodes) > 1:
        raise CommandLineError(
            "the log has communicators on different numbers of nodes",
            where=name,
            hint="say --nodes N.",
        )
    try:
        return Scale(n_nodes=n_nodes or 1, n_ranks=n_ranks or 1)
    except ValueError as error:
        raise CommandLineError(str(error), where=name, hint="say --ranks and --nodes.") from error


def _counts(
    one: _Seen, scale: Scale, name: str, stated: Stated, aside: dict[str, int]
) -> list[Count]:
    found = []
    for (word, told, is_own), calls in one.calls.items():
        collective = _collective(word, name, stated)
        if collective not in TUNABLE:
            aside[word.lower()] = aside.get(word.lower(), 0) + calls
            continue
        nbytes = told * (scale.n_ranks if is_own and collective.is_shared else 1)
        found.append(
            Count(
                collective=collective,
                scale=scale,
                min_nbytes=nbytes,
                max_nbytes=nbytes,
                calls=calls,
                total_nbytes=nbytes * calls,
            )
        )
    return found


def _collective(word: str, name: str, stated: Stated) -> Collective | None:
    """The collective of a line; None for one that has no name here."""
    if not word and stated.collective is None:
        raise CommandLineError(
            "this library's log names no collective",
            where=name,
            hint="say --collective all_reduce where all calls are one collective's, or record "
            "with RCCLTUNE_RECORD.",
        )
    if not word:
        return stated.collective
    try:
        return Collective.parse(word)
    except ValueError:
        return None
