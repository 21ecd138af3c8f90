"""Records of a workload: counts of calls, and who counted them; several workloads as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from rccltune.model.errors import CommandLineError
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective


class CallSource(Enum):
    """Source of counted calls; each sees something else."""

    RECORD = "record"
    INSPECTOR = "inspector"


class RecordingEnd(Enum):
    """End of a recording."""

    WHOLE = "whole"
    EXIT = "exit"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCount:
    """Calls of one collective at one scale.

    Attributes:
        min_nbytes: the size as a tuner sees it; with ``max_nbytes`` the sizes of calls that were
            counted together, where they differ.
        total_nbytes: of all calls.
    """

    collective: Collective
    scale: Scale
    min_nbytes: int
    max_nbytes: int
    calls: int
    total_nbytes: int

    def __post_init__(self) -> None:
        """Sizes are in their order; ValueError otherwise."""
        if self.max_nbytes < self.min_nbytes:
            raise ValueError(f"maxBytes {self.max_nbytes} is below nBytes {self.min_nbytes}")

    @property
    def is_exact(self) -> bool:
        """Whether all calls were of one size."""
        return self.min_nbytes == self.max_nbytes

    @property
    def nbytes(self) -> int:
        """The size, or the mean size of what was counted together."""
        if self.is_exact or not self.calls:
            return self.min_nbytes
        return min(max(self.total_nbytes // self.calls, self.min_nbytes), self.max_nbytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicatorCalls:
    """One communicator of one rank, as far as its calls were counted.

    Attributes:
        comm: the communicator, by a name that may be the process's own.
        since: what tells it from any other of the same host, process and context: when it began
            (seconds since 1970).
        scale: of the communicator; None where a source does not say.
        beyond: calls of which only the power of two of the size is known.
        unknown: calls of collectives that have no name here; they are in no count.
        missing: calls of its communicator that a source knows of and did not write down.
    """

    source: CallSource
    host: str
    pid: int
    comm: str
    context: int
    since: str
    scale: Scale | None
    calls: int
    beyond: int = 0
    unknown: int = 0
    state: RecordingEnd = RecordingEnd.WHOLE
    missing: int = 0

    @property
    def identity(self) -> tuple[str, str, int, str, int, str]:
        """Identity of a recording, whichever file it is in."""
        return (self.source.value, self.host, self.pid, self.comm, self.context, self.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Counts of any number of ranks.

    Attributes:
        counts: by collective, scale and size; no two of the same.
        recorders: by identity; empty where a file does not say who counted.
        aside: calls that were seen and never ask a tuner, by name (``alltoall``, ``send``).
        cuts: where a file was cut, and what of it is left out, one sentence each.
    """

    counts: tuple[CallCount, ...]
    recorders: tuple[CommunicatorCalls, ...] = ()
    aside: Mapping[str, int] = field(default_factory=dict)
    cuts: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        """All calls that asked a tuner, of all ranks."""
        return sum(count.calls for count in self.counts)

    @property
    def total_nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(count.total_nbytes for count in self.counts)

    @property
    def scales(self) -> tuple[Scale, ...]:
        """Scales of the counts, smallest first."""
        found = {count.scale for count in self.counts}
        return tuple(sorted(found, key=lambda s: (s.n_nodes, s.n_ranks)))

    def ranks_at(self, scale: Scale) -> int:
        """Number of ranks whose calls of this scale were counted; 1 where nobody says.

        A process counts once for each context that it has of one communicator: it has several
        where it has several GPUs.
        """
        contexts: dict[tuple[str, str, int], dict[str, int]] = {}
        for recorder in self.recorders:
            if recorder.calls and recorder.scale in (scale, None):
                own = contexts.setdefault((recorder.source.value, recorder.host, recorder.pid), {})
                own[recorder.comm] = own.get(recorder.comm, 0) + 1
        return sum(max(own.values()) for own in contexts.values()) or 1


_Key = tuple[Collective, Scale, int, int]


def merged_counts(counts: Iterable[CallCount]) -> tuple[CallCount, ...]:
    """One count for each collective, scale and size, in a steady order."""
    sums: dict[_Key, tuple[int, int]] = {}
    for one in counts:
        key = (one.collective, one.scale, one.min_nbytes, one.max_nbytes)
        calls, total = sums.get(key, (0, 0))
        sums[key] = (calls + one.calls, total + one.total_nbytes)
    made = (
        CallCount(
            collective=collective,
            scale=scale,
            min_nbytes=least,
            max_nbytes=most,
            calls=calls,
            total_nbytes=total,
        )
        for (collective, scale, least, most), (calls, total) in sums.items()
    )
    return tuple(sorted((one for one in made if one.calls), key=_order))


def _order(count: CallCount) -> tuple[str, int, int, int, int]:
    scale = count.scale
    where = (scale.n_nodes, scale.n_ranks, count.min_nbytes, count.max_nbytes)
    return (count.collective.value, *where)


def sum_of_workloads(parts: Sequence[Workload]) -> Workload:
    """All calls of all parts.

    The order of the parts does not matter. A snapshot of a recording that is also there whole is
    left out.

    Raises:
        CommandLineError: the same recording is in two of them.
    """
    whole = {
        one.identity
        for part in parts
        for one in part.recorders
        if one.state is not RecordingEnd.UNFINISHED
    }
    kept = [part for part in parts if not _is_superseded(part, whole)]
    recorders: dict[tuple[str, str, int, str, int, str], CommunicatorCalls] = {}
    for one in (one for part in kept for one in part.recorders):
        if one.identity in recorders:
            raise CommandLineError(
                f"the calls of process {one.pid} on {one.host or 'an unnamed host'}, communicator "
                f"{one.comm}, are in two of these files",
                hint="give each file once, and no file that was cut together with its snapshot "
                "(*.part).",
            )
        recorders[one.identity] = one
    aside: dict[str, int] = {}
    for part in kept:
        for name, calls in part.aside.items():
            aside[name] = aside.get(name, 0) + calls
    return Workload(
        counts=merged_counts(count for part in kept for count in part.counts),
        recorders=tuple(recorders[key] for key in sorted(recorders)),
        aside=dict(sorted(aside.items())),
        cuts=tuple(sorted(cut for part in parts for cut in part.cuts)),
    )


def _is_superseded(part: Workload, whole: set[tuple[str, str, int, str, int, str]]) -> bool:
    return bool(part.recorders) and all(
        one.state is RecordingEnd.UNFINISHED and one.identity in whole for one in part.recorders
    )
