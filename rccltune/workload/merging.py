"""Workloads of several ranks, or of several jobs, as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rccltune.errors import CommandLineError
from rccltune.model import Scale
from rccltune.vocab import Collective
from rccltune.workload.records import Count, Recorder, Source, State, Workload

_Key = tuple[Collective, Scale, int, int]


def gathered(counts: Iterable[Count]) -> tuple[Count, ...]:
    """One count for each collective, scale and size, in a steady order."""
    found: dict[_Key, tuple[int, int]] = {}
    for one in counts:
        key = (one.collective, one.scale, one.min_nbytes, one.max_nbytes)
        calls, total = found.get(key, (0, 0))
        found[key] = (calls + one.calls, total + one.total_nbytes)
    made = (
        Count(
            collective=collective,
            scale=scale,
            min_nbytes=least,
            max_nbytes=most,
            calls=calls,
            total_nbytes=total,
        )
        for (collective, scale, least, most), (calls, total) in found.items()
    )
    return tuple(sorted((one for one in made if one.calls), key=_order))


def _order(one: Count) -> tuple[str, int, int, int, int]:
    scale = one.scale
    where = (scale.n_nodes, scale.n_ranks, one.min_nbytes, one.max_nbytes)
    return (one.collective.value, *where)


def merge(parts: Sequence[Workload]) -> Workload:
    """All calls of all parts.

    The order of the parts does not matter, nor does merging some of them first. A snapshot of a
    recording that is also there whole is left out.

    Raises:
        CommandLineError: the same recording is in two of them.
    """
    whole = {
        one.identity
        for part in parts
        for one in part.recorders
        if one.state is not State.UNFINISHED
    }
    kept = [part for part in parts if not _is_superseded(part, whole)]
    recorders: dict[tuple[str, str, int, str, int, str], Recorder] = {}
    for one in (one for part in kept for one in part.recorders):
        if one.identity in recorders:
            raise CommandLineError(
                f"the calls of process {one.pid} on {one.host or 'an unnamed host'}, communicator "
                f"{one.comm}, are in two of these files",
                hint="give each file once, and no file together with what was merged from it, nor "
                "a file that was cut together with its snapshot (*.part).",
            )
        recorders[one.identity] = one
    aside: dict[str, int] = {}
    for part in kept:
        for name, calls in part.aside.items():
            aside[name] = aside.get(name, 0) + calls
    return Workload(
        counts=gathered(count for part in kept for count in part.counts),
        recorders=tuple(recorders[key] for key in sorted(recorders)),
        aside=dict(sorted(aside.items())),
        cuts=tuple(sorted(cut for part in parts for cut in part.cuts)),
    )


def _is_superseded(part: Workload, whole: set[tuple[str, str, int, str, int, str]]) -> bool:
    return bool(part.recorders) and all(
        one.state is State.UNFINISHED and one.identity in whole for one in part.recorders
    )


def scaled(part: Workload, times: int) -> Workload:
    """A workload whose calls were captured into graphs that ran so often.

    A tuner is asked once, at capture. What RCCL's recorder wrote has its replays already, and is
    left as it is.

    Args:
        part: as it was read.
        times: replays of each captured call, 1 or more.
    """
    if times == 1 or any(one.source is Source.REPLAY for one in part.recorders):
        return part
    return replace(
        part,
        counts=tuple(
            replace(one, calls=one.calls * times, total_nbytes=one.total_nbytes * times)
            for one in part.counts
        ),
        recorders=tuple(
            replace(
                one,
                calls=one.calls * times,
                beyond=one.beyond * times,
                captured_times=one.captured_times * times,
            )
            for one in part.recorders
        ),
    )
