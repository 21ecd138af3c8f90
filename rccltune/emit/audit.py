"""What the order of a file's rules means: which can be reached, which sizes fall between them.

The first selectable match wins, so a rule behind others is a *fallback* where its sizes are
taken by rules for other cells (it is reached when those are not selectable), and *dead* where
they are taken by rules for the same cell, or by rules that need no cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rccltune.model import Rule
from rccltune.units import MAX_NBYTES
from rccltune.vocab import Algorithm, Collective, Protocol

Interval = tuple[int, int]
_Group = tuple[Collective, int | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Sizes of one collective and scale that no rule covers, between others that are covered."""

    collective: Collective
    n_nodes: int | None
    n_ranks: int | None
    min_nbytes: int
    max_nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the order means.

    Attributes:
        dead: rules that no call can ever reach.
        fallbacks: rules that are reached only when another is not selectable.
        gaps: uncovered sizes from 0 to 2^63-1, by group.
    """

    dead: tuple[Rule, ...]
    fallbacks: tuple[Rule, ...]
    gaps: tuple[Gap, ...]


def audit(rules: Sequence[Rule]) -> Audit:
    """Look at rules in file order, O(n^2) in the rules of one collective."""
    dead, fallbacks = [], []
    for number, rule in enumerate(rules):
        before = [
            earlier
            for earlier in rules[:number]
            if earlier.collective is rule.collective and _takes_all_calls_of(earlier, rule)
        ]
        own = (rule.min_nbytes, rule.max_nbytes)
        if not left_over(own, [r for r in before if _needs_no_more_than(r, rule)]):
            dead.append(rule)
        elif not left_over(own, before):
            fallbacks.append(rule)
    return Audit(dead=tuple(dead), fallbacks=tuple(fallbacks), gaps=_gaps(rules))


def _takes_all_calls_of(earlier: Rule, rule: Rule) -> bool:
    """Whether every call that passes the later rule's filters passes the earlier one's."""
    if earlier.min_nbytes > rule.max_nbytes or earlier.max_nbytes < rule.min_nbytes:
        return False
    pairs = (
        (earlier.n_nodes, rule.n_nodes),
        (earlier.n_ranks, rule.n_ranks),
        (earlier.num_pipe_ops, rule.num_pipe_ops),
        (earlier.reg_buff, rule.reg_buff),
        (earlier.only_mode, rule.only_mode),
    )
    return all(wide is None or wide == narrow for wide, narrow in pairs)


def _needs_no_more_than(earlier: Rule, rule: Rule) -> bool:
    """Whether the earlier rule is selectable whenever the later one is."""
    return _cell(earlier) in ((None, None), _cell(rule))


def _cell(rule: Rule) -> tuple[Algorithm | None, Protocol | None]:
    return rule.setting.algorithm, rule.setting.protocol


def left_over(own: Interval, rules: Sequence[Rule]) -> list[Interval]:
    """What remains of an interval without the sizes of some rules, inclusive bounds."""
    left = [own]
    for rule in rules:
        cut: list[Interval] = []
        for low, high in left:
            if rule.max_nbytes < low or rule.min_nbytes > high:
                cut.append((low, high))
                continue
            if low < rule.min_nbytes:
                cut.append((low, rule.min_nbytes - 1))
            if rule.max_nbytes < high:
                cut.append((rule.max_nbytes + 1, high))
        left = cut
        if not left:
            break
    return left


def _gaps(rules: Sequence[Rule]) -> tuple[Gap, ...]:
    groups: dict[_Group, list[Rule]] = {}
    for rule in rules:
        groups.setdefault((rule.collective, rule.n_nodes, rule.n_ranks), []).append(rule)
    return tuple(
        Gap(
            collective=collective,
            n_nodes=n_nodes,
            n_ranks=n_ranks,
            min_nbytes=low,
            max_nbytes=high,
        )
        for (collective, n_nodes, n_ranks), members in groups.items()
        for low, high in left_over((0, MAX_NBYTES), members)
    )
