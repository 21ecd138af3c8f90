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
ran             setting that is known to have run; empty where nothing said so
wrong           wrong elements over all ranks; NaN where results were not checked
==============  ===================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rccltune.model.measured import Sample, launch_of_pass
from rccltune.model.reporter import Reporter
from rccltune.model.settings import CurveKey
from rccltune.perf import samples as run_samples
from rccltune.session import store
from rccltune.session.samples import load_samples
from rccltune.session.store import Session

if TYPE_CHECKING:
    import pandas as pd

_KEY: Final = (
    *("collective", "n_nodes", "n_ranks", "rank_placement", "dtype", "op", "placement"),
    *("setting", "variant"),
)


_NAMES: Final = (
    *("launch", "collective", "setting", "placement", "dtype", "redop", "rank_placement"),
    *("variant", "doubt", "clock", "graph", "executed"),
)
_NUMBERS: Final = {
    "n_nodes": "int32",
    "n_ranks": "int32",
    "nbytes": "int64",
    "time_us": "float64",
    "n_wrong": "float64",
}
# Beside their columns in samples.csv.
_NAMED: Final = {"redop": "op", "doubt": "unusable", "executed": "ran", "n_wrong": "wrong"}


def load_frame(opened: Session, reporter: Reporter) -> pd.DataFrame:
    """Samples of a session as a table; samples.csv is made again where it is not current.

    Args:
        opened: the session.
        reporter: told where samples.csv is made again.

    Raises:
        SessionError: a row that cannot be read.
    """
    if not store.has_current_samples(opened):
        return frame(load_samples(opened, reporter))
    import pandas as pd

    try:
        read = pd.read_csv(
            opened.path / store.SAMPLES,
            usecols=lambda name: name in {*_NAMES, *_NUMBERS},
            dtype={**dict.fromkeys(_NAMES, "category"), **_NUMBERS},
            keep_default_na=False,
            na_values={"time_us": [""], "n_wrong": [""]},
        )
    except (ValueError, UnicodeDecodeError):
        # Read once more, row by row, by what names the row.
        return frame(store.stored_samples(opened) or ())
    if "clock" not in read:
        read["clock"] = pd.Categorical([""] * len(read))
    is_said = read["clock"].astype(str) != ""
    by_key = read["graph"].astype(str).map({"1": "graph"}).fillna("loop")
    read["clock"] = pd.Categorical(read["clock"].astype(str).where(is_said, by_key))
    read = read.rename(columns=_NAMED).drop(columns="graph")
    return _in_communicators(read)


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
    told = told.astype({name: "category" for name in _KEY if not name.startswith("n_")})
    made: pd.DataFrame = told.take(of_key).reset_index(drop=True)
    graph = {None: "loop", False: "loop", True: "graph"}
    clocks = [one.clock or graph[one.key.graph] for one in samples]
    made["clock"] = pd.Categorical(clocks)
    made["launch"] = pd.Categorical([one.launch for one in samples])
    made["nbytes"] = np.fromiter((one.nbytes for one in samples), np.int64, len(samples))
    times = (np.nan if one.time_us is None else one.time_us for one in samples)
    made["time_us"] = np.fromiter(times, np.float64, len(samples))
    reasons = ["" if one.doubt is None else one.doubt.value for one in samples]
    made["unusable"] = pd.Categorical(reasons)
    ran = ["" if one.executed is None else str(one.executed) for one in samples]
    made["ran"] = pd.Categorical(ran)
    counted = (np.nan if one.n_wrong is None else one.n_wrong for one in samples)
    made["wrong"] = np.fromiter(counted, np.float64, len(samples))
    return _in_communicators(made)


def _in_communicators(made: pd.DataFrame) -> pd.DataFrame:
    """The table with what says which samples share a communicator."""
    import numpy as np
    import pandas as pd

    launches = made["launch"].cat
    names = np.array(launches.categories, dtype=object)
    whole = np.array([launch_of_pass(name) for name in names], dtype=object)
    launch, _ = pd.factorize(whole)
    # Settings share a communicator in a run of ours and in a combined launch; what one log or one
    # table holds of several settings was measured in processes of their own.
    is_shared = (whole != names) | np.array(
        [run_samples.is_run(name) for name in names], dtype=bool
    )
    if len(made):
        alone = made.groupby(["launch", "setting", "variant"], observed=True, sort=False).ngroup()
        shared = is_shared[launches.codes]
        made["communicator"] = np.where(shared, launch[launches.codes], len(names) + alone)
    else:
        made["communicator"] = np.zeros(0, dtype=int)
    made["process"] = made["communicator"]
    for name in ("purpose", "beside"):
        made[name] = pd.Categorical([""] * len(made))
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
    )
