"""The table of samples: its columns, and what a log or a run has as rows of it.

It stands in ``samples.csv``, a row a timing, and all analysis works on it as a DataFrame. What is
not known is empty in the file and in columns of text, missing (``NaN``, ``<NA>``) elsewhere.

================  =================================================================
collective        ``all_reduce`` …
n_nodes, n_ranks  of the communicator
rank_placement    where its ranks were: ``node``, ``one-oam`` …
dtype, op         the benchmark's words; op is ``none`` where nothing is reduced
placement         ``out`` of place or ``in`` place
setting           what was asked for: ``ring/ll128``, ``tree/ll/16``; ``baseline`` (the site as
                  it is), ``idle`` (our plugin loaded, answering nothing), ``rules``
                  (answering by a rule file), ``unstated`` (nothing says what ran)
timing             ``graph`` (a captured graph replayed) or ``loop`` (calls launched one
                  by one)
nbytes            size in bytes, as a tuner sees it
calls             timed calls
time_us           µs a call, mean over ranks
slowest_us        µs a call of the slowest rank
wrong             elements that a check of this setting and size found wrong; missing
                  where nothing was checked
ran               the setting that the library said it ran
library           the setting that the library would have taken by itself
registered        whether the tuner was told that buffers are registered; missing where nobody
                  was asked
trees             how many summation trees its setting has at this size, by an element's place;
                  missing where that was not probed (docs/bits.md)
signature         number of where which tree stands; empty where that was not probed
unusable          why the time must not be used; empty where it may
rough             a first look of a sweep, which counts where nothing better is there
run               where the raw rows are: ``run-3``, a launch, a run in a file
process           one start of all ranks
communicator      number of the communicator in it, the unit of repetition; what a log
                  or a table has of one setting is one
pass              number of the pass over the sizes in it
line              of plan.txt in a run, of the log or table elsewhere, from 1
================  =================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rccltune.model.rounding import round_times
from rccltune.model.settings import CurveKey
from rccltune.ranks import plan, runs

if TYPE_CHECKING:
    import pandas as pd

# What two times share that are compared as those of one setting.
KEY: Final = (
    *("collective", "n_nodes", "n_ranks", "rank_placement", "dtype", "op", "placement"),
    *("setting", "timing"),
)
COLUMNS: Final = (
    *KEY,
    *("nbytes", "calls", "time_us", "slowest_us", "wrong"),
    *("ran", "library", "registered", "trees", "signature", "unusable", "rough"),
    *("run", "process", "communicator", "pass", "line"),
)
# Kinds of all columns that are no text; text is kept as categories.
KINDS: Final = {
    "n_nodes": "int64",
    "n_ranks": "int64",
    "nbytes": "int64",
    "calls": "Int64",
    "time_us": "float64",
    "slowest_us": "float64",
    "wrong": "Int64",
    "registered": "boolean",
    "trees": "Int64",
    "rough": "bool",
    "communicator": "int64",
    "pass": "int64",
    "line": "Int64",
}
_TIMES: Final = ("time_us", "slowest_us")
TEXTS: Final = tuple(name for name in COLUMNS if name not in KINDS)
_CLOCKS: Final = {None: "", False: plan.LOOP, True: plan.GRAPH}


def arranged(columns: Mapping[str, Any] | pd.DataFrame) -> pd.DataFrame:
    """The table with its columns in their order and of their kinds, its times as they are written.

    So what is chosen from a table just made is what is chosen from samples.csv.
    """
    import pandas as pd

    kinds = {name: KINDS.get(name, "category") for name in COLUMNS}
    table: pd.DataFrame = pd.DataFrame({n: columns[n] for n in COLUMNS}).astype(kinds)
    for name in _TIMES:
        table[name] = round_times(table[name].to_numpy())
    return table


def joined(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Several tables as one."""
    import pandas as pd
    from pandas.api.types import union_categoricals

    filled_parts = [part for part in parts if len(part)]
    if len(filled_parts) < 2:
        return filled_parts[0].reset_index(drop=True) if filled_parts else nothing()
    table: pd.DataFrame = pd.concat([part[list(KINDS)] for part in filled_parts], ignore_index=True)
    for name in TEXTS:
        table[name] = union_categoricals([part[name] for part in filled_parts])
    return arranged(table)


def nothing() -> pd.DataFrame:
    """The table without a row."""
    import pandas as pd

    columns = ("key", "nbytes", "time_us", "wrong", "ran", "unusable", "pass", "line", "launch")
    return framed(pd.DataFrame({name: [] for name in columns}), ())


def framed(rows: pd.DataFrame, keys: Sequence[CurveKey]) -> pd.DataFrame:
    """The table of samples out of a log's (:func:`rccltune.logs.log_samples.table_of`).

    Args:
        rows: its column ``key`` numbers the curve of each row.
        keys: of the curves.
    """
    import numpy as np
    import pandas as pd

    described = pd.DataFrame([_described(key) for key in keys], columns=list(KEY))
    described = described.astype({name: "category" for name in KEY if name in TEXTS})
    table: pd.DataFrame = described.take(rows["key"].to_numpy(dtype=int)).reset_index(drop=True)
    timings = pd.Series([_CLOCKS[key.graph] for key in keys], dtype="str")[rows["key"]]
    row_timings = rows["timing"].to_numpy() if "timing" in rows else ""
    table["timing"] = (
        np.where(np.asarray(row_timings) == "", timings.to_numpy(), row_timings)
        if len(rows)
        else ""
    )
    for name in ("nbytes", "time_us", "wrong", "line", "pass"):
        table[name] = rows[name].to_numpy()
    for name in ("ran", "unusable"):
        table[name] = rows[name].astype("category").array
    table["calls"], table["registered"], table["trees"] = pd.NA, pd.NA, pd.NA
    table["signature"] = ""
    table["slowest_us"] = np.nan
    table["library"], table["rough"] = "", False
    _name_communicators(table, rows["launch"])
    return arranged(table)


def _described(key: CurveKey) -> tuple[Any, ...]:
    return (
        key.collective.value,
        key.scale.n_nodes,
        key.scale.n_ranks,
        key.rank_placement or "",
        key.dtype or "",
        key.op or "",
        key.placement.value,
        str(key.setting),
        "",
    )


def _name_communicators(table: pd.DataFrame, launches: pd.Series[str]) -> None:
    """Add run, process and communicator.

    Settings share a communicator in a run of ours; what one log or one table holds of several
    settings was measured in processes of their own.
    """
    import pandas as pd

    codes, names = pd.factorize(launches)
    places = [runs.run_in(name) for name in names]
    table["run"] = pd.Categorical([run for run, _ in places]).take(codes)
    table["process"] = table["run"]
    by_setting = table.groupby(["run", "setting"], observed=True, sort=False).ngroup()
    first = by_setting.groupby(table["run"], observed=True).transform("min")
    numbers = pd.Series([number for _, number in places], dtype="Int64").take(codes)
    table["communicator"] = numbers.reset_index(drop=True).fillna(by_setting - first)
