"""Whether a setting beats the baseline by more than noise.

The best of many noisy candidates looks fast by luck alone: ten settings of a knob that does nothing
'gain' up to 7 % at single sizes in public data. So:

* With repeats of both, the gain's lower confidence bound must exceed the wanted gain at a level
  shared out over all candidates and sizes of the target (Bonferroni), which bounds the chance of
  one false rule for a target at 5 %. A repeat is a launch: passes of one share its state. Two or
  three launches tell little about their own spread, so it is pooled with that of the sizes beside
  it (the moderated t of Smyth, 2004); not with that of all: on two H100s launches differ by 40 %
  below 512 KiB and by 1 % above. Sizes of a launch share its mood, so that those of one candidate
  may all agree by luck; what all candidates differ by there is the least that is trusted.
* From one launch per candidate nothing is proven. How likely it is that a candidate is faster, its
  launch and its rows considered, :mod:`rccltune.zones.certainty` says, as of repeats that prove
  nothing.
* Sizes beside proven ones may be joined to their zone on weaker evidence, since a true gain does
  not end at a size: the family of questions there is one, not hundreds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log, log1p, sqrt
from statistics import fmean, median
from typing import Final

from rccltune.model.curves import upper_quantile
from rccltune.model.defaults import LEVEL
from rccltune.zones.board import INF, Board, Line, differences
from rccltune.zones.certainty import (
    LIKELY,
    MEDIAN_SQUARE,
    Evidence,
    Inside,
    SingleLaunches,
    certainties,
    evidence_of,
    jumps,
    weakest,
    with_neighbours,
)
from rccltune.zones.launches import Difference, shared

# Weight of the pooled spread, in degrees of freedom: at least this, and at most that, whatever
# the sizes say about how alike they are.
_LEAST_PRIOR = 4.0
_MOST_PRIOR = 40.0
# Sizes on each side whose spread stands for one's own, none of them this much smaller or larger.
_BESIDE: Final = 4
_FAR: Final = 16
# From so few sizes nothing can be said about it.
_FEW_SIZES = 8
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Standing:
    """One candidate against the baseline at one size.

    Attributes:
        gain: least over views, None where not comparable.
        proven: repeats show that it beats it by more than noise and the wanted gain.
        beside: good enough to join a proven zone.
        repeated: judged by an interval, not by one run.
        likely: gains what is wanted, and is hardly luck among all that were looked at.
        joins: good enough to join a zone of what is likely.
        certainty: that it is no luck, 0 to 1; None where not comparable.
        evidence: what that rests on.
    """

    gain: float | None
    proven: bool
    beside: bool
    repeated: bool
    likely: bool = False
    joins: bool = False
    certainty: float | None = None
    evidence: Evidence | None = None


def standings(board: Board, min_gain: float) -> list[list[Standing]]:
    """Every candidate at every size, shape (candidates, sizes); empty without a baseline."""
    if not board.baseline:
        return []
    level = LEVEL / max(1, len(board.arms) * len(board.sizes))
    weight = _weight(board)
    once = SingleLaunches(board)
    spreads = _spreads(board, Inside(board))
    rows = [
        _arm(board, arm, min_gain, _Judge(spreads[arm], weight, (level, LEVEL)), once)
        for arm in range(len(board.arms))
    ]
    return _with_certainty(board, rows, min_gain)


def _with_certainty(
    board: Board, rows: list[list[Standing]], min_gain: float
) -> list[list[Standing]]:
    """The same with what is likely, which depends on how much else was looked at."""
    chances: list[float] = []
    for arm, row in enumerate(rows):
        own = [None if one.evidence is None else one.evidence.chance for one in row]
        chances += with_neighbours(own, [_launches(board, arm, n) for n in board.sizes])
    found = iter(certainties(chances))
    made: list[list[Standing]] = []
    for row in rows:
        made.append([])
        for one in row:
            if one.evidence is None or one.gain is None:
                made[-1].append(one)
                continue
            certainty, enough = next(found), one.gain >= min_gain
            made[-1].append(
                replace(
                    one,
                    certainty=certainty,
                    likely=enough and certainty >= LIKELY,
                    joins=enough and one.evidence.chance <= 1 - LIKELY,
                )
            )
    return made


def _launches(board: Board, arm: int, nbytes: int) -> set[str]:
    """Of a candidate at a size, in any view."""
    return {name for line in board.lines[arm].values() for name in line.launches.get(nbytes, ())}


_Bounds = tuple[float, float, Evidence | None]


@dataclass(frozen=True, slots=True)
class _Judge:
    """What one candidate is judged with.

    Attributes:
        usual: variance that a launch gives, by view and size in bytes, at the sizes with repeats.
        weight: what that is worth beside a size's own launches, in degrees of freedom.
        levels: chance of a false yes, for a proof and beside one.
    """

    usual: dict[int, dict[int, float]]
    weight: float
    levels: tuple[float, float]

    def bounds(self, held: Difference, unit: float, usual: float) -> _Bounds:
        """Lower ends of baseline / ours - 1, one-sided, at each level, and the evidence.

        Args:
            held: the two sides.
            unit: variance that a launch gives, as its own launches say.
            usual: as those of other sizes say.
        """
        total = self.weight + held.freedom
        spread = sqrt(held.share * (self.weight * usual + held.freedom * unit) / total)
        strict, loose = (
            exp(held.log - upper_quantile(total, level) * spread) - 1 for level in self.levels
        )
        return strict, loose, evidence_of(held.log, spread, total)


class Rivals:
    """Whether a candidate is slower than the best one by more than a tolerance and noise.

    The least of many noisy times lies below all true ones, so that without this no setting stays
    within two percent of 'the best' for long, and one zone falls into many that noise tells apart.
    Repeats say what noise is; of one run how rough it is over its sizes; of few sizes nothing
    does, and a difference counts as it is.
    """

    def __init__(self, board: Board) -> None:
        """Pool each line's spread over its sizes."""
        self._board = board
        self._inside = Inside(board)
        self._pairs: dict[tuple[int, int, int], dict[int, Difference]] = {}
        self._best: dict[tuple[int, int], int] = {}
        self._usual = [
            {view: _typical(line) for view, line in lines.items()} for lines in board.lines
        ]

    def is_slower(self, arm: int, size: int, tolerance: float) -> bool:
        """Whether that is certain in some view; where it has no time it is."""
        nbytes = self._board.sizes[size]
        for view, least in self._board.best[size].items():
            line = self._board.lines[arm].get(view)
            time = None if line is None else line.at(nbytes)
            if time is None:
                return True
            excess = log(time / least) - log1p(tolerance)
            if excess > _EPSILON and not self._may_be_noise(arm, nbytes, view, excess):
                return True
        return False

    def _may_be_noise(self, arm: int, nbytes: int, view: int, excess: float) -> bool:
        best = self._fastest(nbytes, view)
        lines = self._board.lines
        ours, theirs = (lines[one][view].launches.get(nbytes, {}) for one in (arm, best))
        if shared(ours, theirs):
            # Launches that have both tell most: what these share drops out.
            held = self._held(arm, best, view)
            pair = held[nbytes]
            spread = self._inside.spread(view, nbytes, held)
            noise = upper_quantile(spread.freedom, LEVEL) * sqrt(spread.variance * pair.share)
            return excess <= noise
        variance, freedom = 0.0, 0.0
        for one in (arm, best):
            usual = self._usual[one][view]
            if usual is None:
                return False
            repeats = lines[one][view].repeats.get(nbytes)
            own = (0.0, 0) if repeats is None else (repeats.variance, repeats.freedom)
            total = _LEAST_PRIOR + own[1]
            variance += (_LEAST_PRIOR * usual + own[1] * own[0]) / total
            freedom += total
        return excess <= upper_quantile(freedom, LEVEL) * sqrt(variance)

    def _fastest(self, nbytes: int, view: int) -> int:
        key = (nbytes, view)
        if key not in self._best:
            self._best[key] = min(
                (other for other, lines in enumerate(self._board.lines) if view in lines),
                key=lambda other: self._time(other, nbytes, view),
            )
        return self._best[key]

    def _held(self, arm: int, best: int, view: int) -> dict[int, Difference]:
        key = (arm, best, view)
        if key not in self._pairs:
            lines = self._board.lines
            self._pairs[key] = differences(lines[arm][view], lines[best][view])
        return self._pairs[key]

    def _time(self, arm: int, nbytes: int, view: int) -> float:
        time = self._board.lines[arm][view].measured(nbytes)
        return INF if time is None else time


