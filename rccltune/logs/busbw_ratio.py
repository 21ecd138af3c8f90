"""Evidence from a run's bandwidths and operations for its collective and its ranks.

busbw over algbw is a number that each collective has at each number of ranks
(:func:`rccltune.model.busbw_factor`). Both are printed with few decimals, so it is known between
two ends. It decides where exactly one collective, or one number of ranks, fits what is stated, and
refuses what the user states where that does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf
from typing import Final

from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.resolver import Resolver
from rccltune.model.errors import CommandLineError
from rccltune.model.measurement import Caution
from rccltune.model.units import busbw_factor
from rccltune.model.vocabulary import Collective

_NONE: Final = "none"
_ROOTED: Final = frozenset(
    (Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """Evidence of one run for its collective and its number of ranks.

    Attributes:
        low: least busbw / algbw that the printed digits allow; 0 where there are none.
        high: largest.
        ratio: as printed; None where there are no bandwidths.
        redops: operations that its rows name.
        names_root: whether its rows name a root; None where the table has no column for it.
        line: of the row with the largest bandwidth.
    """

    low: float = 0.0
    high: float = inf
    ratio: float | None = None
    redops: frozenset[str] = frozenset()
    names_root: bool | None = None
    line: int = 0

    def allows(self, collective: Collective) -> bool:
        """Whether the operation can be this collective's.

        Benchmarks of what computes nothing print ``none``; sendrecv prints an operation.
        """
        if self.names_root is not None and self.names_root != (collective in _ROOTED):
            return False
        if not self.redops or collective.has_own_algbw:
            # Benchmarks leave the operation's column out only where there is none.
            return self.names_root is None or bool(self.redops) or not collective.reduces
        if self.redops == {_NONE}:
            return not collective.reduces
        return collective.reduces or collective is Collective.SENDRECV

    def fits(self, collective: Collective, n_ranks: int) -> bool:
        """Whether operation and bandwidths can be those of this collective on so many ranks."""
        return self.allows(collective) and (
            collective.has_own_algbw or self.low <= busbw_factor(collective, n_ranks) <= self.high
        )

    def find_ranks(self, collective: Collective) -> int | None:
        """The only number of ranks that fits; None where several do, or none."""
        # A factor is k (n - 1) / n, so that n is 1 / (1 - factor / k); some are 1 for any n.
        k = 2 * busbw_factor(collective, 2)
        is_constant = busbw_factor(collective, 2) == busbw_factor(collective, 3)
        if is_constant or not self.allows(collective) or not 0 < self.low <= self.high < k:
            return None
        few, many = (1 / (1 - end / k) for end in (self.low, self.high))
        few, many = max(2, ceil(few - 1e-6)), floor(many + 1e-6)
        return few if few == many else None

    @property
    def text(self) -> str:
        """Text of the evidence for a user."""
        parts = [] if self.ratio is None else [f"busbw is {self.ratio:.4g} × algbw"]
        if self.redops:
            parts.append(f"the operation is '{', '.join(sorted(self.redops))}'")
        return " and ".join(parts)


def _gather_evidence(run: LogRun) -> RunEvidence:
    """Evidence from the rows of one run."""
    timings = run.timings
    names = {run.row_facts[at].op for at in timings["mix"].unique()}
    redops = frozenset(each.lower() for each in names if each)
    if run.unit is None or not {"algbw", "busbw"} <= set(timings):
        return RunEvidence(redops=redops, names_root=run.names_root)
    is_finite = (timings["algbw"] > 0) & (timings["algbw"] < inf) & (timings["busbw"].abs() < inf)
    # One whole unit, since some tools truncate; below two units nothing is told.
    known = timings[is_finite & (timings["algbw"] > 2 * run.unit)]
    if not len(known):
        return RunEvidence(redops=redops, names_root=run.names_root)
    peak = known.iloc[int(known["algbw"].argmax())]
    algbw, busbw, unit = float(peak["algbw"]), float(peak["busbw"]), run.unit
    return RunEvidence(
        low=max(0.0, busbw - unit) / (algbw + unit),
        high=(busbw + unit) / (algbw - unit),
        ratio=busbw / algbw,
        redops=redops,
        names_root=run.names_root,
        line=int(peak["line"]),
    )


def check_ratios(runs: Sequence[LogRun], resolver: Resolver) -> None:
    """Give runs what their ratio alone decides, and hold what is stated against it.

    Args:
        runs: of one file; those of one collective and scale are looked at together.
        resolver: the options.

    Raises:
        OutputError: collective, ranks or nodes are said nowhere.
        CommandLineError: the stated collective or ranks cannot be those of the file.
    """
    evidence = [_gather_evidence(run) for run in runs]
    kinds = [(run.facts.collective, run.facts.n_ranks, run.facts.hosts) for run in runs]
    for run, mine, kind in zip(runs, evidence, kinds, strict=True):
        same_kind = [one for one, other in zip(evidence, kinds, strict=True) if other == kind]
        hint = _infer_facts(run, resolver, same_kind)
        resolver.require(run.first_facts, hint)
        _check_ratio(run, resolver, mine)


def _infer_facts(run: LogRun, resolver: Resolver, evidence: Sequence[RunEvidence]) -> str:
    """Take the collective or the ranks that alone fit; a hint for the user where several do."""
    facts = run.first_facts
    n_ranks = resolver.drop_total_ranks(facts).n_ranks or resolver.stated.n_ranks
    collective = facts.collective or resolver.stated.collective
    clearest = max(evidence, key=lambda one: one.low / one.high)
    hint, text = "", ""
    if collective is None and n_ranks is not None:
        fit = [] if clearest.ratio is None else _find_collectives(evidence, n_ranks)
        if len(fit) == 1:
            collective = fit[0]
            bandwidths = f"with these bus bandwidths on {n_ranks} ranks"
            text = f"{collective.value}: the only collective {bandwidths}"
        elif clearest.text:
            names = " or ".join(f"--collective {one.value}" for one in fit) or "no collective"
            hint = f"{clearest.text}, which fits {names} on {n_ranks} ranks"
    elif collective is not None and n_ranks is None:
        n_ranks = _find_only_ranks(evidence, collective)
        text = f"{n_ranks} ranks: the only number with these bus bandwidths for {collective.value}"
    if text and n_ranks is not None:
        resolver.notice(
            Caution.ASSUMED,
            f"{text} ({clearest.text})",
            "if it was another, say so with --collective and --ranks.",
            clearest.line or facts.line,
        )
        inferred = LogFacts(line=run.facts.line, collective=collective, n_ranks=n_ranks)
        run.facts = run.facts.or_else(inferred)
    return hint


def _find_only_ranks(evidence: Sequence[RunEvidence], collective: Collective) -> int | None:
    """The only number of ranks that runs of one job can be on; None where that is not one."""
    numbers = {number for one in evidence if (number := one.find_ranks(collective)) is not None}
    fit = [n for n in numbers if all(one.fits(collective, n) for one in evidence)]
    return fit[0] if len(fit) == 1 and len(numbers) == 1 else None


def _find_collectives(evidence: Sequence[RunEvidence], n_ranks: int) -> list[Collective]:
    """Collectives that runs of one job can be of, on so many ranks."""
    known = [one for one in Collective if not one.has_own_algbw]
    return [c for c in known if all(one.fits(c, n_ranks) for one in evidence)]


def _check_ratio(run: LogRun, resolver: Resolver, evidence: RunEvidence) -> None:
    """Hold bandwidths and operation against collective and ranks, where somebody states them."""
    # Of groups that the file does not show, the bandwidths' ratio tells that there were any.
    facts = resolver.drop_total_ranks(run.first_facts)
    collective = facts.collective or resolver.stated.collective
    n_ranks = facts.n_ranks or resolver.stated.n_ranks
    if collective is None or n_ranks is None or (facts.collective and facts.hosts):
        return
    if facts.collective is not None and not evidence.allows(facts.collective):
        evidence = replace(evidence, redops=frozenset())
    if evidence.fits(collective, n_ranks):
        return
    factor = busbw_factor(collective, n_ranks)
    number = evidence.find_ranks(collective)
    fits = [f"--collective {one.value}" for one in _find_collectives([evidence], n_ranks)]
    fits = fits or [f"--ranks {number}"] * bool(number)
    raise CommandLineError(
        f"{collective.value} on {n_ranks} ranks has busbw = {factor:.4g} × algbw"
        f"{'' if evidence.allows(collective) else ' and another kind of operation'}, but in the "
        f"file {evidence.text}",
        where=resolver.where(evidence.line or run.facts.line),
        hint=f"correct --collective or --ranks{': ' if fits else ''}{' or '.join(fits)}"
        f"{resolver.for_all}.",
    )
