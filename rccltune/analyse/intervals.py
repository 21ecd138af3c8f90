"""Intervals of gains for choosing: how much differs by chance, and what may be said.

Verification, comparing and jobs have :mod:`rccltune.analyse.paired_intervals`. Here ``gains.py``
compares each setting with the library (:func:`compare`), and ``zones.py`` writes the gain of a
zone (:func:`mean_interval`).

The unit is the **communicator**: whatever passes of one communicator agree in, they share its
connections, buffers and timing modes. A log read by ``import`` counts as one.

Times are compared as logarithms, so that a ratio is a difference. Where communicators hold both
sides, their ratio inside each counts (a paired t); else the communicators of either side (one-way
analysis of variance). Two or three of them tell little of their own spread, so it is pooled: over
all settings measured there and over the sizes beside, since what communicators differ by is the
machine's and not the setting's (as Dunnett, 1955, and Smyth, 2004, do).

A stated **floor** takes the place of a spread that nothing repeats, and stands beside one that was
measured: so a second communicator never tells less than the first did. It is what one communicator
was seen to differ by:

====================  ====================================  ====================================
timed by              one communicator against another      two settings in one communicator
====================  ====================================  ====================================
graph                 2 %                                   1 %
loop from 512 KiB on  1 %                                   1 %
loop below            2.5 µs a call, at least 3 %           1 µs a call, at least 1 %
====================  ====================================  ====================================

A loop waits for the host at small sizes, whatever is called: 14 µs with a standard deviation of 11
to 17 % on 2 x H100 and 2 x H200 (NCCL 2.28.9; docs/proven.md), 0.5 to 5 % from 1 MiB on.

Arrays are [view, setting, size, communicator] of log times in µs, NaN where nothing was measured.
A *view* is what a tuner cannot see: placement, data type, operation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Truths: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.intp]

# Chance that a table in which no setting gains anything gets a proven rule, and any rule.
PROVEN: Final = 0.005
LIKELY: Final = 0.03
# Size in bytes below which a loop measures how fast the host launches.
SMALL: Final = 512 << 10
# Of intervals that are printed.
INTERVAL: Final = 0.95
# Chance with which a setting that noise makes look slower is kept beside the best.
SURE: Final = 0.99
# Share of rows in which something stood still for a moment (2 x H100, public sweeps of MI355X).
STOOD_STILL: Final = 0.02
# A communicator stalled at a size if it is so many times slower than the others there, and by so
# many floors. By 1.5 alone one of two good communicators would be dropped at small sizes, which
# makes the other one's setting look fast: 12 % of null tables had a rule, 5 % with both.
STALL: Final = 1.5
STALL_FLOORS: Final = 5.4
# A time that nothing repeats stalled if it is so many times what a larger size took, or what a
# smaller one took for each byte. Real curves step by up to 5.
STALL_ALONE: Final = 6.0
# Log ratios that differ by less are equal: logarithms end otherwise on another processor, and times
# of a few digits meet a limit exactly.
SAME: Final = 1e-9
# Nothing is known better than to a thousandth: benchmarks print three or four digits.
LEAST: Final = 1e-3
# What all settings say of one of them, in degrees of freedom.
_COMMON_WEIGHT: Final = 4.0
# A spread beyond this quantile of what the floor allows shows that the floor does not hold.
_FLOOR_HOLDS: Final = 0.99
# A floor above it is the host's.
_NOISY: Final = 0.025
# Degrees of freedom from which on communicators need no floor beside them.
_ENOUGH: Final = 10
# So many communicators may hold one that stood still, and not show it.
_FEW_SEEN: Final = 3
# Sizes that tell how rough rows are.
_FEW: Final = 5


@dataclass(frozen=True)
class SizeAxis:
    """Sizes at which settings are compared.

    Attributes:
        nbytes: rising, in bytes.
        is_graph: whether times there are of replayed graphs.
    """

    nbytes: npt.NDArray[np.int64]
    is_graph: Truths


def floor(time_us: npt.ArrayLike, sizes: SizeAxis, *, paired: bool = False) -> Array:
    """Standard deviation of a log time that is expected before anything was repeated.

    Args:
        time_us: time of a call in µs, by size in the last axis.
        sizes: where.
        paired: of the ratio of two settings in one communicator.
    """
    graph, host_us, least = (0.01, 1.0, 0.01) if paired else (0.02, 2.5, 0.03)
    host = np.maximum(host_us / np.asarray(time_us, dtype=float), least)
    loop = np.where(sizes.nbytes < SMALL, host, 0.01)
    return np.where(sizes.is_graph, graph, loop)


def stall_limit(time_us: npt.ArrayLike, sizes: SizeAxis) -> Array:
    """Log of the factor above other communicators' time from which on a time is a stall."""
    return np.maximum(np.log(STALL), STALL_FLOORS * floor(time_us, sizes))


