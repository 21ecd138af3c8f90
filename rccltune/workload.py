"""Workloads: what a job asked for, by the plugin's records and by Inspector's dumps.

A record is CSV that the plugin writes, one file or several of them in one. Lines that begin with
``#@ comm`` say whose the calls below them are and how their recording ended; those of ``#@ aside``
what was seen that never asks a tuner. Of rows without such lines nobody says more than they do.

A dump of the Inspector plugin that NCCL and RCCL ship is a line of JSON for each call. Fields
relied on, as ``inspector_json.cc`` writes them (format ``v4.0``, NCCL 2.28.3 to 2.30.7; from v4.1
on ``header`` and ``metadata`` stand once, in a line above their calls):

    ``header``     ``id`` of the communicator, ``rank``, ``n_ranks``, ``nnodes``
    ``metadata``   ``inspector_output_format_version``, ``dump_timestamp_us``, ``hostname``, ``pid``
    ``coll_perf``  ``coll`` (``AllReduce``), ``coll_sn``, ``coll_msg_size_bytes``; ``p2p_perf``
                   has ``p2p`` (``Send``) instead

Its size is count times element, so a rank's own part of all_gather and reduce_scatter: its bus
bandwidth multiplies it by the ranks (``inspectorComputeOpBw``). ``coll_sn`` counts the calls of one
function in one communicator from 0, small ones and those that did not fit into the ring included,
so what is missing shows. It names no algorithm.
"""

from __future__ import annotations

import csv
import glob
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from rccltune.logs.file_kinds import INSPECTOR_FORMAT, FileKind, kind_of
from rccltune.model import grammar
from rccltune.model.brief import brief
from rccltune.model.errors import CommandLineError, OutputError, reason_of
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import TUNABLE, Collective

_WANTED: Final = ("collective", "nbytes", "nranks", "nnodes", "calls")
_BEGIN: Final = "#@ format"
# Later ones of the same number add fields; another number may mean others by the same names.
_KNOWN: Final = "v4."


class CallSource(Enum):
    """Source of counted calls; each sees something else."""

    RECORD = "record"
    INSPECTOR = "inspector"

    @property
    def blind(self) -> str:
        """What it does not see."""
        if self is CallSource.RECORD:
            return (
                "records do not see replays of captured graphs, point-to-point, paths that ask no "
                "tuner, nor how grouped calls were split"
            )
        return "Inspector writes calls below 8 KiB only under NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES"


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
class Share:
    """One count and its shares of the whole, from 0 to 1."""

    count: CallCount
    of_calls: float
    of_bytes: float

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "collective": self.count.collective,
            "n_ranks": self.count.scale.n_ranks,
            "n_nodes": self.count.scale.n_nodes,
            "nbytes": self.count.nbytes,
            "min_nbytes": self.count.min_nbytes,
            "max_nbytes": self.count.max_nbytes,
            "calls": self.count.calls,
            "total_nbytes": self.count.total_nbytes,
            "of_calls": self.of_calls,
            "of_bytes": self.of_bytes,
        }


