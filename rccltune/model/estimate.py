"""The one record of a ratio with its interval, for choice, verification, comparing and job alike.

Intervals are found for choosing by ``analyse/intervals.py``, for all else by
``analyse/paired_intervals.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from rccltune.model.schema import Number, Whole

# Beyond this factor (log) either way nothing is told apart.
_FAR = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A ratio in the mean, with its interval: above 1 what is asked about is the faster one.

    Attributes:
        value: time of the library, or of the job as it is, over that of what is held against it.
        low: lower end of the interval, which holds the true ratio with 95 % where nothing else is
            said.
        high: upper end.
        n: replicates behind it: communicators, starts, pairs of runs.
    """

    value: Number
    low: Number
    high: Number
    n: Whole

    @classmethod
    def of_logs(cls, mean: float, low: float, high: float, n: int) -> Estimate:
        """The ratio of a mean of logarithms, and of the ends of its interval."""
        value, least, most = (exp(max(-_FAR, min(_FAR, one))) for one in (mean, low, high))
        return cls(value=value, low=least, high=most, n=n)

    @property
    def is_faster(self) -> bool:
        """Whether the whole interval lies above 1."""
        return self.low > 1

    @property
    def is_slower(self) -> bool:
        """Whether the whole interval lies below 1."""
        return self.high < 1

    def __str__(self) -> str:
        """``1.20x (1.18 to 1.22)``."""
        return f"{self.value:.2f}x ({self.low:.2f} to {self.high:.2f})"