def _typical(line: Line) -> float | None:
    """Usual variance of a line's centres; see :func:`_pooled`."""
    every = list(line.repeats.values())
    if not every:
        return _roughness(line)
    freedom = median(one.freedom for one in every)
    usual = median(one.variance for one in every)
    return max(usual / (1 - 2 / (9 * freedom)) ** 3, 1e-12)


def _roughness(line: Line) -> float | None:
    """Variance of log(time) about a straight line between the two sizes beside each.

    The median keeps the few sizes out at which a curve does bend; that of squares of a normal is
    0.455 of their mean.
    """
    squares = jumps({n: log(point.time_us) for n, point in line.points.items()})
    return median(squares.values()) / MEDIAN_SQUARE if len(squares) >= _FEW_SIZES else None


def _spreads(board: Board, inside: Inside) -> list[dict[int, dict[int, float]]]:
    """Usual variance that a launch gives, by candidate, view and size with repeats."""
    found: list[dict[int, dict[int, float]]] = [{} for _ in board.arms]
    for view in board.baseline:
        own = [_repeated(board, arm, view) for arm in range(len(board.arms))]
        every: dict[int, list[_Spread]] = {}
        for row in own:
            for n, one in row.items():
                every.setdefault(n, []).extend([] if one.paired else [one])
        common = _pooled({n: row for n, row in sorted(every.items()) if row})
        for arm, row in enumerate(own):
            mine = _pooled({n: [one] for n, one in row.items()})
            held = board.differences[arm].get(view, {})
            found[arm][view] = {
                n: inside.spread(view, n, held).variance if one.paired else max(mine[n], common[n])
                for n, one in row.items()
            }
    return found


