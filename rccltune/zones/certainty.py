"""How certain one launch of each side makes it that a setting is faster than the baseline.

Three things make a ratio of two times what it is not, and each is taken from what was measured as
far as that tells it:

* launches: every size of a launch shares its mood, so that more sizes say nothing about it. From
  repeats of either side, else a stated prior, which is small where one launch has both sides;
* rows: how far the two halves of a row disagree; of one half how far the ratio jumps from one size
  to the next, for a true one is smooth;
* neighbours: what a setting gains at a size it gains beside it, nearly. What it gains at one size
  alone a row that stood still would make too.

Our plugin answering nothing is a launch of the baseline where it is known to change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import expm1, log, sqrt
from statistics import fmean, median, variance
from typing import Final

from rccltune.model.curves import is_gap, upper_quantile
from rccltune.model.defaults import LEVEL
from rccltune.model.vocabulary import Placement
from rccltune.zones.board import Board, Line
from rccltune.zones.launches import Difference, between_launches, prior_variance

# Of rules that nothing proves three in twenty may be luck.
LIKELY: Final = 0.85
# Sizes that tell how rough rows are; fewer than the least tell nothing.
_NEAR: Final = 6
# Of these the size itself and those beside it, which its jump makes jump.
_OWN: Final = 3
_LEAST: Final = 3
# Neighbouring jumps share sizes, and all settings the baseline.
_SHARED: Final = 2
# Median and lower quartile of the square of a standard normal.
MEDIAN_SQUARE: Final = 0.4549
_QUARTER_SQUARE: Final = 0.1015
# One row in fifty stands still for a moment: a gain at one size of one launch may be just that,
# though hardly in both placements, which are timed one after the other.
_STALLS: Final = 0.02
# Nothing is known better than to a thousandth.
_LEAST_VARIANCE: Final = 1e-6
# Below, a chance is no number any more.
_RAREST: Final = 1e-300
# So many launches would tell the spread for sure; a prior is taken as if they had.
_SURE: Final = 1e6

Logs = Mapping[int, float]

# Weight of a stated prior beside what launches say, in degrees of freedom.
_PRIOR: Final = 8.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one gain.

    Attributes:
        chance: that launches and rows alone make it look as fast, 0 to 1.
        noise: gain that launches and rows alone exceed with a chance of 5 %, 0.02 for 2 %.
    """

    chance: float
    noise: float


def evidence_of(difference: float, spread: float, freedom: float) -> Evidence:
    """The evidence of a difference of logs with its standard deviation.

    Args:
        difference: log(baseline's time / the setting's).
        spread: above 0.
        freedom: degrees of freedom of the spread.
    """
    from scipy.special import stdtr

    noise = expm1(upper_quantile(freedom, LEVEL) * spread)
    return Evidence(float(stdtr(freedom, -difference / spread)), noise)


def weakest(found: Sequence[Evidence]) -> Evidence | None:
    """That of several views which is luck most easily."""
    return max(found, key=lambda one: one.chance, default=None)


def certainties(chances: Sequence[float]) -> list[float]:
    """How certain each is to be no luck, when so many were looked at: 1 - share of false ones.

    Of all that are as certain as this one or more, this share at least is no luck (the false
    discovery rate of Benjamini and Hochberg, 1995). So many settings that gain together raise each
    other, and the fastest of many that do nothing stays what it is.
    """
    order = sorted(range(len(chances)), key=chances.__getitem__, reverse=True)
    found = [0.0] * len(chances)
    least = 1.0
    for place, index in enumerate(order):
        least = min(least, chances[index] * len(chances) / (len(chances) - place))
        found[index] = 1 - least
    return found