@brief
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

    @property
    def shares(self) -> list[Share]:
        """Each count with its shares, the largest first, by calls or by bytes."""
        calls, nbytes = self.calls or 1, self.total_nbytes or 1
        found = [
            Share(count=one, of_calls=one.calls / calls, of_bytes=one.total_nbytes / nbytes)
            for one in self.counts
        ]
        return sorted(found, key=lambda share: -max(share.of_calls, share.of_bytes))

    @property
    def remarks(self) -> list[str]:
        """What must be known to trust the figures, one sentence each."""
        sources = {one.source for one in self.recorders} or {CallSource.RECORD}
        remarks = [*self.cuts, *(source.blind for source in CallSource if source in sources)]
        n_open = sum(one.state is RecordingEnd.UNFINISHED for one in self.recorders)
        beyond = sum(one.beyond for one in self.recorders)
        missing = sum(one.missing for one in self.recorders)
        unknown = sum(one.unknown for one in self.recorders)
        if n_open:
            remarks.append(
                f"{n_open} of {len(self.recorders)} recordings were never finished: their process "
                "was killed or still runs, and what it called since its last snapshot is lost"
            )
        if beyond or any(not one.is_exact for one in self.counts):
            remarks.append(
                f"{beyond} calls had more sizes than are kept one by one; they stand in rows of a "
                "power of two each"
            )
        if missing:
            remarks.append(
                f"{missing} calls are not in the dump, by its own numbers: too small, or more than "
                "its buffer held"
            )
        if unknown:
            remarks.append(f"{unknown} calls were of a collective that has no name here")
        if self.aside:
            listed = ", ".join(f"{calls} {name}" for name, calls in self.aside.items())
            remarks.append(f"seen beside them, and not tuned: {listed}")
        return remarks

    def ranks_at(self, scale: Scale) -> int:
        """Number of ranks whose calls of this scale were counted; 1 where nobody says.

        A process counts once for each context that it has of one communicator: it has several
        where it has several GPUs.
        """
        contexts: dict[tuple[str, str, int], Counter[str]] = {}
        for one in self.recorders:
            if one.calls and one.scale in (scale, None):
                own = contexts.setdefault((one.source.value, one.host, one.pid), Counter())
                own[one.comm] += 1
        return sum(max(own.values()) for own in contexts.values()) or 1

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "calls": self.calls,
            "bytes": self.total_nbytes,
            "recorders": self.recorders,
            "ranks": {scale.short: self.ranks_at(scale) for scale in self.scales},
            "aside": self.aside,
            "counts": self.shares,
            "remarks": self.remarks,
        }


def read_workload(path: Path) -> Workload:
    """Read the plugin's record or Inspector's dump; the content decides.

    Raises:
        OutputError: it cannot be read, or is none of these.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OutputError(
            f"the workload cannot be read: {reason_of(error)}", where=str(path)
        ) from error
    if not content.strip():
        raise _empty(str(path))
    text = content.decode("utf-8", "replace")
    if kind_of(text) is FileKind.INSPECTOR:
        return _read_dump(text, str(path))
    if "\N{REPLACEMENT CHARACTER}" in text or not _is_record(text):
        raise OutputError(
            "this is no workload that is known",
            where=str(path),
            hint="give what the plugin wrote under RCCLTUNE_RECORD, or what the Inspector plugin "
            "wrote as JSON.",
        )
    return _read_record(text, str(path))


def read_workloads(paths: Sequence[Path]) -> Workload:
    """All files as one workload.

    Raises:
        OutputError: one is no workload.
        CommandLineError: the same recording is in two of them.
    """
    return sum_of_workloads([read_workload(path) for path in paths])


def snapshots_beside(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Snapshots that killed ranks left beside these files, and that are not among them."""
    given = {path.resolve() for path in paths}
    beside = (
        found
        for path in sorted(given)
        if path.is_file()
        for found in path.parent.glob(f"{glob.escape(path.name)}.*.part")
    )
    return tuple(dict.fromkeys(path for path in beside if path not in given))


def sum_of_workloads(parts: Sequence[Workload]) -> Workload:
    """All calls of all parts, whose order does not matter.

    A snapshot of a recording that is also there whole is left out.

    Raises:
        CommandLineError: the same recording is in two of them.
    """
    ended = {
        one.identity
        for part in parts
        for one in part.recorders
        if one.state is not RecordingEnd.UNFINISHED
    }
    kept = [part for part in parts if not _is_superseded(part, ended)]
    recorders = sorted((one for part in kept for one in part.recorders), key=lambda r: r.identity)
    for one, other in pairwise(recorders):
        if one.identity == other.identity:
            raise CommandLineError(
                f"the calls of process {one.pid} on {one.host or 'an unnamed host'}, communicator "
                f"{one.comm}, are in two of these files",
                hint="give each file once, and no file that was cut together with its snapshot "
                "(*.part).",
            )
    aside: Counter[str] = Counter()
    for part in kept:
        aside.update(part.aside)
    return Workload(
        counts=merged_counts(count for part in kept for count in part.counts),
        recorders=tuple(recorders),
        aside=dict(sorted(aside.items())),
        cuts=tuple(sorted(cut for part in parts for cut in part.cuts)),
    )


