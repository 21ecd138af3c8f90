"""Whether two ways of measuring one curve gave the same times, noise allowed for.

What makes equal curves differ: each row's own noise; launches that are slow or fast as a whole
(1-4 %); and rare rows that took half as long again. So:

* A row's noise comes from the repeats of both sides, pooled over the neighbouring sizes, since
  two or three repeats tell little about their own spread (the moderated t of Smyth, 2004).
* The passes of a combined launch repeat rows, but they share one launch, whose own factor no pass
  shows. A factor common to all sizes is therefore taken off as far as launches are known to differ:
  from launches of this session, held down by what is usual.
* A difference rarely ends at one size, so means over 1, 2, 4, 8 … neighbouring sizes are asked
  too. The chance of a false alarm is shared out over all these questions (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, log, log1p, sqrt
from statistics import fmean, median

import numpy as np

from rccltune.analyse.lines import Array
from rccltune.model.curves import SizeRatio, Stretch, limit_of, upper_quantile
from rccltune.model.measured import launch_of_pass

# Times in µs by size and launch, as the gathered samples of one curve have them.
Side = Mapping[int, Mapping[str, float]]
# Chance of one false alarm in a whole session.
LEVEL = 0.04
# The same for a size among others that surely differ, a question asked only there.
BESIDE = 0.05
# Smaller differences are of no consequence, however sure.
RELEVANT = 0.02
# What launches of one setting usually differ by as a whole, and what that is worth beside those
# of the session, in degrees of freedom.
_LAUNCH_SPREAD = 0.015
_LAUNCH_WEIGHT = 4.0
# A common factor is believed to be a launch's up to this many standard deviations.
_COMMON_REACH = 2.5
# Weight of the neighbouring sizes' spread, in degrees of freedom, and neighbours on each side.
_ROW_WEIGHT = 6.0
_REACH = 3
_FEW_SIZES = 3
# Benchmarks print three or four digits.
_LEAST_ROW_SPREAD = 0.002
# For the common factor: share of sizes that may differ, spread evenly over a factor of e.
_DIFFERING = 0.2
_GRID = 81


@dataclass(frozen=True, slots=True)
class Noise:
    """How much equal things differ in a session.

    Attributes:
        row: variance of the logarithm of one time; None where nothing was repeated.
        launch: variance of the factor that a launch has on all its times.
    """

    row: float | None
    launch: float


@dataclass(frozen=True, slots=True)
class Compared:
    """Two sides at their common sizes.

    Attributes:
        sizes: rising.
        logs: log(time of the first / time of the second).
        differs: beyond noise, and by more than matters.
    """

    sizes: tuple[int, ...]
    logs: tuple[float, ...]
    differs: tuple[bool, ...]

    @property
    def median_ratio(self) -> float:
        """Over all sizes."""
        return exp(median(self.logs))

    @property
    def worst(self) -> SizeRatio:
        """The size at which the ratio is farthest from 1."""
        index = max(range(len(self.logs)), key=lambda i: abs(self.logs[i]))
        return SizeRatio(nbytes=self.sizes[index], ratio=exp(self.logs[index]))

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """Neighbouring sizes that differ the same way round."""
        ways = [d * (1 if x > 0 else -1) for d, x in zip(self.differs, self.logs, strict=True)]
        runs = [(way, list(run)) for way, run in groupby(range(len(ways)), key=ways.__getitem__)]
        return tuple(self._stretch(run) for way, run in runs if way)

    def _stretch(self, run: Sequence[int]) -> Stretch:
        return Stretch(
            sizes=tuple(SizeRatio(nbytes=self.sizes[i], ratio=exp(self.logs[i])) for i in run),
            ratio=exp(median(self.logs[i] for i in run)),
        )


@dataclass(slots=True)
class _Row:
    """One side at one size: what of it counts, in logs, by launch."""

    logs: dict[str, float]

    @property
    def centre(self) -> float:
        return fmean(self.logs.values())


def _rows(side: Side) -> dict[int, _Row]:
    """Without repeats that hit something."""
    made: dict[int, _Row] = {}
    for nbytes, times in side.items():
        logs = {launch: log(time) for launch, time in times.items()}
        limit = limit_of(logs.values())
        made[nbytes] = _Row({launch: x for launch, x in logs.items() if x <= limit})
    return made


def _factors(rows: Mapping[int, _Row]) -> dict[str, float]:
    """What each repeat has in common over the sizes, in logs, about 0."""
    found: dict[str, list[float]] = {}
    for row in rows.values():
        if len(row.logs) > 1:
            centre = row.centre
            for launch, x in row.logs.items():
                found.setdefault(launch, []).append(x - centre)
    return {launch: median(deviations) for launch, deviations in found.items()}


def _squares(rows: Mapping[int, _Row]) -> dict[int, tuple[float, int]]:
    """Sum of squares about the centre and its degrees of freedom, by size."""
    factors = _factors(rows)
    made: dict[int, tuple[float, int]] = {}
    for nbytes, row in rows.items():
        rest = [x - factors.get(launch, 0.0) for launch, x in row.logs.items()]
        middle = fmean(rest)
        made[nbytes] = (sum((x - middle) ** 2 for x in rest), len(rest) - 1)
    return made


def noise_of(sides: Iterable[Side]) -> Noise:
    """How much repeats of one curve differ in a session."""
    own: list[tuple[float, int]] = []
    spreads: dict[frozenset[str], list[tuple[float, int]]] = {}
    for side in sides:
        rows = _rows(side)
        own += [(total / n, n) for total, n in _squares(rows).values() if n]
        by_launch: dict[str, list[float]] = {}
        for name, factor in _factors(rows).items():
            by_launch.setdefault(launch_of_pass(name), []).append(factor)
        means = [fmean(several) for several in by_launch.values()]
        if len(means) > 1:
            middle = fmean(means)
            spread = sum((x - middle) ** 2 for x in means)
            # In place and out of place come from the same launches: they tell it only once.
            spreads.setdefault(frozenset(by_launch), []).append((spread, len(means) - 1))
    total = _LAUNCH_WEIGHT * _LAUNCH_SPREAD**2 + sum(
        fmean(spread for spread, _ in several) for several in spreads.values()
    )
    freedom = _LAUNCH_WEIGHT + sum(several[0][1] for several in spreads.values())
    return Noise(row=_usual(own) if own else None, launch=total / freedom)


def _usual(own: Sequence[tuple[float, int]]) -> float:
    """Pooled over sizes; the median of few squares lies below their mean (Wilson, Hilferty)."""
    freedom = median(n for _, n in own)
    middle = median(variance for variance, _ in own)
    return float(max(middle / (1 - 2 / (9 * freedom)) ** 3, _LEAST_ROW_SPREAD**2))


def compare(pairs: Sequence[tuple[Side, Side]], noise: Noise) -> list[Compared | None]:
    """Compare all pairs of a session; together they give a false alarm at ``LEVEL``.

    Returns:
        None for a pair without a common size, or where nothing in the session was repeated.
    """
    laid = [_lay(first, second, noise) for first, second in pairs]
    n_questions = sum(len(list(_windows(len(one.sizes)))) for one in laid if one is not None)
    return [None if one is None else one.judged(LEVEL / n_questions) for one in laid]


def _windows(n_sizes: int) -> Iterator[range]:
    """Runs of 1, 2, 4 … neighbouring sizes, and all of them."""
    length = 1
    while length < n_sizes:
        for start in range(n_sizes - length + 1):
            yield range(start, start + length)
        length *= 2
    yield range(n_sizes)


@dataclass(frozen=True, slots=True)
class _Laid:
    """A pair ready to be judged.

    Attributes:
        logs: log-ratio as measured.
        calm: the same, single repeats held down by their neighbours.
        variances: of each log-ratio, without what is common to all sizes.
        freedoms: of the repeats at each size.
        common: variance of what is common to all sizes.
    """

    sizes: tuple[int, ...]
    logs: tuple[float, ...]
    calm: Array
    variances: Array
    freedoms: tuple[int, ...]
    common: float

    def judged(self, level: float) -> Compared:
        """Differences at each size, at this chance of a false yes in each window."""
        shift, spread = self._shift()
        found = list(self._sure(level, shift, spread))
        if any(not _matters(raw, shift) for _, raw in found):
            # Some sizes agree as they are and not with the rest: then no launch is slow as a
            # whole, the rest is.
            shift = 0.0
            found = list(self._sure(level, shift, spread))
        if abs(shift) >= self._reach:
            # More than launches explain: then they explain none of it.
            shift = 0.0
        differs = [False] * len(self.sizes)
        for window, raw in found:
            if _matters(raw, shift):
                self._mark(differs, window, raw, shift)
        return Compared(self.sizes, self.logs, tuple(differs))

    def _sure(self, level: float, shift: float, spread: float) -> Iterator[tuple[range, float]]:
        """Windows whose mean is not the common factor, with it."""
        for window in _windows(len(self.sizes)):
            part = slice(window.start, window.stop)
            raw = float(self.calm[part].mean())
            variance = float(self.variances[part].sum()) / len(window) ** 2 + spread
            freedom = _ROW_WEIGHT + sum(self.freedoms[part])
            if abs(raw - shift) > upper_quantile(freedom, level / 2) * sqrt(variance):
                yield window, raw

    def _mark(self, differs: list[bool], window: range, raw: float, shift: float) -> None:
        """The sizes of a window that differ by themselves too, if less surely; its ends may not."""
        least = max(log1p(RELEVANT), abs(raw) / 2)
        for i in window:
            own = min((self.logs[i], float(self.calm[i])), key=abs)
            limit = upper_quantile(_ROW_WEIGHT + self.freedoms[i], BESIDE) * sqrt(self.variances[i])
            sure = (own - shift) * raw > 0 and abs(own - shift) > limit
            differs[i] |= sure and own * raw > 0 and abs(own) > least

    @property
    def _reach(self) -> float:
        return _COMMON_REACH * sqrt(self.common)

    def _shift(self) -> tuple[float, float]:
        """What all sizes have in common and launches explain, with its variance.

        The likeliest factor if a launch's is normal and most sizes agree but for it. A median
        would do where few sizes differ; where half of them do, this still finds the half that
        agrees.
        """
        grid = np.linspace(-self._reach, self._reach, _GRID)
        off = self.calm[None, :] - grid[:, None]
        spread = self.variances[None, :]
        agreeing = np.exp(-(off**2) / (2 * spread)) / np.sqrt(2 * np.pi * spread)
        agreeing *= 1 - _DIFFERING
        support = np.log(agreeing + _DIFFERING).sum(axis=1) - grid**2 / (2 * self.common)
        best = int(np.argmax(support))
        weights = agreeing[best] / (agreeing[best] + _DIFFERING)
        known = 1 / self.common + float((weights / self.variances).sum())
        return float(grid[best]), 1 / known


def _matters(raw: float, shift: float) -> bool:
    """Whether a mean is farther from 0 than the common factor, and far enough."""
    return (raw - shift) * raw > 0 and abs(raw) > log1p(RELEVANT)


def _lay(first: Side, second: Side, noise: Noise) -> _Laid | None:
    sides = (_rows(first), _rows(second))
    sizes = sorted(sides[0].keys() & sides[1].keys())
    squares = [_squares(rows) for rows in sides]
    freedoms = tuple(squares[0][n][1] + squares[1][n][1] for n in sizes)
    totals = [squares[0][n][0] + squares[1][n][0] for n in sizes]
    usual = [_around(index, totals, freedoms, noise.row) for index in range(len(sizes))]
    if not sizes or any(variance is None for variance in usual):
        return None
    logs = [sides[0][n].centre - sides[1][n].centre for n in sizes]
    counts = [[len(rows[n].logs) for rows in sides] for n in sizes]
    variances = [
        (_ROW_WEIGHT * (known or 0.0) + total) / (_ROW_WEIGHT + freedom) * sum(1 / n for n in count)
        for known, total, freedom, count in zip(usual, totals, freedoms, counts, strict=True)
    ]
    return _Laid(
        sizes=tuple(sizes),
        logs=tuple(logs),
        calm=np.array(_calmed(logs, [min(count) for count in counts])),
        variances=np.array(variances),
        freedoms=freedoms,
        common=sum(_common(rows, noise) for rows in sides),
    )


def _around(
    index: int, totals: Sequence[float], freedoms: Sequence[int], session: float | None
) -> float | None:
    """Variance of one time, from the repeats of the sizes around; the session's where too few."""
    near = range(max(0, index - _REACH), min(len(totals), index + _REACH + 1))
    own = [(totals[i] / freedoms[i], freedoms[i]) for i in near if freedoms[i]]
    return _usual(own) if len(own) >= _FEW_SIZES else session


def _calmed(logs: Sequence[float], n_repeats: Sequence[int]) -> list[float]:
    """Where one row stands alone, no more than its neighbours allow: one in fifty is far off."""
    if len(logs) < _FEW_SIZES:
        return list(logs)
    return [
        x if n > 1 else median(logs[i] for i in _neighbours(at, len(logs)))
        for at, (x, n) in enumerate(zip(logs, n_repeats, strict=True))
    ]


def _neighbours(at: int, n_sizes: int) -> range:
    start = min(max(0, at - 1), n_sizes - 3)
    return range(start, start + 3)


def _common(rows: Mapping[int, _Row], noise: Noise) -> float:
    """Variance of what all sizes of a side have in common."""
    names = {launch for row in rows.values() for launch in row.logs}
    n_launches = len({launch_of_pass(name) for name in names})
    variance = noise.launch / n_launches
    factors = list(_factors(rows).values())
    if len(names) > n_launches and len(factors) > 1:
        middle = fmean(factors)
        spread = sum((x - middle) ** 2 for x in factors) / (len(factors) - 1)
        variance += spread / len(factors)
    return variance
