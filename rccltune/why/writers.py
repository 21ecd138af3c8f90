"""Who wrote a message: each process's communicators, and whose choice a line of it is."""

from __future__ import annotations

from typing import Final

from rccltune.why.phrases import Process
from rccltune.why.records import NOWHERE, Where

_MAX_PROCESSES: Final = 65536


class Writers:
    """Processes with the scales of their communicators."""

    def __init__(self) -> None:
        """Nobody was met."""
        # By address, and those of them whose rank 0 the process is.
        self._scales: dict[Process, dict[str, Where]] = {}
        self._first: dict[Process, dict[str, Where]] = {}

    def see(self, process: Process | None, address: str, rank: int, where: Where) -> None:
        """A process has a communicator; those that were given up may give others their address."""
        if process is None or (process not in self._scales and len(self._scales) >= _MAX_PROCESSES):
            return
        self._scales.setdefault(process, {})[address] = where
        if rank == 0:
            self._first.setdefault(process, {})[address] = where
        else:
            self._first.get(process, {}).pop(address, None)

    def of(self, process: Process | None, address: str) -> Where | None:
        """The scale of one of its communicators, None where it is not known."""
        return self._scales.get(process, {}).get(address) if process else None

    def only(self, process: Process | None) -> Where:
        """The scale of all of its communicators, where that is one."""
        return _one(set(self._scales.get(process, {}).values()) if process else set())

    def choosing(self, process: Process | None) -> Where:
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
        return _one(scales)


def _one(scales: set[Where]) -> Where:
    return scales.pop() if len(scales) == 1 else NOWHERE
