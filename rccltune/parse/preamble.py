"""What a benchmark prints before its table: who runs where, what, over which sizes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rccltune.model import BASELINE, Setting
from rccltune.parse.draft import Said
from rccltune.vocab import Algorithm, Collective, Protocol

_RANK: Final = re.compile(
    r"Rank\s+(\d{1,9})\s+(?:Group\s+(\d{1,9})\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)"
    r"\s+\[([^\]]*)\]\s*(.*)"
)
_NUMBERS: Final = re.compile(r"(nThread|nGpus|minBytes|maxBytes|step:|graph:)\s*(\d+)(\(\w+\))?")
_STARTING: Final = re.compile(r"Collective test starting:\s*(\S+)")
_COMMAND: Final = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf(?:_mpi)?\b")
_MARKER: Final = re.compile(
    r"\b(?:N?CCL_|RCCL_)?(ALGO|PROTO)\s*[=:]\s*(\w+)(?![\w,;:^])", re.IGNORECASE
)
_COMM: Final = re.compile(rb" rank (\d+) nranks (\d+) .*?commId (0x[0-9a-f]+)")
_MAX_COMMS: Final = 4096


class Rank(NamedTuple):
    """One line of the rank list."""

    group: int
    rank: int
    host: str
    device: str
    product: str
    line: int


@dataclass(slots=True)
class Preamble:
    """Facts about one run, gathered line by line."""

    line: int
    collective: Collective | None = None
    collective_line: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    version: str | None = None
    setting: Setting | None = None
    ranks: dict[tuple[int, int], Rank] = field(default_factory=dict)
    simulated: bool = False

    @property
    def command(self) -> tuple[Collective | None, tuple[tuple[str, int], ...]]:
        """What tells two runs of the same command from two different ones."""
        return self.collective, tuple(sorted(self.numbers.items()))

    def said(self) -> Said:
        """The facts that samples need; an incomplete rank list says nothing."""
        numbers = self.numbers
        ranks = sorted(self.ranks.values())
        groups = Counter(each.group for each in ranks)
        # NCCL_TESTS_SPLIT makes communicators of equal size; a list with a gap says nothing.
        whole = [each.rank for each in sorted(ranks, key=lambda each: each.rank)] == list(
            range(len(ranks))
        ) and len(set(groups.values())) == 1
        first = [each for each in ranks if whole and each.group == ranks[0].group]
        products = sorted({each.product for each in ranks if each.product})
        hosts = tuple(dict.fromkeys(each.host for each in ranks))
        return Said(
            line=self.line,
            said_at=(
                ("n_ranks", ranks[0].line if ranks else self.line),
                ("collective", self.collective_line or self.line),
            ),
            collective=self.collective,
            setting=self.setting,
            n_ranks=len(first) or None,
            n_nodes=len({each.host for each in first}) or None,
            graph=numbers["graph:"] > 0 if "graph:" in numbers else None,
            product=" + ".join(products) or None,
            hosts=hosts,
            devices=tuple(f"{each.host} {each.device}" for each in ranks),
            ranks_per_process=numbers.get("nThread", 0) * numbers.get("nGpus", 0) or None,
            simulated=self.simulated,
        )


def rank_of(body: str, line: int) -> Rank | None:
    """One line of the rank list, None where it is none."""
    match = _RANK.match(body)
    if match is None:
        return None
    rank, group, host, device, bus, product = match.groups()
    return Rank(int(group or 0), int(rank), host, f"{device} [{bus}]", product.strip(), line)


def buses_in(log: bytes) -> dict[int, str]:
    """Bus address of each rank's device, as the rank list of a log has it."""
    found = (match.groups() for match in _RANK.finditer(log.decode("utf-8", "replace")))
    return {int(rank): bus for rank, _, _, _, bus, _ in found}


def numbers_of(body: str) -> dict[str, int]:
    """Numbers of the ``# nThread …`` line; ``step:`` is negative where it is added."""
    found: dict[str, int] = {}
    for name, digits, kind in _NUMBERS.findall(body):
        value = int(digits[:20])
        found[name] = -value if name == "step:" and kind == "(bytes)" else value
    return found


def starting(body: str) -> Collective | None:
    """Collective of a ``Collective test starting`` line."""
    match = _STARTING.match(body)
    return None if match is None else _collective(match[1])


def commanded(text: str) -> Collective | None:
    """The one benchmark that a command line names; None where it names several or none."""
    names = {_collective(name) for name in _COMMAND.findall(text)}
    return names.pop() if len(names) == 1 else None


def marked(text: str) -> Setting | None:
    """Setting in a section mark of somebody's script, such as ``### ALGO=Ring size=8``."""
    algorithm: Algorithm | None = None
    protocol: Protocol | None = None
    for what, value in _MARKER.findall(text):
        if value.lower() in ("auto", "default", "none"):
            return BASELINE
        try:
            if what.upper() == "ALGO":
                algorithm = Algorithm.parse(value)
            else:
                protocol = Protocol.parse(value)
        except ValueError:
            return None
    if algorithm is None and protocol is None:
        return None
    return Setting(algorithm=algorithm, protocol=protocol)


class Communicators:
    """Scale of the communicators that the library's own log tells of."""

    def __init__(self) -> None:
        """None was seen yet."""
        self._hosts: dict[bytes, dict[int, bytes]] = {}
        self._sizes: set[int] = set()

    def see(self, message: bytes, host: bytes) -> None:
        """Take one ``rank R nranks N … commId X`` message."""
        match = _COMM.search(message)
        if match is None:
            return
        rank, size, comm = match.groups()
        self._sizes.add(int(size[:9]))
        if comm in self._hosts or len(self._hosts) < _MAX_COMMS:
            self._hosts.setdefault(comm, {})[int(rank[:9])] = host

    def scale(self) -> tuple[int | None, int | None]:
        """Ranks and nodes, None where communicators disagree or no one was seen whole."""
        if len(self._sizes) != 1:
            return None, None
        size = next(iter(self._sizes))
        # One whose messages are not all there says nothing about nodes; the others may.
        whole = [hosts for hosts in self._hosts.values() if len(hosts) == size]
        nodes = {len(set(hosts.values())) for hosts in whole}
        return size, nodes.pop() if len(nodes) == 1 else None


def _collective(name: str) -> Collective | None:
    try:
        return Collective.parse(name)
    except ValueError:
        return None