def _arm(
    board: Board, arm: int, min_gain: float, judge: _Judge, once: SingleLaunches
) -> list[Standing]:
    bounds = [_lower_bounds(board, arm, size, judge) for size in range(len(board.sizes))]
    single = once.evidence(arm) if None in bounds else []
    made: list[Standing] = []
    for size, lows in enumerate(bounds):
        gain = board.gain(arm, size)
        if (arm, board.sizes[size]) in board.own:
            made.append(Standing(gain, False, False, False))
        elif gain is None or lows is None:
            found = single[size] if gain is not None and single else None
            made.append(Standing(gain, False, False, False, evidence=found))
        else:
            beside = gain >= min_gain and lows[1] > 0
            proven = lows[0] > min_gain
            made.append(Standing(gain, proven, beside, True, evidence=lows[2]))
    return _next_to_proven(made)


def _next_to_proven(made: list[Standing]) -> list[Standing]:
    """Take the weaker evidence where the same candidate is proven at the size before or behind.

    The candidate may be chosen there although another is chosen at that neighbour: that it beats
    the baseline does not depend on which of two that do is the best.
    """
    proven = [standing.proven for standing in made]
    return [
        replace(s, proven=True)
        if s.beside and s.repeated and any(proven[max(0, i - 1) : i + 2])
        else s
        for i, s in enumerate(made)
    ]


