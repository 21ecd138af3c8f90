"""Documents of rules made from zones, before they are text, and what the order of rules means.

The first selectable match wins, so a rule behind others is a *fallback* where its sizes are
taken by rules for other cells (it is reached when those are not selectable), and *dead* where
they are taken by rules for the same cell, or by rules that need no cell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import groupby, product

from rccltune.model.choice import RESTORES, Rule, RuleCount, RuleState, Zone
from rccltune.model.errors import VerificationError
from rccltune.model.settings import Mode, Setting, Target
from rccltune.model.vocabulary import MAX_NBYTES, Algorithm, Collective, Protocol
from rccltune.rules.line_format import UNPROVEN_MARK

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
    taken: dict[_Filters, dict[_Cell, CoveredSizes]] = {}
    for rule in rules:
        bounds = (rule.min_nbytes, rule.max_nbytes)
        cell = (rule.setting.algorithm, rule.setting.protocol)
        wider = [taken[each] for each in _wider(_filters(rule)) if each in taken]
        # A rule without a cell is selectable always, and one of the same cell where this one is.
        same = [found[c] for found in wider for c in {cell, (None, None)} if c in found]
        if is_covered(*bounds, same):
            dead.append(rule)
        elif is_covered(*bounds, [covered for found in wider for covered in found.values()]):
            fallbacks.append(rule)
        cells = taken.setdefault(_filters(rule), {})
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


def intervals_left(own: Interval, rules: Iterable[Rule]) -> list[Interval]:
    """Intervals that remain without the sizes of some rules, inclusive bounds."""
    low, high = own
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The rules of one collective at one scale.

    Attributes:
        zones: by size; together they cover 0 to 2^63-1.
        fallbacks: rules for hosts where a zone's setting is not selectable.
    """

    zones: tuple[Zone, ...]
    fallbacks: tuple[Rule, ...]

    @property
    def target(self) -> Target:
        """Collective, scale and placement of ranks."""
        return self.zones[0].target

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules in file order."""
        own = (rule_of(zone, zone.setting) for zone in self.zones if zone.setting is not None)
        return (*own, *self.fallbacks)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDocument:
    """A whole rule file.

    Attributes:
        provenance: comment lines: source, date, library, machine, samples' hash.
        requires: what a machine must be for the file to apply, (key, value) pairs.
        library: ``NCCL 2.28.9`` that the rules were measured with; None where that is not known.
        needs: variables that a job must set for the rules, (name, value) pairs.
        bits: name of the bits that results keep at every size; None where none are kept.
    """

    provenance: tuple[str, ...]
    requires: tuple[tuple[str, str], ...]
    needs: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    library: str | None = None
    bits: str | None = None


def sections_of(zones: Iterable[Zone]) -> tuple[Section, ...]:
    """Group zones by collective and scale and turn each group into rules and gaps.

    Raises:
        VerificationError: the zones of a group leave a gap or overlap; a bug upstream must not
            become a rule file.
    """
    ordered = sorted(zones, key=lambda z: (_order(z.target), z.min_nbytes))
    return tuple(
        _section(tuple(group)) for _, group in groupby(ordered, key=lambda z: _order(z.target))
    )


def _order(target: Target) -> tuple[int, int, int, str]:
    collective = target.collective
    return (
        collective.func_index if collective.is_tunable else 99,
        target.scale.n_nodes,
        target.scale.n_ranks,
        target.rank_placement or "",
    )


def _section(zones: tuple[Zone, ...]) -> Section:
    _check_cover(zones)
    return Section(zones=zones, fallbacks=_fallbacks(zones))


def _check_cover(zones: Sequence[Zone]) -> None:
    expected = 0
    for zone in zones:
        if zone.min_nbytes != expected:
            raise VerificationError(
                f"zones of {zone.target.collective.value} jump from {expected} to "
                f"{zone.min_nbytes} bytes",
                hint="please report this with the session: it is a bug.",
            )
        expected = zone.max_nbytes + 1
    if expected != MAX_NBYTES + 1:
        raise VerificationError(
            f"zones of {zones[0].target.collective.value} end at {expected - 1} bytes",
            hint="please report this with the session: it is a bug.",
        )


def rule_of(zone: Zone, setting: Setting, *, fallback: bool = False) -> Rule:
    """The rule that chooses a setting for the sizes of a zone."""
    return Rule(
        collective=zone.target.collective,
        min_nbytes=zone.min_nbytes,
        max_nbytes=zone.max_nbytes,
        setting=setting,
        n_nodes=zone.target.scale.n_nodes,
        n_ranks=zone.target.scale.n_ranks,
        fallback=fallback,
    )


def _fallbacks(zones: Sequence[Zone]) -> tuple[Rule, ...]:
    """Rules behind the others; neighbours with the same setting are joined."""
    merged: list[Rule] = []
    for zone in zones:
        if zone.fallback is None:
            continue
        rule = rule_of(zone, zone.fallback, fallback=True)
        last = merged[-1] if merged else None
        if last and last.setting == rule.setting and last.max_nbytes + 1 == rule.min_nbytes:
            merged[-1] = replace(last, max_nbytes=rule.max_nbytes)
        else:
            merged.append(rule)
    return tuple(merged)


def fallback_doubt(rule: Rule, zones: Sequence[Zone]) -> str:
    """Comment on the first unproven one of the zones that a fallback stands behind; or empty."""
    mine = [
        zone.behind
        for zone in zones
        if zone.behind and rule.min_nbytes <= zone.min_nbytes <= rule.max_nbytes
    ]
    doubted = next((zone for zone in mine if _doubt(zone)), None)
    return "" if doubted is None else f"fallback {_doubt(doubted)[0]}"


def evidence_lines(zone: Zone) -> list[str]:
    """Comments on what a zone's choice rests on."""
    return [_seen(zone), *([RESTORES] if zone.state is RuleState.RESTORES else []), *_doubt(zone)]


def _seen(zone: Zone) -> str:
    """What the sweep saw of a zone's sizes."""
    parts = [f"{zone.n_sizes or 'no'} size{'s' if zone.n_sizes > 1 else ''} measured"]
    if zone.worst_regret is not None:
        parts.append(f"at most {_percent(zone.worst_regret)} behind the best measured setting")
    if zone.gain is not None:
        parts.append(
            f"{zone.gain.value:.2f}x as fast as baseline in the mean "
            f"({zone.gain.low:.2f} to {zone.gain.high:.2f})"
        )
    if zone.is_proven:
        parts.append(f"proven in {zone.n_communicators} communicators")
    return ", ".join(parts)


def _doubt(zone: Zone) -> list[str]:
    """Directly above the row, where whoever verifies the rule takes it away."""
    return [f"{UNPROVEN_MARK} {zone.why_unproven}"] if zone.why_unproven else []


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