def _is_superseded(part: Workload, ended: set[tuple[str, str, int, str, int, str]]) -> bool:
    return bool(part.recorders) and all(
        one.state is RecordingEnd.UNFINISHED and one.identity in ended for one in part.recorders
    )


def merged_counts(counts: Iterable[CallCount]) -> tuple[CallCount, ...]:
    """One count for each collective, scale and size, in a steady order."""
    merged: dict[tuple[str, int, int, int, int], CallCount] = {}
    for one in counts:
        where = (one.scale.n_nodes, one.scale.n_ranks, one.min_nbytes, one.max_nbytes)
        key = (one.collective.value, *where)
        so_far = merged.get(key)
        merged[key] = (
            one
            if so_far is None
            else replace(
                one,
                calls=one.calls + so_far.calls,
                total_nbytes=one.total_nbytes + so_far.total_nbytes,
            )
        )
    return tuple(merged[key] for key in sorted(merged) if merged[key].calls)


def _empty(name: str) -> OutputError:
    return OutputError("the workload is empty", where=name, hint="record a job that communicates.")


# --- the plugin's record --------------------------------------------------------------------------


def _is_record(text: str) -> bool:
    """Whether a text looks like a record: its first line that is no comment is the header."""
    for line in grammar.lines(text[: text.rfind("\n") + 1] if _is_plugins(text) else text):
        if grammar.trim(line) and not line.startswith("#"):
            names = {name.strip().lower() for name in line.split(",")}
            return "collective" in names or "nbytes" in names
    return _BEGIN in text or _is_plugins(text)


def _is_plugins(text: str) -> bool:
    """Whether it begins as the plugin's do, as far as it goes; only such a one may be cut."""
    return text.startswith(_BEGIN) or _BEGIN.startswith(text)


def _read_record(text: str, name: str) -> Workload:
    """Read a record, one that a full disk cut up to the cut.

    A line without its end is no line of the plugin's: a number in it may be cut too.

    Args:
        text: the file's.
        name: its path, for messages.

    Raises:
        OutputError: another format, no such columns, a row that is no count, or rows that hold
            other calls than the lines in front of them say.
    """
    lines = grammar.lines(text)
    is_torn = _is_plugins(text) and not text.endswith("\n")
    reader = _RecordReader(name)
    for number, line in enumerate(lines[:-1] if is_torn else lines, start=1):
        reader.take(number, line)
    missing = reader.told - reader.held if reader.recorders else 0
    if missing < 0 or (missing and not _is_plugins(text)):
        raise reader.changed()
    whole = Workload(
        counts=merged_counts(reader.counts),
        recorders=tuple(reader.recorders),
        aside=dict(reader.aside),
    )
    if reader.columns and not is_torn and not missing:
        return whole
    if not _is_plugins(text):
        raise _empty(name)
    line_number = len(lines) + (not is_torn)
    what = f"{missing} of {reader.told} calls of its last recording" if missing else "what followed"
    cut = f"{name}:{line_number}: the file was cut here; left out: {what}"
    return replace(whole, recorders=_shortened(whole.recorders, missing), cuts=(cut,))


def _shortened(
    recorders: Sequence[CommunicatorCalls], missing: int
) -> tuple[CommunicatorCalls, ...]:
    """The recorders without calls that no row holds; the last ones wrote last."""
    kept = list(recorders)
    for at in range(len(kept) - 1, -1, -1):
        less = min(kept[at].calls, missing)
        if less:
            missing -= less
            calls = kept[at].calls - less
            kept[at] = replace(
                kept[at],
                calls=calls,
                beyond=min(kept[at].beyond, calls),
                state=RecordingEnd.UNFINISHED,
            )
    return tuple(kept)


