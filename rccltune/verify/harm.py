"""Sizes that no rule answers and that are slower all the same: what rules need is to blame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import Final

from rccltune.model import upper_quantile
from rccltune.model.defaults import LEVEL
from rccltune.verify.verdicts import Weighed, mean_of

# Two octaves: what harms fewer sizes must be certain at each of them.
_WINDOW: Final = 8
# A mean loss below this is nobody's harm.
_SLIGHT: Final = log(1.01)


def harmed(weighed: Iterable[Weighed]) -> tuple[Weighed, ...]:
    """Those that are wrong or slower with certainty, alone or with their neighbours.

    A loss of a few percent drowns in the noise of each size and not in that of eight.

    Args:
        weighed: sizes that no rule answers.
    """
    found = list(weighed)
    by_view: dict[tuple[object, object], list[Weighed]] = {}
    for one in found:
        by_view.setdefault((one.verdict.target, one.verdict.view), []).append(one)
    rows = [sorted(row, key=lambda w: w.verdict.nbytes) for row in by_view.values()]
    windows = [row[i : i + _WINDOW] for row in rows for i in range(len(row) - _WINDOW + 1)]
    level = LEVEL / max(1, len(windows))
    bad = {id(one) for window in windows if _loses(window, level) for one in window}
    return tuple(one for one in found if one.harmed or id(one) in bad)


def _loses(window: Sequence[Weighed], level: float) -> bool:
    """Whether the mean of neighbouring sizes is slower, beyond what their launches share."""
    mean, spread, freedom = mean_of(window)
    return mean + _SLIGHT < -upper_quantile(freedom, level) * spread
