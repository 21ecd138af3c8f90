"""The library's own phrases and the lines that they stand in: whose they are, and of which sends.

Texts are those of RCCL 2.18 to 2.30 and NCCL 2.18 to 2.32 (``src/init.cc``, ``src/enqueue.cc``,
``src/plugin/plugin_open.cc``, ``src/plugin/tuner.cc``, ``src/misc/tuner.cc``,
``src/include/symmetric_sched.h``, RCCL's ``src/plugin/tuner/csv_tuner.cc``). Lines of many ranks
may share one stream and be torn by that: a message counts only where all of its parts are there.

RCCL makes small all_gathers of sends and receives and, on that path, has no line for the call
itself: rank by rank it sends one buffer to every rank, itself among them (2.27.7, measured: up to
4 MiB on one node). A program's alltoall sends every rank another part of its buffer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rccltune.logs.library import LOG_HEAD, LOG_LEVELS, MODEL_ROW
from rccltune.model.vocabulary import DTYPE_BYTES, Collective
from rccltune.why.collector import MAX_KEYS, LogCollector
from rccltune.why.records import NOWHERE, CommunicatorScale, TunerLoading, TypeAndOperation
from rccltune.why.remedies import DIRECT_GATHER

_HEAD: Final = re.compile(rf"{LOG_HEAD}(?:{LOG_LEVELS}) ")
ENV: Final = re.compile(r"\b([A-Z][A-Z0-9_]+) set by environment to (\S+)")
OLD_ENV: Final = re.compile(r"\b(NCCL_TUNER_PLUGIN) set to (\S+)")
VERSION: Final = re.compile(r"\b([RN]CCL) version\s*:?\s*(\d+\.\d+\.\d+\S*)")
FILE: Final = re.compile(r"\bLib[rn]ccl path\s*:\s*(\S.*?)\s*$")
NODES: Final = re.compile(r"\bcomm (0x\w+) rank (\d+) nRanks (\d+) nNodes (\d+) ")
INIT: Final = re.compile(
    r"\bcomm (0x\w+) rank (\d+) nranks (\d+) .*?commId 0x(\w+)(?: .*?)? - Init "
)
CHOICE: Final = re.compile(
    r"(?:(\w+): )?(?:opCount \w+ )?(\d{1,19}) Bytes -> Algo(?:rithm)? (\w+) "
    r"proto(?:col)? (\w+)(?=( time \S| .*channel\{| channel\{))"
)
SYMMETRIC_CALL: Final = re.compile(
    r"(\w+) \[Symmetric\]: (\d{1,19}) Bytes -> Kernel \S+ nchannels "
)
APPLIED: Final = re.compile(
    r"Applied config for (\w+), bytes=(\d{1,19}): algo=(\w+), proto=(\w+), channels=(-?\d+)"
)
CALL: Final = re.compile(
    r"(?P<name>\w+): opCount \w+ sendbuff \S+ recvbuff (?P<buffer>\S+) (?:acc \S+ )?"
    r"count (?P<count>\d{1,18}) datatype (?P<dtype>\d+) op (?P<op>\d+) root (?P<root>-?\d{1,9}) "
    r"comm (?P<comm>\S+) \[nranks=(?P<n_ranks>\d{1,9})\]"
)
MODEL: Final = re.compile(MODEL_ROW)
# Releases before 2.19 name neither function nor type.
STUCK: Final = re.compile(
    r"no algorithm/protocol available(?: for function (\w+)(?: with datatype (\w+))?)?"
)
LIMIT: Final = re.compile(r"\b(NCCL_\w+) was set to (\S+?)\.?(?=\s|$)")
# Specific texts first: the first that fits says what a line means.
LOADING: Final = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        # From 2.28 on, from 2.21.5 to 2.27, and before.
        (r"TUNER/Plugin: Using (?!internal)(\S+ \(v\d+\))", TunerLoading.USING),
        (r"TUNER/Plugin: Using tuner plugin (\S+)", TunerLoading.USING),
        (r"Using tuner plugin: '([^']+)'", TunerLoading.USING),
        (r"Successfully loaded external tuner plugin (\S+)", TunerLoading.NAMED),
        (r"TUNER/Plugin: Plugin name set by env to (\S+)", TunerLoading.NAMED),
        (r"External tuner plugin (\S+) is unsupported", TunerLoading.UNSUPPORTED),
        (r"(ncclTunerPlugin_v1) in plugin", TunerLoading.NO_SYMBOL),
        (r"TUNER/Plugin: Failed to find (ncclTunerPlugin_v\d+) symbol", TunerLoading.NO_SYMBOL),
        (r"TUNER/Plugin: Could not find: (\S+?)\.?(?=\s|$)", TunerLoading.NOT_FOUND),
        (r"Tuner: no plugin found '([^']+)'", TunerLoading.NOT_FOUND),
        (r"TUNER/Plugin: Plugin load returned \d+ : (.+)", TunerLoading.FAILED),
        (r"Using built-in CSV tuner, config: (\S+)", TunerLoading.TABLE),
        (r"TUNER/CsvTuner: Loaded \d+ tuning configurations from (\S+)", TunerLoading.TABLE),
        (r"TUNER/Plugin: (Using internal tuner)", TunerLoading.INTERNAL),
        (r"TUNER/Plugin: ((?!Failed|Closing|Using|Could|Plugin)\S.*: .+)", TunerLoading.FAILED),
    )
)
# Of the library's own reader (RCCL 2.28.3 to 2.30.4), and of aws-ofi-nccl.
SKIPPED: Final = re.compile(r"Skipping line (\d{1,9}) with (.+?)(?:: (.*))?$")
LOADED: Final = re.compile(r"Loaded (\d{1,9}) tuning configurations from (\S+)")
LOST: Final = re.compile(r"Config file (\S+) not found|No valid configurations found in (\S+)")
ADDED: Final = re.compile(r"NET/OFI Adding (NCCL_\w+)=(\S+) to environment")
SIMPLE: Final = re.compile(r"NET/OFI Need to force simple protocol: (.+?)\s*$")
SHUT_OUT: Final = re.compile(r"NET/OFI The tuner plugin can not be loaded when explicitly ")
DTYPES: Final = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double"),
    *("bfloat16", "fp8_e4m3", "fp8_e5m2"),
)


class LogProcess(NamedTuple):
    """Process that wrote a message."""

    host: str
    pid: int


def messages(text: str) -> Iterator[tuple[LogProcess | None, str]]:
    """Messages of a line, each with its writer; what has no head is one message of nobody."""
    heads = list(_HEAD.finditer(text))
    if not heads:
        yield None, text
        return
    if heads[0].start() > 0:
        yield None, text[: heads[0].start()]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        yield LogProcess(head[1], int(head[2][:18])), text[head.end() : end]


_MAX_PROCESSES: Final = 65536


class ProcessScales:
    """Processes with the scales of their communicators."""

    def __init__(self) -> None:
        """Begin with no process met."""
        # By address, and those of them whose rank 0 the process is.
        self._scales: dict[LogProcess, dict[str, CommunicatorScale]] = {}
        self._first: dict[LogProcess, dict[str, CommunicatorScale]] = {}

    def see(
        self, process: LogProcess | None, address: str, rank: int, where: CommunicatorScale
    ) -> None:
        """A process has a communicator; those that were given up may give others their address."""
        if process is None or (process not in self._scales and len(self._scales) >= _MAX_PROCESSES):
            return
        self._scales.setdefault(process, {})[address] = where
        if rank == 0:
            self._first.setdefault(process, {})[address] = where
        else:
            self._first.get(process, {}).pop(address, None)

    def of(self, process: LogProcess | None, address: str) -> CommunicatorScale | None:
        """The scale of one of its communicators, None where it is not known."""
        return self._scales.get(process, {}).get(address) if process else None

    def only(self, process: LogProcess | None) -> CommunicatorScale:
        """The scale of all of its communicators, where that is one."""
        return _one(set(self._scales.get(process, {}).values()) if process else set())

    def choosing(self, process: LogProcess | None) -> CommunicatorScale:
        """Scale of the communicator whose choice a line is: rank 0 writes it, and names none."""
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
            scale = next(like, None)
            scales = set(self._first[scale].values()) if scale is not None else set()
        return _one(scales)


def _one(scales: set[CommunicatorScale]) -> CommunicatorScale:
    return scales.pop() if len(scales) == 1 else NOWHERE


_MAX_PEERS: Final = 65536


class P2pMessage(NamedTuple):
    """One line: what is sent to a rank or received from it."""

    kindred: TypeAndOperation
    n_elements: int
    peer: int
    buffer: str

    @property
    def nbytes(self) -> int:
        """Bytes of the message."""
        return self.n_elements * DTYPE_BYTES[self.kindred.dtype or "int8"]


# Who, by which communicator's address, how many of what.
_Key = tuple[LogProcess, str, int, TypeAndOperation]


@dataclass(slots=True)
class _P2pGroup:
    where: CommunicatorScale
    peers: set[int] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)


class P2pCalls:
    """Takes messages of any number of processes, and tells at the end what they were."""

    def __init__(self, evidence: LogCollector) -> None:
        """Begin with nothing read."""
        self._evidence = evidence
        self._sent: dict[_Key, _P2pGroup] = {}

    def take(
        self,
        process: LogProcess | None,
        comm: str,
        where: CommunicatorScale,
        message: P2pMessage,
        *,
        is_send: bool,
    ) -> None:
        """Take one line.

        Args:
            process: who wrote it.
            comm: the communicator's address.
            where: its scale.
            message: what the line says.
            is_send: whether it is sent, rather than received.
        """
        if process is None or len(self._sent) >= MAX_KEYS:
            self._put(where, Collective.SENDRECV, message.nbytes, message.kindred)
            return
        sent = self._sent.setdefault(
            (process, comm, message.n_elements, message.kindred), _P2pGroup(where=where)
        )
        if is_send and len(sent.peers) < _MAX_PEERS:
            sent.peers.add(message.peer)
            sent.buffers.add(message.buffer if len(sent.buffers) < 2 else "")

    def finish(self) -> None:
        """All files were read."""
        is_rccl = not any(version.startswith("NCCL") for version in self._evidence.job.versions)
        for (_, _, count, kindred), sent in self._sent.items():
            nbytes = P2pMessage(kindred, count, 0, "").nbytes
            n_ranks = sent.where.n_ranks or 0
            if is_rccl and 1 < n_ranks == len(sent.peers) and len(sent.buffers) == 1:
                total = nbytes * n_ranks
                self._put(sent.where, Collective.ALL_GATHER, total, kindred, DIRECT_GATHER)
            else:
                self._put(sent.where, Collective.SENDRECV, nbytes, kindred)
        self._sent.clear()

    def _put(
        self,
        where: CommunicatorScale,
        collective: Collective,
        nbytes: int,
        kindred: TypeAndOperation,
        path: str | None = None,
    ) -> None:
        record = self._evidence.at(where, collective, nbytes)
        record.called = True
        if path is not None:
            record.paths.add(path)
        if len(record.kindred) < 64:
            record.kindred.add(kindred)
