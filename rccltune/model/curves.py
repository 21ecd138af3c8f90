"""Records of a fit: curves and crossovers; and time between sizes.

Collectives cost microseconds at 4 KiB and seconds at 8 GiB, and what matters is relative error;
in log-log a constant time, a time proportional to bytes and any power in between are all straight
lines. Nothing here reaches outside the measured range.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import exp, log
from typing import Annotated, Final

from annotated_types import MinLen

from rccltune.model.schema import FromOne, Number, Positive, Whole
from rccltune.model.settings import CurveKey, Scale, Setting, Target, View


class Model(Enum):
    """Model of time against size."""

    LINEAR = "linear"
    SEGMENTED = "segmented"
    LOGLOG = "log-log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """time = latency_us + nbytes * us_per_byte for min_nbytes <= nbytes <= max_nbytes."""

    min_nbytes: Whole
    max_nbytes: Whole
    latency_us: Number
    us_per_byte: Number

    def predict(self, nbytes: float) -> float:
        """Time in µs, whatever the size."""
        return self.latency_us + nbytes * self.us_per_byte


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """All samples of one curve at one size.

    Attributes:
        time_us: median over communicators of the medians over the passes of each.
        low_us: least of these medians (equal to time_us where there is one).
        high_us: largest of them.
        n_samples: passes of all of them.
        n_communicators: the only repeats that count as independent; a log that was imported is one.
        n_left_out: communicators that stalled here and count in none of the numbers above.
        timing: ``graph`` or ``loop``; empty where a log does not say it.
    """

    nbytes: Whole
    time_us: Positive
    low_us: Positive
    high_us: Positive
    n_samples: Whole = 1
    n_communicators: Whole = 1
    n_left_out: Whole = 0
    timing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One model fitted to one curve.

    Attributes:
        segments: one for LINEAR, several for SEGMENTED, none for LOGLOG (its points are the
            model).
        residuals: (fitted - measured) / measured at each point of the curve.
        held_out_error: mean absolute relative error at inner sizes left out one at a time, None
            from too few sizes.
        held_out_worst: the largest of those errors.
    """

    model: Model
    segments: tuple[Segment, ...]
    residuals: tuple[Number, ...]
    held_out_error: Number | None
    held_out_worst: Number | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A time model of one setting, valid from its smallest to its largest measured size.

    Attributes:
        points: by rising size, at least one.
        fits: every model tried, in the order of Model.
        chosen: the model with the least held-out error.
        n_wrong: samples of this setting and collective with wrong results, in whatever
            view or scale; above 0 it is shown and never chosen.
    """

    key: CurveKey
    points: Annotated[tuple[CurvePoint, ...], MinLen(1)]
    fits: tuple[Fit, ...]
    chosen: Model
    n_wrong: Whole = 0

    @property
    def min_nbytes(self) -> int:
        """Smallest measured size."""
        return self.points[0].nbytes

    @property
    def max_nbytes(self) -> int:
        """Largest measured size."""
        return self.points[-1].nbytes

    def fit(self, model: Model) -> Fit | None:
        """The fit of one model, None where the curve has too few points for it."""
        return next((fit for fit in self.fits if fit.model is model), None)


class CrossoverEvidence(Enum):
    """Evidence behind a crossover's interval."""

    BOOTSTRAP = "interval"
    BRACKET = "bracket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """The size from which another setting is faster.

    Attributes:
        low_nbytes: last size at which ``below`` is known to win, or the interval's lower end.
        high_nbytes: first size at which ``above`` wins, or the interval's upper end.
        at_nbytes: where their times meet, in the mean of all views that change there.
    """

    target: Target
    view: View
    below: Setting
    above: Setting
    at_nbytes: FromOne
    low_nbytes: FromOne
    high_nbytes: FromOne
    evidence: CrossoverEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """Latency of one setting split into a fixed part and a part per step, over several scales.

    Attributes:
        scales: by rising number of ranks, at least two with different step counts.
        latencies_us: latency of the straight line at each scale.
        steps: sequential steps as RCCL's own model counts them, at each scale.
        blog_steps: as AMD's article on CPX counts them (ring 2n-1, tree 2 log2 n), shown beside.
        base_us: part that does not grow with the steps.
        per_step_us: time of one step, by RCCL's count.
        blog_per_step_us: the same latencies over the article's count, None where it has none.
    """

    target: Target
    view: View
    setting: Setting
    scales: tuple[Scale, ...]
    latencies_us: tuple[Number, ...]
    steps: tuple[Whole, ...]
    blog_steps: tuple[Whole | None, ...]
    base_us: Number
    per_step_us: Number
    blog_per_step_us: Number | None = None


# What lies between two measured sizes further apart than this factor is not known.
GAP: Final = 4


def time_at(sizes: Sequence[float], times: Sequence[float], nbytes: float) -> float | None:
    """Interpolated time in µs.

    Args:
        sizes: rising, in bytes, above 0.
        times: in µs, above 0, one for each size.
        nbytes: where.

    Returns:
        None outside the range of ``sizes``.
    """
    if not sizes or not sizes[0] <= nbytes <= sizes[-1]:
        return None
    right = bisect_left(sizes, nbytes)
    if sizes[right] == nbytes:
        return times[right]
    low, high = sizes[right - 1], sizes[right]
    share = log(nbytes / low) / log(high / low)
    return exp((1 - share) * log(times[right - 1]) + share * log(times[right]))
