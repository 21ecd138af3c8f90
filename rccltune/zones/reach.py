"""How far each zone reaches: between measured sizes, and at the ends of what was measured.

Beyond the sizes measured for a setting, and between sizes more than a factor of four apart, nothing
is known: those are gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import exp, log, log1p, sqrt

from rccltune.model.chosen import Zone
from rccltune.model.curves import is_gap
from rccltune.model.vocabulary import MAX_NBYTES
from rccltune.zones.arms import ChoiceOptions
from rccltune.zones.board import Board
from rccltune.zones.decision import Decision, Stretch
from rccltune.zones.path import HOLE

Ends = tuple[float, float]
# Points at which equally bad boundaries are compared by their average loss.
_SAMPLES = 32


def boundary(low: int, high: int, ratios: Sequence[Ends]) -> int:
    """Last size of the left zone.

    Args:
        low: last measured size of the left zone, in bytes.
        high: first measured size of the right one.
        ratios: for each view log(left setting's time / right setting's time) at both sizes;
            between them it is straight in log-size, as the times are.

    Returns:
        A size from ``low`` to ``high - 1``: the crossing of the two curves; with several views
        the size at which the worst loss in any of them is least; the end at which the better
        setting keeps all where they do not cross; half-way in log-size without any view.
    """
    if not ratios:
        share = 0.5
    else:
        share = min(_candidates(ratios), key=lambda u: (_worst(u, ratios), _average(u, ratios), u))
    nbytes = int(exp(log(low) + share * log(high / low)) + 1e-6)
    return min(max(nbytes, low), high - 1)


def _candidates(ratios: Sequence[Ends]) -> list[float]:
    """Ends, crossings, and where one view's loss on one side equals another's on the other."""
    shares = [0.0, 1.0]
    for below, above in ratios:
        for other_below, other_above in ratios:
            start, end = below + other_below, above + other_above
            if start * end < 0:
                shares.append(start / (start - end))
    return shares


def _worst(share: float, ratios: Sequence[Ends]) -> float:
    """Largest log-regret of any size in any view; rounded, so that equals are equal."""
    losses = [0.0]
    for below, above in ratios:
        here = below + share * (above - below)
        if share > 0:
            losses += [below, here]
        if share < 1:
            losses += [-here, -above]
    return round(max(losses), 12)


def _average(share: float, ratios: Sequence[Ends]) -> float:
    total = 0.0
    for below, above in ratios:
        for index in range(_SAMPLES):
            at = (index + 0.5) / _SAMPLES
            here = below + at * (above - below)
            total += max(here, 0.0) if at < share else max(-here, 0.0)
    return round(total, 12)


# Where sizes are further apart than an octave, crossings of curves tell more than the grid does.
_STEP = 2.0
# Whole bytes leave a zone a little short of a step.
_WHOLE = 1e-3
# A quarter of an octave: sizes closer than that are not verified one by one.
_FINEST = 2**0.25
# Share of its noise that a rule must gain at its ends beside what is wanted.
_CAUTION = 0.5


@dataclass(frozen=True, slots=True)
class Reach:
    """Sizes in one state, inclusive.

    Attributes:
        stretch: what was measured there; None where nothing was.
    """

    low: int
    high: int
    stretch: Stretch | None


def stretches(board: Board, decision: Decision) -> list[Stretch]:
    """Runs of sizes in the same state (gaps also for one reason), none left out between.

    A rule is proven where repeats prove it at all of its sizes; those of one setting that differ in
    that are one rule, and no proven one.
    """
    run = 0
    keyed = []
    for index, nbytes in enumerate(board.sizes):
        run += index > 0 and is_gap(board.sizes[index - 1], nbytes)
        keyed.append((decision.states[index], decision.reasons[index], run))
    made: list[Stretch] = []
    for (state, reason, _), members in groupby(range(len(keyed)), key=keyed.__getitem__):
        indices = list(members)
        is_proven = state == HOLE or all(decision.proven[index] for index in indices)
        ends = indices[0], indices[-1]
        noise = (_noise(decision, state, ends[0]), _noise(decision, state, ends[1]))
        made.append(Stretch(state, reason, *ends, is_proven, noise))
    return made


def _noise(decision: Decision, state: int, size: int) -> float:
    if state == HOLE or not decision.standings:
        return 0.0
    evidence = decision.standings[state][size].evidence
    return 0.0 if evidence is None else evidence.noise


def reaches(board: Board, found: Sequence[Stretch], options: ChoiceOptions) -> list[Reach]:
    """Every size from 0 to 2^63-1 once, by size."""
    spans = _spans(board, found, options)
    made: list[Reach] = []
    low = 0
    for one, (first, last) in zip(found, spans, strict=True):
        made += [Reach(low, first - 1, None)] if low < first else []
        made.append(Reach(first, last, one))
        low = last + 1
    return [*made, *([Reach(low, MAX_NBYTES, None)] if low <= MAX_NBYTES else [])]


def too_narrow(
    board: Board, found: Sequence[Stretch], decision: Decision, options: ChoiceOptions
) -> list[tuple[int, int]]:
    """(candidate, size) of choices for one size that end within a step of it: noise, not a zone.

    A step is the distance at which sizes were measured there. A size that stands alone, with gaps
    on both sides, has none. What evidence makes likely there is no noise; it may be as narrow
    as a verification looks.
    """
    # What noise takes from the end of a rule does not make it one size's luck.
    spans = _spans(board, [replace(one, noise=(0.0, 0.0)) for one in found], options)
    return [
        (one.state, one.first)
        for one, (low, high) in zip(found, spans, strict=True)
        if one.state != HOLE
        and one.first == one.last
        and _is_narrow(board, one, low, high)
        and not (high >= _FINEST * low and _is_told(decision, one))
    ]


def _is_told(decision: Decision, one: Stretch) -> bool:
    """Whether evidence says that it is faster there, launches of it or one in every placement."""
    if not decision.standings:
        return False
    here = decision.standings[one.state][one.first]
    return here.proven or here.likely


def _is_narrow(board: Board, one: Stretch, low: int, high: int) -> bool:
    """Whether a range of one size covers less than that size's share of the grid."""
    first, last = _share(board, one.first)
    return high / low < min(last / first, _STEP) * (1 - _WHOLE)


