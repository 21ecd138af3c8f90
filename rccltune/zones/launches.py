"""What launches of one setting differ by: from repeats where there are any, else a stated prior."""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from statistics import fmean, variance
from typing import Final

from rccltune.model import CurvePoint

# Standard deviation of the log time of one launch: two launches of all_reduce differ by 40 % below
# this size in bytes and by 1 to 2 % above (H100, NCCL 2.28.9).
_SMALL: Final = 512 << 10
_SMALL_SPREAD: Final = 0.17
_LARGE_SPREAD: Final = 0.01


def prior_variance(nbytes: int) -> float:
    """Variance of the log time of one launch where no other launch says anything."""
    return (_SMALL_SPREAD if nbytes < _SMALL else _LARGE_SPREAD) ** 2


def by_launch(point: CurvePoint) -> dict[str, float]:
    """Mean log time of each launch; a walk's passes are ``launch.1``, ``launch.2`` …."""
    found: dict[str, list[float]] = {}
    for name, time_us in zip(point.launches, point.launch_times_us, strict=True):
        found.setdefault(name.partition(".")[0], []).append(log(time_us))
    return {name: fmean(logs) for name, logs in found.items()}


def between_launches(points: Iterable[CurvePoint]) -> dict[int, float]:
    """Variance of the log time between launches, by size, where there are several."""
    found = {}
    for point in points:
        centres = list(by_launch(point).values())
        if len(centres) > 1:
            found[point.nbytes] = variance(centres)
    return found
