"""Words of the library's own log that several readers need: what it chose, and its model.

At INFO with the subsystem TUNING, RCCL and NCCL write a line for every choice and, at start, a
table of their model (``src/enqueue.cc``, ``src/graph/tuning.cc``). Names are those of the release;
releases before 2.24 print numbers, those of the tuner interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rccltune.model import Setting
from rccltune.vocab import Algorithm, Collective, Protocol

# "   AllReduce |     5.1/   0.0 |     9.8/   8.1 | …": Tree and Ring with the protocols come first.
MODEL_ROW: Final = r" *(\w+) \|((?: *[\d.]+/ *[\d.]+ \|){6})"
# "24 coll channels, 24 collnet channels, …"; RCCL 2.27.7 of ROCm 7.2.4 and its communicator's
# scale: "comm:0x…, nRanks:64, nNodes:1, coll channels:38 collnet channels:…".
CHANNELS: Final = r"(?:(\d{1,9}) coll channels, |coll channels:(\d{1,9}) )"
# That release's labels are those of another list of functions (seen by asking it with a tuner), and
# no other prints a model of the pivot.
_SHIFTED: Final = {
    "AllGather": Collective.BROADCAST,
    "AllReduce": Collective.REDUCE,
    "AllToAllPivot": Collective.ALL_GATHER,
    "Broadcast": Collective.REDUCE_SCATTER,
    "Reduce": Collective.ALL_REDUCE,
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


def n_channels(match: re.Match[str]) -> int:
    """Channels of a communicator, of a match of :data:`CHANNELS`."""
    return int(match[1] or match[2])


def refused(rows: Iterable[tuple[str, str]]) -> frozenset[tuple[Collective, Setting]]:
    """Cells that a library's model leaves out at every size.

    Args:
        rows: (label, cells) of :data:`MODEL_ROW`, as one process printed them; of each label the
            first counts, further ones are other algorithms', or another communicator's.
    """
    first: dict[str, str] = {}
    for label, cells in rows:
        first.setdefault(label, cells)
    is_shifted = "AllToAllPivot" in first
    found: set[tuple[Collective, Setting]] = set()
    for label, cells in first.items():
        collective = _SHIFTED.get(label) if is_shifted else collective_named(label)
        if collective is not None:
            found |= {(collective, setting) for setting in without_bandwidth(cells)}
    return frozenset(found)


def without_bandwidth(cells: str) -> frozenset[Setting]:
    """Cells of a model's row that cannot be chosen: those with a bandwidth of 0.

    Args:
        cells: the second group of :data:`MODEL_ROW`.
    """
    widths = zip(_MODELLED, _BANDWIDTH.findall(cells), strict=True)
    return frozenset(setting for setting, width in widths if not width.strip("0."))
