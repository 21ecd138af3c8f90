"""Times of all settings of one target, side by side on one grid of sizes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import expm1, log

from rccltune.model.curves import Curve, CurvePoint, is_gap, limit_of, time_at
from rccltune.model.settings import View
from rccltune.zones.arms import Arm, ChoiceOptions, Group
from rccltune.zones.launches import (
    Difference,
    Logs,
    Passes,
    between_passes,
    difference,
    kept_by_launch,
    means,
)

INF = float("inf")


@dataclass(frozen=True, slots=True)
class Repeats:
    """Launches and passes of one setting at one size, in logs.

    Attributes:
        centre: mean of log(time in µs) without slow ones.
        variance: of that mean.
        freedom: those that count, less one.
    """

    centre: float
    variance: float
    freedom: int


def _repeats(point: CurvePoint) -> Repeats | None:
    logs = sorted(log(time) for time in point.launch_times_us)
    if len(logs) < 2:
        return None
    # The mean of those that count wastes less of them than a median would.
    limit = limit_of(logs)
    ordinary = [x for x in logs if x <= limit]
    kept = ordinary if len(ordinary) >= 2 else logs
    n = len(kept)
    mean = sum(kept) / n
    return Repeats(mean, sum((x - mean) ** 2 for x in kept) / (n - 1) / n, n - 1)


class Line:
    """One curve: measured points by size, interpolated times between them."""

    def __init__(self, curve: Curve) -> None:
        """Keep the curve's points in the forms that are asked for."""
        self.points: dict[int, CurvePoint] = {p.nbytes: p for p in curve.points}
        self._sizes = [p.nbytes for p in curve.points]
        self._times = [p.time_us for p in curve.points]
        self.repeats = {p.nbytes: r for p in curve.points if (r := _repeats(p)) is not None}

    @cached_property
    def launches(self) -> dict[int, Logs]:
        """Mean log time of each launch, by size; a point that names none is a launch of its own."""
        return {
            n: means(self._kept[n]) or {f"{id(self)}": log(point.time_us)}
            for n, point in self.points.items()
        }

    @cached_property
    def passes(self) -> dict[int, dict[str, Passes]]:
        """What those means are known with."""
        return {n: between_passes(kept) for n, kept in self._kept.items()}

    @cached_property
    def _kept(self) -> dict[int, dict[str, list[float]]]:
        return {n: kept_by_launch(point) for n, point in self.points.items()}

    def measured(self, nbytes: int) -> float | None:
        """Time in µs at a measured size."""
        point = self.points.get(nbytes)
        return None if point is None else point.time_us

    def at(self, nbytes: int) -> float | None:
        """Time in µs where measured, or between two sizes that were and are no gap apart.

        Between sizes it is interpolated in log-log; it joins sizes and never proves anything.
        """
        right = bisect_left(self._sizes, nbytes)
        if right == len(self._sizes) or self._sizes[right] == nbytes or right == 0:
            return self.measured(nbytes)
        if is_gap(self._sizes[right - 1], self._sizes[right]):
            return None
        return time_at(self._sizes, self._times, nbytes)


def differences(line: Line, base: Line) -> dict[int, Difference]:
    """The second held against the first, at the sizes in bytes that both have."""
    return {
        n: difference(line.launches[n], base.launches[n], (line.passes[n], base.passes[n]))
        for n in sorted(line.points.keys() & base.points.keys())
    }


