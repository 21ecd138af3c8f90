"""The order of rules: the first selectable match wins.

A rule behind others is a *fallback* where its sizes are taken by rules for other cells (it is
reached when those are not selectable), and *dead* where they are taken by rules for the same cell,
or by rules that need no cell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product

from rccltune.model.rule import Rule, RuleCount
from rccltune.model.settings import Mode
from rccltune.model.vocabulary import Algorithm, Collective, Protocol

Interval = tuple[int, int]


class CoveredSizes:
    """Sizes that were taken so far, as disjoint intervals in order; bounds are inclusive."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        """Begin with no size taken."""
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, low: int, high: int) -> None:
        """Take an interval; what it touches becomes one with it."""
        first = bisect_right(self._ends, low - 2)
        last = bisect_right(self._starts, high + 1)
        if first < last:
            low, high = min(low, self._starts[first]), max(high, self._ends[last - 1])
        self._starts[first:last] = [low]
        self._ends[first:last] = [high]

    def end_at(self, nbytes: int) -> int | None:
        """Last size of the interval that a size lies in; None where it lies in none."""
        at = bisect_right(self._starts, nbytes) - 1
        return self._ends[at] if at >= 0 and self._ends[at] >= nbytes else None


def is_covered(low: int, high: int, by: Sequence[CoveredSizes]) -> bool:
    """Whether several together take every size of an interval."""
    while low <= high:
        ends = [end for each in by if (end := each.end_at(low)) is not None]
        if not ends:
            return False
        low = max(ends) + 1
    return True


def first_at(intervals: Iterable[Interval], sizes: Sequence[int]) -> list[int | None]:
    """Number of the first interval, in the order given, that each size lies in.

    Args:
        intervals: with inclusive bounds.
        sizes: in ascending order.
    """
    waiting = sorted((low, number, high) for number, (low, high) in enumerate(intervals))
    begun: list[tuple[int, int]] = []
    firsts: list[int | None] = []
    at = 0
    for nbytes in sizes:
        while at < len(waiting) and waiting[at][0] <= nbytes:
            heappush(begun, waiting[at][1:])
            at += 1
        # What ended before this size is over for all that follow.
        while begun and begun[0][1] < nbytes:
            heappop(begun)
        firsts.append(begun[0][0] if begun else None)
    return firsts


_Cell = tuple[Algorithm | None, Protocol | None]
# Nodes, ranks, operations in a group, registration, mode; None is any.
_Filters = tuple[Collective, tuple[int | Mode | None, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderAudit:
    """Result of an audit of the order of rules.

    Attributes:
        dead: rules that no call can ever reach.
        fallbacks: rules that are reached only when another is not selectable.
    """

    dead: tuple[Rule, ...]
    fallbacks: tuple[Rule, ...]


def audit_order(rules: Sequence[Rule]) -> OrderAudit:
    """Look at rules in file order, in O(n log n).

    An earlier rule takes every call that passes a later one's filters where each of its own is
    the same or *any*, which are few combinations for each rule.
    """
    dead, fallbacks = [], []
    answered: dict[_Filters, dict[_Cell, CoveredSizes]] = {}
    for rule in rules:
        bounds = (rule.min_nbytes, rule.max_nbytes)
        cell = (rule.setting.algorithm, rule.setting.protocol)
        wider = [answered[each] for each in _wider(_filters(rule)) if each in answered]
        # A rule without a cell is selectable always, and one of the same cell where this one is.
        same = [found[c] for found in wider for c in {cell, (None, None)} if c in found]
        if is_covered(*bounds, same):
            dead.append(rule)
        elif is_covered(*bounds, [covered for found in wider for covered in found.values()]):
            fallbacks.append(rule)
        cells = answered.setdefault(_filters(rule), {})
        cells.setdefault(cell, CoveredSizes()).add(*bounds)
    return OrderAudit(dead=tuple(dead), fallbacks=tuple(fallbacks))


def _filters(rule: Rule) -> _Filters:
    pipe, registered = rule.num_pipe_ops, rule.reg_buff
    return rule.collective, (rule.n_nodes, rule.n_ranks, pipe, registered, rule.only_mode)


def _wider(filters: _Filters) -> Iterator[_Filters]:
    """Filters that let every call through that these do, themselves too."""
    collective, values = filters
    for mine in product(*({value, None} for value in values)):
        yield collective, mine


def subtract_rules(whole: Interval, rules: Iterable[Rule]) -> list[Interval]:
    """Intervals that remain without the sizes of some rules, inclusive bounds."""
    low, high = whole
    remaining: list[Interval] = []
    for rule in sorted(rules, key=lambda each: each.min_nbytes):
        if rule.max_nbytes < low:
            continue
        if rule.min_nbytes > high:
            break
        if low < rule.min_nbytes:
            remaining.append((low, rule.min_nbytes - 1))
        low = rule.max_nbytes + 1
    return [*remaining, (low, high)] if low <= high else remaining


def count_rules(rules: Sequence[Rule]) -> RuleCount:
    """Number of rules in file order, and of fallbacks among them."""
    n_fallbacks = len(audit_order(rules).fallbacks)
    return RuleCount(rules=len(rules) - n_fallbacks, fallbacks=n_fallbacks)
