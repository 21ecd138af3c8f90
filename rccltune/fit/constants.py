"""Constants of RCCL's model that would make it predict what was measured.

Of RCCL's time, latency + nBytes / bandwidth (2.28.3 ``src/graph/tuning.cc``), ``hwLatencies``
counts once for each step and ``bwRatio`` divides all that grows with the size. The library's own
table shows both parts, so changes can be fitted without knowing which of its models a machine got:
measured = latency + steps x added + rest / ratio, a line in two unknowns for each cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rccltune.fit.models import rccl_steps
from rccltune.model import (
    Algorithm,
    Belief,
    CellChange,
    Collective,
    Curve,
    Foreseen,
    Protocol,
    Setting,
    Target,
)

Cell = tuple[Algorithm, Protocol]
Ground = tuple[Target, Sequence[Belief], Sequence[Curve]]
# Broadcast and reduce count steps by a property of the rings that no table shows.
_COUNTED: Final = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
# Latency before the first step (baseLat of the same file); only what is above it can be taken off.
_BASE_US: Final = {Protocol.LL: 12.0, Protocol.LL128: 12.0, Protocol.SIMPLE: 17.0}
# From here on the part that grows with the size is no longer small beside the latency.
_SMALL: Final = 4096
_LEAST: Final = 4
_RATIOS: Final = (1e-3, 1e3)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """One cell at one size, µs: the model's two parts, and what was measured."""

    steps: int
    latency_us: float
    rest_us: float
    measured_us: float

    def relative(self, added_us: float, ratio: float) -> float:
        """Model / measured - 1 with a change."""
        told = self.latency_us + self.steps * added_us + self.rest_us / ratio
        return told / self.measured_us - 1.0


def fit_constants(grounds: Iterable[Ground]) -> tuple[CellChange, ...]:
    """The change of each cell that was measured at enough sizes on one node, and is mended by it.

    Args:
        grounds: (target, the library's table by size, curves of one view).
    """
    points: dict[Cell, list[_Point]] = {}
    for target, beliefs, curves in grounds:
        if target.scale.n_nodes == 1 and target.collective in _COUNTED:
            _gather(points, target, beliefs, curves)
    fitted = (
        _fitted(cell, found)
        for cell, found in sorted(points.items(), key=lambda one: (one[0][0].index, str(one[0][1])))
        if len(found) >= _LEAST and any(point.rest_us > 0 for point in found)
    )
    return tuple(one for one in fitted if one.error_after < one.error_before)


def _gather(
    points: dict[Cell, list[_Point]],
    target: Target,
    beliefs: Sequence[Belief],
    curves: Sequence[Curve],
) -> None:
    latencies = _latencies(beliefs)
    measured = measured_times(curves)
    for belief in beliefs:
        for setting, told_us in belief.offered:
            cell = _cell(setting)
            time_us = measured.get((setting, belief.nbytes))
            if cell is None or told_us is None or time_us is None or cell not in latencies:
                continue
            steps = rccl_steps(target.collective, cell[0], target.scale)
            if steps:
                points.setdefault(cell, []).append(
                    _Point(
                        steps=steps,
                        latency_us=latencies[cell],
                        rest_us=max(told_us - latencies[cell], 0.0),
                        measured_us=time_us,
                    )
                )


def _cell(setting: Setting) -> Cell | None:
    if setting.algorithm is None or setting.protocol is None:
        return None
    return setting.algorithm, setting.protocol


def _latencies(beliefs: Sequence[Belief]) -> dict[Cell, float]:
    """The model's time of each cell at the smallest sizes, where nothing else counts."""
    found: dict[Cell, float] = {}
    for belief in sorted(beliefs, key=lambda one: one.nbytes):
        for setting, told_us in belief.offered:
            cell = _cell(setting)
            if cell is not None and told_us is not None and belief.nbytes <= _SMALL:
                found.setdefault(cell, told_us)
    return found


def measured_times(curves: Iterable[Curve]) -> dict[tuple[Setting, int], float]:
    """Measured µs by setting, with the library's own channels, and size."""
    return {
        (curve.key.setting, point.nbytes): point.time_us
        for curve in curves
        if curve.key.setting.channels is None and not curve.n_wrong
        for point in curve.points
    }


def _fitted(cell: Cell, points: Sequence[_Point]) -> CellChange:
    from scipy.optimize import lsq_linear

    times = np.array([point.measured_us for point in points])
    rows = np.array([(point.steps, point.rest_us) for point in points]) / times[:, None]
    wanted = 1.0 - np.array([point.latency_us for point in points]) / times
    # A hop cannot take less than nothing.
    least = -min((p.latency_us - _BASE_US[cell[1]]) / p.steps for p in points)
    bounds = ([min(least, 0.0), 1 / _RATIOS[1]], [np.inf, 1 / _RATIOS[0]])
    added_us, inverse = lsq_linear(rows, wanted, bounds=bounds).x
    ratio = 1.0 / float(inverse)
    return CellChange(
        algorithm=cell[0],
        protocol=cell[1],
        latency_us=float(added_us),
        ratio=ratio,
        n_sizes=len(points),
        error_before=_error(points, 0.0, 1.0),
        error_after=_error(points, float(added_us), ratio),
    )


def _error(points: Sequence[_Point], added_us: float, ratio: float) -> float:
    return float(np.median([abs(point.relative(added_us, ratio)) for point in points]))


def foresee(grounds: Iterable[Ground], changes: Sequence[CellChange]) -> tuple[Foreseen, ...]:
    """What the library's table would choose with the changes, where both choices were measured."""
    by_cell = {(one.algorithm, one.protocol): one for one in changes}
    found = []
    for target, beliefs, curves in grounds:
        latencies, measured = _latencies(beliefs), measured_times(curves)
        for belief in beliefs:
            times = _changed(target, belief, latencies, by_cell)
            if belief.choice is None or not times or belief.choice not in times:
                continue
            then = min(times, key=lambda one: times[one])
            known = {one: measured.get((one, belief.nbytes)) for one in times}
            now_us, then_us = known[belief.choice], known[then]
            if now_us is not None and then_us is not None:
                found.append(
                    Foreseen(
                        target=target,
                        nbytes=belief.nbytes,
                        now=belief.choice,
                        then=then,
                        now_us=now_us,
                        then_us=then_us,
                        best_us=min(time for time in known.values() if time is not None),
                    )
                )
    return tuple(found)


def _changed(
    target: Target,
    belief: Belief,
    latencies: Mapping[Cell, float],
    changes: Mapping[Cell, CellChange],
) -> dict[Setting, float]:
    """The table of one size with the changes, in the order in which equals win."""
    times = {}
    for setting, told_us in belief.offered:
        cell = _cell(setting)
        if cell is None or told_us is None:
            continue
        change = changes.get(cell)
        steps = rccl_steps(target.collective, cell[0], target.scale)
        if change is None or not steps or cell not in latencies:
            times[setting] = told_us
            continue
        rest_us = max(told_us - latencies[cell], 0.0)
        times[setting] = latencies[cell] + steps * change.latency_us + rest_us / change.ratio
    return times