@dataclass(frozen=True)
class LogRatio:
    """log(time of the reference / time of a setting) by [view, setting, size].

    Attributes:
        log: above 0 where the setting is faster; NaN where one of the two was not measured.
        se: its standard error as communicators tell it, by the floor where nothing was repeated.
        df: degrees of freedom of that, infinite by the floor.
        n: communicators behind it: that have both, or of the side that has fewer.
        spread: standard error without the floor: of communicators where they repeat, else of how
            rough rows are.
        floor_se: its standard error by the floor where few communicators told the other one and
            nothing contradicts the floor, else NaN. Of the two that counts which says more.
    """

    log: Array
    se: Array
    df: Array
    n: Counts
    spread: Array
    floor_se: Array | None = None

    def interval(self, level: float = INTERVAL) -> tuple[Array, Array]:
        """Two-sided confidence interval of the log ratio."""
        half = self._reach((1 + level) / 2)
        return self.log - half, self.log + half

    def slack(self, level: float = SURE) -> Array:
        """Log ratio that noise alone stays below with this chance."""
        half = t_quantile(level, np.where(self.n > 1, self.df, np.inf)) * self.spread
        slack: Array = np.where(np.isnan(self.log), np.nan, half)
        return slack

    def _reach(self, quantile: float) -> Array:
        """What the log ratio is off by at most, with this chance on each side."""
        half_width = t_quantile(quantile, self.df) * self.se
        if self.floor_se is None:
            return half_width
        from scipy import special

        least: Array = np.fmin(half_width, special.ndtri(quantile) * self.floor_se)
        return least

    def _chance(self, apart: Array) -> Array:
        """Chance of a log ratio so far above the true one."""
        by_t = _t_above(apart / self.se, self.df)
        if self.floor_se is None:
            return by_t
        smallest: Array = np.fmin(by_t, _t_above(apart / self.floor_se, np.inf))
        return smallest

    def p_above(self, bound: float = 0.0) -> Array:
        """Chance to look so much faster if it were faster by ``bound`` at most (one-sided t)."""
        return self._chance(self.log - bound)

    def p_equal(self, margin: float) -> Array:
        """Chance to look so alike if the two were ``margin`` or more apart.

        0.05 or less shows that they are equivalent: two one-sided tests (Schuirmann, 1987).
        """
        p: Array = np.maximum(self._chance(self.log + margin), self._chance(margin - self.log))
        return p


@dataclass(frozen=True)
class LogTimes:
    """Log times of some settings.

    Attributes:
        log_us: by [view, setting, size, communicator].
        pass_var: variance of each that its own passes tell, 0 where there was one pass.
    """

    log_us: Array
    pass_var: Array

    @property
    def n(self) -> Counts:
        """Communicators by [view, setting, size]."""
        return _count(self.log_us)

    @property
    def mean(self) -> Array:
        """Mean log time over communicators."""
        return _mean(self.log_us)


def compare(
    reference: LogTimes, settings: LogTimes, sizes: SizeAxis, equivalent: Sequence[str] = ()
) -> LogRatio:
    """How much faster each setting is than the reference.

    Args:
        reference: one setting, or one for each of ``settings``.
        settings: all that were measured beside it: together they tell the spread.
        sizes: those of both.
        equivalent: a name for each setting, equal where settings differ in channels alone. What
            these agree in, communicators do not differ in: it lowers the floor.
    """
    both = reference.log_us - settings.log_us
    is_paired = np.isfinite(both).any(-1)
    n_both, n_ref, n_set = (
        np.maximum(_count(x), 1) for x in (both, reference.log_us, settings.log_us)
    )
    share = np.where(is_paired, 1 / n_both, 1 / n_ref + 1 / n_set)
    n = np.where(is_paired, n_both, np.minimum(n_ref, n_set))
    log = np.where(is_paired, _mean(both), reference.mean - settings.mean)

    # Of the whole size, so that a slow setting has no floor of its own.
    usual_us = np.exp(
        nan_safe(np.nanmedian, np.concatenate([reference.mean, settings.mean], 1), 1)
    )[:, None]
    alone = np.broadcast_to(floor(usual_us, sizes), log.shape) ** 2
    paired = np.broadcast_to(floor(usual_us, sizes, paired=True), log.shape) ** 2
    lowered = np.where(
        n > 1, alone, np.fmin(alone, _spread_of_equivalent(settings.mean, equivalent))
    )
    stated = np.where(is_paired, paired, lowered)
    passes = _mean(np.where(np.isnan(reference.log_us), np.nan, reference.pass_var))
    passes = passes + _mean(np.where(np.isnan(settings.log_us), np.nan, settings.pass_var))
    rough = np.broadcast_to(_roughness(log, usual_us, sizes), log.shape)
    # Passes that differ among themselves tell more of a communicator than the floor does.
    stated = np.fmax(stated, passes)
    stated_var = np.where(n > 1, stated * share, np.fmax(stated * share, rough))

    sides = _squares(reference.log_us), _squares(settings.log_us)
    pairs = _squares(both)
    every = tuple(np.concatenate(each, axis=1) for each in zip(*sides, strict=True))
    pooled = tuple(a + b for a, b in zip(*sides, strict=True))
    spreads = [_spread(pairs, pairs), _spread((every[0], every[1]), (pooled[0], pooled[1]))]
    variance, df = (np.where(is_paired, *each) for each in zip(*spreads, strict=True))
    squares, own_df = (np.where(is_paired, *each) for each in zip(pairs, pooled, strict=True))

    is_told = df >= 1
    # No communicator is known better than its own passes tell.
    data_se = np.sqrt(np.fmax(np.fmax(variance, passes) * share, LEAST**2))
    holds = squares <= stated * _chi2_quantile(_FLOOR_HOLDS, np.maximum(own_df, 1))
    stated_se, at_least_one = np.sqrt(stated_var), np.maximum(df, 1)
    holds &= variance <= stated * _chi2_quantile(_FLOOR_HOLDS, at_least_one) / at_least_one
    return LogRatio(
        log=log,
        se=np.where(is_told, data_se, stated_se),
        df=np.where(is_told, df, np.inf),
        floor_se=np.where(is_told & holds & (df < _ENOUGH), stated_se, np.nan),
        n=n,
        spread=np.where(is_told, data_se, np.sqrt(rough)),
    )