def with_neighbours(chances: Sequence[float | None], launches: Sequence[set[str]]) -> list[float]:
    """Chances of one candidate, each with that of the size beside it where that is rarer by luck.

    A true gain has neighbours. Of launches that share nothing two chances of which neither would do
    are together as rare as Fisher's method (1925) says: q (1 - ln q) for their product q. Sizes of
    one launch share its mood, so that they say nothing more together.

    Args:
        chances: by size, rising; None where nothing is known.
        launches: names of those that measured each size.

    Returns:
        Those that are known, in their order.
    """
    found = []
    for at, own in enumerate(chances):
        if own is None:
            continue
        least = own
        for beside in (at - 1, at + 1):
            other = chances[beside] if 0 <= beside < len(chances) else None
            if other is not None and launches[at].isdisjoint(launches[beside]):
                product = max(own * other, _RAREST)
                # There are two neighbours to look at.
                least = min(least, 2 * product * (1 - log(product)))
        found.append(least)
    return found


@dataclass(frozen=True, slots=True)
class Spread:
    """A variance, and the degrees of freedom that it is known with."""

    variance: float
    freedom: float


class Inside:
    """Spread of the ratio of two settings in one launch: what launches, else its passes, say."""

    def __init__(self, board: Board) -> None:
        """Learn from every candidate held against the baseline."""
        self._pairs = {view: _between_pairs(board, view) for view in board.baseline}
        self._passes = {view: _between_passes(board, view) for view in board.baseline}

    def spread(self, view: int, nbytes: int, held: Mapping[int, Difference]) -> Spread:
        """That of two settings at a size, of one launch.

        Args:
            view: in which both were measured.
            nbytes: size of the calls.
            held: the two at each size.
        """
        if view not in self._pairs:
            return Spread(prior_variance(nbytes, paired=True), _SURE)
        passes = self._passes[view][nbytes]
        own = _usual_passes([held], nbytes).variance
        passes = replace(passes, variance=max(passes.variance, own))
        return max((self._pairs[view][nbytes], passes), key=lambda one: one.variance)


class SingleLaunches:
    """Judges candidates of a board, with what all of them together say about noise."""

    def __init__(self, board: Board) -> None:
        """Hold every candidate against the baseline."""
        self._board = board
        self._ratios: dict[int, list[dict[int, float]]] = {
            view: [_ratios(board, arm, view) for arm in range(len(board.arms))]
            for view in board.baseline
        }
        self._rows = {view: self._usual_rows(view) for view in board.baseline}
        self._alike = {view: _between_alike(board, view) for view in board.baseline}
        self._seen: dict[Line, Logs] = {}
        self._inside = Inside(board)

    def _usual_rows(self, view: int) -> dict[int, Spread | None]:
        """Spread of rows at each size; None where nothing tells it."""
        squares = self._rough(view)
        return {nbytes: _usual(squares, nbytes) for nbytes in self._board.sizes}

    def _rough(self, view: int) -> dict[int, list[float]]:
        """Squares by size that tell how rough rows are: of halves, else of jumps of ratios."""
        half = _half_of(self._board, view)
        found: dict[int, list[float]] = {}
        for arm, ratios in enumerate(self._ratios[view]):
            other = self._ratios[half][arm] if half in self._ratios else {}
            squares = _disagreements(ratios, other) or jumps(ratios)
            for nbytes, square in squares.items():
                found.setdefault(nbytes, []).append(square)
        return found

    def evidence(self, arm: int) -> list[Evidence | None]:
        """Evidence at each size; None where no view has both sides."""
        return [self._at(arm, nbytes) for nbytes in self._board.sizes]

    def _at(self, arm: int, nbytes: int) -> Evidence | None:
        """That of the size alone in every view, or of those beside it in every view."""
        alone, near = [], []
        for view, every in self._ratios.items():
            ratios = every[arm]
            if nbytes not in ratios:
                continue
            launches = self._launches(arm, view, nbytes)
            # Where nothing tells, rows are taken to vary as much as launches.
            rows = self._rows[view][nbytes] or launches
            alone.append(_evidence([ratios[nbytes]], launches, rows))
            # Without the largest, which one row that stood still would make.
            beside = sorted(_beside(ratios, nbytes))[:-1]
            near += [_evidence(beside, launches, rows)] if beside else []
        if (single := weakest(alone)) is None:
            return None
        single = replace(single, chance=max(single.chance, _STALLS ** len(alone)))
        shared = weakest(near) if len(near) == len(alone) else None
        return single if shared is None or single.chance < shared.chance else shared

    def _launches(self, arm: int, view: int, nbytes: int) -> Spread:
        held = self._board.differences[arm][view][nbytes]
        if held.paired:
            spread = self._inside.spread(view, nbytes, self._board.differences[arm][view])
            return Spread(max(spread.variance, _LEAST_VARIANCE) * held.share, spread.freedom)
        sides = self._board.lines[arm][view], self._board.baseline[view]
        between = [self._between(line) for line in sides]
        return _launches(sides, between, self._alike[view], nbytes)

    def _between(self, line: Line) -> Logs:
        if line not in self._seen:
            self._seen[line] = between_launches(line.points.values())
        return self._seen[line]


