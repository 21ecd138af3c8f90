"""Called sizes of one collective: pairs as arrays, and the verdict on each size."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import log1p
from typing import TYPE_CHECKING, Final

import numpy as np

from rccltune.analyse.paired_intervals import LogMean, PairedRatios
from rccltune.model.verdict import SizeVerdict, Verdict
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks.plan import BFLOAT16, GRAPH, LOOP, ONE_ROOT, REGISTERED

if TYPE_CHECKING:
    import pandas as pd

# A smaller loss is nobody's harm, however certain; a larger one is left out, certain or not.
SLIGHT: Final = log1p(-0.005)
_LOOKS: Final = log1p(-0.03)
# "Not slower" is said where a loss of so much is excluded.
_NOT_SLOWER: Final = log1p(-0.02)

_MAIN: Final = "main"
_BY_LOOP: Final = "loop"


class PairTable:
    """Pairs of one collective as arrays: [replicate, placement, size].

    Args:
        pairs: as :func:`rccltune.verify.pairs.pair_times` makes it, of one collective.

    Attributes:
        nbytes: called sizes, rising.
        paired: log ratios by the timing mode that judges each size.
        beside: log ratios of calls that are timed beside it, by the name that
            :class:`~.verdict_file.RuleVerdict` has for them: ``loop`` (sizes that graphs
            judge), ``one_root``, ``registered``, ``bfloat16`` (where another type judges).
        equivalent: sizes at which both sides made the same calls.
    """

    def __init__(self, pairs: pd.DataFrame) -> None:
        """Arrange them."""
        rows = _split_by_use(pairs)
        main = rows.get(_MAIN, pairs[:0])
        self._loops = rows.get(_BY_LOOP, pairs[:0])
        self._main = main
        self.beside = {
            name: PairedRatios.of(ratios) for name, ratios in rows.items() if name != _MAIN
        }
        self.paired = PairedRatios.of(main)
        self.nbytes = self.paired.nbytes
        by_size = main.groupby("nbytes")
        self.answers = by_size["answer"].first().to_numpy()
        self.is_asked = by_size["is_asked"].all().to_numpy(dtype=bool)
        self.equivalent = frozenset(self.nbytes[by_size["is_equivalent"].all().to_numpy(bool)])
        self.timing = by_size["timing"].first().to_numpy()
        self.stalls = by_size[["stalls_library", "n_library", "stalls_rules", "n_rules"]].sum()
        self.left_over = by_size["left_over"].median().to_numpy()

    def judge_sizes(
        self,
        collective: Collective,
        checked: Collection[int],
        wrong: Collection[int],
        level: float,
    ) -> Iterator[SizeVerdict]:
        """Judge each size in each placement, by the timing mode that counts and by loops beside it.

        Args:
            collective: which.
            checked: sizes whose results under the rules were compared.
            wrong: those with wrong results.
            level: of the interval by which a size is called slower.
        """
        for paired, rows in ((self.paired, self._main), (self.beside.get(_BY_LOOP), self._loops)):
            if paired is None:
                continue
            times = rows.groupby(["placement", "nbytes"])[["library_us", "rules_us"]].median()
            for at, nbytes in enumerate(map(int, paired.nbytes)):
                for view, placement in enumerate(paired.views):
                    one = paired.at(at, view)
                    if one is None:
                        continue
                    library_us, rules_us = times.loc[(placement, nbytes)]
                    verdict = verdict_at(one, level)
                    if nbytes in wrong:
                        verdict = Verdict.WRONG
                    elif nbytes in self.equivalent:
                        # What the same calls differ by is noise, of which there may be much.
                        verdict = judge_not_slower(one)
                    is_right = nbytes in checked and verdict is not Verdict.WRONG
                    yield SizeVerdict(
                        collective=collective,
                        placement=Placement(placement),
                        timing=str(self.timing[at]) if paired is self.paired else LOOP,
                        nbytes=nbytes,
                        baseline_us=float(library_us),
                        tuned_us=float(rules_us),
                        gain=one.ratio(),
                        verdict=verdict,
                        n_wrong=0 if is_right else None,
                    )


def _split_by_use(pairs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Rows of the timing mode that judges each size, and of what is timed beside it."""
    is_bfloat16 = pairs["dtype"] == BFLOAT16
    # Where rules were chosen for that type it is not beside another one.
    is_beside = is_bfloat16 & (not is_bfloat16.all())
    timing = pairs["timing"]
    by_graph = pairs.loc[~is_beside & (timing == GRAPH), "nbytes"]
    is_looped = (timing == LOOP) & pairs["nbytes"].isin(by_graph)
    use = np.select(
        [is_beside, timing == ONE_ROOT, timing == REGISTERED, is_looped],
        ["bfloat16", "one_root", "registered", _BY_LOOP],
        _MAIN,
    )
    return {str(name): rows for name, rows in pairs.groupby(use, sort=False)}


def verdict_at(one: LogMean, level: float) -> Verdict:
    """Verdict on the estimate of a size.

    Args:
        one: of the placement that gains least.
        level: of the interval by which it is slower.
    """
    is_certain = one.high(level) < 0 and one.log < SLIGHT
    if is_certain or (one.log < _LOOKS and one.log + one.se < 0):
        return Verdict.SLOWER
    if one.low() > 0:
        return Verdict.FASTER
    return judge_not_slower(one)


def judge_not_slower(one: LogMean) -> Verdict:
    """Verdict by whether a loss that counts is excluded."""
    return Verdict.NOT_SLOWER if one.low() > _NOT_SLOWER else Verdict.UNDECIDED