def adjusted_p(ratio: LogRatio, bound: float = 0.0) -> Array:
    """Chance by [setting, size] that something so sure is luck, among all that was looked at.

    A rule serves all views, so the least sure of them counts (intersection-union; Berger, 1982).
    Of all settings and sizes as sure as this one, the share of false ones is no larger (Benjamini
    and Hochberg, 1995); where nothing gains, it is the chance of any. Where the reference was seen
    in one view and few communicators, it may have stood still, unless something is faster at a size
    beside too.
    What was seen once is never proven.
    """
    p = ratio.p_above(bound)
    is_alone = np.isfinite(p).sum(0) == 1
    best = nan_safe(np.nanmin, p, 1)[:, None]
    beside = np.full_like(best, np.inf)
    beside[..., 1:] = best[..., :-1]
    beside[..., :-1] = np.fmin(beside[..., :-1], best[..., 1:])
    p = np.where((ratio.n > _FEW_SEEN) | ~is_alone, p, np.fmax(p, np.fmin(beside, STOOD_STILL)))
    largest = nan_safe(np.nanmax, p, 0)
    known = np.isfinite(largest)
    if known.any():
        largest[known] = _false_discovery(largest[known])
    is_once = ((ratio.n < 2) & np.isfinite(ratio.log)).any(0)
    return np.where(is_once, np.maximum(largest, np.nextafter(PROVEN, 1)), largest)


def mean_interval(ratio: LogRatio, at: Any, level: float = INTERVAL) -> tuple[float, float, float]:  # noqa: ANN401 - an index
    """Low end, mean and high end of the log ratio over some sizes, in the least favourable view.

    Sizes of a communicator share its mood: the error of their mean is the mean of their errors.

    Args:
        ratio: of all.
        at: index of [view, setting, size] that leaves [view, size].
        level: of the interval.
    """
    low, high = ratio.interval(level)
    bounds = [nan_safe(np.nanmean, x[at], 1) for x in (low, ratio.log, high)]
    worst = int(np.nanargmin(bounds[1]))
    return float(bounds[0][worst]), float(bounds[1][worst]), float(bounds[2][worst])


def _spread(pooled: tuple[Array, Array], own: tuple[Array, Array]) -> tuple[Array, Array]:
    """Variance between communicators: of all settings at a size and beside it, or the pair's own.

    Their median: a mean is what the one row in fifty makes it that stood still, and no true gain
    is proven any more. Where the pair's own is larger it counts too, so that one stalled
    communicator of two is never overlooked, held down by what all settings say. A median tells
    about half as much as a mean, and sizes of a communicator share its mood: so half the degrees
    of freedom of the settings at this size.
    """
    squares, df = pooled
    with np.errstate(invalid="ignore", divide="ignore"):
        each = squares / _chi2_quantile(0.5, np.where(df > 0, df, np.nan))
        near = np.full((3, *each.shape), np.nan)
        near[0], near[1, ..., 1:], near[2, ..., :-1] = each, each[..., :-1], each[..., 1:]
        near = np.moveaxis(near, 0, 1).reshape(len(each), -1, each.shape[-1])
        common = nan_safe(np.nanmedian, near, 1)[:, None]
        held = (_COMMON_WEIGHT * common + own[0]) / (_COMMON_WEIGHT + own[1])
    variance = np.fmax(common, held)
    return variance, np.broadcast_to(df.sum(1, keepdims=True) / 2, variance.shape)