def _between_passes(board: Board, view: int) -> dict[int, Spread]:
    """Spread of the ratio of two settings in one launch as its passes tell it, by size.

    A pass is slow at all small sizes alike, so that sizes beside each other are not so many more.
    """
    held = [by_view[view] for by_view in board.differences if view in by_view]
    return {nbytes: _usual_passes(held, nbytes) for nbytes in board.sizes}


def _usual_passes(held: Sequence[Mapping[int, Difference]], nbytes: int) -> Spread:
    """What passes usually say about a size; the median of few squares lies below their mean."""
    near = [one for row in held for n, one in row.items() if nbytes / 2 <= n <= 2 * nbytes]
    every = [one.passes for one in near if one.passes.variance]
    if not every:
        return Spread(0.0, 1.0)
    freedom = median(one.freedom for one in every)
    usual = median(one.variance for one in every) / (1 - 2 / (9 * freedom)) ** 3
    return Spread(usual, freedom / 2 * max(2, len(held)))


def _between_pairs(board: Board, view: int) -> dict[int, Spread]:
    """Spread of the ratio of two settings in one launch, by size: from those in several."""
    seen: dict[int, list[Difference]] = {nbytes: [] for nbytes in board.sizes}
    for by_view in board.differences:
        for nbytes, held in by_view.get(view, {}).items():
            if held.paired and held.unit is not None:
                seen[nbytes].append(held)
    return {
        nbytes: _moderated(
            [one for n in board.sizes if not is_gap(*sorted((n, nbytes))) for one in seen[n]],
            prior_variance(nbytes, paired=True),
        )
        for nbytes in board.sizes
    }


def _moderated(seen: Sequence[Difference], prior: float) -> Spread:
    """What few launches say, and what is known before (Smyth, 2004).

    From the median: one stalled pass, where a launch has one, would make a mean useless.
    """
    units = [one.unit for one in seen if one.unit is not None]
    if not units:
        return Spread(prior, _SURE)
    usual = median(units) / (1 - 2 / (9 * median(one.freedom for one in seen))) ** 3
    freedom = sum(one.freedom for one in seen) / _SHARED
    both = (_PRIOR * prior + freedom * usual) / (_PRIOR + freedom)
    return Spread(both, _PRIOR + freedom)


def _evidence(logs: Sequence[float], launches: Spread, rows: Spread) -> Evidence:
    """Of the mean of some sizes, which share their launches and have rows of their own."""
    own = rows.variance / len(logs)
    total = launches.variance + own
    # Welch and Satterthwaite: what is known badly counts as much as it is of the whole.
    doubt = launches.variance**2 / launches.freedom + own**2 / rows.freedom
    return evidence_of(fmean(logs), sqrt(total), total**2 / doubt)


def _ratios(board: Board, arm: int, view: int) -> dict[int, float]:
    held = board.differences[arm].get(view, {}).items()
    return {n: one.log for n, one in held if (arm, n) not in board.own}


def _half_of(board: Board, view: int) -> int | None:
    """The view of the other half of the same rows."""
    mine = board.views[view]
    other = {
        Placement.IN_PLACE: Placement.OUT_OF_PLACE,
        Placement.OUT_OF_PLACE: Placement.IN_PLACE,
    }[mine.placement]
    half = replace(mine, placement=other)
    return board.views.index(half) if half in board.views else None


