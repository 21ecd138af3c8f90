"""What rules are held to, whether they stand, and what must go of those that do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import exp, inf, log, log2
from pathlib import Path
from typing import Final

from rccltune.model.chosen import Judgement, Rule
from rccltune.model.defaults import LEVEL
from rccltune.model.measured import Sweep
from rccltune.model.schema import Number
from rccltune.plan.octaves import PER_OCTAVE
from rccltune.verify import cuts
from rccltune.verify.cells import is_of
from rccltune.verify.cuts import Cut
from rccltune.verify.evidence import (
    FEWEST_LAUNCHES,
    MARGIN,
    SLIGHTLY,
    Evidence,
    Judging,
    Side,
    Weighed,
)
from rccltune.verify.harm import EnvironmentGain, Sizes
from rccltune.verify.held import Held, Swept
from rccltune.verify.intervals import UNKNOWN, Estimate, by_launch, over


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a file is held to.

    Attributes:
        where: the file, for messages.
        min_gain: what a rule must gain over its range, 0.02 for 2 %.
        n_looks: while something is undecided.
        keep_losers: nothing is cut.
        needs_stay: the file is for what its rules need: it is worth nothing without.
    """

    where: Path
    min_gain: float
    n_looks: int
    keep_losers: bool
    needs_stay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A file, and what was found out of it.

    Attributes:
        weighed: every size under each condition, in the conditions' order.
        standings: rules that are left, and with ``keep_losers`` those that lose.
        cuts: what went.
        lost_needs: what rules asked of the environment, and was not shown to do no harm.
        environment: log(untouched time / time in it) over sizes without a rule, where it stands.
        environment_gains: where it wins there, of a file that is for it.
        harmed: sizes that no rule answers and that the rules slow.
    """

    text: str
    held: tuple[Held, ...]
    weighed: tuple[tuple[Weighed, ...], ...]
    standings: tuple[Standing, ...]
    cuts: tuple[Cut, ...] = ()
    lost_needs: tuple[str, ...] = ()
    environment: Estimate | None = None
    environment_gains: tuple[EnvironmentGain, ...] = ()
    harmed: Sizes = field(default_factory=dict)
    n_launches: int
    n_looks: int


_LOST: Final = (Judgement.WORSE, Judgement.WRONG)
_FINE: Final = (Judgement.BETTER, Judgement.SAME)
# As fine as verification looks; a little less, since sizes are whole elements.
_STEP: Final = 0.95 / PER_OCTAVE
# Sizes this close to each other tell of one another what launches cannot tell of each.
_BESIDE: Final = 2**0.5
# Standard deviations that one normal variable in twenty exceeds.
_ONE_IN_TWENTY: Final = 1.645
# Launches, the sweep's among them, in which a rule's setting must have been seen: what is slow in
# one launch of five is seen with 95 % certainty, what is slow in 30 % of them with 99 %.
MANY_LAUNCHES: Final = 14


class Shown(Enum):
    """Where the gain of a rule was seen."""

    BY_LAUNCHES = "between launches too"
    IN_ONE_LAUNCH = "inside one launch only"


_NOTHING: Final = (UNKNOWN, Shown.IN_ONE_LAUNCH)


class State(Enum):
    """What is known of a rule; the later, the less is left of it."""

    STANDS = "stands"
    UNDECIDED = "undecided"
    NO_GAIN = "no gain"
    LOSES = "loses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One rule after a look.

    Attributes:
        sizes: those of its range that were measured, in every view.
        gain: log(untouched time / tuned time) over them, in the view where it is least sure.
        certainty: chance that it gains what is wanted over them, in the worst view.
        shown: whether launches of their own tell as much.
        cuts: what must go of it; none where nothing must, or nobody knows yet.
        ends: what goes last of all: ends that look slower, certain or not.
        unsure: other sizes at which more than 5 % of a loss is not ruled out.
        n_missing: launches in which it is still to be seen, though its gain is certain.
    """

    rule: Rule
    sizes: tuple[Weighed, ...]
    gain: Estimate
    certainty: Number
    shown: Shown
    state: State
    cuts: tuple[Cut, ...] = ()
    ends: tuple[Cut, ...] = ()
    unsure: tuple[int, ...] = ()
    n_missing: int = 0

    @property
    def gaining(self) -> tuple[Weighed, ...]:
        """Sizes measured as the sweep was."""
        return tuple(one for one in self.sizes if one.gains)

    @property
    def ratios(self) -> tuple[float, ...]:
        """How many times as fast as the baseline it is at those, the least first."""
        return tuple(sorted(one.verdict.ratio for one in self.gaining))

    @property
    def n_gaining(self) -> int:
        """How many sizes those are, each counted once for all views."""
        return len({one.verdict.nbytes for one in self.gaining})

    @property
    def stands(self) -> bool:
        """Whether nothing of it is to go."""
        return self.state is State.STANDS


