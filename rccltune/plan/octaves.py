"""The ranges of sizes that a verification goes over, and rules that end at sizes of these.

A launch goes over a whole range in factors of two, which is all that nccl-tests can; four of them,
each beginning elsewhere in an octave, give four sizes an octave. A boundary of a rule is reached by
one more, which begins at the boundary divided by a power of two: never by a launch of a few
neighbouring sizes, in which hardly anything else runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rccltune.model.chosen import Rule
from rccltune.model.measured import Sweep
from rccltune.model.vocabulary import Collective
from rccltune.plan.walks import called_sizes, grain, unit_of

# Sizes an octave: a loss over a range of a factor 1.25 between powers of two holds one of them.
PER_OCTAVE: Final = 4
FACTOR: Final = 2
# How far from a boundary a size may lie that stands for it.
_NEAR: Final = 0.005
# Elements of a size from which on a quarter of an octave is told exactly enough.
_FINE: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The sizes of one launch.

    Attributes:
        sweep: with the range.
        is_grid: one of those that together have all octaves in four parts; others are for a
            boundary alone.
    """

    sweep: Sweep
    is_grid: bool


def parts(
    sweep: Sweep,
    collective: Collective,
    rules: Iterable[Rule],
    n_ranks: int,
    known: Collection[int] = (),
) -> list[Part]:
    """The ranges to go over: those of the grid first, then those for boundaries.

    All files have the same grid, so that combined launches of two of them can stand beside each
    other.

    Args:
        sweep: the whole range.
        collective: whose sizes.
        rules: those of it whose boundaries are looked at.
        n_ranks: of the communicator.
        known: sizes that need no range for a boundary.
    """
    grid = tuple(grids(sweep))
    sizes = {*known, *(n for one in grid for n in called_sizes(one, collective, n_ranks))}
    edges = sorted(_edges(sweep, collective, rules, n_ranks, sizes), key=lambda one: one.min_nbytes)
    return [
        *(Part(sweep=one, is_grid=True) for one in grid),
        *(Part(sweep=one, is_grid=False) for one in edges),
    ]


def _edges(
    sweep: Sweep,
    collective: Collective,
    rules: Iterable[Rule],
    n_ranks: int,
    sizes: set[int],
) -> Iterator[Sweep]:
    """Ranges through the first and the last size of every rule, where none has them yet."""
    for end in _ends(sweep, rules):
        if end.near(end.nbytes, sizes) is None:
            part = _walk_through(sweep, end, end.nbytes, n_ranks)
            sizes.update(called_sizes(part, collective, n_ranks))
            yield part


def ending_where_called(sweep: Sweep, rules: Sequence[Rule], n_ranks: int) -> list[Rule]:
    """The same rules, each from the first to the last of its sizes that a launch goes through.

    An end that no launch calls exactly moves inwards, by half a percent or a little more: a setting
    may be slow beside a boundary, and nobody would see it. It stays where another rule would answer
    instead, and where the benchmark's sizes lie further apart than that.

    Args:
        sweep: the whole range.
        rules: of one communicator, in the file's order.
        n_ranks: of the communicator.
    """
    ends: dict[Rule, tuple[int, int]] = {}
    for collective in dict.fromkeys(rule.collective for rule in rules):
        mine = [rule for rule in rules if rule.collective is collective]
        sizes = set(verified_sizes(sweep, collective, n_ranks))
        for end in _ends(sweep, mine):
            called = _called_at(sweep, end, n_ranks, sizes)
            low, high = ends.get(end.rule, (end.rule.min_nbytes, end.rule.max_nbytes))
            if end.is_free_to(called, mine):
                ends[end.rule] = (called, high) if end.is_lower else (low, called)
    return [
        replace(rule, min_nbytes=low, max_nbytes=high) if low <= high else rule
        for rule in rules
        for low, high in (ends.get(rule, (rule.min_nbytes, rule.max_nbytes)),)
    ]


