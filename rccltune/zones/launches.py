"""What launches say of a difference: the launch is the unit, whatever its passes agree in.

Passes of one launch share its connections, buffers and clocks. Where a launch has both sides, as
a combined launch that also answers nothing has, what they share drops out of their ratio, and such
launches alone are held against each other: on two H200 the library alone is 40 % slower in launches
of its own than in a combined launch, below 64 KiB, and no setting is at fault for that. Else each
side has launches of its own. What launches differ by comes from repeats, else it is a stated prior.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from statistics import fmean
from types import MappingProxyType
from typing import Final

from rccltune.model.curves import LAUNCHES_DIFFER, CurvePoint, limit_of
from rccltune.model.measured import PASSES, launch_of_pass

# Standard deviation of the log time of one launch, below LAUNCHES_DIFFER and above. Launches
# of all_reduce, all_gather and reduce_scatter differ by 10 to 28 % below, by 1 to 5 % at 1 MiB and
# by less than 0.5 % from 2 MiB on, those that go through other settings by 1 % (two H100, NCCL
# 2.28.9, six sessions of `rccltune tune`).
_SMALL_SPREAD: Final = 0.17
_LARGE_SPREAD: Final = 0.01
# That of the ratio of two settings in one launch: what a setting and the library that chooses it by
# itself differ by in a walk (examples/h200x2-training-loop and -nccl-2.28.9, 32 B to 1.5 MiB).
_SMALL_PAIR: Final = 0.05
_LARGE_PAIR: Final = 0.01


def prior_variance(nbytes: int, *, paired: bool = False) -> float:
    """Variance that a launch gives where no other launch says anything.

    Args:
        nbytes: size of the calls.
        paired: of the ratio of two settings inside it; else of the log time.
    """
    small, large = (_SMALL_PAIR, _LARGE_PAIR) if paired else (_SMALL_SPREAD, _LARGE_SPREAD)
    return (small if nbytes < LAUNCHES_DIFFER else large) ** 2


Logs = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Passes:
    """Variance of a mean over passes of one launch, and its degrees of freedom; 0 of one pass."""

    variance: float = 0.0
    freedom: float = 0.0

    def __add__(self, other: Passes) -> Passes:
        """Of a difference of two such means."""
        return Passes(self.variance + other.variance, self.freedom + other.freedom)


_NOTHING: Final = Passes()
_UNKNOWN: Final[Mapping[str, Passes]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Difference:
    """Two settings at one size, launch by launch.

    Attributes:
        log: log(time of the second / time of the first).
        paired: the same combined launches have both.
        share: variance of ``log`` in that of one launch; 1/n, or 1/n + 1/m of two sides.
        unit: variance that a launch gives; None where nothing was repeated.
        freedom: degrees of freedom of that.
        passes: one launch's ratio as its passes tell it: a pass is slow or fast at all small sizes
            alike, so that those beside each other say no more than one.
    """

    log: float
    paired: bool
    share: float
    unit: float | None = None
    freedom: int = 0
    passes: Passes = Passes()


def difference(
    ours: Logs,
    theirs: Logs,
    passes: tuple[Mapping[str, Passes], Mapping[str, Passes]] = (_UNKNOWN, _UNKNOWN),
) -> Difference:
    """The second held against the first, in the launches that have both where there are any.

    Args:
        ours: mean log time of each launch, at least of one; see :func:`means`.
        theirs: likewise.
        passes: what those means of either are known with, by launch.
    """
    both = shared(ours, theirs)
    if both:
        logs = [theirs[name] - ours[name] for name in sorted(both)]
        unit = _variance(logs) if len(logs) > 1 else None
        known = [sum((one.get(name, _NOTHING) for one in passes), _NOTHING) for name in both]
        own = Passes(fmean(one.variance for one in known), fmean(one.freedom for one in known))
        return Difference(fmean(logs), True, 1 / len(logs), unit, len(logs) - 1, own)
    sides = [_ordinary(side) for side in (ours, theirs)]
    share = sum(1 / len(side) for side in sides)
    apart = fmean(sides[1]) - fmean(sides[0])
    if min(map(len, sides)) < 2:
        return Difference(apart, False, share)
    freedom = sum(len(side) - 1 for side in sides)
    mean = sum(_variance(side) / len(side) for side in sides)
    return Difference(apart, False, share, mean / share, freedom)


def shared(ours: Logs, theirs: Logs) -> set[str]:
    """Combined launches that have both."""
    return {name for name in ours.keys() & theirs.keys() if name.endswith(PASSES)}


def _ordinary(side: Logs) -> list[float]:
    """Launches that count; the mean of those wastes less of them than a median would."""
    limit = limit_of(side.values())
    kept = [one for one in side.values() if one <= limit]
    return kept if len(kept) > 1 else list(side.values())


def kept_by_launch(point: CurvePoint) -> dict[str, list[float]]:
    """Log times of each launch, of its passes that count.

    The name of a combined launch has the mark of passes behind it: it alone has other settings too.
    What one file names alike, as a table of many runs does, were processes of their own.
    """
    found: dict[str, list[float]] = {}
    names = map(_walk_or_launch, point.launches)
    for name, one in zip(names, map(log, point.launch_times_us), strict=True):
        found.setdefault(name, []).append(one)
    return {name: logs if len(logs) == 1 else _kept(logs) for name, logs in found.items()}


def means(kept: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Mean log time of each launch."""
    return {name: fmean(logs) if len(logs) > 1 else logs[0] for name, logs in kept.items()}


def between_passes(kept: Mapping[str, Sequence[float]]) -> dict[str, Passes]:
    """What that mean is known with, as the passes that count tell it."""
    return {
        name: Passes(_variance(logs) / len(logs), len(logs) - 1) if len(logs) > 1 else _NOTHING
        for name, logs in kept.items()
    }


def _variance(logs: Sequence[float]) -> float:
    """Of two and more; the exact fractions of :mod:`statistics` take thirty times as long."""
    mean = fmean(logs)
    return sum((one - mean) ** 2 for one in logs) / (len(logs) - 1)


# Of thousands of points the same launches made each.
@lru_cache(maxsize=1 << 16)
def _walk_or_launch(name: str) -> str:
    launch = launch_of_pass(name)
    return launch if launch == name else launch + PASSES


def _kept(logs: list[float]) -> list[float]:
    limit = limit_of(logs)
    return [one for one in logs if one <= limit]


def between_launches(points: Iterable[CurvePoint]) -> dict[int, float]:
    """Variance of the log time between launches, by size, where there are several."""
    found = {}
    for point in points:
        centres = list(means(kept_by_launch(point)).values())
        if len(centres) > 1:
            found[point.nbytes] = _variance(centres)
    return found
