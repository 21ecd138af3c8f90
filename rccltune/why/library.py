"""The library's own log: what it loads, which variables it reads, what it chooses.

Texts are those of RCCL 2.18 to 2.30 and NCCL 2.18 to 2.30 (``src/init.cc``, ``src/enqueue.cc``,
``src/plugin/plugin_open.cc``, ``src/plugin/tuner.cc``, ``src/misc/tuner.cc``,
``src/include/symmetric_sched.h``, RCCL's ``src/plugin/tuner/csv_tuner.cc``). Lines of many ranks
may share one stream and be torn by that: a message counts only where all of its parts are there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from rccltune.librarylog import MODEL_ROW, collective_named, setting_named, without_bandwidth
from rccltune.model import Setting
from rccltune.vocab import DTYPE_BYTES, REDOPS, Collective
from rccltune.why.around import SYMMETRIC
from rccltune.why.evidence import MAX_KEYS, Evidence, total_of
from rccltune.why.groups import Groups
from rccltune.why.records import NOWHERE, Kindred, Loading, Said, Where

_HEAD: Final = re.compile(
    r"([^\s:]+):(\d+):\d+ \[-?\d+\] (?:\S+ )?NCCL (?:INFO|WARN|TRACE|ERROR|ABORT) "
)
_ENV: Final = re.compile(r"\b([A-Z][A-Z0-9_]+) set by environment to (\S+)")
_OLD_ENV: Final = re.compile(r"\b(NCCL_TUNER_PLUGIN) set to (\S+)")
_VERSION: Final = re.compile(r"\b([RN]CCL) version\s*:?\s*(\d+\.\d+\.\d+\S*)")
_FILE: Final = re.compile(r"\bLib[rn]ccl path\s*:\s*(\S.*?)\s*$")
_NODES: Final = re.compile(r"\bcomm (0x\w+) rank (\d+) nRanks (\d+) nNodes (\d+) ")
_INIT: Final = re.compile(r"\bcomm (0x\w+) rank (\d+) nranks (\d+) .*?commId 0x(\w+) - Init ")
_CHOICE: Final = re.compile(
    r"(?:(\w+): )?(?:opCount \w+ )?(\d{1,19}) Bytes -> Algo(?:rithm)? (\w+) "
    r"proto(?:col)? (\w+)(?=( time \S| .*channel\{| channel\{))"
)
_SYMMETRIC: Final = re.compile(r"(\w+) \[Symmetric\]: (\d{1,19}) Bytes -> Kernel \S+ nchannels ")
_APPLIED: Final = re.compile(
    r"Applied config for (\w+), bytes=(\d{1,19}): algo=(\w+), proto=(\w+), channels=(-?\d+)"
)
_CALL: Final = re.compile(
    r"(\w+): opCount \w+ sendbuff \S+ recvbuff \S+ (?:acc \S+ )?count (\d{1,18}) "
    r"datatype (\d+) op (\d+) root -?\d+ comm (\S+) \[nranks=(\d{1,9})\]"
)
_MODEL: Final = re.compile(MODEL_ROW)
# Specific texts first: the first that fits says what a line means.
_LOADING: Final = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"TUNER/Plugin: Using (?!internal)(\S+ \(v\d+\))", Loading.USING),
        (r"Successfully loaded external tuner plugin (\S+)", Loading.NAMED),
        (r"External tuner plugin (\S+) is unsupported", Loading.UNSUPPORTED),
        (r"(ncclTunerPlugin_v1) in plugin", Loading.NO_SYMBOL),
        (r"TUNER/Plugin: Failed to find (ncclTunerPlugin_v\d+) symbol", Loading.NO_SYMBOL),
        (r"TUNER/Plugin: Could not find: (\S+?)\.?(?=\s|$)", Loading.NOT_FOUND),
        (r"Tuner: no plugin found '([^']+)'", Loading.NOT_FOUND),
        (r"TUNER/Plugin: Plugin load returned \d+ : (.+)", Loading.FAILED),
        (r"Using built-in CSV tuner, config: (\S+)", Loading.TABLE),
        (r"TUNER/CsvTuner: Loaded \d+ tuning configurations from (\S+)", Loading.TABLE),
        (r"TUNER/Plugin: (Using internal tuner)", Loading.INTERNAL),
        (r"TUNER/Plugin: ((?!Failed|Closing|Using|Could|Plugin)\S.*: .+)", Loading.FAILED),
    )
)
_DTYPES: Final = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double"),
    *("bfloat16", "fp8_e4m3", "fp8_e5m2"),
)
_MAX_PROCESSES: Final = 65536


class Process(NamedTuple):
    """Who wrote a message."""

    host: str
    pid: int


class LibraryLog:
    """Takes messages of any number of processes."""

    def __init__(self, evidence: Evidence) -> None:
        """Nothing was read yet."""
        self._evidence = evidence
        # Each process's communicators by address, and those of them whose rank 0 it is.
        self._scales: dict[Process, dict[str, Where]] = {}
        self._first: dict[Process, dict[str, Where]] = {}
        self._modelled: set[tuple[Process, Collective]] = set()
        self._groups = Groups()
        # Choices of processes of whose communicators nothing is known yet: bytes of a rank's own
        # buffer where the last part says so.
        self._homeless: dict[tuple[Collective, int, bool], Counter[Setting | None]] = {}

    def line(self, text: str) -> None:
        """Take one line: any number of messages, or none."""
        for process, body in _messages(text):
            self._message(process, body)

    def _message(self, process: Process | None, body: str) -> None:
        if " Bytes -> " in body:
            self._choice(process, body)
        elif " rank " in body and "comm" in body:
            self._communicator(process, body)
        elif "opCount" in body:
            self._call(process, body)
        elif "set by environment to" in body or " set to " in body:
            self._variable(body)
        elif "Tuner" in body or "tuner" in body or "TUNER" in body:
            self._tuner(process, body)
        elif " version" in body or " path" in body:
            self._library(body)
        elif process is not None and "/" in body and "|" in body:
            self._model(process, body)

    # --- start ------------------------------------------------------------------------------------

    def _library(self, body: str) -> None:
        match = _VERSION.search(body)
        if match is not None:
            self._evidence.version(f"{match[1]} {match[2]}")
        file = _FILE.search(body)
        if file is not None:
            self._evidence.path(file[1])

    def _variable(self, body: str) -> None:
        match = _ENV.search(body) or _OLD_ENV.search(body)
        if match is not None:
            value = match[2]
            # Numbers are printed with a full stop behind them.
            plain = value[:-1] if value[-1:] == "." and value[:-1].lstrip("-").isdigit() else value
            self._evidence.variable(match[1], plain)

    def _tuner(self, process: Process | None, body: str) -> None:
        applied = _APPLIED.search(body)
        if applied is not None:
            self._applied(process, applied)
            return
        for pattern, what in _LOADING:
            match = pattern.search(body)
            if match is not None:
                self._evidence.loads(what, match[1].strip()[:300])
                return

    def _communicator(self, process: Process | None, body: str) -> None:
        match = _NODES.search(body)
        if match is not None:
            where = Where(int(match[4][:9]), int(match[3][:9]))
            self._is(process, match[1], int(match[2][:9]), where)
            return
        match = _INIT.search(body)
        if match is not None:
            rank, n_ranks = int(match[2][:9]), int(match[3][:9])
            known = self._scales.get(process, {}).get(match[1]) if process else None
            self._is(process, match[1], rank, known or Where(None, n_ranks))
            if process is not None:
                self._groups.see(match[4], process, process.host, rank, n_ranks)

    def _is(self, process: Process | None, address: str, rank: int, where: Where) -> None:
        """A process has a communicator; those that were given up may give others their address."""
        self._evidence.scale(where)
        if process is None or (process not in self._scales and len(self._scales) >= _MAX_PROCESSES):
            return
        self._scales.setdefault(process, {})[address] = where
        if rank == 0:
            self._first.setdefault(process, {})[address] = where
        else:
            self._first.get(process, {}).pop(address, None)

    def _model(self, process: Process, body: str) -> None:
        match = _MODEL.match(body)
        collective = collective_named(match[1]) if match else None
        # Further rows of a collective are other algorithms', or another communicator's.
        if match is None or collective is None or (process, collective) in self._modelled:
            return
        if len(self._modelled) < _MAX_PROCESSES:
            self._modelled.add((process, collective))
        self._evidence.job.refused |= {(collective, one) for one in without_bandwidth(match[2])}

    # --- calls ------------------------------------------------------------------------------------

    def _choice(self, process: Process | None, body: str) -> None:
        match = _SYMMETRIC.search(body)
        if match is not None:
            collective = collective_named(match[1])
            if collective is not None:
                where = self._writer(process)
                total = total_of(collective, int(match[2]), where.n_ranks)
                seen = self._evidence.at(
                    where, collective, int(match[2]) if total is None else total
                )
                seen.paths.add(SYMMETRIC)
                seen.called = True
            return
        match = _CHOICE.search(body)
        if match is None:
            return
        # Releases before 2.23 name no collective: all_reduce is what is asked about most.
        collective = collective_named(match[1]) if match[1] else None
        if collective is None:
            self._nameless(process, match)
            return
        own = not match[5].startswith(" time")
        self._ran(
            self._writer(process),
            (collective, int(match[2]), own),
            setting_named(match[3], match[4]),
        )

    def _nameless(self, process: Process | None, match: re.Match[str]) -> None:
        """A choice that names no collective: the one of the last call, if calls are told."""
        if not match[1]:
            self._evidence.nameless(
                self._writer(process), int(match[2]), setting_named(match[3], match[4])
            )

    def _ran(self, where: Where, call: tuple[Collective, int, bool], ran: Setting | None) -> None:
        collective, nbytes, own = call
        total = total_of(collective, nbytes, where.n_ranks) if own else nbytes
        if where is NOWHERE or total is None:
            if call in self._homeless or len(self._homeless) < MAX_KEYS:
                self._homeless.setdefault(call, Counter())[ran] += 1
            return
        self._evidence.at(where, collective, total).ran[ran] += 1
        self._evidence.job.tuning.add(where)

    def _call(self, process: Process | None, body: str) -> None:
        match = _CALL.search(body)
        collective = _called(match[1]) if match else None
        number = int(match[3][:9]) if match else len(_DTYPES)
        if match is None or collective is None or number >= len(_DTYPES):
            return
        n_ranks, dtype, op = int(match[6]), _DTYPES[number], int(match[4][:9])
        known = self._scales.get(process, {}).get(match[5]) if process else None
        where = known or Where(None, n_ranks)
        nbytes = total_of(collective, int(match[2]) * DTYPE_BYTES[dtype], n_ranks)
        self._evidence.job.has_calls = True
        seen = self._evidence.at(where, collective, nbytes or 0)
        seen.called = True
        if len(seen.kindred) < 64:
            seen.kindred.add(Kindred(dtype, REDOPS[op] if op < len(REDOPS) else None))

    def _applied(self, process: Process | None, match: re.Match[str]) -> None:
        collective = collective_named(match[1])
        setting = setting_named(match[3], match[4])
        if collective is None or setting is None:
            return
        channels = int(match[5])
        if channels >= 1:
            setting = Setting(
                algorithm=setting.algorithm, protocol=setting.protocol, channels=channels
            )
        self._evidence.job.table_applied = True
        own = self._scales.get(process, {}) if process else {}
        scales = set(own.values())
        where = scales.pop() if len(scales) == 1 else NOWHERE
        self._evidence.at(where, collective, int(match[2])).said[Said(setting, 0)] += 1

    def _writer(self, process: Process | None) -> Where:
        """Whose choice a line is: rank 0 of a communicator writes it, and names none."""
        if process is None:
            return NOWHERE
        scales = set(self._first.get(process, {}).values())
        if not scales:
            # Glued to what stood before it, a host's name is longer than it is.
            like = (
                known
                for known in self._first
                if known.pid == process.pid and process.host.endswith(known.host)
            )
            found = next(like, None)
            scales = set(self._first[found].values()) if found is not None else set()
        return scales.pop() if len(scales) == 1 else NOWHERE

    # --- end --------------------------------------------------------------------------------------

    def finish(self) -> dict[int, int]:
        """Put down what only the whole tells: nodes of communicators by their hosts' names.

        Returns:
            number of nodes by number of ranks, where all communicators of that size agree.
        """
        job = self._evidence.job
        job.groups = self._groups.n_groups
        found = self._groups.nodes()
        for (collective, nbytes, own), counted in self._homeless.items():
            where = self._only_scale()
            total = total_of(collective, nbytes, where.n_ranks) if own else nbytes
            # Without the number of ranks it stays what it is: a rank's own bytes.
            seen = self._evidence.at(where, collective, nbytes if total is None else total)
            seen.ran.update(counted)
            job.tuning.add(where)
        self._homeless.clear()
        return found

    def _only_scale(self) -> Where:
        scales = {where for where in self._evidence.job.scales if (where.n_ranks or 0) > 1}
        whole = {where for where in scales if where.n_nodes is not None} or scales
        return whole.pop() if len(whole) == 1 else NOWHERE


def _called(name: str) -> Collective | None:
    """RCCL makes alltoall and the like of these two, and says only them."""
    return Collective.SENDRECV if name in ("Send", "Recv") else collective_named(name)


def _messages(text: str) -> Iterator[tuple[Process | None, str]]:
    """Messages of a line, each with its writer; what has no head is one message of nobody."""
    heads = list(_HEAD.finditer(text))
    if not heads:
        yield None, text
        return
    if heads[0].start() > 0:
        yield None, text[: heads[0].start()]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        yield Process(head[1], int(head[2][:18])), text[head.end() : end]