def standings(
    rules: Sequence[Rule],
    held: Sequence[tuple[Evidence, Sequence[Weighed]]],
    judging: Judging,
    swept: Swept,
    min_gain: float,
    *,
    ends_go: bool = True,
) -> tuple[Standing, ...]:
    """Every rule that answered somewhere, by what its own sizes say.

    Args:
        rules: that are to win, in the file's order.
        held: what each condition says, and those of its sizes that the rule for them answered.
        judging: as they were judged.
        swept: what the sweep saw of their settings.
        min_gain: wanted over the range, 0.02 for 2 %.
        ends_go: an end that looks slower will go, so that nobody need be certain there.
    """
    by_rule: dict[int, list[Weighed]] = {}
    for one in (one for _, weighed in held for one in weighed):
        verdict = one.verdict
        rule = judging.rule_at((verdict.target, verdict.view, verdict.nbytes))
        if rule is not None:
            by_rule.setdefault(id(rule), []).append(one)
    wanted = log(1 + min_gain)
    level = judging.level / max(1, len(rules))
    return tuple(
        _seen_often(
            _standing(
                rule,
                by_rule[id(rule)],
                [one for one, _ in held],
                (wanted, level),
                ends_go=ends_go,
            ),
            swept,
        )
        for rule in rules
        if id(rule) in by_rule
    )


def _seen_often(one: Standing, swept: Swept) -> Standing:
    """The same; undecided where too few launches have shown it that none of them is slow."""
    n_swept, n_slow = swept.launches_of(one.rule)
    n_needed = max(FEWEST_LAUNCHES, MANY_LAUNCHES - (0 if n_slow else n_swept))
    n_missing = n_needed - one.gain.n_launches
    if one.state is not State.STANDS or n_missing <= 0:
        return one
    return replace(one, state=State.UNDECIDED, n_missing=n_missing)


def _standing(
    rule: Rule,
    sizes: Sequence[Weighed],
    held: Sequence[Evidence],
    wanted: tuple[float, float],
    *,
    ends_go: bool,
) -> Standing:
    least, level = wanted
    at = frozenset(one.verdict.nbytes for one in sizes)
    views = [
        _in_view(evidence, side, rule, at)
        for evidence in held
        if evidence.is_own
        for side in evidence.sides()
        if side[0].collective is rule.collective
    ]
    gain, shown = min(
        views, key=lambda one: one[0].low(level), default=(UNKNOWN, Shown.IN_ONE_LAUNCH)
    )
    ends = _losing_ends(rule, sizes) if ends_go else ()
    unsure = [
        nbytes
        for nbytes in (one.verdict.nbytes for one in sizes if not _is_sure(one, rule, held))
        if not cuts.is_given_back(ends, rule.collective, nbytes)
    ]
    state, lost_parts = State.STANDS, tuple[Cut, ...]()
    lost = [one for one in sizes if one.verdict.judgement in _LOST]
    if lost:
        state, lost_parts = State.LOSES, _lost(rule, lost, sizes)
    elif gain.high(LEVEL / 2) < least:
        # To give up a gain of so little is no harm: no share of the chance of a mistake.
        state = State.NO_GAIN
        lost_parts = (cuts.whole(rule, f"no gain of {_percent(least)}: {gain}"),)
    elif unsure or gain.n_launches < FEWEST_LAUNCHES or gain.low(level) < least:
        state = State.UNDECIDED
    return Standing(
        rule=rule,
        sizes=tuple(sizes),
        gain=gain,
        certainty=min((_chance(one, least) for one, _ in views), default=0.0),
        shown=shown,
        state=state,
        cuts=lost_parts,
        ends=ends,
        unsure=tuple(sorted(set(unsure))),
    )


