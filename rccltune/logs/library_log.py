"""The library's own log: what it chose, its model, its tuner; and what is put around lines.

At INFO with the subsystem TUNING, RCCL and NCCL write a line for every choice and, at start, a
table of their model (``src/enqueue.cc``, ``src/graph/tuning.cc``). Names are those of the release;
releases before 2.24 print numbers, those of the tuner interface.

A library that looks up no tuner is told through its switches what to run. At INFO with the
subsystem TUNING it then writes one line for every call, from rank 0 alone:

    ``8 Bytes -> Algo 1 proto 0 time 12.8``                               2.20.3 to 2.22
    ``AllReduce: 8 Bytes -> Algo 1 proto 0 time 12.8``                    2.23
    ``AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}``   2.24 and later

(``src/enqueue.cc`` of NCCL and RCCL; before 2.20.3 only debugging builds have one.) A line with a
time gives the size as a tuner would see it, one with channels the bytes of a rank's own buffer. A
call that took another path before the choice has no line. At start rank 0 writes its model, a row
for each collective with latency and bandwidth of each cell; a bandwidth of 0 cannot be chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rccltune.logs.messages import known_lines
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import TUNABLE, Algorithm, Collective, Protocol

# host:pid:tid [device], and before most levels a file with its line, a function, or a time.
LOG_HEAD: Final = r"([^\s:]+):(\d+):\d+ \[-?\d+\] (?:\S+ ){0,2}NCCL "
# ATTN is NCCL's from 2.32.3 on: between WARN and INFO (src/debug.cc).
LOG_LEVELS: Final = "INFO|WARN|ATTN|TRACE|ERROR|ABORT"
# Rows stand in the interface's order of collectives; RCCL since ROCm 6.1 takes their names from a
# list in another order (src/init.cc, ncclFuncStr): the row "Reduce" is all_reduce's. By a name that
# only such a list has: 2.18.6 to 2.27.7, and 2.28.3.
_MISNAMED: Final = {
    "AllToAllGda": ("AllGather", "AllReduce", "AlltoAllPivot", "AllToAllGda", "Broadcast"),
    "AllToAllPivot": ("AllGather", "AllReduce", "AllToAllPivot", "Broadcast", "Reduce"),
}
_BANDWIDTH: Final = re.compile(r"/ *([\d.]+) \|")
_MODELLED: Final = tuple(
    Setting(algorithm=a, protocol=p) for a in (Algorithm.TREE, Algorithm.RING) for p in Protocol
)


def parse_collective(name: str) -> Collective | None:
    """``AllReduce``; None for what is no collective's name."""
    try:
        return Collective.parse(name)
    except ValueError:
        return None


def parse_cell(algorithm: str, protocol: str) -> Setting | None:
    """``RING`` and ``LL``, or their numbers; None where one has no name today."""
    try:
        return Setting(
            algorithm=tuple(Algorithm)[int(algorithm)]
            if algorithm.isdigit()
            else Algorithm.parse(algorithm),
            protocol=tuple(Protocol)[int(protocol)]
            if protocol.isdigit()
            else Protocol.parse(protocol),
        )
    except (ValueError, IndexError):
        return None


def find_model_collectives(names: Iterable[str]) -> Mapping[str, Collective]:
    """Collective of each row of one model; rows of anything else are left out.

    Args:
        names: those of all rows that one process printed.
    """
    row_names = frozenset(names)
    names_in_order = next((names for sign, names in _MISNAMED.items() if sign in row_names), None)
    if names_in_order is not None:
        real = dict(zip(names_in_order, TUNABLE, strict=True))
        return {name: real[name] for name in row_names if name in real}
    collectives = {name: parse_collective(name) for name in row_names}
    return {name: one for name, one in collectives.items() if one is not None}


def find_cells_without_bandwidth(cells: str) -> frozenset[Setting]:
    """Cells of a model's row that cannot be chosen: those with a bandwidth of 0.

    Args:
        cells: of a row, Tree and Ring with the protocols first.
    """
    widths = zip(_MODELLED, _BANDWIDTH.findall(cells), strict=True)
    return frozenset(setting for setting, width in widths if not width.strip("0."))


# A message, wherever in a line it begins; and one that is a whole line, also without its head.
MESSAGE: Final = re.compile(rf"{LOG_HEAD}(?:{LOG_LEVELS}|VERSION)")
NOISE: Final = re.compile(
    rb"(?:%b|\[-?\d+\] NCCL )(?:%b|CALL)" % (LOG_HEAD.encode(), LOG_LEVELS.encode())
)


OUR_TUNER: Final = "plugin rccltune"


def find_tuner(log: str) -> str:
    """Name the tuner that a library used, from its INFO log."""
    for tells, kind in (("table", "built-in table"), ("using", "plugin"), ("opened", "plugin")):
        for line in known_lines():
            match = line.pattern.search(log) if line.tells == tells and line.word in log else None
            if match is not None:
                return f"{kind} {match['name']}"
    # From 2.32.3 on NCCL says that it refuses a plugin at a level that logs have without INFO.
    refused = re.search(r"NCCL ATTN External tuner plugin \S+ is unsupported", log)
    return "none" if refused is not None or "NCCL INFO" in log else "unknown"
