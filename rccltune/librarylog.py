"""Words of the library's own log that several readers need: what it chose, and its model.

At INFO with the subsystem TUNING, RCCL and NCCL write a line for every choice and, at start, a
table of their model (``src/enqueue.cc``, ``src/graph/tuning.cc``). Names are those of the release;
releases before 2.24 print numbers, those of the tuner interface.
"""

from __future__ import annotations

import re
from typing import Final

from rccltune.model import Setting
from rccltune.vocab import Algorithm, Collective, Protocol

# "   AllReduce |     5.1/   0.0 |     9.8/   8.1 | …": Tree and Ring with the protocols come first.
MODEL_ROW: Final = r" *(\w+) \|((?: *[\d.]+/ *[\d.]+ \|){6})"
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


def without_bandwidth(cells: str) -> frozenset[Setting]:
    """Cells of a model's row that cannot be chosen: those with a bandwidth of 0.

    Args:
        cells: the second group of :data:`MODEL_ROW`.
    """
    widths = zip(_MODELLED, _BANDWIDTH.findall(cells), strict=True)
    return frozenset(setting for setting, width in widths if not width.strip("0."))