def _share(board: Board, size: int) -> tuple[float, float]:
    """From half-way to the size below to half-way to the next, in log-size; a gap has no half."""
    here = board.sizes[size]
    low = high = float(here)
    if size > 0 and not is_gap(board.sizes[size - 1], here):
        low = sqrt(board.sizes[size - 1] * here)
    if size + 1 < len(board.sizes) and not is_gap(here, board.sizes[size + 1]):
        high = sqrt(here * board.sizes[size + 1])
    return low, high


def _spans(board: Board, found: Sequence[Stretch], options: ChoiceOptions) -> list[tuple[int, int]]:
    """First and last byte of each range, as far as measurements carry it."""
    sizes = [(board.sizes[one.first], board.sizes[one.last]) for one in found]
    edges = [_edge(board, left, right, options) for left, right in pairwise(found)]
    # A zone of one size that its neighbours' crossings leave no room for gets its share of the
    # grid: where curves cross between two sizes is known less well than who wins at them. That
    # may leave a neighbour too little, and so on.
    while True:
        spans = _with_edges(sizes, edges)
        widened = list(edges)
        for index, (one, span) in enumerate(zip(found, spans, strict=True)):
            if one.state == HOLE or one.first != one.last or not _is_narrow(board, one, *span):
                continue
            for side, at in zip((index - 1, index), _share(board, one.first), strict=True):
                if 0 <= side < len(edges) and _is_between_arms(edges[side], found[side : side + 2]):
                    widened[side] = (int(at), int(at) + 1)
        if widened == edges:
            return spans
        edges = widened


def _is_between_arms(edge: tuple[int, int], pair: Sequence[Stretch]) -> bool:
    """Whether two settings meet there; a gap's sizes are not for a rule to take."""
    return edge[0] + 1 == edge[1] and HOLE not in (pair[0].state, pair[1].state)


