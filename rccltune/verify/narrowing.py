"""What of rules stands after verification: regions that lose are cut out of every rule there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from rccltune.model import (
    MAX_NBYTES,
    NOT_MEASURED,
    Collective,
    Judgement,
    Line,
    Number,
    Placement,
    Rule,
    Scale,
    View,
    Whole,
    is_gap,
)
from rccltune.verify.verdicts import Weighed, certainty, lost

CERTAIN: Final = 0.95
_LOST: Final = (Judgement.WORSE, Judgement.WRONG)
# Nothing changes over 2 % of a size.
_SAME: Final = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Sizes that are left to the untouched library, and why.

    Attributes:
        certainty: chance of the wanted gain, where that was too small; None where sizes lost.
        line: of the only rule that it is cut out of; None for all rules there, fallbacks too.
    """

    collective: Collective
    min_nbytes: Whole
    max_nbytes: Whole
    reason: Line
    certainty: Number | None = None
    line: Whole | None = None

    def is_of(self, rule: Rule) -> bool:
        """Whether it is cut out of this rule."""
        return self.collective is rule.collective and self.line in (None, rule.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One rule after a verification.

    Attributes:
        sizes: those of its range that were measured, in every view.
        certainty: chance that it gains what is wanted over them.
        cuts: what must go of it; empty where it stands as it is.
    """

    rule: Rule
    sizes: tuple[Weighed, ...]
    certainty: Number
    cuts: tuple[Cut, ...]

    @property
    def gaining(self) -> tuple[Weighed, ...]:
        """Sizes measured as the sweep was."""
        return tuple(one for one in self.sizes if one.gains)

    @property
    def ratios(self) -> tuple[float, ...]:
        """How many times as fast as the untouched site it is at those, the least first."""
        return tuple(sorted(one.verdict.ratio for one in self.gaining))

    @property
    def median(self) -> float:
        """Of these ratios, where there are any."""
        return median(self.ratios)

    @property
    def n_gaining(self) -> int:
        """How many sizes those are, each counted once for all views."""
        return len({one.verdict.nbytes for one in self.gaining})

    @property
    def stands(self) -> bool:
        """Whether nothing of it is to go."""
        return not self.cuts


def standings(
    rules: Sequence[Rule], scale: Scale, weighed: Iterable[Weighed], min_gain: float
) -> tuple[Standing, ...]:
    """Every rule of a scale against what was measured in its range, first matches only.

    Args:
        rules: in the file's order.
        scale: of the communicator.
        weighed: every size.
        min_gain: wanted over the range, 0.02 for 2 %.
    """
    by_rule: dict[int, list[Weighed]] = {}
    for one in weighed:
        verdict = one.verdict
        for number, rule in enumerate(rules):
            if rule.matches(verdict.target.collective, verdict.nbytes, scale):
                by_rule.setdefault(number, []).append(one)
                break
    return tuple(_standing(rules[n], found, min_gain) for n, found in sorted(by_rule.items()))


def _standing(rule: Rule, sizes: list[Weighed], min_gain: float) -> Standing:
    chance = certainty(sizes, min_gain)
    cuts = _lost(rule, sizes)
    if not cuts and chance < CERTAIN:
        cuts = _uncertain(rule, sizes, min_gain)
    return Standing(rule=rule, sizes=tuple(sizes), certainty=chance, cuts=tuple(cuts))


def _lost(rule: Rule, sizes: Sequence[Weighed]) -> list[Cut]:
    """Where any view loses; what touches is one cut."""
    views: dict[View, list[Weighed]] = {}
    for one in sizes:
        views.setdefault(one.verdict.view, []).append(one)
    cuts: list[Cut] = []
    together = {id(one) for group in _neighbours(sizes) if lost(group) for one in group}
    found = [cut for members in views.values() for cut in _lost_in_view(rule, members, together)]
    for cut in sorted(found, key=lambda c: c.min_nbytes):
        if cuts and cuts[-1].max_nbytes >= cut.min_nbytes - 1:
            cuts[-1] = replace(cuts[-1], max_nbytes=max(cut.max_nbytes, cuts[-1].max_nbytes))
        else:
            cuts.append(cut)
    return cuts


def _neighbours(sizes: Sequence[Weighed]) -> list[list[Weighed]]:
    """Sizes that are all but the same, both halves: those on one side of a boundary.

    What a rule loses up to its boundary is a few percent over a short stretch, which drowns in the
    noise of one size.
    """
    groups: list[list[Weighed]] = []
    conditions: dict[View, list[Weighed]] = {}
    for one in sizes:
        view = replace(one.verdict.view, placement=Placement.OUT_OF_PLACE)
        conditions.setdefault(view, []).append(one)
    for members in conditions.values():
        last = 0
        for one in sorted(members, key=lambda w: w.verdict.nbytes):
            if not groups or one.verdict.nbytes > last * _SAME or last == 0:
                groups.append([])
                last = one.verdict.nbytes
            groups[-1].append(one)
    return [group for group in groups if len({w.verdict.nbytes for w in group}) > 1]


def _lost_in_view(rule: Rule, sizes: Sequence[Weighed], together: set[int]) -> Iterable[Cut]:
    """From the last size that is not slower to the next: who knows where between it turns."""
    bad = {w.verdict.nbytes for w in sizes if w.verdict.judgement in _LOST}
    bad |= {w.verdict.nbytes for w in sizes if id(w) in together}
    every = sorted({one.verdict.nbytes for one in sizes})
    for one in (w for w in sizes if w.verdict.nbytes in bad):
        verdict = one.verdict
        below = max((n for n in every if n < verdict.nbytes and n not in bad), default=None)
        above = min((n for n in every if n > verdict.nbytes and n not in bad), default=None)
        wrong = verdict.judgement is Judgement.WRONG
        word = "wrong results" if wrong else "slower than the untouched site"
        yield Cut(
            collective=rule.collective,
            min_nbytes=rule.min_nbytes if below is None else below + 1,
            max_nbytes=rule.max_nbytes if above is None else above - 1,
            reason=word if one.gains else f"{word} ({verdict.view})",
        )


def _uncertain(rule: Rule, sizes: Sequence[Weighed], min_gain: float) -> list[Cut]:
    """Keep the longest run of sizes over which the gain is certain; cut what is outside it."""
    every = sorted({one.verdict.nbytes for one in sizes if one.gains})
    best: tuple[int, int] | None = None
    for start in range(len(every)):
        for end in range(len(every), start, -1):
            if best is not None and end - start <= best[1] - best[0]:
                break
            inside = [o for o in sizes if every[start] <= o.verdict.nbytes <= every[end - 1]]
            if certainty(inside, min_gain) >= CERTAIN:
                best = (start, end)
                break
    why = f"gain of {100 * min_gain:.0f} % not certain"
    chance = certainty(sizes, min_gain)
    if best is None:
        return [
            Cut(
                collective=rule.collective,
                min_nbytes=rule.min_nbytes,
                max_nbytes=rule.max_nbytes,
                reason=why,
                certainty=chance,
            )
        ]
    cuts = []
    if best[0] > 0:
        cuts.append((rule.min_nbytes, every[best[0]] - 1))
    if best[1] < len(every):
        cuts.append((every[best[1] - 1] + 1, rule.max_nbytes))
    return [
        Cut(
            collective=rule.collective,
            min_nbytes=low,
            max_nbytes=high,
            reason=why,
            certainty=chance,
        )
        for low, high in cuts
    ]


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
