"""Sizes that rules give back to the untouched library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rccltune.model import (
    MAX_NBYTES,
    NOT_MEASURED,
    Collective,
    Line,
    Rule,
    Whole,
    is_gap,
)


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


def around(rule: Rule, bad: Iterable[int], every: Iterable[int], reason: str) -> Cut:
    """From the last good size to the next: who knows where between it turns.

    A rule with bad sizes at more than one place goes as a whole: nobody knows where else.

    Args:
        rule: to be cut.
        bad: sizes in it, at least one.
        every: sizes of it that were measured.
        reason: why.
    """
    lost = set(bad)
    good = sorted(set(every) - lost)
    least, most = min(lost), max(lost)
    if any(least < n < most for n in good):
        return whole(rule, f"{reason}, at more than one place")
    below = max((n for n in good if n < least), default=None)
    above = min((n for n in good if n > most), default=None)
    return Cut(
        collective=rule.collective,
        min_nbytes=rule.min_nbytes if below is None else below + 1,
        max_nbytes=rule.max_nbytes if above is None else above - 1,
        reason=reason,
    )


def together(rule: Rule, found: Iterable[Cut]) -> Cut:
    """One cut for several of a rule; all of it where they do not touch.

    Args:
        rule: to be cut.
        found: at least one, all for the same reason.
    """
    ordered = sorted(found, key=lambda cut: cut.min_nbytes)
    last = ordered[0]
    for cut in ordered[1:]:
        if cut.min_nbytes > last.max_nbytes + 1:
            return whole(rule, f"{last.reason}, at more than one place")
        last = replace(last, max_nbytes=max(cut.max_nbytes, last.max_nbytes))
    return last


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
