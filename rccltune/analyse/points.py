"""Samples to points: one time a communicator, then one time a setting and size.

A *point* is one setting at one size. Its time is the median over communicators of the medians over
the passes of each, so that a pass that stood still costs a communicator nothing and a communicator
that stood still costs the point nothing.

Where calls were timed in both modes, replayed graphs count up to 4 MiB and loops above: below,
a loop measures how fast the host launches. Where a setting was timed roughly and again with care,
care counts. Both are decided for all settings of a size together, so that one mode compares them.

Columns of the tables here, beside ``KEYS`` (all that two times must share to be compared as those
of one setting) and ``nbytes``:

=============  ================================================================================
communicator   which one, of those that hold one collective and scale
run            where its raw rows are
log_us         log of the median time over its passes, in µs
n_passes       how many there were
pass_var       variance of ``log_us`` that the passes tell
is_stalled     whether it stood still there (see :func:`is_stalled`)
=============  ================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from rccltune.analyse import intervals
from rccltune.analyse.intervals import Array, LogTimes, SizeAxis, Truths
from rccltune.model import settings
from rccltune.model.settings import Scale, Target
from rccltune.model.vocabulary import Collective
from rccltune.ranks.plan import GRAPH, GRAPH_UP_TO

# What a tuner is asked for; what it cannot see; and with its answer all of a curve's key.
TARGET: Final = ["collective", "n_nodes", "n_ranks", "rank_placement"]
VIEW: Final = ["dtype", "op", "placement"]
KEYS: Final = [*TARGET, *VIEW, "setting"]
BASELINE: Final = str(settings.BASELINE)
IDLE: Final = str(settings.IDLE)
# What is compared at one size in one communicator: all settings in one timing mode.
_SIZE: Final = ("collective", "dtype", "op", "placement", "nbytes")
# Times that are compared at a size: of all settings in one timing mode.
_AT_A_SIZE: Final = [*TARGET, *VIEW, "nbytes"]
# Sizes timed in both modes from which on each has a curve of its own; a sweep has one, at 4 MiB.
_MANY_SIZES: Final = 4


def target_of(named: Sequence[Any]) -> Target:
    """Target of a rule, from the words of a table.

    Args:
        named: collective, nodes, ranks, placement of ranks.
    """
    collective, n_nodes, n_ranks, rank_placement = named
    return Target(
        collective=Collective(collective),
        scale=Scale(n_nodes=int(n_nodes), n_ranks=int(n_ranks)),
        rank_placement=str(rank_placement) or None,
    )


def usable(samples: pd.DataFrame) -> pd.DataFrame:
    """Samples that count: those of a sweep that may be used, by the mode and the pass that count.

    Args:
        samples: as ``samples.csv`` has them (:mod:`rccltune.session.sample_table`).
    """
    good = without_rough(by_timing(samples[_is_good(samples)], _AT_A_SIZE), _AT_A_SIZE)
    return _with_site(good)


def by_timing(measured: pd.DataFrame, by: Sequence[str] = _SIZE) -> pd.DataFrame:
    """Measures by the timing mode that counts at their size: graph up to 4 MiB where there is one.

    Args:
        measured: with ``timing`` and ``nbytes``.
        by: columns of what is compared at a size: all settings in one timing mode.
    """
    if measured.empty:
        return measured
    size = measured.groupby(list(by), observed=True, sort=False).ngroup()
    is_graph = measured["timing"] == GRAPH
    has_graph = is_graph.groupby(size).transform("any")
    has_loop = (~is_graph).groupby(size).transform("any")
    counts = has_graph & ((measured["nbytes"] <= GRAPH_UP_TO) | ~has_loop)
    counted: pd.DataFrame = measured[is_graph == counts]
    return counted


def without_rough(measured: pd.DataFrame, by: Sequence[str] = _SIZE) -> pd.DataFrame:
    """Rows of samples.csv without rough ones, where a setting has better ones at that size.

    Args:
        measured: with ``rough`` and ``setting``.
        by: columns of a size, as for :func:`by_timing`.
    """
    if not measured["rough"].any():
        return measured
    cell = measured.groupby([*by, "setting"], observed=True, sort=False).ngroup()
    has_fine = (~measured["rough"]).groupby(cell).transform("any")
    careful: pd.DataFrame = measured[~(measured["rough"] & has_fine)]
    return careful


def _with_site(good: pd.DataFrame) -> pd.DataFrame:
    """Samples with those of the idle plugin as the baseline's too, where the site was not timed.

    A sweep times it only where the two said that they ran different things.
    """
    is_idle = good["setting"] == IDLE
    if not is_idle.any():
        return good
    cell = good.groupby(_AT_A_SIZE, observed=True, sort=False).ngroup()
    has_baseline = (good["setting"] == BASELINE).groupby(cell).transform("any")
    copies = good[is_idle & ~has_baseline].assign(setting=BASELINE)
    plain = good.assign(setting=good["setting"].astype(object))
    doubled: pd.DataFrame = pd.concat([plain, copies], ignore_index=True)
    return doubled


def _is_good(samples: pd.DataFrame) -> pd.Series[bool]:
    return (samples["unusable"] == "") & (samples["time_us"] > 0)


def split_by_timing(samples: pd.DataFrame) -> list[pd.DataFrame]:
    """The usable samples, those apart whose settings were timed at many sizes by both.

    Of each size one mode counts, so that settings are compared in it. Where somebody timed a whole
    range both ways, each way has a curve of its own to look at.

    Args:
        samples: as ``samples.csv`` has them.
    """
    good = samples[_is_good(samples)]
    is_graph = good["timing"] == GRAPH
    if is_graph.all() or not is_graph.any():
        return [usable(good)]
    at_a_size = good.groupby(_AT_A_SIZE, observed=True, sort=False)
    n_clocks = is_graph.groupby(at_a_size.ngroup()).transform("nunique")
    view = good.groupby(_AT_A_SIZE[:-1], observed=True, sort=False).ngroup()
    n_both = good["nbytes"].where(n_clocks > 1).groupby(view).transform("nunique")
    is_apart = n_both >= _MANY_SIZES
    if not is_apart.any():
        return [usable(good)]
    rest = good[~is_apart]
    parts = [usable(good[is_apart & timing]) for timing in (is_graph, ~is_graph)]
    return [*([usable(rest)] if len(rest) else []), *parts]


def by_communicator(samples: pd.DataFrame) -> pd.DataFrame:
    """One row a point and communicator, of usable samples; see this module for its columns."""
    plain = samples.assign(
        log_us=_without_drift(samples),
        is_graph=(samples["timing"] == GRAPH).to_numpy(),
        communicator=samples.groupby(
            ["process", "communicator"], observed=True, sort=False
        ).ngroup(),
    )
    by = [*KEYS, "nbytes", "communicator"]
    grouped = plain.groupby(by, observed=True, sort=True)
    logs = grouped["log_us"].agg(["median", "var", "count"])
    shared = grouped[["is_graph", "timing", "run"]].first()
    cells = logs.join(shared).reset_index()
    # The variance of a median is pi/2 times that of a mean.
    cells["pass_var"] = (np.pi / 2 * cells["var"] / cells["count"]).fillna(0.0)
    cells = cells.rename(columns={"median": "log_us", "count": "n_passes"}).drop(columns="var")
    cells["is_stalled"] = is_stalled(cells)
    table: pd.DataFrame = cells
    return table


def _without_drift(samples: pd.DataFrame) -> Array:
    """Log times, each without what the idle plugin's times beside it drifted by.

    In a communicator the idle plugin is timed before and after each setting. So the ratio of the
    idle plugin's median to a setting's time is that to its neighbours in time, and slow drifts (a
    clock that falls) cancel.
    """
    plain: Array = np.log(samples["time_us"].to_numpy(dtype=float))
    is_idle = (samples["setting"] == IDLE).to_numpy()
    if not is_idle.any():
        return plain
    log_us = pd.Series(plain)
    cell = samples.groupby(
        [*TARGET, *VIEW, "nbytes", "timing", "process", "communicator"], observed=True, sort=False
    ).ngroup()
    order = np.lexsort((samples["line"].fillna(0).to_numpy(dtype=np.int64), cell.to_numpy()))
    by_cell = pd.Series(cell.to_numpy()[order])
    idle = log_us.where(is_idle).iloc[order].reset_index(drop=True)
    grouped = idle.groupby(by_cell)
    beside = pd.concat([grouped.ffill(), grouped.bfill()], axis=1).mean(axis=1)
    drift = np.zeros(len(samples))
    drift[order] = (beside - grouped.transform("median")).fillna(0.0).to_numpy()
    corrected: Array = np.where(is_idle, plain, plain - drift)
    return corrected


def is_stalled(table: pd.DataFrame) -> Truths:
    """Whether a communicator stood still at a size.

    It did where it is far above the others of the same point (:func:`intervals.stall_limit`). Where
    there is no other, it did if its time is far above that of a larger size, or its time a byte
    above that of a smaller one.
    """
    grouped = table.groupby([*KEYS, "nbytes"], observed=True, sort=False)["log_us"]
    n, middle = (grouped.transform(how).to_numpy() for how in ("count", "median"))
    log_us = table["log_us"].to_numpy()
    # Of two the other one; of more the median, which one of them does not move.
    others = np.where(n > 2, middle, 2 * middle - log_us)
    sizes = SizeAxis(table["nbytes"].to_numpy(), table["is_graph"].to_numpy())
    limit = intervals.stall_limit(np.exp(others), sizes)
    stalled: Truths = (n > 1) & (log_us > others + limit + intervals.SAME)
    alone: Truths = (n == 1) & _is_above_its_curve(table)
    return stalled | alone


def _is_above_its_curve(table: pd.DataFrame) -> Truths:
    """Whether a time is above what sizes beside it allow, whatever curve they lie on."""
    log_us, log_nbytes = table["log_us"].to_numpy(), np.log(table["nbytes"].to_numpy())
    curve = table.groupby(KEYS, observed=True, sort=False).ngroup().to_numpy()
    order = np.lexsort((log_nbytes, curve))
    by_curve = pd.Series(curve[order])
    time, size = pd.Series(log_us[order]), pd.Series(log_nbytes[order])
    later = time[::-1].groupby(by_curve[::-1]).cummin()[::-1]
    later = later.groupby(by_curve).shift(-1)
    per_byte = (time - size).groupby(by_curve).cummin().groupby(by_curve).shift(1)
    allowed = np.fmin(later.to_numpy(), (per_byte + size).to_numpy())
    alone = np.zeros(len(table), dtype=bool)
    with np.errstate(invalid="ignore"):
        alone[order] = time.to_numpy() > allowed + np.log(intervals.STALL_ALONE) + intervals.SAME
    return alone


def points(table: pd.DataFrame) -> pd.DataFrame:
    """One row a setting and size: its time, what communicators differ by, how many there were.

    Columns beside ``KEYS`` and ``nbytes``: ``is_graph``, ``timing``; ``time_us``; ``low_us`` and
    ``high_us`` over communicators; ``n_communicators``, ``n_passes``, ``n_stalled``.

    Args:
        table: of :func:`by_communicator`.
    """
    by = [*KEYS, "nbytes"]
    usable_rows = table[~table["is_stalled"]]
    grouped = usable_rows.groupby(by, observed=True, sort=True)
    found = grouped.agg(
        is_graph=("is_graph", "first"),
        timing=("timing", "first"),
        time_us=("log_us", "median"),
        low_us=("log_us", "min"),
        high_us=("log_us", "max"),
        n_communicators=("log_us", "count"),
        n_passes=("n_passes", "sum"),
    )
    every = table.groupby(by, observed=True, sort=True)["is_stalled"].sum()
    found["n_stalled"] = every.reindex(found.index).fillna(0).astype(int)
    for column in ("time_us", "low_us", "high_us"):
        found[column] = np.exp(found[column])
    points: pd.DataFrame = found.reset_index()
    return points


@dataclass(frozen=True)
class TimeGrid:
    """All that was measured of one target, dense, NaN where nothing was.

    Attributes:
        target: value of each of ``TARGET``.
        views: values of ``VIEW``: what a rule must serve alike.
        candidates: settings; baseline and idle are among them.
        sizes: rising.
        times: by [view, candidate, size, communicator].
    """

    target: dict[str, Any]
    views: list[tuple[Any, ...]]
    candidates: list[str]
    sizes: SizeAxis
    times: LogTimes

    @property
    def nbytes(self) -> npt.NDArray[np.int64]:
        """Sizes in bytes."""
        return self.sizes.nbytes

    @cached_property
    def median(self) -> Array:
        """Log time in µs by [view, candidate, size]: the median over communicators."""
        return intervals.median(self.times.log_us)

    def of(self, at: Any) -> LogTimes:  # noqa: ANN401 - an index
        """Times of some candidates."""
        index = np.atleast_1d(np.asarray(at, dtype=np.intp))
        return LogTimes(self.times.log_us[:, index], self.times.pass_var[:, index])


def grids(table: pd.DataFrame) -> Iterator[TimeGrid]:
    """One grid a target, by rising target.

    Args:
        table: of :func:`by_communicator`.
    """
    usable_rows = table[~table["is_stalled"]]
    for target, rows in usable_rows.groupby(TARGET, observed=True, sort=True):
        views, view = _numbered(rows[VIEW])
        candidates, candidate = _numbered(rows[["setting"]])
        nbytes, size = np.unique(rows["nbytes"].to_numpy(), return_inverse=True)
        _, communicator = np.unique(rows["communicator"].to_numpy(), return_inverse=True)
        shape = (len(views), len(candidates), len(nbytes), int(communicator.max()) + 1)
        at = (view, candidate, size, communicator)
        log_us, pass_var = np.full(shape, np.nan), np.full(shape, np.nan)
        log_us[at], pass_var[at] = rows["log_us"].to_numpy(), rows["pass_var"].to_numpy()
        is_graph = np.zeros(len(nbytes), dtype=bool)
        is_graph[size] = rows["is_graph"].to_numpy()
        yield TimeGrid(
            target=dict(zip(TARGET, target, strict=True)),
            views=views,
            candidates=[str(setting) for (setting,) in candidates],
            sizes=SizeAxis(nbytes.astype(np.int64), is_graph),
            times=LogTimes(log_us, pass_var),
        )


def _numbered(part: pd.DataFrame) -> tuple[list[tuple[Any, ...]], Any]:
    """Combinations of values, sorted, and the number of each row's."""
    number = part.groupby(list(part.columns), observed=True, sort=True).ngroup()
    first = part.assign(_number=number).drop_duplicates("_number").sort_values("_number")
    listed = list(first.drop(columns="_number").itertuples(index=False, name=None))
    return listed, number.to_numpy()