def _losing_ends(rule: Rule, sizes: Sequence[Weighed]) -> tuple[Cut, ...]:
    """Where gain turns to loss little is won, and no launch is worth being certain there."""
    losing = {one.verdict.nbytes for one in sizes if one.gain.mean < -SLIGHTLY}
    return cuts.at_ends(rule, losing, (one.verdict.nbytes for one in sizes), _SLOWER_END)


_SLOWER_END: Final = "looks slower there, at an end of the rule"
_NEVER_ASKED: Final = "a path takes the calls before a tuner is asked"
_OWN: Final = "the library chooses it by itself"


def idle_parts(rule: Rule, held: Held, *, is_judged: bool, is_null: bool) -> Iterable[Cut]:
    """What of a rule does nothing: under a path, never selectable, or the library's own choice.

    Args:
        rule: of the file.
        held: what launches under the sweep's own conditions said.
        is_judged: there are sizes at which it was compared.
        is_null: with what the library chooses by itself there nothing is won.
    """
    proven = held.proven
    answered = (rule.collective, rule.setting)
    under = [n for n in proven.bypassed.get(rule.collective, ()) if rule.reaches(n)]
    own = [n for n in proven.own.get(answered, ()) if is_null and rule.reaches(n)]
    seen = [key[2] for key in held.evidence.cells if is_of(rule, key)]
    if under and not is_judged:
        return [cuts.whole(rule, _NEVER_ASKED, alone=True)]
    if under or own:
        return [
            *cuts.at_ends(rule, under, seen, _NEVER_ASKED),
            *cuts.at_ends(rule, own, seen, _OWN),
        ]
    if is_judged:
        return []
    if any(map(rule.reaches, proven.skipped.get(answered, ()))):
        return [cuts.whole(rule, "not selectable", alone=True)]
    if not seen and is_swept(rule, held.condition.sweep):
        # What lies beyond the sweep is not judged; --keep-losers leaves it.
        return [cuts.whole(rule, "no size of it was measured", alone=True)]
    return []


def is_swept(rule: Rule, sweep: Sweep) -> bool:
    """Whether a sweep has sizes that a rule answers."""
    is_inside = rule.min_nbytes <= sweep.max_nbytes and rule.max_nbytes >= sweep.min_nbytes
    return rule.collective in sweep.collectives and is_inside


def is_hopeless(one: Standing, times: float, level: float, min_gain: float) -> bool:
    """Whether more launches would hardly show the gain of an undecided rule.

    Stochastic curtailment (Lan, Simon and Halperin, 1982): even a gain that is larger than it
    looks by as much as one in twenty are would not be certain with all looks.

    Args:
        one: undecided.
        times: as many launches as now, once every look is made.
        level: chance of a mistake in the last look.
        min_gain: wanted, 0.02 for 2 %.
    """
    if one.n_missing or one.gain.n_launches < FEWEST_LAUNCHES or one.gain.spread == inf:
        return False
    larger = one.gain.mean + _ONE_IN_TWENTY * one.gain.spread
    return replace(one.gain.after(times), mean=larger).low(level) < log(1 + min_gain)


TOO_NARROW: Final = "narrower than a quarter of an octave, which is as fine as verification looks"


def is_too_narrow(rule: Rule) -> bool:
    """Whether a rule is narrower than the step between sizes that are looked at."""
    return log2((rule.max_nbytes + 1) / max(1, rule.min_nbytes)) < _STEP


