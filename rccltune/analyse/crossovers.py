"""Crossovers: sizes where the fastest setting changes, from the times that zones are chosen by.

The library as it is stands among the settings: where nothing beats it by more than the tolerance
it is the fastest. A rule ends beside the library where it still gains what is wanted, which is
before the times meet.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rccltune.analyse import intervals
from rccltune.analyse.candidates import Candidates
from rccltune.analyse.intervals import LogTimes
from rccltune.analyse.segmentation import NONE, fewest_zones, size_where_equal
from rccltune.model import defaults
from rccltune.model.curves import GAP, Crossover, CrossoverEvidence
from rccltune.model.settings import BASELINE, View
from rccltune.model.vocabulary import Placement


def crossovers(
    candidates: Candidates, tolerance: float = defaults.TOLERANCE
) -> tuple[Crossover, ...]:
    """Crossovers of a target, by view, then by size.

    The interval of a change reaches from the sizes beside it as far as the two settings cannot be
    told apart (95 %).

    Args:
        candidates: candidates of the target, with their times.
        tolerance: time over the best, minus 1, that makes no change.
    """
    return tuple(_crossovers(candidates, tolerance))


def _crossovers(candidates: Candidates, tolerance: float) -> Iterable[Crossover]:
    gains = candidates.gains
    names = [*gains.settings, *([BASELINE] if gains.library is not None else [])]
    sides = [candidates.grid.of(row) for row in gains.rows]
    if gains.library is not None:
        sides.append(gains.library)
    for view, described in enumerate(candidates.grid.views):
        for last, before, after in _changes(candidates, view, tolerance):
            low, high = _apart(candidates, view, last, sides[before], sides[after])
            nbytes = candidates.grid.nbytes
            repeated = min(side.n[view, 0, last] for side in (sides[before], sides[after])) > 1
            yield Crossover(
                target=candidates.target,
                view=_view(described),
                below=names[before],
                above=names[after],
                at_nbytes=_meeting(candidates, view, last, before, after),
                low_nbytes=int(nbytes[low]),
                high_nbytes=int(nbytes[high]),
                evidence=CrossoverEvidence.BOOTSTRAP if repeated else CrossoverEvidence.BRACKET,
            )


def _changes(candidates: Candidates, view: int, tolerance: float) -> Iterable[tuple[int, int, int]]:
    """Index of the last size before each change, and the settings before and after it."""
    times, nbytes = candidates.gains.times[view], candidates.grid.nbytes
    if len(times) < 2:
        return
    loss = times - intervals.nan_safe(np.nanmin, times, 0)
    loss = np.where(
        np.nan_to_num(loss, nan=np.inf) <= np.log1p(tolerance) + intervals.SAME, loss, np.inf
    )
    if candidates.gains.library is not None:
        # What does not beat it by more than the tolerance is not said to be faster.
        loss[-1] = np.where(np.isfinite(loss[-1]), 0.0, np.inf)
    is_measured = np.isfinite(loss).any(0)
    none = np.where(is_measured, np.inf, 0.0)
    states = fewest_zones(loss, np.isfinite(loss), none)
    for last in np.flatnonzero(np.diff(states)):
        before, after = int(states[last]), int(states[last + 1])
        if NONE not in (before, after) and nbytes[last + 1] <= GAP * nbytes[last]:
            yield int(last), before, after


def _meeting(candidates: Candidates, view: int, last: int, before: int, after: int) -> int:
    """Size at which the times of two settings meet, in the mean of all views, as a rule ends.

    A view's own where the others change elsewhere, so that their mean does not cross there.
    """
    times, nbytes = candidates.gains.times, candidates.grid.nbytes[last : last + 2]
    beside = (times[:, before] - times[:, after])[:, last : last + 2]
    mean = intervals.nan_safe(np.nanmean, times, 0)
    difference = (mean[before] - mean[after])[last : last + 2]
    return size_where_equal(
        nbytes, difference if difference[0] * difference[1] < 0 else beside[view]
    )


def _apart(
    candidates: Candidates, view: int, last: int, one: LogTimes, other: LogTimes
) -> tuple[int, int]:
    """Indices of the sizes between which the two cannot be told apart, the change inside."""
    low, high = intervals.compare(one, other, candidates.grid.sizes).interval()
    is_open = ~((low[view, 0] > 0) | (high[view, 0] < 0))
    first, end = last, last + 1
    while first > 0 and is_open[first]:
        first -= 1
    while end < len(is_open) - 1 and is_open[end]:
        end += 1
    return first, end


def _view(described: tuple[str, ...]) -> View:
    dtype, op, placement = described
    return View(dtype=dtype or None, op=op or None, placement=Placement(placement), graph=None)