@dataclass(frozen=True, slots=True)
class _Spread:
    """What a launch gives to a difference, as its repeats say, with their degrees of freedom."""

    unit: float
    freedom: int
    paired: bool


def _repeated(board: Board, arm: int, view: int) -> dict[int, _Spread]:
    """Of the candidate and the baseline, by size in bytes, where both were repeated; rising."""
    held = board.differences[arm].get(view, {})
    return {
        n: _Spread(one.unit, one.freedom, one.paired)
        for n, one in held.items()
        if one.unit is not None
    }


def _pooled(rows: Mapping[int, Sequence[_Spread]]) -> dict[int, float]:
    """Usual variance at each size, from those beside it.

    From the median, since one stalled row in fifty would make a mean useless; the median of few
    squares lies below their mean, by the factor of Wilson and Hilferty.
    """
    sizes = list(rows)
    width = 2 * _BESIDE + 1
    found = {}
    for i, nbytes in enumerate(sizes):
        start = max(0, min(i - _BESIDE, len(sizes) - width))
        beside = [
            n for n in sizes[start : start + width] if nbytes <= n * _FAR and n <= nbytes * _FAR
        ]
        near = [one for n in beside for one in rows[n]]
        freedom = median(one.freedom for one in near)
        usual = median(one.unit for one in near)
        found[nbytes] = max(usual / (1 - 2 / (9 * freedom)) ** 3, 1e-12)
    return found


def _weight(board: Board) -> float:
    """What the other sizes' spread is worth, in degrees of freedom (Smyth 2004, section 6.2).

    If every size of a candidate had the same spread, the logarithms of its observed variances would
    vary by trigamma(freedom / 2) only; what they vary more is the spread's own variation. All
    candidates and views are taken together, since 28 sizes alone would give anything from 4 to 40.
    """
    deviations: list[float] = []
    freedoms: list[float] = []
    groups = 0
    for arm in range(len(board.arms)):
        for view in board.baseline:
            known = [one for one in _repeated(board, arm, view).values() if one.unit]
            logs = [log(one.unit) for one in known]
            if len(logs) > 1:
                middle = fmean(logs)
                deviations += [x - middle for x in logs]
                freedoms += [one.freedom for one in known]
                groups += 1
    if len(deviations) - groups < _FEW_SIZES:
        return _LEAST_PRIOR
    observed = sum(d * d for d in deviations) / (len(deviations) - groups)
    return _freedom_of(observed - _trigamma(median(freedoms) / 2))


def _freedom_of(excess: float) -> float:
    """The degrees of freedom whose half has this trigamma, within the limits."""
    if excess <= _trigamma(_MOST_PRIOR / 2):
        return _MOST_PRIOR
    low, high = _LEAST_PRIOR, _MOST_PRIOR
    for _ in range(20):
        middle = (low + high) / 2
        # trigamma falls: a larger excess means fewer degrees of freedom.
        low, high = (low, middle) if _trigamma(middle / 2) < excess else (middle, high)
    return low


@cache
def _trigamma(x: float) -> float:
    from scipy.special import polygamma

    return float(polygamma(1, x))


def _lower_bounds(board: Board, arm: int, size: int, judge: _Judge) -> _Bounds | None:
    """Least lower bound of the gain over the views, at each level; None without repeats."""
    nbytes = board.sizes[size]
    bounds: list[_Bounds] = []
    for view in board.best[size]:
        base, line = board.baseline.get(view), board.lines[arm].get(view)
        if base is None or line is None:
            continue
        held = board.differences[arm][view].get(nbytes)
        if held is None or held.unit is None:
            return None
        bounds.append(judge.bounds(held, held.unit, judge.usual[view][nbytes]))
    if not bounds:
        return None
    found = [one for *_, one in bounds if one is not None]
    return min(b[0] for b in bounds), min(b[1] for b in bounds), weakest(found)