def leaving(one: Standing) -> tuple[Cut, ...]:
    """What goes of a rule when no time is left: what is undecided, and ends that look slower."""
    if one.stands:
        return one.ends
    if one.n_missing:
        return (cuts.whole(one.rule, f"undecided: seen in {one.gain.n_launches} launches only"),)
    every = {w.verdict.nbytes for w in one.sizes}
    if one.unsure and set(one.unsure) < every and one.gain.low(LEVEL) > 0:
        found = cuts.around(one.rule, one.unsure, every, "undecided: a loss is not ruled out")
        return cuts.together(one.rule, found)
    return (cuts.whole(one.rule, f"undecided: {one.gain}"),)


def _in_view(
    evidence: Evidence, side: Side, rule: Rule, at: frozenset[int]
) -> tuple[Estimate, Shown]:
    """The gain of a rule in one view, and whether launches of their own tell it too."""
    inside = at.__contains__
    by_means = evidence.stalls_are_its_own(side, inside)
    about = by_launch(evidence.controls_of(side, inside))
    least = 0.0 if about.spread == inf else about.spread**2 * about.n_launches
    gain = over(evidence.gains(side, inside, by_means=by_means), least)
    slowness = evidence.slowness(side, rule)
    if slowness is not None:
        # What slows both sides in some launches alone is told best by those launches.
        outright = evidence.outright(side, inside, by_means=by_means)
        product = gain.slowed(slowness)
        surest = min(product, outright, key=lambda one: one.spread)
        return replace(surest, n_launches=gain.n_launches), Shown.BY_LAUNCHES
    tells = gain.times(evidence.difference(side, rule)).low(LEVEL) > 0
    return gain, Shown.BY_LAUNCHES if tells else Shown.IN_ONE_LAUNCH


def _is_sure(one: Weighed, rule: Rule, held: Iterable[Evidence]) -> bool:
    """Whether more than 5 % of a loss is ruled out, by the size itself or by those beside it."""
    verdict = one.verdict
    if verdict.judgement is not Judgement.UNDECIDED:
        return verdict.judgement in _FINE
    if verdict.high < 1:
        return False
    low = max(rule.min_nbytes, verdict.nbytes / _BESIDE)
    high = min(rule.max_nbytes, verdict.nbytes * _BESIDE)
    for evidence in held:
        if evidence.words != verdict.view.beside or evidence.is_own != one.gains:
            continue
        side = (verdict.target, replace(verdict.view, beside=None))
        values = evidence.gains(side, lambda nbytes: low <= nbytes <= high)
        if values:
            gain = over(values).slowed(evidence.slowness(side, rule))
            return gain.low(LEVEL / 2) >= -MARGIN
    return False


def _lost(rule: Rule, lost: Sequence[Weighed], sizes: Sequence[Weighed]) -> tuple[Cut, ...]:
    """What must go of a rule that loses, in whichever view."""
    wrong = [one for one in lost if one.verdict.judgement is Judgement.WRONG]
    first = (wrong or list(lost))[0]
    word = "wrong results" if wrong else "slower than the library's own choice"
    reason = word if first.gains else f"{word} ({first.verdict.view})"
    found: list[Cut] = []
    for view in dict.fromkeys(one.verdict.view for one in lost):
        bad = [one.verdict.nbytes for one in lost if one.verdict.view == view]
        every = [
            one.verdict.nbytes
            for one in sizes
            if one.verdict.view == view and (one.verdict.n_wrong is not None or not wrong)
        ]
        found += cuts.around(rule, bad, every, reason)
    # Wrong results at two places are no matter of sizes.
    return cuts.together(rule, found, most=1 if wrong else cuts.MOST_PLACES)


def _chance(gain: Estimate, least: float) -> float:
    """That a gain is at least so much."""
    from scipy.special import stdtr

    if gain.spread == float("inf"):
        return 0.0
    return float(stdtr(gain.freedom, (gain.mean - least) / gain.spread))


def _percent(wanted: float) -> str:
    return f"{100 * (exp(wanted) - 1):.0f} %"