class _RecordReader:
    """Reads line by line; ``told`` and ``held`` are calls of the last recorders and their rows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns: dict[str, int] = {}
        self.counts: list[CallCount] = []
        self.recorders: list[CommunicatorCalls] = []
        self.aside: Counter[str] = Counter()
        self.told = self.held = 0
        self._has_rows = False

    def take(self, number: int, line: str) -> None:
        """Take a line.

        Raises:
            OutputError: it is none of a record's.
        """
        try:
            if line.startswith("#@"):
                self._note(grammar.words(line.removeprefix("#@")))
            elif grammar.trim(line) and not line.startswith("#"):
                self._row(next(csv.reader([grammar.trim(line)])))
        except (KeyError, ValueError, IndexError, csv.Error) as error:
            what = "line is not understood" if line.startswith("#@") else "is no row of a workload"
            raise OutputError(
                f"this {what}: {error}",
                where=f"{self.name}:{number}",
                hint="give a file as the plugin wrote it under RCCLTUNE_RECORD.",
            ) from error

    def changed(self) -> OutputError:
        """The error of rows that hold other calls than is told."""
        return OutputError(
            f"the lines in front say {self.told} calls and the rows hold {self.held}: the file was "
            "changed",
            where=self.name,
            hint="take the file as the plugin wrote it; a job that ended without room on its disk "
            "left what it could beside it, in *.part.",
        )

    def _note(self, words: list[str]) -> None:
        kind, *rest = words or [""]
        if kind == "format" and rest != ["1"]:
            raise ValueError(f"it is format {' '.join(rest)}, and not 1")
        fields = dict(word.partition("=")[::2] for word in rest)
        if kind == "aside":
            self.aside[fields["name"]] += grammar.whole(fields["calls"])
        elif kind == "comm":
            one = _recorder(fields)
            if self._has_rows:
                if self.told != self.held:
                    raise self.changed()
                self.told = self.held = 0
                self._has_rows = False
            self.told += one.calls
            self.recorders.append(one)

    def _row(self, cells: list[str]) -> None:
        if not self.columns:
            self.columns = {name.strip().lower(): at for at, name in enumerate(cells)}
            missing = [name for name in _WANTED if name not in self.columns]
            if missing:
                raise ValueError(f"the header has no column {', '.join(missing)}")
            return
        # Files in one file have their headers.
        if cells[0].strip().lower() == "collective":
            return
        least, calls = self._whole(cells, "nbytes"), self._whole(cells, "calls")
        self.counts.append(
            CallCount(
                collective=Collective.parse(cells[self.columns["collective"]]),
                scale=Scale(
                    n_nodes=self._whole(cells, "nnodes"), n_ranks=self._whole(cells, "nranks")
                ),
                min_nbytes=least,
                max_nbytes=self._whole(cells, "maxbytes", least),
                calls=calls,
                total_nbytes=self._whole(cells, "totalbytes", least * calls),
            )
        )
        self.held += calls
        self._has_rows = True

    def _whole(self, cells: list[str], name: str, default: int | None = None) -> int:
        if name not in self.columns and default is not None:
            return default
        return grammar.whole(grammar.trim(cells[self.columns[name]]))


def _recorder(fields: dict[str, str]) -> CommunicatorCalls:
    is_known = fields["nRanks"] != "?"
    return CommunicatorCalls(
        source=CallSource(fields.get("source", CallSource.RECORD.value)),
        host=fields["host"],
        pid=grammar.whole(fields["pid"]),
        comm=fields["id"],
        context=grammar.whole(fields["context"]),
        since=fields["since"],
        scale=Scale(
            n_nodes=grammar.whole(fields["nNodes"]), n_ranks=grammar.whole(fields["nRanks"])
        )
        if is_known
        else None,
        calls=grammar.whole(fields["calls"]),
        beyond=grammar.whole(fields.get("beyond", "0")),
        unknown=grammar.whole(fields.get("unknown", "0")),
        state=RecordingEnd(fields["state"]),
        missing=grammar.whole(fields.get("missing", "0")),
    )


# --- Inspector's dump -----------------------------------------------------------------------------


@dataclass(slots=True)
class _RankCalls:
    """Calls of one rank in one communicator.

    Attributes:
        by_size: calls, by collective and size as a tuner sees it.
        numbers: sequence numbers of each function.
    """

    scale: Scale
    since: str
    by_size: Counter[tuple[Collective, int]] = field(default_factory=Counter)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    unknown: int = 0


# Host, process, communicator, rank.
_RankKey = tuple[str, int, str, int]


def _read_dump(text: str, name: str) -> Workload:
    """Count a dump's calls; a last line without its end is left out: it was still written.

    Args:
        text: the file's.
        name: its path, for messages.

    Raises:
        OutputError: another format, or a line that is none of its own.
    """
    ranks: dict[_RankKey, _RankCalls] = {}
    aside: Counter[str] = Counter()
    head: dict[str, Any] = {}
    *lines, last = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            plain = json.loads(line)
            # A line of its own heads the calls below it.
            if "header" in plain and not plain.keys() & {"coll_perf", "p2p_perf"}:
                head = plain
            else:
                _take(head | plain, ranks, aside)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OutputError(
                f"this line is not understood: {error!r}",
                where=f"{name}:{number}",
                hint="give what NCCL's Inspector plugin wrote as JSON (NCCL_INSPECTOR_DUMP_DIR), "
                "as it wrote it.",
            ) from error
    cut = f"{name}:{len(lines) + 1}: a line without its end is left out"
    return Workload(
        counts=merged_counts(
            CallCount(
                collective=collective,
                scale=one.scale,
                min_nbytes=nbytes,
                max_nbytes=nbytes,
                calls=calls,
                total_nbytes=nbytes * calls,
            )
            for one in ranks.values()
            for (collective, nbytes), calls in one.by_size.items()
        ),
        recorders=tuple(
            CommunicatorCalls(
                source=CallSource.INSPECTOR,
                host=host,
                pid=pid,
                comm=comm,
                context=rank,
                since=one.since,
                scale=one.scale,
                calls=one.by_size.total(),
                unknown=one.unknown,
                missing=sum(max(ns) - min(ns) + 1 - len(ns) for ns in one.numbers.values()),
            )
            for (host, pid, comm, rank), one in sorted(ranks.items())
        ),
        aside=dict(sorted(aside.items())),
        cuts=(cut,) if last.strip() else (),
    )


def _take(plain: dict[str, Any], ranks: dict[_RankKey, _RankCalls], aside: Counter[str]) -> None:
    """Take a call, with its header; KeyError, TypeError or ValueError where it is none."""
    header, metadata = plain["header"], plain["metadata"]
    version = str(metadata[INSPECTOR_FORMAT])
    if not version.startswith(_KNOWN):
        raise ValueError(f"Inspector's format {version}, and not {_KNOWN}x")
    if "p2p_perf" in plain:
        aside[str(plain["p2p_perf"]["p2p"]).lower()] += 1
        return
    rank = _number(header["rank"])
    key = (str(metadata["hostname"]), _number(metadata["pid"]), str(header["id"]), rank)
    scale = Scale(n_nodes=_number(header["nnodes"]), n_ranks=_number(header["n_ranks"]))
    since = str(_number(metadata["dump_timestamp_us"]))
    own = ranks.setdefault(key, _RankCalls(scale=scale, since=since))
    call = plain["coll_perf"]
    word, nbytes = str(call["coll"]), _number(call["coll_msg_size_bytes"])
    own.numbers.setdefault(word, []).append(_number(call["coll_sn"]))
    try:
        collective = Collective.parse(word)
    except ValueError:
        own.unknown += 1
        return
    if collective not in TUNABLE:
        aside[word.lower()] += 1
        return
    own.by_size[collective, nbytes * (own.scale.n_ranks if collective.is_shared else 1)] += 1


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value
