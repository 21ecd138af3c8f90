"""Cells of any table to timings: numbers, who ran, what ran, and which pass over the sizes.

A table of cells has a line for each timing, as text or as numbers, and these columns, as far as the
file has them:

====================  =================================================================
line, half            of the file, and which of the row's timings it is
nbytes, count         size in bytes, and elements
time, cputime         µs; the CPU's time is not the collective's
algbw, busbw          GB/s
wrong                 wrong elements; nan where nothing was checked
odd                   size, time and algbw contradict each other
ran_algorithm, …      what ran: ``ran_protocol``, ``ran_channels``, ``path``
dtype, placement, …   all else tells one curve from another
====================  =================================================================

A run's timings have ``line``, ``nbytes``, ``count``, ``time_us``, ``algbw``, ``busbw``, ``wrong``,
``odd`` as above (``odd`` and what follows always), ``mix`` (number of its facts), ``ran``
(number of the setting that ran, -1 for none), ``bypassed`` (a path ran that asks no tuner) and
``pass``; and percentiles of single calls under the names that the benchmark gave them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rccltune.logs import columns
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.model.errors import OutputError
from rccltune.model.times import MOST_US
from rccltune.model.vocabulary import Placement

if TYPE_CHECKING:
    import pandas as pd

_KIND: Final = ("dtype", "redop", "placement")
_RAN: Final = ("ran_algorithm", "ran_protocol", "ran_channels")


def fill_run(run: LogRun, cells: pd.DataFrame, name: str) -> None:
    """Give a run the timings of a benchmark's own table.

    Args:
        run: of the file.
        cells: numbers, not text.
        name: file name for messages.

    Raises:
        OutputError: a size is repeated where no new pass begins.
    """
    kind = [column for column in _KIND if column in cells]
    mix, first = number_mixes(cells, kind)
    rows = cells.assign(mix=mix)
    run.row_facts = [
        _facts_of_row(run.facts, row) for row in first[["line", *kind]].itertuples(index=False)
    ]
    if "root" in rows:
        run.names_root = str(rows["root"].iloc[0]) != "-1"
    # With -C 1 benchmarks print the CPU's time, which is not the collective's.
    run.has_cpu_time = "time" not in rows
    rows["time_us"] = float("nan") if run.has_cpu_time else keep_usable_times(rows["time"])
    rows["pass"] = count_passes(rows, name)
    rows["ran"], run.settings, rows["bypassed"] = _ran(rows)
    run.timings = rows


def _facts_of_row(facts: LogFacts, row: Any) -> LogFacts:  # noqa: ANN401 - a named tuple of pandas'
    return LogFacts(
        line=row.line,
        dtype=str(getattr(row, "dtype", "")) or None,
        op=str(getattr(row, "redop", "")) or None,
        placement=Placement(row.placement),
    ).or_else(facts)


def number_mixes(cells: pd.DataFrame, names: Sequence[str]) -> tuple[pd.Series[int], pd.DataFrame]:
    """Number of each row's mix of these columns, by first appearance, and the mixes' first rows."""
    import pandas as pd

    if not names:
        return pd.Series(0, index=cells.index), cells.head(1)
    number = cells.groupby(list(names), sort=False, dropna=False, observed=True).ngroup()
    return number, cells[~number.duplicated()]


def keep_usable_times(times: pd.Series[float]) -> pd.Series[float]:
    """Times that can be computed with; nan for the others (:mod:`rccltune.model.times`)."""
    usable: pd.Series[float] = times.where((times > 0) & (times < MOST_US))
    return usable


def _ran(rows: pd.DataFrame) -> tuple[pd.Series[int] | int, list[Any], pd.Series[bool] | bool]:
    """Number of the setting that ran, the settings, and whether a path ran that is none."""
    if "ran_algorithm" not in rows:
        return -1, [], False
    names = [name for name in (*_RAN, "path") if name in rows]
    mix, first = number_mixes(rows, names)
    settings, paths = [], []
    for row in first[names].itertuples(index=False):
        words = [str(getattr(row, name, "-")) for name in _RAN]
        setting, is_path = columns.parse_ran_setting(*words)
        other = str(getattr(row, "path", "-"))
        settings.append(setting)
        paths.append(is_path or (setting is None and other not in ("-", "nan")))
    numbers = {at: at if one is not None else -1 for at, one in enumerate(settings)}
    return mix.map(numbers), settings, mix.map(dict(enumerate(paths))).astype(bool)


def count_passes(rows: pd.DataFrame, name: str) -> pd.Series[int]:
    """Count how often each size was seen before.

    A benchmark asked for cycles prints the whole list of sizes again. Two equal sizes in a row
    are also honest: all_gather and its kin round small sizes down to the same number.

    Raises:
        OutputError: a size came again in the middle of a pass.
    """
    sizes = rows[["mix", "nbytes"]]
    if not sizes.duplicated().any():
        return rows["nbytes"] * 0
    real = rows[rows["nbytes"] > 0]
    by_mix = real.groupby("mix", sort=False)["nbytes"]
    before = by_mix.shift()
    starts = (real["nbytes"] == by_mix.transform("first")) & (before != real["nbytes"])
    turn = starts.groupby(real["mix"], sort=False).cumsum()
    new = real.assign(turn=turn)[before != real["nbytes"]]
    again = new[new.duplicated(["mix", "turn", "nbytes"])]
    if len(again):
        line, nbytes = int(again["line"].iloc[0]), int(again["nbytes"].iloc[0])
        same = (new["mix"] == again["mix"].iloc[0]) & (new["turn"] == again["turn"].iloc[0])
        first = int(new[same & (new["nbytes"] == nbytes)]["line"].iloc[0])
        raise OutputError(
            f"size {nbytes} stands in two rows of one table, in lines {first} and {line}, and no "
            "new pass over the sizes begins there",
            where=f"{name}:{line}",
            hint="if two jobs wrote into one log, split it into a file for each.",
        )
    return rows.groupby(["mix", "nbytes"], sort=False).cumcount()
