"""One start of a benchmark: what its lines and the library's say of its ranks and nodes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from rccltune.logs.facts import LogFacts
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective

_RANK: Final = re.compile(
    r"Rank\s+(\d{1,9})\s+(?:Group\s+(\d{1,9})\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)"
    r"\s+\[([^\]]*)\]\s*(.*)"
)
_NUMBERS: Final = re.compile(r"(nThread|nGpus|minBytes|maxBytes|step:|graph:)\s*(\d+)(\(\w+\))?")
_COMM: Final = re.compile(rb" rank (\d{1,9}) n[rR]anks (\d{1,9}) (?:.*?commId (0x[0-9a-f]+))?")
# "comm 0x1 rank 0 nRanks 2 nNodes 2 …" and "comm:0x1, nRanks:4, nNodes:1, coll channels:8 …".
_SCALE: Final = re.compile(rb" nRanks[ :](\d{1,9}),? nNodes[ :](\d{1,9})")
# Bounds what noise alone may pile up.
_MAX_COMMS: Final = 4096


class RankLine(NamedTuple):
    """One line of the rank list."""

    group: int
    rank: int
    host: str
    device: str
    product: str
    line: int


@dataclass(slots=True)
class BenchmarkJob:
    """Facts about one start of a benchmark, gathered line by line.

    Attributes:
        numbers: those of the line ``# nThread …``.
        n_ranks: by the command that started it; a rank list says it better.
        is_alone: no launcher started it.
        is_cut: somebody left lines of the rank list out.
        variables: by the library's log; its tuner as well.
        has_table: a table began.
    """

    line: int
    collective: Collective | None = None
    collective_line: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    ranks: dict[tuple[int, int], RankLine] = field(default_factory=dict)
    is_cut: bool = False
    version: str | None = None
    simulated: bool = False
    n_ranks: int | None = None
    is_alone: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    executed_settings: dict[tuple[Collective, int], set[Setting]] = field(default_factory=dict)
    communicators: dict[str, dict[int, bytes]] = field(default_factory=dict)
    sizes: set[int] = field(default_factory=set)
    scales: set[tuple[int, int]] = field(default_factory=set)
    has_table: bool = False

    def facts(self) -> LogFacts:
        """The facts that samples need, once the file was read."""
        numbers = self.numbers
        ranks = sorted(self.ranks.values())
        n_ranks, nodes = self._scale_by_list(ranks)
        if n_ranks is None:
            n_ranks, n_nodes = self._scale_by_messages()
            nodes = {"n_nodes": n_nodes}
        if n_ranks is None:
            n_ranks = self.n_ranks
            nodes = {"n_nodes": 1 if self.is_alone else None}
        products = sorted({each.product for each in ranks if each.product})
        return LogFacts(
            line=self.line,
            field_lines=(
                ("n_ranks", ranks[-1].line if ranks else self.line),
                ("collective", self.collective_line or self.line),
            ),
            collective=self.collective,
            n_ranks=n_ranks,
            **nodes,
            graph=numbers["graph:"] > 0 if "graph:" in numbers else None,
            product=" + ".join(products) or None,
            hosts=tuple(dict.fromkeys(each.host for each in ranks)),
            devices=tuple(f"{each.host} {each.device}" for each in ranks),
            ranks_per_process=numbers.get("nThread", 0) * numbers.get("nGpus", 0) or None,
            simulated=self.simulated,
        )

    def _scale_by_list(self, ranks: list[RankLine]) -> tuple[int | None, dict[str, Any]]:
        """Ranks of one group and their nodes, by the rank list; of one that was cut the least."""
        if not ranks:
            return None, {}
        first = [each for each in ranks if each.group == ranks[0].group]
        hosts = len({each.host for each in first})
        n_all = 1 + max(each.rank for each in ranks)
        if self.is_cut or len({each.rank for each in ranks}) < n_all:
            return n_all, {"least_nodes": hosts}
        # NCCL_TESTS_SPLIT makes communicators of equal size.
        sizes = set(Counter(each.group for each in ranks).values())
        return (len(first), {"n_nodes": hosts}) if len(sizes) == 1 else (None, {})

    def _scale_by_messages(self) -> tuple[int | None, int | None]:
        """Ranks and nodes by the library's messages; None where communicators disagree."""
        if len(self.scales) == 1 and self.sizes <= {size for size, _ in self.scales}:
            return next(iter(self.scales))
        if len(self.sizes) != 1:
            return None, None
        size = next(iter(self.sizes))
        whole = [hosts for hosts in self.communicators.values() if len(hosts) == size]
        nodes = {len(set(hosts.values())) for hosts in whole}
        return size, nodes.pop() if len(nodes) == 1 else None

    def note_communicator(self, message: bytes, host: bytes) -> None:
        """Take a message that tells the ranks of a communicator, or its ranks and nodes."""
        scale = _SCALE.search(message)
        if scale is not None:
            self.scales.add((int(scale[1]), int(scale[2])))
        match = _COMM.search(message)
        if match is None:
            return
        rank, size, comm = match.groups()
        self.sizes.add(int(size))
        name = comm.decode("ascii") if comm else ""
        if name and (name in self.communicators or len(self.communicators) < _MAX_COMMS):
            self.communicators.setdefault(name, {})[int(rank)] = host


def parse_numbers(body: str) -> dict[str, int]:
    """Numbers of the ``# nThread …`` line; ``step:`` is negative where it is added."""
    numbers: dict[str, int] = {}
    for name, digits, kind in _NUMBERS.findall(body):
        value = int(digits[:20])
        numbers[name] = -value if name == "step:" and kind == "(bytes)" else value
    return numbers


def parse_rank(body: str, line: int) -> RankLine | None:
    """One line of the rank list, None where it is none."""
    match = _RANK.match(body)
    if match is None:
        return None
    rank, group, host, device, bus, product = match.groups()
    return RankLine(int(group or 0), int(rank), host, f"{device} [{bus}]", product.strip(), line)


def find_buses(log_text: bytes) -> dict[int, str]:
    """Bus address of each rank's device, as the rank list of a log has it."""
    matches = (match.groups() for match in _RANK.finditer(log_text.decode("utf-8", "replace")))
    return {int(rank): bus for rank, _, _, _, bus, _ in matches}


# Each job's first rank names its device; a job that reads on in cycles names it once.
_FIRST_RANK: Final = re.compile(rb"^#\s+Rank\s+0\s+(?:Group|Pid)\b", re.MULTILINE)


def count_benchmarks(log_text: bytes) -> int:
    """Number of benchmarks that wrote into one log: more than one where ranks did not meet."""
    return len(_FIRST_RANK.findall(log_text))
