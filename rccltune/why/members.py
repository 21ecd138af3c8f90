"""Ranks of communicators, by the processes whose messages tell of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from rccltune.why.job_report import NOWHERE, CommunicatorScale

# Bounds what noise alone may pile up.
MAX_MEMBERS: Final = 65536


class LogProcess(NamedTuple):
    """Process and device that wrote a message."""

    host: str
    pid: int
    device: int


class Member(NamedTuple):
    """A rank of a communicator, as its process tells of it."""

    rank: int
    where: CommunicatorScale
    comm_id: str


class Members:
    """Ranks of communicators by the processes that play them."""

    def __init__(self) -> None:
        """Begin with no process met."""
        # By process and address; one that was given up may give another its address.
        self._members: dict[LogProcess, dict[str, Member]] = {}
        # Hosts and ranks by the communicator's id.
        self._hosts: dict[tuple[str, int], dict[int, str]] = {}

    def add(self, process: LogProcess, address: str, member: Member) -> Member:
        """Take a line that says which rank a process is; what all such lines say of it."""
        known = self._members.get(process, {}).get(address)
        if known is not None and known.where.n_ranks == member.where.n_ranks:
            # One line has the nodes, another one the id.
            whole = known.where if member.where.n_nodes is None else member.where
            member = Member(member.rank, whole, member.comm_id or known.comm_id)
        if process in self._members or len(self._members) < MAX_MEMBERS:
            self._members.setdefault(process, {})[address] = member
        if member.comm_id and len(self._hosts) < MAX_MEMBERS:
            hosts = self._hosts.setdefault((member.comm_id, member.where.n_ranks or 0), {})
            hosts[member.rank] = process.host
        return member

    def find(self, process: LogProcess | None, address: str) -> Member | None:
        """The rank that a process plays in one of its communicators."""
        return self._members.get(process, {}).get(address) if process else None

    def find_choosing(self, process: LogProcess | None) -> Member:
        """The rank whose choice a line is: it names no communicator, and rank 0 writes it alone."""
        members = list(self._members.get(process, {}).values()) if process else []
        first = [one for one in members if one.rank == 0] or members
        if len({one.where for one in first}) != 1:
            return Member(0, NOWHERE, "")
        ids = {one.comm_id for one in first}
        return first[0] if len(ids) == 1 else first[0]._replace(comm_id="")

    def nodes_by_ranks(self) -> dict[int, int]:
        """Nodes by ranks, where every communicator of that size that was seen whole agrees."""
        counts: dict[int, set[int]] = {}
        for (_, n_ranks), hosts in self._hosts.items():
            if len(hosts) == n_ranks:
                counts.setdefault(n_ranks, set()).add(len(set(hosts.values())))
        return {n_ranks: nodes.pop() for n_ranks, nodes in counts.items() if len(nodes) == 1}
