"""Workloads: what a job asked for, by the plugin's records and by Inspector's dumps.

A record is CSV that the plugin writes, one file or several of them in one. A line that begins with
``#@ comm`` says whose the calls below it are and how their recording ended. Of rows without such
lines nobody says more than they do.

A dump of the Inspector plugin that NCCL and RCCL ship is a line of JSON for each call. Fields
relied on, as ``inspector_json.cc`` writes them (format ``v4.0``, NCCL 2.28.3 to 2.30.7; from v4.1
on ``header`` and ``metadata`` stand once, with ``dump_stats``, in a line above their calls):

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

import glob
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.logs.file_kinds import INSPECTOR_FORMAT, FileKind, detect_kind
from rccltune.model import grammar
from rccltune.model.brief import brief
from rccltune.model.errors import CommandLineError, OutputError, reason_of
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import TUNABLE, Collective

if TYPE_CHECKING:
    import pandas as pd

# Columns of a record; maxbytes and totalbytes, too, where sizes were counted together.
_COLUMNS: Final = ("collective", "nbytes", "nranks", "nnodes", "calls")
_FORMAT: Final = "#@ format"
_COMM: Final = "#@ comm"
# Later ones of the same number add fields; another number may mean others by the same names.
_KNOWN: Final = "v4."
# What either source does not see.
_BLIND: Final = {
    "record": (
        "records do not see replays of captured graphs, point-to-point, paths that ask no tuner, "
        "nor how grouped calls were split"
    ),
    "inspector": "Inspector writes calls below 8 KiB only under NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES",
}


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

    @property
    def is_exact(self) -> bool:
        """Whether all calls were of one size."""
        return self.min_nbytes == self.max_nbytes

    @property
    def nbytes(self) -> int:
        """The size, or the mean size of what was counted together."""
        return self.min_nbytes if self.is_exact else self.total_nbytes // (self.calls or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One communicator of one rank, as far as its calls were counted.

    Attributes:
        source: ``record`` or ``inspector``.
        comm: the communicator, by a name that may be the process's own.
        since: what tells it from any other of the same host, process and context: when it began
            (seconds since 1970).
        beyond: calls of which only the power of two of the size is known.
        unknown: calls of collectives that have no name here; they are in no count.
        missing: calls that a source knows of and did not write down.
        is_finished: it was not cut off by the end of its process.
    """

    source: str
    host: str
    pid: int
    comm: str
    context: int
    since: str
    scale: Scale
    calls: int
    beyond: int = 0
    unknown: int = 0
    missing: int = 0
    is_finished: bool = True

    @property
    def identity(self) -> tuple[str, str, int, str, int, str]:
        """Identity of a recording, whichever file it is in."""
        return (self.source, self.host, self.pid, self.comm, self.context, self.since)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Counts of any number of ranks.

    Attributes:
        counts: by collective, scale and size; no two of the same.
        recordings: by identity; empty where a file does not say who counted.
        aside: calls that were seen and never ask a tuner, by name (``alltoall``, ``send``).
        cuts: where a file was cut, one sentence each.
    """

    counts: tuple[CallCount, ...]
    recordings: tuple[Recording, ...] = ()
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
        scales = {count.scale for count in self.counts}
        return tuple(sorted(scales, key=lambda s: (s.n_nodes, s.n_ranks)))

    @property
    def table(self) -> pd.DataFrame:
        """A row for each count, the largest share of calls or bytes first.

        Columns: ``collective``, ``n_nodes``, ``n_ranks``, ``nbytes`` (the mean where several sizes
        were counted together, from ``min_nbytes`` to ``max_nbytes``), ``calls``, ``total_nbytes``,
        and ``of_calls``, ``of_bytes``: shares of the whole, from 0 to 1.
        """
        import pandas as pd

        sizes = ("nbytes", "min_nbytes", "max_nbytes", "calls", "total_nbytes")
        table = pd.DataFrame({name: [getattr(one, name) for one in self.counts] for name in sizes})
        table.insert(0, "collective", [one.collective.value for one in self.counts])
        table.insert(1, "n_nodes", [one.scale.n_nodes for one in self.counts])
        table.insert(2, "n_ranks", [one.scale.n_ranks for one in self.counts])
        table["of_calls"] = table["calls"] / (self.calls or 1)
        table["of_bytes"] = table["total_nbytes"] / (self.total_nbytes or 1)
        largest = table[["of_calls", "of_bytes"]].max(axis=1)
        rows: pd.DataFrame = table.iloc[(-largest).argsort(kind="stable")].reset_index(drop=True)
        return rows

    @property
    def remarks(self) -> list[str]:
        """What must be known to trust the figures, one sentence each."""
        sources = {one.source for one in self.recordings} or {"record"}
        n_open = sum(not one.is_finished for one in self.recordings)
        beyond, missing, unknown = (
            sum(getattr(one, name) for one in self.recordings)
            for name in ("beyond", "missing", "unknown")
        )
        aside = ", ".join(f"{calls} {name}" for name, calls in self.aside.items())
        sums = {
            f"{n_open} of {len(self.recordings)} recordings were never finished: their process "
            "was killed or still runs, and what it called since its last snapshot is lost": n_open,
            f"{beyond} calls had more sizes than are kept one by one; they stand in rows of a "
            "power of two each": beyond,
            f"{missing} calls are not in the dump, by its own numbers: too small, or more than "
            "its buffer held": missing,
            f"{unknown} calls were of a collective that has no name here": unknown,
            f"seen beside them, and not tuned: {aside}": aside,
        }
        blind = [text for source, text in _BLIND.items() if source in sources]
        return [*self.cuts, *blind, *(text for text, is_so in sums.items() if is_so)]

    def ranks_at(self, scale: Scale) -> int:
        """Number of ranks whose calls of this scale were counted; 1 where nobody says.

        A process counts once for each context that it has of one communicator: it has several
        where it has several GPUs.
        """
        contexts: dict[tuple[str, int], Counter[str]] = {}
        for one in self.recordings:
            if one.calls and one.scale == scale:
                contexts.setdefault((one.host, one.pid), Counter())[one.comm] += 1
        return sum(max(comms.values()) for comms in contexts.values()) or 1

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "calls": self.calls,
            "bytes": self.total_nbytes,
            "recordings": self.recordings,
            "ranks": {scale.short: self.ranks_at(scale) for scale in self.scales},
            "aside": self.aside,
            "counts": self.table.to_dict("records"),
            "remarks": self.remarks,
        }


def read_workload(path: Path) -> Workload:
    """Read the plugin's record or Inspector's dump; the content decides.

    Raises:
        OutputError: it cannot be read, or is none of these.
    """
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise OutputError(
            f"the workload cannot be read: {reason_of(error)}", where=str(path)
        ) from error
    kind = detect_kind(text)
    if kind is FileKind.INSPECTOR:
        return _read_dump(text, str(path))
    if kind is FileKind.RECORD or text.startswith(_FORMAT):
        return _read_record(text, str(path))
    raise OutputError(
        "this is no workload that is known" if text.strip() else "the workload is empty",
        where=str(path),
        hint="give what the plugin wrote under RCCLTUNE_RECORD, or what the Inspector plugin "
        "wrote as JSON.",
    )


def read_workloads(paths: Sequence[Path]) -> Workload:
    """All files as one workload.

    Raises:
        OutputError: one is no workload.
        CommandLineError: the same recording is in two of them.
    """
    return add_workloads([read_workload(path) for path in paths])


def snapshots_beside(paths: Sequence[Path]) -> list[Path]:
    """Snapshots that killed ranks left beside these files, and that are not among them."""
    resolved = {path.resolve() for path in paths}
    beside = (path.parent.glob(f"{glob.escape(path.name)}.*.part") for path in resolved)
    return sorted({path for group in beside for path in group} - resolved)


def add_workloads(parts: Sequence[Workload]) -> Workload:
    """All calls of all parts, whose order does not matter.

    A snapshot of a recording that is also there whole is left out.

    Raises:
        CommandLineError: the same recording is in two of them.
    """
    whole = {one.identity for part in parts for one in part.recordings if one.is_finished}
    parts_once = [part for part in parts if not _is_superseded(part, whole)]
    recordings = sorted(
        (one for part in parts_once for one in part.recordings), key=lambda r: r.identity
    )
    for one, other in pairwise(recordings):
        if one.identity == other.identity:
            raise CommandLineError(
                f"the calls of process {one.pid} on {one.host or 'an unnamed host'}, communicator "
                f"{one.comm}, are in two of these files",
                hint="give each file once, and no file that was cut together with its snapshot "
                "(*.part).",
            )
    aside: Counter[str] = Counter()
    for part in parts_once:
        aside.update(part.aside)
    return Workload(
        counts=merge_counts(count for part in parts_once for count in part.counts),
        recordings=tuple(recordings),
        aside=dict(sorted(aside.items())),
        cuts=tuple(sorted(cut for part in parts for cut in part.cuts)),
    )


def _is_superseded(part: Workload, whole: set[tuple[str, str, int, str, int, str]]) -> bool:
    return bool(part.recordings) and all(
        not one.is_finished and one.identity in whole for one in part.recordings
    )


def merge_counts(counts: Iterable[CallCount]) -> tuple[CallCount, ...]:
    """One count for each collective, scale and size, in a steady order."""
    merged: dict[tuple[str, int, int, int, int], CallCount] = {}
    for one in counts:
        sizes = (one.min_nbytes, one.max_nbytes)
        key = (one.collective.value, one.scale.n_nodes, one.scale.n_ranks, *sizes)
        if key in merged:
            calls = one.calls + merged[key].calls
            nbytes = one.total_nbytes + merged[key].total_nbytes
            merged[key] = replace(one, calls=calls, total_nbytes=nbytes)
        else:
            merged[key] = one
    return tuple(merged[key] for key in sorted(merged) if merged[key].calls)


# --- the plugin's record --------------------------------------------------------------------------


def _read_record(text: str, name: str) -> Workload:
    """Read a record, one that a full disk cut up to the cut.

    Args:
        text: the file's.
        name: its path, for messages.

    Raises:
        OutputError: another format, no such columns, or a row that is no count.
    """
    lines = grammar.lines(text)
    # A line without its end is no line of the plugin's: a number in it may be cut, too.
    is_cut = text.startswith(_FORMAT) and not text.endswith("\n")
    counts: list[CallCount] = []
    recordings: list[Recording] = []
    columns: list[str] = []
    for number, line in enumerate(lines[:-1] if is_cut else lines, start=1):
        cells = [grammar.trim(cell) for cell in line.split(",")]
        try:
            if line.startswith(_COMM):
                recordings.append(_recording(grammar.words(line)))
            elif line.startswith(_FORMAT):
                _check_format(line)
            elif cells[0].lower() == _COLUMNS[0]:
                columns = [cell.lower() for cell in cells]
            elif cells != [""] and not line.startswith("#"):
                counts.append(_count(dict(zip(columns, cells, strict=True))))
        except (KeyError, ValueError) as error:
            raise OutputError(
                f"this line is not understood: {error}",
                where=f"{name}:{number}",
                hint="give a file as the plugin wrote it under RCCLTUNE_RECORD, with its line "
                f"{','.join(_COLUMNS)}.",
            ) from error
    n_told, n_held = sum(one.calls for one in recordings), sum(one.calls for one in counts)
    cuts = [f"{name}:{len(lines)}: the file was cut here"] if is_cut or not columns else []
    if recordings and n_told != n_held:
        cuts.append(f"{name}: of {n_told} calls {n_held} are in it: the file was cut or changed")
    return Workload(counts=merge_counts(counts), recordings=tuple(recordings), cuts=tuple(cuts))


def _check_format(line: str) -> None:
    if grammar.words(line) != [*_FORMAT.split(), "1"]:
        raise ValueError(f"another format than '{_FORMAT} 1'")


def _count(cells: Mapping[str, str]) -> CallCount:
    """A row of a record; KeyError or ValueError where it is none."""
    nbytes, n_ranks, n_nodes, calls = (grammar.whole(cells[name]) for name in _COLUMNS[1:])
    return CallCount(
        collective=Collective.parse(cells["collective"]),
        scale=Scale(n_nodes=n_nodes, n_ranks=n_ranks),
        min_nbytes=nbytes,
        max_nbytes=grammar.whole(cells.get("maxbytes", str(nbytes))),
        calls=calls,
        total_nbytes=grammar.whole(cells.get("totalbytes", str(nbytes * calls))),
    )


def _recording(words: Sequence[str]) -> Recording:
    """A line ``#@ comm``; KeyError or ValueError where it is none."""
    fields = dict(word.partition("=")[::2] for word in words)
    scale = Scale(n_nodes=grammar.whole(fields["nNodes"]), n_ranks=grammar.whole(fields["nRanks"]))
    return Recording(
        source="record",
        host=fields["host"],
        pid=grammar.whole(fields["pid"]),
        comm=fields["id"],
        context=grammar.whole(fields["context"]),
        since=fields["since"],
        scale=scale,
        calls=grammar.whole(fields["calls"]),
        beyond=grammar.whole(fields["beyond"]),
        unknown=grammar.whole(fields["unknown"]),
        is_finished=fields["state"] != "unfinished",
    )


