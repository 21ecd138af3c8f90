"""Words of the library's own log that several readers need: what it chose, its model, channels.

At INFO with the subsystem TUNING, RCCL and NCCL write a line for every choice and, at start, a
table of their model (``src/enqueue.cc``, ``src/graph/tuning.cc``). Names are those of the release;
releases before 2.24 print numbers, those of the tuner interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rccltune.model import Setting
from rccltune.vocab import TUNABLE, Algorithm, Collective, Protocol

# "   AllReduce |     5.1/   0.0 |     9.8/   8.1 | …": Tree and Ring with the protocols come first.
MODEL_ROW: Final = r" *(\w+) \|((?: *[\d.]+/ *[\d.]+ \|){6})"
# Without and with the scale before it: NCCL and RCCL to 2.26, and RCCL from 2.27 on (src/init.cc).
COLL_CHANNELS: Final = (
    r"(?:(?:comm:\w+, )?nRanks:(?P<n_ranks>\d{1,9}), nNodes:(?P<n_nodes>\d{1,9}), coll channels:)?"
    r"(?P<n_channels>\d{1,6})(?: coll channels, | collnet channels:)"
)
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


def collective_named(name: str) -> Collective | None:
    """``AllReduce``; None for what is no collective's name."""
    try:
        return Collective.parse(name)
    except ValueError:
        return None


def setting_named(algorithm: str, protocol: str) -> Setting | None:
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


def model_rows(names: Iterable[str]) -> Mapping[str, Collective]:
    """Which collective each row of one model is of; rows of anything else are left out.

    Args:
        names: those of all rows that one process printed.
    """
    found = frozenset(names)
    listed = next((names for sign, names in _MISNAMED.items() if sign in found), None)
    if listed is not None:
        real = dict(zip(listed, TUNABLE, strict=True))
        return {name: real[name] for name in found if name in real}
    named = {name: collective_named(name) for name in found}
    return {name: one for name, one in named.items() if one is not None}


def without_bandwidth(cells: str) -> frozenset[Setting]:
    """Cells of a model's row that cannot be chosen: those with a bandwidth of 0.

    Args:
        cells: the second group of :data:`MODEL_ROW`.
    """
    widths = zip(_MODELLED, _BANDWIDTH.findall(cells), strict=True)
    return frozenset(setting for setting, width in widths if not width.strip("0."))
