"""Called sizes of one collective: pairs as arrays, and what is said of each size."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import log1p
from typing import TYPE_CHECKING, Final

from rccltune.analyse.paired import LogMean, PairedRatios
from rccltune.model.choice import SizeVerdict, Verdict
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks.plan import BFLOAT16, GRAPH, LOOP, ONE_ROOT, REGISTERED

if TYPE_CHECKING:
    import pandas as pd

# A smaller loss is nobody's harm, however certain; a larger one is left out, certain or not.
SLIGHT: Final = log1p(-0.005)
_LOOKS: Final = log1p(-0.03)
# "Not slower" is said where a loss of so much is excluded.
_NOT_SLOWER: Final = log1p(-0.02)


class PairTable:
    """Pairs of one collective by the timing mode that counts: [replicate, placement, size].

    Another type than the one that rules were chosen for, bfloat16, stands apart.
    """

    def __init__(self, pairs: pd.DataFrame) -> None:
        """Arrange them."""
        in_bfloat16 = pairs["dtype"] == BFLOAT16
        is_beside = in_bfloat16 & (not in_bfloat16.all())
        self.bfloat16 = PairedRatios.of(pairs[is_beside]) if is_beside.any() else None
        pairs = pairs[~is_beside]
        self.pairs = pairs
        one_root, registered = (pairs["timing"] == timing for timing in (ONE_ROOT, REGISTERED))
        self.one_root = PairedRatios.of(pairs[one_root]) if one_root.any() else None
        self.registered = PairedRatios.of(pairs[registered]) if registered.any() else None
        pairs = pairs[~one_root & ~registered]
        has_graph = pairs[pairs["timing"] == GRAPH]["nbytes"].unique()
        loops_beside = (pairs["timing"] == LOOP) & pairs["nbytes"].isin(has_graph)
        self.main = pairs[~loops_beside]
        self.paired = PairedRatios.of(self.main)
        loop = pairs[loops_beside]
        self.loop = PairedRatios.of(loop) if len(loop) else None
        by_size = self.main.groupby("nbytes")
        self.nbytes = self.paired.nbytes
        self.answers = by_size["answer"].first().reindex(self.nbytes).to_numpy()
        self.is_asked = by_size["is_asked"].all().reindex(self.nbytes).to_numpy()
        alike = by_size["is_alike"].all()
        self.alike = frozenset(int(nbytes) for nbytes in alike[alike].index)
        self.timing = by_size["timing"].first().reindex(self.nbytes).to_numpy()
        self.stalls = by_size[["stalls_library", "n_library", "stalls_rules", "n_rules"]].sum()
        self.left_over = by_size["left_over"].median().reindex(self.nbytes).to_numpy()

    def sizes(
        self,
        collective: Collective,
        checked: Collection[int],
        wrong: Collection[int],
        level: float,
    ) -> Iterator[SizeVerdict]:
        """What was found at each size.

        Args:
            collective: which.
            checked: sizes whose results under the rules were compared.
            wrong: those with wrong results.
            level: of the interval by which a size is called slower.
        """
        for paired in filter(None, (self.paired, self.loop)):
            is_main = paired is self.paired
            rows = self.main if is_main else self.pairs[self.pairs["timing"] == LOOP]
            times = rows.groupby(["placement", "nbytes"])[["library_us", "rules_us"]].median()
            for at, nbytes in enumerate(paired.nbytes):
                for view, placement in enumerate(paired.views):
                    one = paired.at(at, view)
                    if one is None:
                        continue
                    library_us, rules_us = times.loc[(placement, nbytes)]
                    said = verdict_at(one, level)
                    if int(nbytes) in wrong:
                        said = Verdict.WRONG
                    elif int(nbytes) in self.alike:
                        # What the same calls differ by is noise, of which there may be much.
                        said = not_slower(one)
                    is_right = int(nbytes) in checked and said is not Verdict.WRONG
                    yield SizeVerdict(
                        collective=collective,
                        placement=Placement(placement),
                        timing=str(self.timing[at]) if is_main else LOOP,
                        nbytes=int(nbytes),
                        baseline_us=float(library_us),
                        tuned_us=float(rules_us),
                        gain=one.ratio(),
                        verdict=said,
                        n_wrong=0 if is_right else None,
                    )


def verdict_at(one: LogMean, level: float) -> Verdict:
    """What the estimate of a size says.

    Args:
        one: of the placement that gains least.
        level: of the interval by which it is slower.
    """
    is_certain = one.high(level) < 0 and one.log < SLIGHT
    if is_certain or (one.log < _LOOKS and one.log + one.se < 0):
        return Verdict.SLOWER
    if one.low() > 0:
        return Verdict.FASTER
    return not_slower(one)


def not_slower(one: LogMean) -> Verdict:
    """Whether a loss that counts is excluded."""
    return Verdict.NOT_SLOWER if one.low() > _NOT_SLOWER else Verdict.UNDECIDED
