"""Reading a job's files line by line; ``rccltune/data/messages.yaml`` says which lines are known.

It has the libraries', other tuners' and our plugin's. What stands before a message is taken off by
:mod:`rccltune.logs.wrappers`; of several messages on one line only the last is whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from rccltune.logs import log_files
from rccltune.logs.library_log import (
    LOG_HEAD,
    LOG_LEVELS,
    find_cells_without_bandwidth,
    find_model_collectives,
    parse_cell,
    parse_collective,
)
from rccltune.logs.messages import KnownLine, known_lines
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import DTYPE_BYTES, REDOPS, TUNABLE, Collective
from rccltune.why.job_logs import Call, Choice, JobLogs, NoSettingLeft
from rccltune.why.job_report import NOWHERE, CommunicatorScale, TunerAnswer, TypeAndOperation
from rccltune.why.members import MAX_MEMBERS, LogProcess, Member, Members

_MARK: Final = "rccltune: "
_HEAD: Final = re.compile(rf"{LOG_HEAD}(?:{LOG_LEVELS}) ")
_DEVICE: Final = re.compile(r"\[(-?\d+)\]")
_LIMIT: Final = re.compile(r"\b(NCCL_\w+) was set to (\S+?)\.?(?=\s|$)")
# As Open MPI ([1,0]<stdout>:), MPICH ([0] ) and Slurm ( 0: ) name ranks.
_RANK: Final = re.compile(r"(?:(?<=\d,)|(?<![\w.:-]))\d+(?=\] ?(?:<|$)|: ?$)")
_DTYPES: Final = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double"),
    *("bfloat16", "fp8_e4m3", "fp8_e5m2"),
)
_MAX_ROWS: Final = 256
_MAX_WORD: Final = 4096
# Of a line that is shown.
_MAX_SHOWN: Final = 200
# What the library's own lines call such a path, and what the catalog of variants does.
SYMMETRIC: Final = "symmetric kernels"
DIRECT_GATHER: Final = "direct AllGather"
# How the catalog calls what a benchmark's columns name.
_FEATURES: Final = {"Direct": DIRECT_GATHER, "DDA-IPC": "DDA"}
# Only lines with one of these are looked at. Searching for each costs less than one expression for
# all of them, which every line of a gigabyte would be tried against.
_WANTED: Final = (b"CCL", b"ccl", b"TUNER", b"tuner", b"MSCCL", b" Bytes -> ", b"line ", b" |")
# A row of a benchmark with -A whose columns name a path, which has no protocol.
_PATH_ROW: Final = re.compile(rb"(?:^|\s)(\d+) +\d+ +[a-z]\w* .*? ([A-Za-z][\w*-]+) +N/A +\d+\s*$")
_MAX_REPEATED: Final = 65536


@dataclass(slots=True)
class _Sends:
    """Messages of one size that a rank sent, the first line of them."""

    where: CommunicatorScale
    line: str
    peers: set[int] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)


Words = Mapping[str, str]


class LineReader:
    """Takes lines of any number of processes, and records what they say."""

    def __init__(self, job: JobLogs) -> None:
        """Begin with nothing read.

        Args:
            job: where facts are recorded.
        """
        self._job = job
        self._members = Members()
        # Scales by our plugin's names of communicators; older hosts give none, and such a name is
        # only its writer's own.
        self._scales: dict[tuple[str, str], set[CommunicatorScale]] = {}
        # By process: the first row of each name; further ones are other algorithms'.
        self._models: dict[LogProcess, dict[str, str]] = {}
        self._sends: dict[tuple[LogProcess, str, int, TypeAndOperation], _Sends] = {}
        self._process: LogProcess | None = None
        self._source = self._rank = self._line = ""
        # Kinds of lines that need more than to be recorded.
        self._handlers: dict[str, Callable[[Words, str], None]] = {
            "choice": self._read_choice,
            "symmetric": self._read_symmetric,
            "call": self._read_call,
            "stuck": self._read_stuck,
            "communicator": self._read_communicator,
            "applied": self._read_applied,
            "model": self._read_model,
            "decision": self._read_decision,
            "summary": self._read_summary,
            "hits": self._read_hits,
        }

    def read_line(self, text: str, place: str, source: str = "", label: str = "") -> None:
        """Take one line.

        Args:
            text: with or without anything around it.
            place: file and number.
            source: who wrote it, as far as that is known.
            label: what a launcher put before it.
        """
        first, *ours = text.rstrip("\n").split(_MARK)
        rank = _RANK.search(label) if ours else None
        self._source, self._rank = source, f"rank {rank[0]}" if rank else source
        # Torn writes may leave several of our plugin's on a line.
        for piece in ours:
            self._match_known(_MARK + piece.strip(), place)
        self._process, body = None, first
        for n, head in enumerate(_HEAD.finditer(first)):
            device = _DEVICE.search(head[0])
            self._process = LogProcess(head[1], int(head[2][:18]), int(device[1]) if device else 0)
            body = first[head.end() :]
            self._job.n_torn_lines += n == 1
        self._match_known(body, place)

    def _match_known(self, text: str, place: str) -> None:
        for known in known_lines():
            if known.word in text and (match := known.pattern.search(text)) is not None:
                self._line = f"{place}: {_whole_words(text.strip())}"
                parts = match.groupdict(default="").items()
                words = {name: value.strip()[:_MAX_WORD] for name, value in parts}
                self._add_fact(known, words, text)
                return

    def _add_fact(self, known: KnownLine, words: dict[str, str], text: str) -> None:
        handler = self._handlers.get(known.tells)
        if handler is not None:
            handler(words, text)
            return
        if known.tells == "remark":
            remedy = (known.remedy or "").format(**words)
            words = {"text": known.means.format(**words), "remedy": remedy}
        elif known.tells == "variable" and words["value"].rstrip(".").lstrip("-").isdigit():
            # Numbers are printed with a full stop behind them.
            words["value"] = words["value"].removesuffix(".")
        elif known.tells in ("rules", "without rules"):
            # A job makes thousands of communicators of one scale, each with a name of its own.
            key = self._name_communicator(words.pop("comm"))
            if key in self._scales or len(self._scales) < MAX_MEMBERS:
                self._scales.setdefault(key, set()).add(_parse_scale(words))
        elif known.tells == "scale":
            self._job.add_scale(_parse_scale(words))
        self._job.add_fact(known.tells, words, self._line)

    def _add_call(self, call: Call, choice: Choice | None = None) -> None:
        self._job.add_call(call, self._line, choice)

    # --- the library ------------------------------------------------------------------------------

    def _read_communicator(self, words: Words, _: str) -> None:
        member = Member(int(words["rank"]), _parse_scale(words), words.get("id", ""))
        if self._process is not None:
            member = self._members.add(self._process, words["comm"], member)
        self._job.add_scale(member.where)

    def _read_model(self, words: Words, _: str) -> None:
        process = self._process
        if process is not None and (process in self._models or len(self._models) < MAX_MEMBERS):
            rows = self._models.setdefault(process, {})
            if len(rows) < _MAX_ROWS:
                rows.setdefault(words["row"], words["cells"])

    def _read_stuck(self, words: Words, text: str) -> None:
        """The end of a job; frameworks repeat the message, without a head, in their traces."""
        if self._process is not None and len(self._job.stuck_calls) < _MAX_ROWS:
            limits = tuple((one[1], one[2]) for one in _LIMIT.finditer(text))
            where = self._members.find_choosing(self._process).where
            collective = parse_collective(words["collective"])
            self._job.stuck_calls[NoSettingLeft(where, collective, words["dtype"], limits)] = (
                self._line
            )

    def _read_symmetric(self, words: Words, _: str) -> None:
        collective = parse_collective(words["collective"])
        if collective is not None:
            where, nbytes = self._members.find_choosing(self._process).where, int(words["nbytes"])
            self._add_call(Call("past", where, collective, nbytes, is_share=True, path=SYMMETRIC))

    def _read_choice(self, words: Words, _: str) -> None:
        collective = parse_collective(words["collective"])
        if words["collective"] and collective is None:
            return
        ran = parse_cell(words["algorithm"], words["protocol"])
        last = words["last"]
        call = Call(
            "ran",
            (member := self._members.find_choosing(self._process)).where,
            collective,
            int(words["nbytes"]),
            # A line with a time gives the size as a tuner sees it.
            is_share=not words["total"],
            setting=ran,
            n_channels=int(last) - int(words["first"]) + 1 if last else None,
        )
        choice = None
        if member.comm_id and ran is not None and self._process is not None:
            name = f"rank {member.rank} ({self._process.host}:{self._process.pid})"
            choice = Choice(f"0x{member.comm_id}", name, _set_channels(ran, call.n_channels))
        self._add_call(call, choice)

    def _read_applied(self, words: Words, _: str) -> None:
        """Another reader of rule files answers a call."""
        name, channels = words["collective"], words["channels"]
        collective = TUNABLE[int(name)] if name.isdigit() else parse_collective(name)
        cell = parse_cell(words["algorithm"], words["protocol"])
        if collective is not None and cell is not None:
            where = self._members.find_choosing(self._process).where
            setting = _set_channels(cell, int(channels) if channels.isdigit() else None)
            self._add_call(
                Call("applied", where, collective, int(words["nbytes"]), setting=setting)
            )

    def _read_call(self, words: Words, _: str) -> None:
        # RCCL makes alltoall and the like of these two, and says only them.
        name = words["name"]
        collective = Collective.SENDRECV if name in ("Send", "Recv") else parse_collective(name)
        number, op, count = int(words["dtype"]), int(words["op"]), int(words["count"])
        if collective is None or number >= len(_DTYPES):
            return
        member = self._members.find(self._process, words["comm"])
        where = member.where if member else CommunicatorScale(None, int(words["ranks"]))
        call_type = TypeAndOperation(_DTYPES[number], REDOPS[op] if op < len(REDOPS) else None)
        nbytes = count * DTYPE_BYTES[_DTYPES[number]]
        self._job.add_fact("calls", {}, self._line)
        if collective is not Collective.SENDRECV or self._process is None:
            shared = collective is not Collective.SENDRECV
            self._add_call(
                Call("called", where, collective, nbytes, is_share=shared, call_type=call_type)
            )
        elif len(self._sends) < MAX_MEMBERS:
            key = (self._process, words["comm"], count, call_type)
            sent = self._sends.setdefault(key, _Sends(where, self._line))
            if name == "Send" and len(sent.peers) < MAX_MEMBERS:
                sent.peers.add(int(words["root"]))
                sent.buffers.add(words["buffer"] if len(sent.buffers) < 2 else "")

    # --- our plugin -------------------------------------------------------------------------------

    def _name_communicator(self, comm: str) -> tuple[str, str]:
        return (self._source if comm.startswith("local") else "", comm)

    def _find_scale(self, comm: str) -> CommunicatorScale:
        scales = self._scales.get(self._name_communicator(comm), set())
        return next(iter(scales)) if len(scales) == 1 else NOWHERE

    def _read_decision(self, words: Words, _: str) -> None:
        collective, comm = parse_collective(words["collective"]), words["comm"]
        if collective is None:
            return
        answer, host = _parse_setting(words["answer"]), _parse_setting(words["host"])
        offered = words["offered"]
        call = Call(
            "answered",
            self._find_scale(comm),
            collective,
            int(words["nbytes"]),
            setting=answer,
            rule=int(words["line"]),
            code=words["code"],
            offered=_parse_cells(offered) if offered else None,
        )
        setting = None if comm.startswith("local") else answer or host
        self._add_call(call, Choice(comm, self._rank, setting) if setting else None)

    def _read_summary(self, words: Words, _: str) -> None:
        numbers = {name: int(value) for name, value in words.items() if name != "comm"}
        self._job.add_summary(self._find_scale(words["comm"]), numbers)

    def _read_hits(self, words: Words, _: str) -> None:
        n = int(words["channels"])
        setting = _parse_setting(words["setting"] + (f"/{n}" if n >= 1 else ""))
        answers = self._job.hits.setdefault(self._find_scale(words["comm"]), Counter())
        answers[TunerAnswer(setting, int(words["line"]))] += int(words["hits"])

    # --- end --------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Record what only the whole tells.

        RCCL makes small all_gathers of sends and receives and, on that path, has no line for the
        call itself: rank by rank it sends one buffer to every rank, itself among them (2.27.7,
        measured: up to 4 MiB on one node). A program's alltoall sends every rank another part.
        """
        is_rccl = not any(version.startswith("NCCL") for version in self._job.versions)
        for (_, _, count, call_type), sent in self._sends.items():
            nbytes, n_ranks = (
                count * DTYPE_BYTES[call_type.dtype or "int8"],
                sent.where.n_ranks or 0,
            )
            call = Call("called", sent.where, Collective.SENDRECV, nbytes, call_type=call_type)
            if is_rccl and 1 < n_ranks == len(sent.peers) and len(sent.buffers) == 1:
                call = call._replace(
                    kind="past",
                    collective=Collective.ALL_GATHER,
                    nbytes=nbytes * n_ranks,
                    path=DIRECT_GATHER,
                )
            self._job.add_call(call, sent.line)
        self._job.unselectable_cells |= {
            (collective, setting)
            for rows in self._models.values()
            for name, collective in find_model_collectives(rows).items()
            for setting in find_cells_without_bandwidth(rows[name])
        }
        self._job.sort_calls(self._members.nodes_by_ranks())


