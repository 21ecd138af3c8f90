"""Two rule files of which each was held against the same library: is the second the better one."""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from statistics import fmean

from rccltune.model.defaults import LEVEL
from rccltune.model.vocabulary import Collective
from rccltune.verify.standing import Standing
from rccltune.verify.verifying import Verified

_Sizes = Iterable[tuple[Collective, int]]


class _File:
    """A verified file: what its rules gain at most at each size, in logs; 0 where it has none."""

    def __init__(self, verified: Verified | None) -> None:
        found = verified.standings if verified else ()
        self.standings = [one for one in found if one.stands and one.gaining]
        highs: dict[tuple[Collective, int], list[float]] = {}
        for one in (size for standing in self.standings for size in standing.gaining):
            verdict = one.verdict
            key = (verdict.target.collective, verdict.nbytes)
            highs.setdefault(key, []).append(log(verdict.high))
        self._high = {key: fmean(found) for key, found in highs.items()}

    def high(self, sizes: _Sizes) -> float:
        """The most that it may gain over some sizes, in the mean."""
        return fmean(self._high.get(key, 0.0) for key in sizes)


def is_better(ours: Verified, site: Verified | None) -> bool:
    """Whether a file is proven to be faster than the site's somewhere, and slower nowhere.

    Where neither has a rule verification has shown that what ours needs does no harm; a file that
    was not shown so has lost its needs, and offers nothing that the site's does not.

    Args:
        ours: a file for an environment.
        site: the site's; None where that has no rule.
    """
    if not ours.needs:
        return False
    mine, theirs = _File(ours), _File(site)
    if any(mine.high(_sizes(one)) < one.gain.low(LEVEL) for one in theirs.standings):
        return False
    return any(one.gain.low(LEVEL) > theirs.high(_sizes(one)) for one in mine.standings)


def _sizes(one: Standing) -> list[tuple[Collective, int]]:
    found = ((size.verdict.target.collective, size.verdict.nbytes) for size in one.gaining)
    return list(dict.fromkeys(found))
