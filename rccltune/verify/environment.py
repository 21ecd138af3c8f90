"""Two verified rule files of one machine: whether the one with a variable more is the better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, log1p
from typing import Final

from rccltune.model.vocabulary import Collective
from rccltune.verify.outcome import VerificationResult
from rccltune.verify.site_and_idle import SiteAndIdle, is_judged
from rccltune.verify.verdict import IdleEffect, RuleVerdict

_NOT_SLOWER: Final = log1p(-0.02)


@dataclass(frozen=True)
class _RuleGain:
    """A rule with the ends of its log gain over the site as it is."""

    rule: RuleVerdict
    low: float
    high: float

    def meets(self, other: _RuleGain) -> bool:
        """Whether both reach some size."""
        mine, theirs = self.rule, other.rule
        return mine.collective is theirs.collective and (
            mine.min_nbytes <= theirs.max_nbytes and theirs.min_nbytes <= mine.max_nbytes
        )


def is_better(
    ours: VerificationResult,
    site: VerificationResult | None,
    variable: SiteAndIdle,
    sizes: Mapping[Collective, Iterable[int]],
) -> bool:
    """Whether a file is proven to be faster than the site's somewhere, and slower nowhere.

    Sizes without a rule are held against the site as it is; where noise hides what the variable
    does to them, within 3 %, nobody knows, and the file is none for everybody.

    Args:
        ours: of the session with the variable.
        site: of the site's session; None where that has no rule.
        variable: the site as it is, and our plugin idle with the variable.
        sizes: in bytes, that both sessions swept.
    """
    octaves = tuple(variable.octaves(sizes))
    if not octaves or not all(map(is_judged, octaves)):
        return False
    mine = list(_over_site(ours, variable))
    theirs = [] if site is None else list(_gains(site))
    slower = (one for one in octaves if one.ratio.low <= exp(_NOT_SLOWER))
    if not all(_covers(mine, one) for one in slower) or any(o.low <= _NOT_SLOWER for o in mine):
        return False
    if any(_most(mine, one) < one.low for one in theirs):
        return False
    return any(one.low > _most(theirs, one) for one in mine)


def _gains(verified: VerificationResult) -> Iterator[_RuleGain]:
    """Rules that are kept, over the library in their own environment."""
    for rule in verified.standings:
        if rule.is_kept and rule.gain is not None:
            yield _RuleGain(rule, log(rule.gain.low), log(rule.gain.high))


def _over_site(verified: VerificationResult, variable: SiteAndIdle) -> Iterator[_RuleGain]:
    """The same over the site as it is; without what nobody measured of it."""
    for one in _gains(verified):
        rule = one.rule
        idle = variable.between(rule.collective, rule.min_nbytes, rule.max_nbytes)
        if idle is not None:
            yield _RuleGain(rule, one.low + idle.low(), one.high + idle.high())


def _covers(rules: Iterable[_RuleGain], octave: IdleEffect) -> bool:
    """Whether rules answer all of an octave, so that its times without them are nobody's."""
    return any(
        one.rule.collective is octave.collective
        and one.rule.min_nbytes <= octave.min_nbytes
        and octave.max_nbytes <= one.rule.max_nbytes
        for one in rules
    )


def _most(rules: Sequence[_RuleGain], over: _RuleGain) -> float:
    """The most that rules may gain where another one reaches; 0 where none of them does."""
    return max((one.high for one in rules if one.meets(over)), default=0.0)