def _with_edges(
    spans: Sequence[tuple[int, int]], edges: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    made = list(spans)
    for index, (last, first) in enumerate(edges):
        made[index] = (made[index][0], last)
        made[index + 1] = (first, made[index + 1][1])
    return made


def _edge(board: Board, left: Stretch, right: Stretch, options: ChoiceOptions) -> tuple[int, int]:
    """Last size of the left range and first of the right one."""
    low, high = board.sizes[left.last], board.sizes[right.first]
    if is_gap(low, high):
        return low, high
    ratios = _ratios(board, left, right, options)
    if left.state == right.state != HOLE:
        # The part that is proven keeps to the sizes that prove it.
        last = low if left.is_proven else high - 1
    elif HOLE in (left.state, right.state) and not ratios:
        # Nothing to compare with: a rule keeps to the sizes that prove it.
        last = low if right.state == HOLE else high - 1
    elif not ratios and not options.to_verify:
        # Neither setting was measured where the other begins.
        return low, high
    else:
        last = boundary(low, high, ratios)
        if HOLE not in (left.state, right.state):
            return _where_faster(board, (left, right), last, options)
    return last, last + 1


def _where_faster(
    board: Board, pair: tuple[Stretch, Stretch], last: int, options: ChoiceOptions
) -> tuple[int, int]:
    """Ends of two rules that meet behind a size: neither where the baseline beats both.

    One of them may be noise, and the other would lose on the way to it.
    """
    left, right = pair
    low, high = board.sizes[left.last], board.sizes[right.first]
    first = last + 1
    if ratios := _ratios(board, left, replace(right, state=HOLE), options):
        last = min(last, boundary(low, high, ratios))
    if ratios := _ratios(board, replace(left, state=HOLE), right, options):
        first = max(first, boundary(low, high, ratios) + 1)
    return last, first


def _ratios(board: Board, left: Stretch, right: Stretch, options: ChoiceOptions) -> list[Ends]:
    """By view, log of what the left state costs over what the right one does, at both sizes.

    Against a gap a rule costs half of its noise as well, which its gain exceeds by luck in one case
    of five: so few end beyond the crossing, where all rules that end at it do so in every second.
    """
    noise = 0.0
    if right.state == HOLE:
        noise = _CAUTION * log1p(left.noise[1])
    elif left.state == HOLE:
        noise = -_CAUTION * log1p(right.noise[0])
    found: list[Ends] = []
    for view in board.best[left.last]:
        logs = []
        for size in (left.last, right.first):
            mine, other = (_price(board, s.state, view, size, options) for s in (left, right))
            if mine is not None and other is not None:
                logs.append(log(mine / other) + noise)
        if len(logs) == 2:
            found.append((logs[0], logs[1]))
    return found


def _price(board: Board, state: int, view: int, size: int, options: ChoiceOptions) -> float | None:
    """What a state costs at a size; a gap must be beaten by the wanted gain to give way."""
    lines = board.baseline if state == HOLE else board.lines[state]
    factor = 1 / (1 + options.min_gain) if state == HOLE else 1.0
    line = lines.get(view)
    time = None if line is None else line.at(board.sizes[size])
    return None if time is None else time * factor


def drawn_in(zones: Sequence[Zone], to_verify: Sequence[int]) -> list[Zone]:
    """Zones whose rules end, beside a gap, at sizes that verification calls, or measured ones.

    Where curves cross between two sizes is known less well than these lie apart, and any other end
    costs a launch. A rule becomes smaller, but never narrower than verification looks. Ends stay
    where another rule begins, at once or behind a gap: one of them would reach sizes that are the
    other's, or both would give up some that they may win.

    Args:
        zones: of one target, by size.
        to_verify: sizes in bytes, rising; without any, zones stay as they are.
    """
    made = list(zones)
    between = {at for at in range(1, len(zones) - 1) if _is_between_rules(zones[at - 1 : at + 2])}
    for at, (left, right) in enumerate(pairwise(zones) if to_verify else ()):
        if not between.isdisjoint((at, at + 1)) or bool(left.setting) == bool(right.setting):
            continue
        last = _last_size(left, right, to_verify)
        new = replace(made[at], max_nbytes=last), replace(made[at + 1], min_nbytes=last + 1)
        if all(one.setting is None or _is_wide(one) for one in new):
            made[at : at + 2] = new
    return made


def _is_between_rules(three: Sequence[Zone]) -> bool:
    return [one.setting is not None for one in three] == [True, False, True]


def _last_size(left: Zone, right: Zone, sizes: Sequence[int]) -> int:
    """Where the left one of a rule and a gap ends."""
    last = left.max_nbytes
    low = last if left.measured_to is None else left.measured_to
    high = last + 1 if right.measured_from is None else right.measured_from
    called = [low, *(n for n in sizes if low < n < high), high]
    if right.setting is None:
        return max((n for n in called if n <= last), default=last)
    return min((n for n in called if n > last), default=last + 1) - 1


def _is_wide(zone: Zone) -> bool:
    """Whether a rule is as wide as verification looks: a quarter of an octave."""
    return zone.max_nbytes + 1 >= _FINEST * zone.min_nbytes
