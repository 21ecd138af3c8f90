"""Which processes belong together: those that share communicators, directly or through others."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

_MAX_COMMS: Final = 65536


class Groups:
    """Communicators by their ids, as ranks tell of them."""

    def __init__(self) -> None:
        """Nobody was met."""
        self._parent: dict[Hashable, Hashable] = {}
        self._hosts: dict[str, tuple[int, set[str], set[int]]] = {}

    def see(self, comm: str, process: Hashable, host: str, rank: int, n_ranks: int) -> None:
        """A rank of a communicator spoke."""
        if comm not in self._hosts and len(self._hosts) >= _MAX_COMMS:
            return
        size, hosts, ranks = self._hosts.setdefault(comm, (n_ranks, set(), set()))
        hosts.add(host)
        if len(ranks) < size:
            ranks.add(rank)
        if n_ranks > 1:
            self._join(("comm", comm), ("process", process))

    @property
    def n_groups(self) -> int:
        """How many groups of processes share no communicator."""
        return len({self._root(each) for each in self._parent})

    def nodes(self) -> dict[int, int]:
        """Nodes by ranks, where every communicator of that size that was seen whole agrees."""
        found: dict[int, set[int]] = {}
        for size, hosts, ranks in self._hosts.values():
            if len(ranks) == size:
                found.setdefault(size, set()).add(len(hosts))
        return {size: counts.pop() for size, counts in found.items() if len(counts) == 1}

    def _root(self, each: Hashable) -> Hashable:
        while self._parent.get(each, each) != each:
            # Halving the way keeps it short without recursion.
            above = self._parent[each]
            self._parent[each] = self._parent.get(above, above)
            each = self._parent[each]
        self._parent.setdefault(each, each)
        return each

    def _join(self, one: Hashable, other: Hashable) -> None:
        self._parent[self._root(one)] = self._root(other)
