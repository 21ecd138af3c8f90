"""Verdicts on verification, over the seeds of a simulated node, and the goals that were missed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from verify_nodes import TrapNode
from verify_truth import Judged

from rccltune.model.rule import Rule
from rccltune.model.units import format_size

# The goals: no size above this much slower, no file in the mean over its sizes, and this share of the
# gain within tolerance kept.
WORST_LOSS, MEAN_LOSS, KEPT_SHARE = 0.02, 0.005, 0.95
ARMS = ("unverified", "verified")
# "At most 2 %" is met by 2 %, whatever its floating point says.
_EXACT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One seed.

    Attributes:
        judged: by arm; without "verified" where verification left no file or does not exist yet.
        exit_code: of verification, None where it does not exist yet.
        wall_s: of verification.
        n_dropped: rules of whose setting nothing is left where they were.
        n_narrowed: rules of which something is left.
        said: the end of what verification said, where its exit code is unexpected.
    """

    node: str
    seed: int
    judged: Mapping[str, Judged]
    exit_code: int | None = None
    wall_s: float = 0.0
    n_dropped: int = 0
    n_narrowed: int = 0
    said: str = ""


def changes(before: Iterable[Rule], after: Sequence[Rule]) -> tuple[int, int]:
    """How many rules were dropped, and how many narrowed or split."""
    dropped = narrowed = 0
    for rule in before:
        left = [
            one
            for one in after
            if one.collective is rule.collective
            and one.setting == rule.setting
            and one.min_nbytes <= rule.max_nbytes
            and one.max_nbytes >= rule.min_nbytes
        ]
        dropped += not left
        narrowed += bool(left) and not any(
            one.min_nbytes <= rule.min_nbytes and one.max_nbytes >= rule.max_nbytes for one in left
        )
    return dropped, narrowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One arm's files over all seeds.

    Attributes:
        worst_loss: of the worst seed.
        n_losing: seeds whose file loses more than is allowed, or gives wrong results.
        n_wrong: seeds with wrong results.
        kept: mean share of the available gain, None where there is none.
        least_kept: of the worst seed.
    """

    n_seeds: int
    rules: list[int]
    n_idle: int
    worst_loss: float
    n_losing: int
    n_wrong: int
    kept: float | None
    least_kept: float | None

    @classmethod
    def of(cls, found: Sequence[Judged]) -> Summary:
        """Sum up."""
        kept = [one.kept for one in found if one.kept is not None]
        return cls(
            n_seeds=len(found),
            rules=sorted({one.n_rules for one in found}),
            n_idle=sum(one.n_idle for one in found),
            worst_loss=max((one.worst_loss for one in found), default=-inf),
            n_losing=sum(loses(one) for one in found),
            n_wrong=sum(one.n_wrong > 0 for one in found),
            kept=statistics.fmean(kept) if kept else None,
            least_kept=min(kept) if kept else None,
        )


def loses(one: Judged) -> bool:
    """Whether a file must not stand."""
    return (
        one.n_wrong > 0
        or one.worst_loss > WORST_LOSS + _EXACT
        or one.mean_loss > MEAN_LOSS + _EXACT
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A node's figures over its seeds, and the goals that were missed.

    Attributes:
        arms: of those that there are.
        exit_codes: of verification, with how often.
        wall_s, n_dropped, n_narrowed: means.
        complaints: what is wrong with single seeds.
    """

    node: str
    trap: str
    arms: dict[str, Summary]
    exit_codes: dict[int, int]
    wall_s: float
    n_dropped: float
    n_narrowed: float
    complaints: list[str]
    missed: list[str]


def verdict(node: TrapNode, runs: Sequence[Run]) -> Verdict:
    """One node's runs, at least one."""
    arms = {
        arm: Summary.of([run.judged[arm] for run in runs if arm in run.judged])
        for arm in ARMS
        if any(arm in run.judged for run in runs)
    }
    codes = sorted(run.exit_code for run in runs if run.exit_code is not None)
    means = {
        name: statistics.fmean(getattr(run, name) for run in runs)
        for name in ("wall_s", "n_dropped", "n_narrowed")
    }
    return Verdict(
        node=node.name,
        trap=node.trap,
        arms=arms,
        exit_codes={code: codes.count(code) for code in codes},
        complaints=[f"seed {run.seed}: {why}" for run in runs for why in complaints(node, run)],
        missed=list(_missed(node, runs, arms.get("verified"))),
        **means,
    )


def _missed(node: TrapNode, runs: Sequence[Run], verified: Summary | None) -> Iterator[str]:
    asked = [run for run in runs if run.exit_code is not None]
    if any(run.exit_code not in expected_codes(node) for run in asked):
        yield "exit code"
    if node.must_refuse or not asked:
        return
    if verified is None or verified.n_seeds < len(asked):
        yield "no file was left"
        return
    if verified.n_losing:
        yield "worst loss"
    if verified.kept is not None and verified.kept < KEPT_SHARE - _EXACT:
        yield "gain kept"


def expected_codes(node: TrapNode) -> tuple[int, ...]:
    """0 where all is well or was mended, 9 where something is refused, 5 as launches hang, 6 as ranks differ."""
    return (5, 6, 9) if node.must_refuse else (0, 9)


def complaints(node: TrapNode, run: Run) -> Iterator[str]:
    """What is wrong with one seed's verification."""
    if run.exit_code is None:
        return
    if run.exit_code not in expected_codes(node):
        yield f"exit code {run.exit_code}: {run.said}"
    one = run.judged.get("verified")
    if one is None or node.must_refuse:
        return
    if one.n_wrong:
        yield f"wrong results at {one.n_wrong} sizes"
    if one.worst_loss > WORST_LOSS + _EXACT:
        size = format_size(one.worst_at)
        where = f"{one.worst_collective} {one.worst_choice} at {size}"
        yield f"{where} is {100 * one.worst_loss:.1f} % slower than untouched"
    if one.mean_loss > MEAN_LOSS + _EXACT:
        yield f"sizes are {100 * one.mean_loss:.2f} % slower in the mean"
    if one.kept is not None and one.kept < KEPT_SHARE - _EXACT:
        yield f"{100 * one.kept:.0f} % of the gain is kept"