def _spread_of_equivalent(log_us: Array, equivalent: Sequence[str]) -> Array:
    """Variance between settings that hardly differ, the least of several groups: [view, 1, size].

    Each has a communicator of its own, so that they differ at least as communicators do.
    """
    least = np.full((log_us.shape[0], 1, log_us.shape[2]), np.nan)
    for name in set(equivalent):
        group = log_us[:, np.array(equivalent) == name]
        variance = nan_safe(np.nanvar, group, 1, ddof=1)
        is_many = np.isfinite(group).sum(1) >= _FEW
        least[:, 0] = np.fmin(least[:, 0], np.where(is_many, variance, np.nan))
    return least


def _squares(values: Array) -> tuple[Array, Array]:
    """Sum of squares around the mean over communicators, and its degrees of freedom."""
    squares = np.nansum((values - _mean(values)[..., None]) ** 2, axis=-1)
    return squares, np.maximum(_count(values) - 1, 0).astype(float)


def _roughness(log: Array, usual_us: Array, sizes: SizeAxis) -> Array:
    """Variance by size of a single row's ratio, as far as it jumps where a true one is smooth.

    From second differences over sizes no further apart than a factor of two (Gasser et al., 1986)
    and from how two views differ, of each the lower quartile, where the floor is large and where
    it is small. Both hold noise and something true besides (bends, changes of protocol), so the
    least of them counts. Few sizes tell nothing.
    """
    is_near = sizes.nbytes[1:] <= 2.1 * sizes.nbytes[:-1]
    jump = np.full_like(log, np.nan)
    inner = log[..., 1:-1] - (log[..., :-2] + log[..., 2:]) / 2
    jump[..., 1:-1] = np.where(is_near[1:] & is_near[:-1], inner, np.nan)
    is_noisy = (floor(usual_us, sizes) > _NOISY).any((0, 1))
    variances = np.zeros(log.shape[-1])
    quarter = float(_chi2_quantile(0.25, 1.0))
    for part in (is_noisy, ~is_noisy):
        squares = [jump[..., part] ** 2 / 1.5, np.diff(log[..., part], axis=0) ** 2 / 2]
        quartiles = [
            float(np.nanquantile(each, 0.25))
            for each in squares
            if np.isfinite(each).any((0, 1)).sum() >= _FEW
        ]
        variances[part] = min(quartiles, default=0.0) / quarter
    return variances


def _count(values: Array) -> Counts:
    counted: Counts = np.isfinite(values).sum(-1)
    return counted


def _mean(values: Array) -> Array:
    n = _count(values)
    mean: Array = np.nansum(values, axis=-1) / np.where(n > 0, n, np.nan)
    return mean


def median(values: Array) -> Array:
    """Median over the last axis, NaN where nothing is: faster than nanmedian where most is NaN."""
    n, ordered = _count(values)[..., None], np.sort(values, axis=-1)
    middle = [np.take_along_axis(ordered, np.maximum(i, 0), -1) for i in ((n - 1) // 2, n // 2)]
    medians: Array = (middle[0] + middle[1])[..., 0] / 2
    return medians


def nan_safe(reduce: Callable[..., Any], values: Array, axis: int, **options: Any) -> Array:  # noqa: ANN401 - as numpy has them
    """Reduce by a nan-function without the warning that a slice was empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        reduced: Array = reduce(values, axis=axis, **options)
        return reduced


# Beyond so many degrees of freedom Student's t is the normal distribution.
_MANY: Final = 1e10


def t_quantile(level: float, df: npt.ArrayLike) -> Array:
    """What Student's t stays below with this chance."""
    from scipy import special

    quantiles: Array = np.asarray(special.stdtrit(np.minimum(df, _MANY), level), dtype=np.float64)
    return quantiles


def _t_above(value: Array, df: npt.ArrayLike) -> Array:
    """Chance that Student's t is above a value."""
    from scipy import special

    shares: Array = special.stdtr(np.minimum(df, _MANY), -value)
    return shares


def _chi2_quantile(level: float, df: npt.ArrayLike) -> Array:
    half = np.asarray(df, dtype=float) / 2
    from scipy import special

    quantiles: Array = np.asarray(2 * special.gammaincinv(half, level), dtype=np.float64)
    return quantiles


def _false_discovery(p: Array) -> Array:
    """Benjamini and Hochberg's adjusted p: the least share of false ones at which each counts."""
    order = np.argsort(p)[::-1]
    rank = np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum.accumulate(np.minimum(p[order] * len(p) / rank, 1.0))
    return adjusted