def jumps(logs: Logs) -> dict[int, float]:
    """Squares of how far each lies off the straight line between the two beside it, as variances.

    A smooth curve bends little within two octaves, so what jumps is noise.
    """
    sizes = sorted(logs)
    found = {}
    for low, middle, high in zip(sizes, sizes[1:], sizes[2:], strict=False):
        if is_gap(low, high):
            continue
        share = log(middle / low) / log(high / low)
        expected = (1 - share) * logs[low] + share * logs[high]
        off = logs[middle] - expected
        found[middle] = off**2 / (1 + share**2 + (1 - share) ** 2)
    return found


def _disagreements(ours: Logs, theirs: Logs) -> dict[int, float]:
    """Squares of how far halves of a row differ from what they usually differ by, as variances."""
    apart = {n: ours[n] - theirs[n] for n in ours if n in theirs}
    usual = median(apart.values()) if apart else 0.0
    return {n: (one - usual) ** 2 / 2 for n, one in apart.items()}


def _usual(squares: Mapping[int, Sequence[float]], nbytes: int) -> Spread | None:
    """Spread of rows at a size, from the lower quarter of the squares near it.

    Curves bend and step as well as rows jump; the quarter of all settings that does so least tells
    rows from curves. What is judged has no say, nor have jumps that it made beside itself.
    """
    near = sorted(squares, key=lambda n: abs(log(n / nbytes)))[_OWN : _OWN + _NEAR]
    every = sorted(square for n in near for square in squares[n])
    if len(every) < _LEAST:
        return None
    low = every[(len(every) - 1) // 4]
    return Spread(max(low / _QUARTER_SQUARE, _LEAST_VARIANCE), len(every) / _SHARED)


def _between_alike(board: Board, view: int) -> dict[int, Spread]:
    """Variance of log time between launches of settings that differ in channels alone, by size.

    They differ at least as repeats would; so what they agree in, launches do not differ in.
    """
    pairs: dict[object, list[Line]] = {}
    for arm, lines in zip(board.arms, board.lines, strict=True):
        if view in lines:
            pair = (arm.setting.algorithm, arm.setting.protocol, arm.variant)
            pairs.setdefault(pair, []).append(lines[view])
    found: dict[int, Spread] = {}
    for nbytes in board.sizes:
        for arms in pairs.values():
            points = [line.points[nbytes] for line in arms if nbytes in line.points]
            if len({point.launches for point in points}) < max(_LEAST, len(points)):
                continue
            spread = variance([log(point.time_us) for point in points])
            if nbytes not in found or spread < found[nbytes].variance:
                found[nbytes] = Spread(max(spread, _LEAST_VARIANCE), len(points) - 1)
    return found


def _launches(
    sides: Sequence[Line], between: Sequence[Logs], alike: Mapping[int, Spread], nbytes: int
) -> Spread:
    """Spread that launches give to a ratio."""
    counts = [len(line.launches[nbytes]) for line in sides]
    near = [
        seen for found in between for n, seen in found.items() if not is_gap(*sorted((n, nbytes)))
    ]
    prior = prior_variance(nbytes)
    if near:
        freedom = sum(counts) - len(counts) or 1
        both = (_PRIOR * prior + freedom * fmean(near)) / (_PRIOR + freedom)
        usual = Spread(both, _PRIOR + freedom)
    else:
        usual = Spread(prior, _SURE)
        if nbytes in alike and alike[nbytes].variance < usual.variance:
            usual = alike[nbytes]
    one = max(usual.variance, _LEAST_VARIANCE)
    return Spread(sum(one / count for count in counts), usual.freedom)


def _beside(logs: Logs, nbytes: int) -> list[float]:
    """The value there and those of the sizes beside it, as far as no gap is between."""
    sizes = sorted(logs)
    at = sizes.index(nbytes)
    return [
        logs[n]
        for n in sizes[max(0, at - 1) : at + 2]
        if not is_gap(min(n, nbytes), max(n, nbytes))
    ]
