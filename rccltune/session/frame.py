"""Samples as a DataFrame, the table that all analysis works on.

==============  ===================================================================
launch          where the raw rows are: ``run-3:0``, a launch's id, a file's
process         one start of all ranks
communicator    number of the communicator in it; a log read by import is one
collective      ``all_reduce`` …
n_nodes         nodes of the communicator
n_ranks         its ranks
rank_placement  where they were: ``node``, ``one-oam`` …; empty where unknown
dtype, op       the benchmark's words; empty where unknown
placement       ``out-of-place`` or ``in-place``
beside          what else ran on the devices; empty where nothing did
setting         what was asked for: ``ring/ll``, ``baseline``, ``silent`` (plugin idle)
variant         environment, ``default`` for the site's own
nbytes          size in bytes, as a tuner sees it
clock           loop or graph
purpose         rough, fine or verify; empty where nobody says
time_us         µs a call, mean over ranks; NaN where the row has none
unusable        why the time must not be used; empty where it may
==============  ===================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rccltune.model.measured import Sample, launch_of_pass
from rccltune.model.settings import CurveKey

if TYPE_CHECKING:
    import pandas as pd

_KEY: Final = (
    *("collective", "n_nodes", "n_ranks", "rank_placement", "dtype", "op", "placement"),
    *("setting", "variant", "clock"),
)


def frame(samples: Sequence[Sample]) -> pd.DataFrame:
    """Samples as a table; see this module for its columns."""
    import numpy as np
    import pandas as pd

    number: dict[int, int] = {}
    keys: list[CurveKey] = []
    of_key = np.empty(len(samples), dtype=np.int32)
    for at, sample in enumerate(samples):
        found = number.get(id(sample.key))
        if found is None:
            found = number[id(sample.key)] = len(keys)
            keys.append(sample.key)
        of_key[at] = found
    told = pd.DataFrame([_described(key) for key in keys], columns=list(_KEY))
    categories = [name for name in _KEY if not name.startswith("n_")]
    told = told.astype(dict.fromkeys(categories, "category"))
    made: pd.DataFrame = told.take(of_key).reset_index(drop=True)
    launches = pd.Categorical([one.launch for one in samples])
    whole = np.array([launch_of_pass(name) for name in launches.categories], dtype=object)
    made["launch"] = launches
    # A pass of a combined launch shares its communicator with the others.
    communicator, _ = pd.factorize(whole)
    made["communicator"] = communicator[launches.codes]
    made["process"] = made["communicator"]
    made["nbytes"] = np.fromiter((one.nbytes for one in samples), np.int64, len(samples))
    times = (np.nan if one.time_us is None else one.time_us for one in samples)
    made["time_us"] = np.fromiter(times, np.float64, len(samples))
    doubts = ["" if one.doubt is None else one.doubt.value for one in samples]
    made["unusable"] = pd.Categorical(doubts)
    for name in ("purpose", "beside"):
        made[name] = pd.Categorical([""] * len(samples))
    return made


def _described(key: CurveKey) -> tuple[Any, ...]:
    return (
        key.collective.value,
        key.scale.n_nodes,
        key.scale.n_ranks,
        key.rank_placement or "",
        key.dtype or "",
        key.redop or "",
        key.placement.value,
        str(key.setting),
        key.variant.name,
        "graph" if key.graph else "loop",
    )