def read_job_file(path: Path, reader: LineReader) -> dict[int, str] | None:
    """Record what the lines of one file say.

    Returns:
        what a benchmark's table in it names as a path, by size; None without a table.

    Raises:
        OutputError: it cannot be read, or is no text.
    """
    earlier: set[bytes] = set()
    paths: dict[int, str] = {}
    table, name = False, str(path)
    with log_files.open_log(path) as stream:
        for number, (label, raw) in enumerate(log_files.read_labelled_lines(stream, name), 1):
            if b" Bytes -> " in raw or b"opCount " in raw:
                # What a job repeats for hours is looked at once for each writer.
                if _is_repeated(raw, earlier):
                    continue
            elif not any(word in raw for word in _WANTED):
                table = table or b"algbw" in raw
                if table and b" N/A " in raw and (row := _PATH_ROW.search(raw)) is not None:
                    word = row[2].decode("ascii")
                    paths[int(row[1][:19])] = _FEATURES.get(word, word)
                continue
            elif b" rank " in raw and b"comm " in raw:
                # A writer with another communicator says other things with the same words.
                earlier.clear()
            text, before = raw.decode("utf-8", "replace"), label.decode("utf-8", "replace")
            reader.read_line(text, f"{name}:{number}", name, before)
    return paths if table else None


