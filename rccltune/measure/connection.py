"""The connection to rank 0: steps go there, one a line, and come back as what every rank wrote.

``native_plugin/perf/steps.h`` and ``rendezvous.h`` say the same from the other side.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.ranks import plan
from rccltune.ranks.runs import SENT_AHEAD

# Where rank 0 says its addresses, in the run's folder.
RENDEZVOUS_FILE: Final = "rendezvous"
_CONNECT_S: Final = 2.0
_GREETING_S: Final = 5.0
_LOOK_S: Final = 0.02
_WAIT_S: Final = 0.2
_BETWEEN_RANKS: Final = "\t"
_BETWEEN_LINES: Final = "\x1e"


class ConnectionLostError(Exception):
    """Rank 0 is gone, or never came."""


class HungError(Exception):
    """No step was answered for too long."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to one line of a plan: lines that each rank wrote."""

    line: str
    ranks: tuple[tuple[str, ...], ...]


class RankConnection:
    """A connection to rank 0 that knows the token.

    Args:
        connected: socket, greeted.
    """

    def __init__(self, connected: socket.socket) -> None:
        """Nothing was sent yet."""
        self._socket = connected
        self._received = bytearray()

    def exchange(self, lines: Iterable[str], limit_of: Callable[[str], float]) -> Iterator[Answer]:
        """Send steps, and yield the answers as they come; ``answer`` has none.

        Args:
            lines: of a plan, without their ends.
            limit_of: longest time in seconds that a line may take once those before are answered.

        Raises:
            ConnectionLostError: rank 0 closed it.
            HungError: no answer came for so long.
        """
        waiting = deque[str]()
        for line in lines:
            self._send(line)
            if not line.startswith(plan.ANSWER):
                waiting.append(line)
            if len(waiting) >= SENT_AHEAD:
                oldest = waiting.popleft()
                yield self._receive(oldest, limit_of(oldest))
        for line in waiting:
            yield self._receive(line, limit_of(line))

    def end(self) -> None:
        """Say that no step follows; ranks then end by themselves."""
        with suppress(ConnectionLostError):
            self._send("end")

    def close(self) -> None:
        """End all ranks, whatever they are at."""
        self._socket.close()

    def _send(self, line: str) -> None:
        try:
            self._socket.sendall(f"{line}\n".encode())
        except OSError as error:
            raise ConnectionLostError from error

    def _receive(self, line: str, limit_s: float) -> Answer:
        """The answer to the line that waits longest."""
        deadline = time.monotonic() + limit_s
        while (at := self._received.find(b"\n")) < 0:
            ready, _, _ = select.select([self._socket], [], [], _WAIT_S)
            if ready:
                try:
                    part = self._socket.recv(1 << 16)
                except OSError as error:
                    raise ConnectionLostError from error
                if not part:
                    raise ConnectionLostError
                self._received += part
            elif time.monotonic() > deadline:
                raise HungError
        text = self._received[:at].decode("utf-8", "replace")
        del self._received[: at + 1]
        ranks = (one.split(_BETWEEN_LINES) for one in text.split(_BETWEEN_RANKS))
        return Answer(line, tuple(tuple(filter(None, lines)) for lines in ranks))


def connect(
    folder: Path, token: str, n_ranks: int, *, limit_s: float, is_over: Callable[[], bool]
) -> RankConnection:
    """Connect to rank 0 of a run.

    Args:
        folder: of the run.
        token: by which its ranks know each other.
        n_ranks: of the run.
        limit_s: longest time in seconds that rank 0 may take to listen.
        is_over: whether the ranks have ended, so that nobody will.

    Raises:
        ConnectionLostError: the ranks ended.
        HungError: nobody listened within the limit.
    """
    deadline = time.monotonic() + limit_s
    half = len(token) // 2
    greeting = f"rccltune-perf {token[:half]} lead {n_ranks}\n".encode()
    while True:
        for address, port in _addresses(folder / RENDEZVOUS_FILE):
            connected = _greet(address, port, greeting, token[half:])
            if connected is not None:
                return RankConnection(connected)
        if is_over():
            raise ConnectionLostError
        if time.monotonic() > deadline:
            raise HungError
        time.sleep(_LOOK_S)


def _addresses(path: Path) -> list[tuple[str, int]]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    words = (line.split() for line in lines)
    return [(address, int(port)) for address, port in words]


def _greet(address: str, port: int, greeting: bytes, answer: str) -> socket.socket | None:
    """A connection to a listener that knows the token."""
    try:
        connection = socket.create_connection((address, port), timeout=_CONNECT_S)
    except OSError:
        return None
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_GREETING_S)
        connection.sendall(greeting)
        line = bytearray()
        while not line.endswith(b"\n") and (part := connection.recv(1)):
            line += part
        if line.decode("ascii", "replace") == f"{answer}\n":
            connection.settimeout(None)
            return connection
    except OSError:
        pass
    connection.close()
    return None
