"""Intervals of gains for verification, comparing and jobs, from replicates of what is compared.

Choosing has :mod:`rccltune.analyse.intervals`. A replicate is a communicator, a launch of a
benchmark or a run of a job: paired where it has both sides, else one of two groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from rccltune.analyse.intervals import INTERVAL, LEAST, Array, Truths, nan_safe, t_quantile
from rccltune.model import defaults
from rccltune.model.estimate import Estimate
from rccltune.model.rounding import round_record

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LogMean:
    """Mean of log ratios with its standard error over replicates.

    Attributes:
        log: above 0 where the second of the two is faster.
        se: standard error.
        df: degrees of freedom.
        n: replicates behind it.
    """

    log: float
    se: float
    df: float
    n: int

    def low(self, level: float = INTERVAL) -> float:
        """Low end of the two-sided interval."""
        return self.log - float(t_quantile((1 + level) / 2, self.df)) * self.se

    def high(self, level: float = INTERVAL) -> float:
        """High end of the two-sided interval."""
        return self.log + float(t_quantile((1 + level) / 2, self.df)) * self.se

    def ratio(self, level: float = INTERVAL) -> Estimate:
        """The ratio with its interval, rounded as it is written."""
        ends = (self.log, self.low(level), self.high(level))
        return round_record(Estimate.of_logs(*ends, self.n))

    def __add__(self, other: LogMean) -> LogMean:
        """Sum of two independent estimates; degrees of freedom as Welch (1947) has them."""
        total = self.se**2 + other.se**2
        parts = sum(one.se**4 / one.df for one in (self, other))
        return LogMean(
            log=self.log + other.log,
            se=float(np.sqrt(total)),
            df=total**2 / parts if parts else min(self.df, other.df),
            n=min(self.n, other.n),
        )


# Two placements of a communicator go together by half, so both tell half as much again as one.
_TWO_VIEWS: Final = 1.5


class PairedRatios:
    """Log ratios of replicates by [replicate, view, size], NaN where a replicate lacks a size.

    What replicates differ by is noise; what sizes differ by is not.

    Args:
        nbytes: of each size, rising.
        log: ratios; a replicate is a communicator, or a launch of a benchmark.
        views: names of the placements, where they have some.
    """

    def __init__(
        self, nbytes: npt.NDArray[np.int64], log: Array, views: Sequence[str] = ()
    ) -> None:
        """Find the mean at each size."""
        self.nbytes, self.log, self.views = nbytes, log, tuple(views)
        self.mean = nan_safe(np.nanmean, log, 0)
        self._about = log - self.mean
        self._more = _TWO_VIEWS if log.shape[1] > 1 else 1.0

    @classmethod
    def of(cls, rows: pd.DataFrame) -> PairedRatios:
        """Ratios of a table.

        Args:
            rows: columns ``replicate``, ``placement``, ``nbytes`` and ``gain``, the log ratio.
        """
        import pandas as pd

        views, sizes = (sorted(rows[name].unique()) for name in ("placement", "nbytes"))
        wide = rows.pivot_table(values="gain", index="replicate", columns=["placement", "nbytes"])
        ordered = wide.reindex(columns=pd.MultiIndex.from_product([views, sizes]))
        log = ordered.to_numpy().reshape(len(wide), len(views), len(sizes))
        return cls(np.array(sizes, dtype=np.int64), log, list(map(str, views)))

    @cached_property
    def _by_view(self) -> list[list[LogMean | None]]:
        views = range(self.log.shape[1])
        return [means_by_size(self.nbytes, self.log[:, view]) for view in views]

    def at(self, size: int, view: int) -> LogMean | None:
        """Mean at one size; None where nothing was repeated there."""
        return self._by_view[view][size]

    def over(self, chosen: Truths) -> list[LogMean]:
        """Mean over some sizes in each view; nothing where fewer than two replicates have it.

        Replicates that lack a size stand at its mean: they say nothing of it.
        """
        about = nan_safe(np.nanmean, self._about[..., chosen], 2)
        is_there = np.isfinite(about).any(1)
        n = int(is_there.sum())
        if n < 2:
            return []
        squares = np.nanmean(about[is_there] ** 2, axis=1).sum()
        variance = max(float(squares) / (n - 1), LEAST**2)
        means = nan_safe(np.nanmean, self.mean[:, chosen], 1)
        se, df = float(np.sqrt(variance / n)), (n - 1) * self._more
        return [LogMean(float(mean), se, df, n) for mean in means if np.isfinite(mean)]

    def least(self, chosen: Truths) -> LogMean | None:
        """Mean over some sizes in the view that gains least: a rule serves every placement."""
        return min(self.over(chosen), key=lambda one: one.log, default=None)

    def pooled(self) -> LogMean | None:
        """Mean over all sizes and views, its spread from replicates within sizes.

        Of two launches alone no mean over sizes has a spread of its own; sizes together have.
        """
        spare = int(np.isfinite(self.log).sum() - np.isfinite(self.mean).sum())
        if spare < 1:
            return None
        variance = max(float(np.nansum(self._about**2)) / spare, LEAST**2)
        n = int(np.isfinite(self.log).sum())
        se = float(np.sqrt(variance / n))
        most = int(np.isfinite(self.log).any(1).sum(0).max())
        return LogMean(float(np.nanmean(self.mean)), se, float(spare), most)


def compare_groups(reference: npt.ArrayLike, other: npt.ArrayLike) -> LogMean | None:
    """log(reference / other) of two independent groups of log times; None below two of either.

    Welch's interval (1947): the groups may differ in spread.

    Args:
        reference: log times, one a replicate.
        other: likewise.
    """
    first, second = (np.asarray(one, dtype=float) for one in (reference, other))
    if min(len(first), len(second)) < 2:
        return None
    return mean_of(first) + mean_of(-second)


def mean_of(group: npt.ArrayLike) -> LogMean:
    """Mean of independent log ratios with the spread of their own (Student, 1908).

    Args:
        group: at least two, one a replicate.
    """
    logs = np.asarray(group, dtype=float)
    n = len(logs)
    variance = max(float(logs.var(ddof=1)), LEAST**2)
    return LogMean(float(logs.mean()), float(np.sqrt(variance / n)), float(n - 1), n)


# Octaves to each side within which sizes of one timing mode may share their spread.
_SHARED_OCTAVES: Final = 1.0
# Chance below which their spreads differ.
_SPREADS_DIFFER: Final = 0.05


def means_by_size(
    nbytes: npt.ArrayLike, log: Array, stated: Array | None = None
) -> list[LogMean | None]:
    """Mean at each size, its spread shared with sizes within an octave where that fits the data.

    A few replicates tell little of their own spread (of four, t is 9). Bartlett's test (1937) says
    whether it differs between the sizes; where it does a size has its own. Sizes of a replicate
    share its mood, so the degrees of freedom are those that the covariances leave (Satterthwaite,
    1946): tr(S)² / tr(S²) times those of one size.

    Args:
        nbytes: of each size, of one timing mode.
        log: by [replicate, size], NaN where a replicate lacks the size.
        stated: standard deviation by size that stands in where one replicate alone has the size.

    Returns:
        None where nothing has the size, or one replicate without a stated spread.
    """
    octave = np.log2(np.asarray(nbytes, dtype=float))
    n = np.isfinite(log).sum(0)
    about = log - nan_safe(np.nanmean, log, 0)
    means: list[LogMean | None] = []
    for at, count in enumerate(n):
        if count < 2:
            means.append(_alone(log[:, at], stated[at]) if stated is not None and count else None)
            continue
        near = np.flatnonzero((np.abs(octave - octave[at]) <= _SHARED_OCTAVES) & (n >= 2))
        if not _spreads_fit(about[:, near]):
            near = np.array([at])
        variance, df = _shared_variance(about[:, near])
        se = float(np.sqrt(max(variance, LEAST**2) / count))
        means.append(LogMean(float(np.nanmean(log[:, at])), se, df, int(count)))
    return means


def _alone(log: Array, stated: float) -> LogMean:
    """The one value of a size, with a spread that is stated."""
    return LogMean(float(np.nanmean(log)), float(stated), float("inf"), 1)


def _spreads_fit(about: Array) -> bool:
    """Whether the columns may have one variance (Bartlett, 1937)."""
    from scipy import special

    spare = np.isfinite(about).sum(0) - 1
    if len(spare) < 2:
        return True
    variances = np.nansum(about**2, axis=0) / spare
    if variances.min() == 0:
        return False
    total = spare.sum()
    pooled = (spare * variances).sum() / total
    statistic = total * np.log(pooled) - (spare * np.log(variances)).sum()
    correction = 1 + ((1 / spare).sum() - 1 / total) / (3 * (len(spare) - 1))
    # scipy.stats.bartlett says the same, in ten times the time.
    return float(special.chdtrc(len(spare) - 1, statistic / correction)) >= _SPREADS_DIFFER


def _shared_variance(about: Array) -> tuple[float, float]:
    """Mean variance of the columns, each around 0 already, and its degrees of freedom."""
    known = np.isfinite(about).astype(float)
    zeroed = np.nan_to_num(about)
    both = np.maximum(known.T @ known - 1, 1)
    covariance = zeroed.T @ zeroed / both
    spare = float(np.diag(both).mean())
    squares = float((covariance**2).sum())
    share = float(np.trace(covariance)) ** 2 / squares if squares else 1.0
    return float(np.trace(covariance)) / about.shape[1], spare * share


def level_of(n: int, level: float = defaults.LEVEL) -> float:
    """Level of each interval, so that all together hold with ``1 - level`` (Šidák, 1967).

    Args:
        n: answers that share the chance of a false one.
        level: that chance.
    """
    return float((1 - level) ** (1 / max(n, 1)))


def is_equal(estimate: LogMean, margin: float, level: float = defaults.LEVEL) -> bool:
    """Whether two one-sided tests show a log ratio within a margin (Schuirmann, 1987)."""
    reach = float(t_quantile(1 - level, estimate.df)) * estimate.se
    return abs(estimate.log) + reach < margin


def more_often(hits: int, of: int, others: int, of_others: int) -> float:
    """Chance to see so many hits more in the first group, were it no different (Fisher, 1922)."""
    from scipy import stats

    table = np.array([[hits, of - hits], [others, of_others - others]])
    return float(stats.fisher_exact(table, "greater").pvalue)
