"""Sizes that rules give back to the untouched library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from rccltune.model import (
    MAX_NBYTES,
    NOT_MEASURED,
    Collective,
    Line,
    Rule,
    Whole,
    is_gap,
)

# Places that are cut out of one rule; with more of them nobody knows where else it loses.
MOST_PLACES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Sizes that are left to the untouched library, and why.

    Attributes:
        line: of the only rule that it is cut out of; None for all rules there, fallbacks too.
    """

    collective: Collective
    min_nbytes: Whole
    max_nbytes: Whole
    reason: Line
    line: Whole | None = None

    def holds(self, collective: Collective, nbytes: int) -> bool:
        """Whether a size is among them, whatever was cut there."""
        return collective is self.collective and self.min_nbytes <= nbytes <= self.max_nbytes

    def is_of(self, rule: Rule) -> bool:
        """Whether it is cut out of this rule."""
        return self.collective is rule.collective and self.line in (None, rule.line)


def whole(rule: Rule, reason: str, *, alone: bool = False) -> Cut:
    """All of a rule, and of every fallback there.

    Args:
        rule: to be cut.
        reason: why.
        alone: fallbacks stay.
    """
    return Cut(
        collective=rule.collective,
        min_nbytes=rule.min_nbytes,
        max_nbytes=rule.max_nbytes,
        reason=reason,
        line=rule.line if alone else None,
    )


def around(rule: Rule, bad: Iterable[int], every: Iterable[int], reason: str) -> tuple[Cut, ...]:
    """From the last good size to the next, at each place: who knows where between it turns.

    Args:
        rule: to be cut.
        bad: sizes in it, at least one.
        every: sizes of it that were measured.
        reason: why.
    """
    lost = set(bad)
    found: list[Cut] = []
    below = rule.min_nbytes
    for is_bad, sizes in groupby(sorted(lost | set(every)), key=lost.__contains__):
        first, *others = sizes
        if not is_bad:
            if found and found[-1].max_nbytes == rule.max_nbytes:
                found[-1] = replace(found[-1], max_nbytes=first - 1)
            below = max((first, *others)) + 1
            continue
        found.append(
            Cut(
                collective=rule.collective,
                min_nbytes=below,
                max_nbytes=rule.max_nbytes,
                reason=reason,
            )
        )
    return tuple(found)


def together(rule: Rule, found: Iterable[Cut], most: int = MOST_PLACES) -> tuple[Cut, ...]:
    """Cuts of a rule, those that touch made one; all of it where too many places are left.

    Args:
        rule: to be cut.
        found: at least one, all for the same reason.
        most: places that may be cut out of it.
    """
    first, *others = sorted(found, key=lambda cut: cut.min_nbytes)
    merged = [first]
    for cut in others:
        last = merged[-1]
        if cut.min_nbytes > last.max_nbytes + 1:
            merged.append(cut)
        else:
            merged[-1] = replace(last, max_nbytes=max(cut.max_nbytes, last.max_nbytes))
    if len(merged) > most:
        return (whole(rule, f"{first.reason}, at {len(merged)} places"),)
    return tuple(merged)


def beyond(measured: Mapping[Collective, Iterable[int]]) -> tuple[Cut, ...]:
    """What verification does not reach: below and above its sizes, and gaps between them.

    Args:
        measured: sizes in bytes of each collective; without any, all of it is beyond.
    """
    found = []
    for collective, sizes in measured.items():
        low = 0
        for nbytes in sorted(sizes):
            if low == 0 or is_gap(low - 1, nbytes):
                found.append((collective, low, nbytes - 1))
            low = nbytes + 1
        found.append((collective, low, MAX_NBYTES))
    return tuple(
        Cut(collective=collective, min_nbytes=low, max_nbytes=high, reason=NOT_MEASURED)
        for collective, low, high in found
        if low <= high
    )


def inside(rule: Rule, cut: Cut) -> Rule | None:
    """The part of a rule that a cut takes; None where they do not meet."""
    low, high = max(rule.min_nbytes, cut.min_nbytes), min(rule.max_nbytes, cut.max_nbytes)
    if not cut.is_of(rule) or low > high:
        return None
    return replace(rule, min_nbytes=low, max_nbytes=high)


def without(rule: Rule, cuts: Iterable[Cut]) -> tuple[Rule, ...]:
    """What is left of a rule, whatever rule the cuts came from; by size."""
    left = [rule]
    for cut in cuts:
        if cut.is_of(rule):
            left = [part for one in left for part in _parts(one, cut)]
    return tuple(left)


def _parts(rule: Rule, cut: Cut) -> list[Rule]:
    parts = []
    if rule.min_nbytes < cut.min_nbytes:
        parts.append(replace(rule, max_nbytes=min(rule.max_nbytes, cut.min_nbytes - 1)))
    if rule.max_nbytes > cut.max_nbytes:
        parts.append(replace(rule, min_nbytes=max(rule.min_nbytes, cut.max_nbytes + 1)))
    return parts
