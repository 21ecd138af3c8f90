"""Intervals of ratios, from launches: what repeats inside one shares what its start has drawn.

Every launch has a replicate of the same sizes. What both differ by is noise, of the launch and of
its sizes; a mean over sizes counts as many values as there are launches (the clustered variance
of Liang and Zeger, 1986).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, log2, sqrt
from statistics import fmean, median
from typing import Final

from rccltune.model.curves import upper_quantile
from rccltune.model.defaults import LEVEL

# The median of a squared standard normal variable.
_MEDIAN_SQUARE: Final = 0.4549
# A ratio of a thousand stands for an interval without an end.
_FAR: Final = log(1000)
# A variance below which nothing is known so exactly: 0.1 % of a time.
LEAST: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A natural logarithm of a ratio of times, as far as launches tell it.

    Attributes:
        spread: standard error; infinite where nothing tells it.
        freedom: degrees of freedom behind the spread.
        n_launches: that it rests on.
    """

    mean: float
    spread: float
    freedom: float
    n_launches: int = 0

    def low(self, level: float) -> float:
        """What it exceeds, but for this chance."""
        return self.mean - self._reach(level)

    def high(self, level: float) -> float:
        """What it stays below, but for this chance."""
        return self.mean + self._reach(level)

    def _reach(self, level: float) -> float:
        return inf if self.spread == inf else upper_quantile(self.freedom, level) * self.spread

    def after(self, times: float) -> Estimate:
        """What it would be with so many times as many launches that say the same."""
        return replace(self, spread=self.spread / sqrt(times), freedom=self.freedom * times)

    @property
    def ratios(self) -> tuple[float, float, float]:
        """The ratio itself, and the ends of its 95 % interval."""
        low, high = self.low(LEVEL / 2), self.high(LEVEL / 2)
        return exp(self.mean), exp(max(low, -_FAR)), exp(min(high, _FAR))

    def __str__(self) -> str:
        """``1.20x (1.17 to 1.23)``."""
        ratio, low, high = self.ratios
        return f"{ratio:.2f}x ({low:.2f} to {high:.2f})"

    def times(self, other: Estimate) -> Estimate:
        """The logarithm of the product of both ratios."""
        return Estimate(
            mean=self.mean + other.mean,
            spread=sqrt(self.spread**2 + other.spread**2),
            freedom=min(self.freedom, other.freedom),
            n_launches=min(self.n_launches, other.n_launches),
        )

    def slowed(self, by: Estimate | None) -> Estimate:
        """The same of launches in which both sides are slower, as far as is known."""
        return self if by is None else replace(self.times(by), n_launches=self.n_launches)


UNKNOWN: Final = Estimate(mean=0.0, spread=inf, freedom=1.0)


@dataclass(frozen=True, slots=True)
class Value:
    """One launch's value at one size; its share of a mean is that of its launch."""

    nbytes: int
    launch: str
    value: float


def over(values: Sequence[Value], least_variance: float = LEAST) -> Estimate:
    """The mean over the sizes of some values.

    Launches of the same sizes are replicates of one another: what they differ by is noise, and what
    launches of other sizes differ by may be the sizes' own. Gains jump from one size to the next on
    real machines, so no smoothness is taken for granted.

    Args:
        values: of several launches.
        least_variance: of a launch's mean over its sizes, as its control says.

    Returns:
        Without replicates nothing tells the spread.
    """
    by_name: dict[str, dict[int, float]] = {}
    for one in values:
        by_name.setdefault(one.launch, {})[one.nbytes] = one.value
    alike: dict[frozenset[int], list[float]] = {}
    for found in by_name.values():
        alike.setdefault(frozenset(found), []).append(fmean(found.values()))
    if not alike:
        return UNKNOWN
    n_sizes = sum(len(sizes) for sizes in alike)
    shares = [(len(sizes) / n_sizes, means) for sizes, means in alike.items()]
    freedom = sum(len(means) - 1 for means in alike.values())
    squares = sum((mean - fmean(means)) ** 2 for means in alike.values() for mean in means)
    variance = max(LEAST, least_variance, squares / freedom) if freedom else inf
    return Estimate(
        mean=sum(share * fmean(means) for share, means in shares),
        spread=sqrt(variance * sum(share**2 / len(means) for share, means in shares)),
        freedom=max(1, freedom),
        n_launches=len(by_name),
    )


def by_launch(values: Iterable[Value]) -> Estimate:
    """The mean of what launches have over all of their sizes; for differences between launches."""
    found: dict[str, list[float]] = {}
    for one in values:
        found.setdefault(one.launch, []).append(one.value)
    means = [fmean(each) for each in found.values()]
    n = len(means)
    if n < 2:
        return UNKNOWN
    mean = fmean(means)
    variance = max(LEAST, sum((each - mean) ** 2 for each in means) / (n - 1))
    return Estimate(mean=mean, spread=sqrt(variance / n), freedom=n - 1, n_launches=n)


def replicates(values: Iterable[Value]) -> list[tuple[int, float]]:
    """For each value of a size that several launches have, its squared distance from their mean.

    Scaled so that its mean is the variance of one value.
    """
    by_size: dict[int, list[float]] = {}
    for one in values:
        by_size.setdefault(one.nbytes, []).append(one.value)
    return [
        (nbytes, (value - fmean(found)) ** 2 * len(found) / (len(found) - 1))
        for nbytes, found in by_size.items()
        if len(found) > 1
        for value in found
    ]


def usual(squares: Sequence[float]) -> float:
    """The variance behind some squared residuals, a few far ones left out."""
    return median(squares) / _MEDIAN_SQUARE if squares else 0.0


def usual_variance(found: Sequence[float]) -> float:
    """The variance behind some values, a few far ones left out; 0 of fewer than two."""
    if len(found) < 2:
        return 0.0
    middle = median(found)
    return usual([(one - middle) ** 2 for one in found])


def variance_about_mean(found: Sequence[float]) -> float:
    """Of at least two values; 0 of fewer."""
    if len(found) < 2:
        return 0.0
    mean = fmean(found)
    return sum((one - mean) ** 2 for one in found) / (len(found) - 1)


class Around:
    """Values by size, to be asked for those near one.

    Args:
        found: sizes and values, in any order.
    """

    __slots__ = ("_at", "_values")

    def __init__(self, found: Iterable[tuple[int, float]]) -> None:
        """Sort them by size."""
        ordered = sorted(found)
        self._at = [log2(size) for size, _ in ordered]
        self._values = [value for _, value in ordered]

    def near(self, nbytes: int, octaves: float, fewest: int) -> list[float]:
        """Values at sizes within some octaves, and at least so many, the nearest first taken."""
        at = log2(nbytes)
        low = bisect_left(self._at, at - octaves)
        high = bisect_right(self._at, at + octaves)
        while high - low < fewest and high - low < len(self._at):
            to_left = at - self._at[low - 1] if low > 0 else inf
            to_right = self._at[high] - at if high < len(self._at) else inf
            low, high = (low - 1, high) if to_left <= to_right else (low, high + 1)
        return self._values[low:high]
