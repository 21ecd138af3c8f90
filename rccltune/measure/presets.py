"""Published ways to measure, as values of the options of a sweep.

Keys and values are those of :mod:`rccltune.measure.options`, so that a file or an option of the
same name wins; a number is the document's even where it is the default. Sources:
AMD's RCCL usage tips for CPX (``mpirun -np 64 --bind-to numa all_reduce_perf -b 8 -e 1G -f 2``;
the same with ``ROCR_VISIBLE_DEVICES=0,…,7`` and ``-np 8``; and with ``-b 32 -G 2 -w 20 -n 50``).
Ranks are bound to their NUMA sets without being asked to, where the launcher can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rccltune.model import Collective, RankPlacement

_RANGE: Final[Mapping[str, Any]] = {"min_bytes": 8, "max_bytes": 1 << 30, "factor": 2}
_ONE_OAM: Final[Mapping[str, Any]] = {
    **_RANGE,
    "placement_of_ranks": RankPlacement.ONE_OAM.value,
}
PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "cpx-64": {**_RANGE, "np": 64, "placement_of_ranks": RankPlacement.NODE.value},
    "cpx-one-oam": _ONE_OAM,
    "cpx-one-oam-graph": {
        **_ONE_OAM,
        "min_bytes": 32,
        "graph": 2,
        "warmup": 20,
        "iters": 50,
        "collective": (Collective.ALL_REDUCE,),
        # What AMD's figure for one OAM was reached with.
        "variant": ("mscclpp-read",),
    },
}
