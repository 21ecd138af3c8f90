"""Sends and receives of a job, and those that are an all_gather's.

RCCL makes small all_gathers of sends and receives and, on that path, has no line for the call
itself: rank by rank it sends one buffer to every rank, itself among them (2.27.7, measured: up to
4 MiB on one node). A program's alltoall sends every rank another part of its buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rccltune.model import DTYPE_BYTES, Collective
from rccltune.why.evidence import MAX_KEYS, Evidence
from rccltune.why.paths import DIRECT_GATHER
from rccltune.why.phrases import Process
from rccltune.why.records import Kindred, Where

_MAX_PEERS: Final = 65536


class Message(NamedTuple):
    """One line: what is sent to a rank or received from it."""

    kindred: Kindred
    n_elements: int
    peer: int
    buffer: str

    @property
    def nbytes(self) -> int:
        """Bytes of the message."""
        return self.n_elements * DTYPE_BYTES[self.kindred.dtype or "int8"]


# Who, by which communicator's address, how many of what.
_Key = tuple[Process, str, int, Kindred]


@dataclass(slots=True)
class _Sent:
    where: Where
    peers: set[int] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)


class Sends:
    """Takes messages of any number of processes, and tells at the end what they were."""

    def __init__(self, evidence: Evidence) -> None:
        """Nothing was read yet."""
        self._evidence = evidence
        self._sent: dict[_Key, _Sent] = {}

    def take(
        self, process: Process | None, comm: str, where: Where, message: Message, *, is_send: bool
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
            (process, comm, message.n_elements, message.kindred), _Sent(where=where)
        )
        if is_send and len(sent.peers) < _MAX_PEERS:
            sent.peers.add(message.peer)
            sent.buffers.add(message.buffer if len(sent.buffers) < 2 else "")

    def finish(self) -> None:
        """All files were read."""
        is_rccl = not any(version.startswith("NCCL") for version in self._evidence.job.versions)
        for (_, _, count, kindred), sent in self._sent.items():
            nbytes = Message(kindred, count, 0, "").nbytes
            n_ranks = sent.where.n_ranks or 0
            if is_rccl and 1 < n_ranks == len(sent.peers) and len(sent.buffers) == 1:
                total = nbytes * n_ranks
                self._put(sent.where, Collective.ALL_GATHER, total, kindred, DIRECT_GATHER)
            else:
                self._put(sent.where, Collective.SENDRECV, nbytes, kindred)
        self._sent.clear()

    def _put(
        self,
        where: Where,
        collective: Collective,
        nbytes: int,
        kindred: Kindred,
        path: str | None = None,
    ) -> None:
        seen = self._evidence.at(where, collective, nbytes)
        seen.called = True
        if path is not None:
            seen.paths.add(path)
        if len(seen.kindred) < 64:
            seen.kindred.add(kindred)