@dataclass(frozen=True, slots=True)
class _End:
    """One end of a rule, as far as the sweep reaches."""

    rule: Rule
    nbytes: int
    is_lower: bool

    def near(self, edge: int, sizes: Iterable[int]) -> int | None:
        """The size nearest to an edge, inside of it and of the rule, that may stand for it."""
        inner = [
            n
            for n in sizes
            if self.rule.reaches(n)
            and (n >= edge if self.is_lower else n <= edge)
            and abs(n / edge - 1) <= _NEAR
        ]
        return (min if self.is_lower else max)(inner, default=None)

    def is_free_to(self, called: int, rules: Iterable[Rule]) -> bool:
        """Whether sizes outside are then nobody's; and the rule itself ends where it seems to."""
        span = self.rule.min_nbytes, self.rule.max_nbytes
        if self.nbytes not in span:
            return False
        low, high = (span[0], called - 1) if self.is_lower else (called + 1, span[1])
        others = [one for one in rules if (one.min_nbytes, one.max_nbytes) != span]
        return not any(one.min_nbytes <= high and one.max_nbytes >= low for one in others)


def _ends(sweep: Sweep, rules: Iterable[Rule]) -> Iterator[_End]:
    """Both ends of every rule that the sweep reaches.

    Between two rules with one setting nothing changes.
    """
    rules = tuple(rules)
    inside = {
        edge
        for one in rules
        for other in rules
        if one.setting == other.setting and one.max_nbytes + 1 == other.min_nbytes
        for edge in (one.max_nbytes, other.min_nbytes)
    }
    for rule in rules:
        low, high = max(rule.min_nbytes, sweep.min_nbytes), min(rule.max_nbytes, sweep.max_nbytes)
        if low > high:
            continue
        for end in (_End(rule, low, is_lower=True), _End(rule, high, is_lower=False)):
            if end.nbytes not in inside:
                yield end


def _called_at(sweep: Sweep, end: _End, n_ranks: int, sizes: set[int]) -> int:
    """The size that stands for an end; what a range through it calls is added to the sizes."""
    edge = end.nbytes
    while edge not in sizes:
        found = end.near(edge, sizes)
        if found is None:
            part = _walk_through(sweep, end, edge, n_ranks)
            called = called_sizes(part, end.rule.collective, n_ranks)
            found = end.near(edge, called)
            if found in (None, edge):
                sizes.update(called)
                return edge
        # Towards the size that was found a range may begin lower, and call another one.
        edge = found
    return edge


def _walk_through(sweep: Sweep, end: _End, edge: int, n_ranks: int) -> Sweep:
    unit = grain(sweep, end.rule.collective, n_ranks)
    begin = _through(sweep, edge, unit, up=end.is_lower)
    return replace(sweep, min_nbytes=begin, factor=FACTOR, step_nbytes=None)


def _through(sweep: Sweep, nbytes: int, unit: int, *, up: bool) -> int:
    """Where doubling begins that comes to a size, or a little inside of it; as low as can be."""
    found = max(unit, nbytes // unit * unit)
    doubled = 1
    while nbytes // doubled >= max(sweep.min_nbytes, unit):
        whole = unit * doubled
        reached = (-(-nbytes // whole) if up else nbytes // whole) * whole
        # One size alone does not show where a pass ends.
        if abs(reached / nbytes - 1) <= _NEAR or 2 * found > sweep.max_nbytes:
            found = max(unit, reached // doubled)
        doubled *= 2
    return found


def grids(sweep: Sweep) -> Iterable[Sweep]:
    """The sweep's octaves, each with sizes between its ends; one range for each of these.

    Those between begin where an element is a small part of a size: below, whole elements leave no
    room for them.
    """
    unit = unit_of(sweep)
    base = sweep.min_nbytes
    while base < _FINE * unit:
        base *= FACTOR
    for part in range(PER_OCTAVE):
        between = round(base * 2 ** (part / PER_OCTAVE) / unit) * unit
        least = between if part else max(unit, sweep.min_nbytes)
        if least <= sweep.max_nbytes:
            yield replace(sweep, min_nbytes=least, factor=FACTOR, step_nbytes=None)


def verified_sizes(sweep: Sweep, collective: Collective, n_ranks: int) -> tuple[int, ...]:
    """Sizes in bytes that the octaves and those between them call with, rising."""
    called = (n for part in grids(sweep) for n in called_sizes(part, collective, n_ranks))
    return tuple(sorted(set(called)))