@dataclass(frozen=True)
class Board:
    """Candidates × sizes × views.

    Attributes:
        sizes: every size at which a candidate was measured, rising.
        views: everything that was measured; elsewhere a view is its index here, since hashing
            the record itself millions of times is what a choice would otherwise consist of.
        arms: settings that may be chosen.
        lines: of each candidate, by view.
        baseline: by view; empty where unknown.
        weights: of each size, summing to the number of sizes.
        own: candidates, with sizes in bytes at which they are what the library runs by itself.
    """

    sizes: tuple[int, ...]
    views: tuple[View, ...]
    arms: tuple[Arm, ...]
    lines: tuple[dict[int, Line], ...]
    baseline: dict[int, Line]
    weights: tuple[float, ...]
    own: frozenset[tuple[int, int]] = frozenset()

    @cached_property
    def differences(self) -> tuple[dict[int, dict[int, Difference]], ...]:
        """Of each candidate: the baseline held against it, by view and size that both have."""
        return tuple(
            {
                view: differences(lines[view], base)
                for view, base in self.baseline.items()
                if view in lines
            }
            for lines in self.lines
        )

    @cached_property
    def best(self) -> tuple[dict[int, float], ...]:
        """Least measured time at each size in each view."""
        return tuple(self._best(nbytes) for nbytes in self.sizes)

    def _best(self, nbytes: int) -> dict[int, float]:
        found: dict[int, float] = {}
        for lines in self.lines:
            for view, line in lines.items():
                time = line.measured(nbytes)
                if time is not None:
                    found[view] = min(found.get(view, INF), time)
        return found

    def regret(self, arm: int, size: int) -> float:
        """Worst over views of time / best measured time - 1, never negative.

        A size that the candidate lacks between two close ones that it has is interpolated. A
        candidate that cannot tell its time in a view in which another candidate was measured has
        infinite regret there: what was not measured is not chosen.
        """
        worst = 0.0
        for view, least in self.best[size].items():
            line = self.lines[arm].get(view)
            time = None if line is None else line.at(self.sizes[size])
            if time is None:
                return INF
            worst = max(worst, time / least - 1)
        return worst

    def gain(self, arm: int, size: int) -> float | None:
        """Least over views of baseline time / candidate's time - 1; None where not comparable.

        Comparable means that the baseline was measured there in every view in which any candidate
        was, or, where it lacks a view altogether, in all those that it has.
        """
        nbytes = self.sizes[size]
        if (arm, nbytes) in self.own:
            return 0.0
        gains: list[float] = []
        for view in self.best[size]:
            base, line = self.baseline.get(view), self.lines[arm].get(view)
            if base is None:
                continue
            ours = None if line is None else line.at(nbytes)
            theirs = base.at(nbytes)
            if ours is None or theirs is None:
                return None
            held = self.differences[arm][view].get(nbytes)
            gains.append(expm1(held.log) if held and held.paired else theirs / ours - 1)
        return min(gains, default=None)


def make_board(group: Group, options: ChoiceOptions) -> Board:
    """Lay out one target."""
    sizes = sorted({p.nbytes for a in group.arms for c in a.curves.values() for p in c.points})
    curves = [arm.curves for arm in group.arms]
    views = tuple(dict.fromkeys(view for by_view in (*curves, group.baseline) for view in by_view))
    index = {view: number for number, view in enumerate(views)}
    return Board(
        sizes=tuple(sizes),
        views=views,
        arms=tuple(group.arms),
        lines=tuple({index[v]: Line(c) for v, c in by_view.items()} for by_view in curves),
        baseline={index[view]: Line(curve) for view, curve in group.baseline.items()},
        weights=_weights(sizes, group, options),
        own=frozenset(
            (number, nbytes)
            for number, arm in enumerate(group.arms)
            for nbytes, setting in group.own.items()
            if arm.setting == setting and arm.variant == group.target.variant
        ),
    )


def _weights(sizes: Sequence[int], group: Group, options: ChoiceOptions) -> tuple[float, ...]:
    """Share of a workload's time at each measured size; its own sizes go to the nearest one."""
    target = (group.target.collective, group.target.scale)
    ours = [(n, calls) for *where, n, calls in options.weights if (*where,) == target and n > 0]
    if not ours:
        return (1.0,) * len(sizes)
    calls = dict.fromkeys(sizes, 0.0)
    for nbytes, count in ours:
        nearest = min(sizes, key=lambda s: max(s, nbytes) / min(s, nbytes))
        calls[nearest] += count
    times = {p.nbytes: p.time_us for a in group.arms for c in a.curves.values() for p in c.points}
    spent = [calls[nbytes] * times[nbytes] for nbytes in sizes]
    total = sum(spent)
    return tuple(len(sizes) * s / total for s in spent) if total else (1.0,) * len(sizes)
