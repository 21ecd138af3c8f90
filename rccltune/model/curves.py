"""What fitting makes of samples: curves, crossovers, comparisons; and time between sizes.

Collectives cost microseconds at 4 KiB and seconds at 8 GiB, and what matters is relative error;
in log-log a constant time, a time proportional to bytes and any power in between are all straight
lines. Nothing here reaches outside the measured range.

Times differ by 1-4 % from launch to launch; now and then one is half as long again because it hit
something. Everyone who judges repeats leaves the same ones out and asks the same distribution.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import exp, log
from typing import Final

from rccltune.model.schema import Number, Positive, Whole, Word
from rccltune.model.settings import CurveKey, Scale, Setting, Target, View


class Model(Enum):
    """How time depends on size."""

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
        launches: ids of launches, sorted, for the search over launches alone.
        launch_times_us: centre of each, in the order of ``launches``.
        n_left_out: communicators that stalled here and count in none of the numbers above.
    """

    nbytes: Whole
    time_us: Positive
    low_us: Positive
    high_us: Positive
    n_samples: Whole = 1
    n_communicators: Whole = 1
    launches: tuple[Word, ...] = ()
    launch_times_us: tuple[Positive, ...] = ()
    n_left_out: Whole = 0

    @property
    def n_launches(self) -> int:
        """Independent repeats, in the words of the search over launches."""
        return self.n_communicators


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
        n_wrong: samples of this setting, collective and variant with wrong results, in whatever
            view or scale; above 0 it is shown and never chosen.
    """

    key: CurveKey
    points: tuple[CurvePoint, ...]
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


class Evidence(Enum):
    """What stands behind a crossover's interval."""

    BOOTSTRAP = "interval"
    BRACKET = "bracket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """The size from which another setting is faster.

    Attributes:
        low_nbytes: last size at which ``below`` is known to win, or the interval's lower end.
        high_nbytes: first size at which ``above`` wins, or the interval's upper end.
        at_nbytes: where the two curves cross.
    """

    target: Target
    view: View
    below: Setting
    above: Setting
    at_nbytes: Positive
    low_nbytes: Positive
    high_nbytes: Positive
    evidence: Evidence


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRatio:
    """Time of the one over time of the other at one size."""

    nbytes: Whole
    ratio: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Neighbouring sizes at which two ways of measuring differ beyond noise, the same way round.

    Attributes:
        sizes: by rising size, at least one.
        ratio: median over them; above 1 the first way was the slower.
    """

    sizes: tuple[SizeRatio, ...]
    ratio: Number

    @property
    def min_nbytes(self) -> int:
        """Smallest size of the range."""
        return self.sizes[0].nbytes

    @property
    def max_nbytes(self) -> int:
        """Largest size of the range."""
        return self.sizes[-1].nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Our plugin answering nothing beside the baseline.

    Attributes:
        n_sizes: measured both ways, at least one.
        median_ratio: time of idle over time of baseline.
        stretches: where they differ beyond noise and by more than matters; none where they agree.
    """

    target: Target
    view: View
    n_sizes: Whole
    median_ratio: Number
    stretches: tuple[Stretch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """A setting measured in combined launches beside the same setting in launches of its own.

    Attributes:
        n_sizes: measured both ways, at least one.
        median_ratio: time in combined launches over time in separate launches.
        worst: the size at which the ratio is farthest from 1, noise included.
        disagrees: beyond noise, and by more than matters.
        stretches: where they do.
    """

    key: CurveKey
    n_sizes: Whole
    median_ratio: Number
    worst: SizeRatio
    disagrees: bool
    stretches: tuple[Stretch, ...] = ()


# What lies between two measured sizes further apart than this factor is not known.
GAP: Final = 4


def is_gap(low: int, high: int) -> bool:
    """Whether two neighbouring measured sizes are too far apart to know what lies between."""
    return high > GAP * low


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


def crossing(low: float, high: float, below: float, above: float) -> float | None:
    """The size between ``low`` and ``high`` at which a log-ratio of two times becomes zero.

    Args:
        low: a size in bytes.
        high: a larger one.
        below: log(time of one / time of the other) at ``low``.
        above: the same at ``high``.

    Returns:
        None where the ratio has the same sign at both ends (or is zero at both).
    """
    if below == above or below * above > 0:
        return None
    share = below / (below - above)
    return exp((1 - share) * log(low) + share * log(high))


# A repeat this far above the middle one, in logs, hit something that is no everyday noise.
SLOW: Final = log(1.2)
# Below this size in bytes launches of one setting differ by tens of percent, whichever setting
# (two H200 and two H100, NCCL 2.28.9): only what ran in the same launch can be compared.
LAUNCHES_DIFFER: Final = 512 << 10


def limit_of(logs: Iterable[float]) -> float:
    """The largest logarithm of a time that still counts among these; at least one."""
    ordered = sorted(logs)
    return ordered[(len(ordered) - 1) // 2] + SLOW


@cache
def upper_quantile(freedom: float, level: float) -> float:
    """The value that Student's t exceeds with this chance.

    Args:
        freedom: degrees of freedom, above 0.
        level: between 0 and 1.
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - level))
