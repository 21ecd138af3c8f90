"""Which of two sides is faster at which size: pure functions on a table of timings.

A row of timings is one timing of one side: columns ``side`` (``a``, ``b``), ``replicate`` (a start
of all ranks where sides are processes, else a communicator or a pair of them), ``collective``,
``nbytes``, ``timing`` (``graph``, ``loop``) and ``time_us``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from rccltune.analyse.intervals import STALL, Array, SizeAxis, floor, nan_safe
from rccltune.analyse.paired_intervals import LogMean, level_of, means_by_size
from rccltune.model.rounding import round_number
from rccltune.model.verdict import Verdict
from rccltune.ranks.plan import GRAPH

if TYPE_CHECKING:
    import pandas as pd

CELL: Final = ["collective", "nbytes", "timing"]
A: Final = "a"
B: Final = "b"
# Of either side; with four, t is 9.
LEAST_REPLICATES: Final = 6
COLUMNS: Final = (
    *CELL,
    *("a_us", "b_us", "ratio", "low", "high", "n_a", "n_b", "stalls_a", "stalls_b", "verdict"),
)


# What ends a comparison with 9.
HARM: Final = frozenset((Verdict.SLOWER, Verdict.WRONG, Verdict.FAILED))
# Where the two differ, so that sizes beside are looked at.
DIFFERS: Final = frozenset((Verdict.SLOWER, Verdict.FASTER))


def mark_stalls(timings: pd.DataFrame, cell: Sequence[str] = CELL) -> pd.DataFrame:
    """Timings with their logarithms, missing where a timing stood still.

    Args:
        timings: with ``side``, ``time_us`` and the columns of ``cell``.
        cell: what timings of a side must share to be called alike.

    Returns:
        The same rows with ``log`` and ``stalled``: it took 1.5 times what its side usually takes
        there.
    """
    log = np.log(timings["time_us"])
    names = ["side", *cell]
    usual = log.groupby([timings[name] for name in names], sort=False).transform("median")
    stalled = log > usual + math.log(STALL)
    marked: pd.DataFrame = timings.assign(log=log.mask(stalled), stalled=stalled)
    return marked


def means(rows: pd.DataFrame, cell: Sequence[str] = CELL) -> pd.DataFrame:
    """Mean log time of each replicate in each cell, without timings that stood still.

    Args:
        rows: as :func:`mark_stalls` makes them, with ``replicate``.
        cell: as there.

    Returns:
        Columns side, replicate, those of ``cell``, ``log``, ``stalls`` and ``n``: timings that
        stood still, and all.
    """
    groups = rows.groupby(["side", "replicate", *cell], sort=False)
    means: pd.DataFrame = groups.agg(
        log=("log", "mean"), stalls=("stalled", "sum"), n=("stalled", "size")
    ).reset_index()
    return means


def mean_log_times(timings: pd.DataFrame) -> pd.DataFrame:
    """Mean log time of each replicate at each size; see :func:`means`."""
    return means(mark_stalls(timings))


def judge(
    timings: pd.DataFrame, *, margin: float, paired: bool, least: int = LEAST_REPLICATES
) -> pd.DataFrame:
    """Ratio of B's time to A's at each size, with its interval and what that says.

    All sizes share the chance of 5 % that any interval is wrong.

    Args:
        timings: see this module.
        margin: share by which two equal sides may differ.
        paired: whether a replicate has both sides, so that its own ratio counts.
        least: replicates of either side below which nothing is judged; 1 where a single one is
            to do, whose spread then is :func:`rccltune.analyse.intervals.floor`.

    Returns:
        A row a size, by :data:`COLUMNS`; ``low`` and ``high`` are missing where nothing repeats.
    """
    import pandas as pd

    nothing: pd.DataFrame = pd.DataFrame(columns=list(COLUMNS))
    if timings.empty:
        return nothing
    logs = mean_log_times(timings)
    ratios: dict[tuple[str, int, str], LogMean | None] = {}
    for (collective, timing), group in logs.groupby(["collective", "timing"], sort=False):
        wide = group.pivot_table(values="log", index="replicate", columns=["side", "nbytes"])
        if len(wide.columns.unique(0)) == 2:
            sizes = wide[A].columns.intersection(wide[B].columns).sort_values()
            first, second = (wide[one].reindex(columns=sizes).to_numpy() for one in (A, B))
            axis = SizeAxis(sizes.to_numpy(), np.full(len(sizes), timing == GRAPH))
            estimates = _estimates(axis, first, second, paired=paired, is_stated=least < 2)
            names = ((str(collective), int(nbytes), str(timing)) for nbytes in sizes)
            ratios |= dict(zip(names, estimates, strict=True))
    by_side = logs.groupby([*CELL, "side"])
    sums = by_side.agg(log=("log", "mean"), n=("log", "count"), stalls=("stalls", "sum"))
    known = {tuple(row[:4]): row[4:] for row in sums.reset_index().itertuples(index=False)}
    level = level_of(len(ratios))
    rows = []
    for cell, one in ratios.items():
        (log_a, n_a, stalls_a), (log_b, n_b, stalls_b) = (
            known[name] for name in ((*cell, A), (*cell, B))
        )
        log = one.log if one is not None else log_b - log_a
        ends = (one.low(level), one.high(level)) if one is not None else (math.nan, math.nan)
        # Nobody decides by another number than the files have.
        ratio, low, high = (round_number(math.exp(each)) for each in (log, *ends))
        is_judged = one is not None and min(n_a, n_b) >= least
        verdict = decide_verdict(low, high, margin) if is_judged else Verdict.UNDECIDED
        times = (round_number(math.exp(log_a)), round_number(math.exp(log_b)))
        rows.append((*cell, *times, ratio, low, high, n_a, n_b, stalls_a, stalls_b, verdict.value))
    table: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS))
    rising: pd.DataFrame = table.sort_values(CELL, ignore_index=True)
    return rising


def _estimates(
    sizes: SizeAxis, first: Array, second: Array, *, paired: bool, is_stated: bool
) -> list[LogMean | None]:
    """Log of B's time over A's at each size."""
    if paired:
        return means_by_size(sizes.nbytes, second - first)
    a, b = (
        means_by_size(
            sizes.nbytes,
            sign * log,
            floor(np.exp(nan_safe(np.nanmean, log, 0)), sizes) if is_stated else None,
        )
        for sign, log in ((-1, first), (1, second))
    )
    both = zip(a, b, strict=True)
    return [None if one is None or other is None else one + other for one, other in both]


def decide_verdict(low: float, high: float, margin: float) -> Verdict:
    """Verdict by an interval of the ratio.

    Args:
        low: its lower end.
        high: its upper end.
        margin: share by which two equal sides may differ.
    """
    if 1 - margin <= low and high <= 1 + margin:
        return Verdict.EQUAL
    if low > 1:
        return Verdict.SLOWER
    if high < 1:
        return Verdict.FASTER
    return Verdict.UNDECIDED


def exit_code(verdicts: Iterable[str], *, was_cut: bool) -> int:
    """9 where B is slower, wrong or fails anywhere, else 8 where anything is undecided, else 0.

    Args:
        verdicts: of all sizes.
        was_cut: whether a budget or an interruption ended it.
    """
    kinds = {Verdict(one) for one in verdicts}
    if kinds & HARM:
        return 9
    return 8 if was_cut or not kinds or Verdict.UNDECIDED in kinds else 0