def _is_repeated(raw: bytes, earlier: set[bytes]) -> bool:
    """Whether a writer said the same before; a call's number and addresses are no part of it."""
    at = raw.find(b" NCCL ")
    # host:pid:tid stands before [device]; times and labels before that differ from line to line.
    begin = raw.rfind(b" ", 0, max(raw.rfind(b" ", 0, at), 0)) + 1
    first, second = raw.find(b"opCount "), raw.find(b" count ")
    outside = raw[begin:] if first < 0 else raw[begin:first] + raw[second:]
    if outside in earlier:
        return True
    if len(earlier) >= _MAX_REPEATED:
        earlier.clear()
    earlier.add(outside)
    return False


def _whole_words(text: str) -> str:
    """The words of a line that have room where it is shown."""
    words = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN].rpartition(" ")[0]
    return words if words == text else f"{words or text[:_MAX_SHOWN]} …"


def _parse_scale(words: Words) -> CommunicatorScale:
    nodes = words.get("nodes")
    return CommunicatorScale(int(nodes) if nodes else None, int(words["ranks"]))


def _set_channels(cell: Setting, channels: int | None) -> Setting:
    """A cell and its channels; fewer than 1 leave them to the library."""
    n_channels = channels if channels is not None and channels >= 1 else None
    return Setting(algorithm=cell.algorithm, protocol=cell.protocol, channels=n_channels)


@lru_cache(maxsize=1024)
def _parse_cells(text: str) -> frozenset[Setting]:
    """Cells with a name; a library may have more. ``-`` is none."""
    settings = map(_parse_setting, text.split(","))
    return frozenset(setting for setting in settings if setting is not None)


def _parse_setting(text: str) -> Setting | None:
    """``tree/ll128/16`` of the plugin's; None for ``none``, ``-``, and names not known today."""
    if text in ("none", "-"):
        return None
    try:
        return Setting.parse("/".join("-" if part == "-1" else part for part in text.split("/")))
    except ValueError:
        return None