# --- Inspector's dump -----------------------------------------------------------------------------


@dataclass(slots=True)
class _RankCalls:
    """Calls of one rank in one communicator.

    Attributes:
        recording: it, without its calls.
        by_size: calls, by collective and size as a tuner sees it.
        numbers: sequence numbers of each function.
    """

    recording: Recording
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
        try:
            plain = json.loads(line)
            # A line of its own heads the calls below it.
            if "header" in plain and not plain.keys() & {"coll_perf", "p2p_perf"}:
                head = plain
            else:
                _take_call(head | plain, ranks, aside)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OutputError(
                f"this line is not understood: {error!r}",
                where=f"{name}:{number}",
                hint="give what NCCL's Inspector plugin wrote as JSON (NCCL_INSPECTOR_DUMP_DIR), "
                "as it wrote it.",
            ) from error
    cut = f"{name}:{len(lines) + 1}: a line without its end is left out"
    return Workload(
        counts=merge_counts(
            CallCount(
                collective=collective,
                scale=one.recording.scale,
                min_nbytes=nbytes,
                max_nbytes=nbytes,
                calls=calls,
                total_nbytes=nbytes * calls,
            )
            for one in ranks.values()
            for (collective, nbytes), calls in one.by_size.items()
        ),
        recordings=tuple(
            replace(
                one.recording,
                calls=one.by_size.total(),
                unknown=one.unknown,
                missing=sum(max(ns) - min(ns) + 1 - len(ns) for ns in one.numbers.values()),
            )
            for _, one in sorted(ranks.items())
        ),
        aside=dict(sorted(aside.items())),
        cuts=(cut,) if last.strip() else (),
    )


def _take_call(
    plain: Mapping[str, Any], ranks: dict[_RankKey, _RankCalls], aside: Counter[str]
) -> None:
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
    if key not in ranks:
        host, pid, comm, _ = key
        scale = Scale(n_nodes=_number(header["nnodes"]), n_ranks=_number(header["n_ranks"]))
        since = str(_number(metadata["dump_timestamp_us"]))
        ranks[key] = _RankCalls(
            Recording(
                source="inspector",
                host=host,
                pid=pid,
                comm=comm,
                context=rank,
                since=since,
                scale=scale,
                calls=0,
            )
        )
    counts, call = ranks[key], plain["coll_perf"]
    word, nbytes = str(call["coll"]), _number(call["coll_msg_size_bytes"])
    counts.numbers.setdefault(word, []).append(_number(call["coll_sn"]))
    try:
        collective = Collective.parse(word)
    except ValueError:
        counts.unknown += 1
        return
    if collective not in TUNABLE:
        aside[word.lower()] += 1
        return
    ranks_of = counts.recording.scale.n_ranks if collective.is_shared else 1
    counts.by_size[collective, ranks_of * nbytes] += 1


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value
