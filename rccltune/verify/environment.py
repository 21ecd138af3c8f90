"""Two verified rule files of one site: whether the one for an environment is the better one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rccltune.verify.outcome import VerificationResult
from rccltune.verify.site_and_idle import slower
from rccltune.verify.verdict import RuleVerdict


def is_better(ours: VerificationResult, site: VerificationResult | None) -> bool:
    """Whether a file is proven to be faster than the site's somewhere, and slower nowhere.

    Sizes without a rule are held against the site as it is; where noise hides what the environment
    does to them, within 3 %, nobody knows, and the file is none for everybody.

    Args:
        ours: a file for an environment.
        site: the site's; None where that has no rule.
    """
    if not ours.file.needs or ours.file.not_judged_below is not None:
        return False
    mine, theirs = _kept(ours), _kept(site)
    if any(
        not _covers(one.min_nbytes, one.max_nbytes, mine, one) for one in slower(ours.file.beside)
    ):
        return False
    if any(_most(mine, one) < _low(one) for one in theirs):
        return False
    return any(_low(one) > _most(theirs, one) for one in mine)


def _kept(one: VerificationResult | None) -> list[RuleVerdict]:
    return [rule for rule in one.standings if rule.is_kept and rule.gain] if one else []


def _covers(low: int, high: int, rules: Iterable[RuleVerdict], octave: object) -> bool:
    """Whether rules answer all of an octave, so that its untuned times are nobody's."""
    collective = getattr(octave, "collective", None)
    return any(
        one.collective is collective and one.min_nbytes <= low and high <= one.max_nbytes
        for one in rules
    )


def _low(one: RuleVerdict) -> float:
    return one.gain.low if one.gain else 1.0


def _most(rules: Iterable[RuleVerdict], over: RuleVerdict) -> float:
    """The most that rules may gain where another one reaches; 1 where none of them does."""
    return max(_highs(rules, over), default=1.0)


def _highs(rules: Iterable[RuleVerdict], over: RuleVerdict) -> Iterator[float]:
    for one in rules:
        meets = one.min_nbytes <= over.max_nbytes and over.min_nbytes <= one.max_nbytes
        if one.collective is over.collective and meets and one.gain:
            yield one.gain.high
