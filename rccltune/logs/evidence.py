"""Evidence from a run's bandwidths and operations for its collective and its ranks.

busbw over algbw is a number that each collective has at each number of ranks
(:func:`rccltune.model.busbw_factor`). Both are printed with few decimals, so it is known between
two ends, which lie close together where a bandwidth is large and far apart where it is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf
from typing import Final

from rccltune.logs.facts import LogRun
from rccltune.model.vocabulary import Collective, busbw_factor

_NONE: Final = "none"
_ROOTED: Final = frozenset(
    each for each in Collective if each.value in ("broadcast", "reduce", "gather", "scatter")
)
# More ranks than any table names are not proposed.
_MOST_RANKS: Final = 1 << 20
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """Evidence of one run for its collective and its number of ranks.

    Attributes:
        low: least busbw / algbw that the printed digits allow; 0 where there are none.
        high: largest.
        ratio: as printed; None where there are no bandwidths.
        redops: operations that its rows name.
        rooted: whether its rows name a root; None where the table has no column for it.
        line: of the row with the largest bandwidth.
    """

    low: float = 0.0
    high: float = inf
    ratio: float | None = None
    redops: frozenset[str] = frozenset()
    rooted: bool | None = None
    line: int = 0

    def allows(self, collective: Collective) -> bool:
        """Whether the operation can be this collective's.

        Benchmarks of what computes nothing print ``none``; sendrecv prints an operation.
        """
        if self.rooted is not None and self.rooted != (collective in _ROOTED):
            return False
        if not self.redops or collective.has_own_algbw:
            # Benchmarks leave the operation's column out only where there is none.
            return self.rooted is None or bool(self.redops) or not collective.reduces
        if self.redops == {_NONE}:
            return not collective.reduces
        return collective.reduces or collective is Collective.SENDRECV

    def fits(self, collective: Collective, n_ranks: int) -> bool:
        """Whether operation and bandwidths can be those of this collective on so many ranks."""
        return self.allows(collective) and (
            collective.has_own_algbw or self.low <= busbw_factor(collective, n_ranks) <= self.high
        )

    def ranks_of(self, collective: Collective) -> tuple[int, int] | None:
        """Fewest and most ranks that fit; None where none do. A factor of 1 fits any number."""
        if not self.allows(collective):
            return None
        if busbw_factor(collective, 2) == busbw_factor(collective, 3):
            return (2, _MOST_RANKS) if self.fits(collective, 2) else None
        # A factor is k (n - 1) / n, so that n is 1 / (1 - factor / k).
        k = 2 * busbw_factor(collective, 2)
        if self.low >= k:
            return None
        few, many = (min(_ranks_at(end / k), _MOST_RANKS) for end in (self.low, self.high))
        few, many = max(2, ceil(few - 1e-6)), floor(many + 1e-6)
        return (few, many) if few <= many else None

    @property
    def shown(self) -> str:
        """Text of the evidence for a user."""
        parts = [] if self.ratio is None else [f"busbw is {self.ratio:.4g} × algbw"]
        if self.redops:
            parts.append(f"the operation is '{', '.join(sorted(self.redops))}'")
        return " and ".join(parts)


def _ranks_at(share: float) -> float:
    """The n of a share (n - 1) / n."""
    return 1 / (1 - share) if share < 1 else inf


# A missing bandwidth tells nothing.
UNKNOWN: Final = RunEvidence()


def evidence_of(run: LogRun) -> RunEvidence:
    """Evidence from the rows of one run."""
    timings = run.timings
    redops = {run.who[at].redop for at in timings["who"].unique()}
    named = frozenset(each.lower() for each in redops if each)
    known = {"algbw", "busbw"} <= set(timings) and run.unit is not None
    with_bandwidths = timings[:0]
    if known:
        with_bandwidths = timings[(timings["algbw"] > 0) & (timings["algbw"] < inf)]
        with_bandwidths = with_bandwidths[with_bandwidths["busbw"].abs() < inf]
    if not len(with_bandwidths):
        return RunEvidence(redops=named, rooted=run.rooted)
    peak = with_bandwidths.loc[with_bandwidths["algbw"].idxmax()]
    algbw, busbw, line = float(peak["algbw"]), float(peak["busbw"]), int(peak["line"])
    # One whole unit, since some tools truncate; below one unit nothing is told.
    unit = run.unit or 0.0
    if algbw <= 2 * unit:
        return RunEvidence(redops=named, rooted=run.rooted, line=line)
    return RunEvidence(
        low=max(0.0, busbw - unit) / (algbw + unit),
        high=(busbw + unit) / (algbw - unit),
        ratio=busbw / algbw,
        redops=named,
        rooted=run.rooted,
        line=line,
    )


def fitting_options(
    evidence: RunEvidence, collective: Collective | None, n_ranks: int | None
) -> str:
    """Options that fit what a run tells, of those that are still to be said; empty without any.

    Args:
        evidence: of the run.
        collective: where it is known.
        n_ranks: where it is known.
    """
    if evidence is UNKNOWN or not evidence.shown:
        return ""
    listed = list(_options(evidence, collective, n_ranks))
    if not listed:
        return f"{evidence.shown}, which fits nothing that is known"
    more = len(listed) - _SHOWN
    words = listed if more <= 0 else [*listed[:_SHOWN], f"{more} more"]
    return f"{evidence.shown}, which fits {' or '.join(words)}"


def only_candidate(
    evidence: Sequence[RunEvidence], collective: Collective | None, n_ranks: int | None
) -> tuple[Collective, int] | None:
    """The only collective, or the only number of ranks, that runs can be of; else None.

    Args:
        evidence: evidence of each run.
        collective: where it is known.
        n_ranks: where it is known.
    """
    if not evidence or all(one.ratio is None for one in evidence):
        return None
    known = [c for c in Collective if not c.has_own_algbw] if collective is None else [collective]
    fit = []
    for each in known:
        spans = [one.ranks_of(each) or (2, 1) for one in evidence]
        few, many = max(span[0] for span in spans), min(span[1] for span in spans)
        if n_ranks is not None and n_ranks > 1 and all(one.fits(each, n_ranks) for one in evidence):
            few = many = n_ranks
        elif n_ranks is not None:
            continue
        if few <= many:
            fit.append((each, few, many))
    if len(fit) != 1 or fit[0][1] != fit[0][2]:
        return None
    return fit[0][0], fit[0][1]


def _options(
    evidence: RunEvidence, collective: Collective | None, n_ranks: int | None
) -> Iterator[str]:
    known = [each for each in Collective if not each.has_own_algbw]
    for each in known if collective is None else (collective,):
        name = "" if collective is not None else f"--collective {each.value}"
        if n_ranks is not None:
            if evidence.fits(each, n_ranks):
                yield f"{name} on {n_ranks} ranks".strip()
        elif (ranks := evidence.ranks_of(each)) is not None:
            yield f"{name} {_ranks_shown(*ranks)}".strip()


def _ranks_shown(few: int, many: int) -> str:
    if few == many:
        return f"--ranks {few}"
    if many == _MOST_RANKS:
        return "any --ranks" if few == 2 else f"--ranks {few} or more"
    return f"--ranks {few} to {many}"
