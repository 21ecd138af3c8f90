"""One estimate for each rule, one test of harm for each size.

All numbers are logarithms of time of the library / time with the rules: above 0 the rules win.
Replicates are communicators. What they differ by is noise; what
sizes differ by is not, a 1.9x beside a 1.2x is real.

*A rule* is kept if, in both placements, its interval excludes a loss and its mean gain is what a
rule must have; the level of 5 % is shared by all rules of the file.
*A size* is slower if its interval says so by more than 0.5 % (all sizes that rules answer share
5 %), or if it looks slower by 3 %. Slower sizes are cut out; so are ends of a rule that gain less
than half of what a rule must, and what is left for a single number of bytes. The rest is judged
again on as many fresh communicators.
*Launched one by one*: a rule that graphs prove goes if the loop proves harm (1 %, shared).
*With one root*: calls of broadcast and reduce are kept apart by changing their root. With one root
they overlap; no size may lose 2 % so (1 %, shared by sizes), nor a rule in its mean.
*In bfloat16*, which a tuner does not see: a rule goes if its mean is proven to lose (1 %, shared).
*With registered buffers*: sizes of a good rule that are slower with them, as above, become a rule
for unregistered buffers alone, which calls that have such must prove.
*Stalls*: means leave them out; if timings with a rule stall more often than others, it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log1p
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from rccltune.analyse.gains import RESTORED
from rccltune.analyse.intervals import Truths
from rccltune.analyse.paired_intervals import LogMean, PairedRatios, is_equal, level_of, more_often
from rccltune.model.estimate import Estimate
from rccltune.model.rule import RESTORES, Rule, RuleState
from rccltune.model.units import format_size
from rccltune.model.verdict import SizeVerdict, Verdict
from rccltune.model.vocabulary import Collective
from rccltune.ranks.plan import LOOP
from rccltune.verify.pairs import find_rule, is_called
from rccltune.verify.site_and_idle import EQUAL
from rccltune.verify.sizes import SLIGHT, PairTable, verdict_at
from rccltune.verify.verdict_file import RuleVerdict

if TYPE_CHECKING:
    import pandas as pd

# Chance of a mistake that all rules of a file share, of harm by what is timed beside them.
_HARM_LEVEL: Final = 0.02
# What calls with one root may lose, being another use than the one that a rule is chosen for.
_WITH_ONE_ROOT: Final = log1p(-0.02)
# What a proven rule may lose by calls of another kind, by their name in RuleVerdict.
_HARMS: Final = (
    ("loop", SLIGHT, "launched one by one"),
    ("one_root", _WITH_ONE_ROOT, "with one root"),
    ("bfloat16", SLIGHT, "in bfloat16"),
)
# Chance by which more stalls than without rules are luck.
_STALLS: Final = 0.001
_SHOWN: Final = 3

_UNTIMED: Final = (RuleState.UNDECIDED, "nothing of it was timed")
_NOT_SELECTABLE: Final = (RuleState.NOT_SELECTABLE, "the library does not let it be chosen")
_SLOWER_REGISTERED: Final = "slower with registered buffers"

IdleCost: TypeAlias = Callable[[Collective, Sequence[int]], "LogMean | None"]
Indices: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFile:
    """Verdicts on a file.

    Attributes:
        rules: what is left of every rule of ours, and what goes, in the file's order.
        sizes: all that were called.
    """

    rules: tuple[RuleVerdict, ...]
    sizes: tuple[SizeVerdict, ...]


def judge(
    pairs: pd.DataFrame,
    rules: Sequence[Rule],
    *,
    min_gain: float,
    checked: Mapping[Collective, frozenset[int]] | None = None,
    wrong: Mapping[Collective, frozenset[int]] | None = None,
    idle_cost: IdleCost = lambda *_: None,
    keeps_ends: bool = False,
    only: Sequence[Rule] = (),
    n_rules: int | None = None,
) -> JudgedFile:
    """Judge every rule and every size.

    Args:
        pairs: as :func:`rccltune.verify.pairs.pair_times` makes it.
        rules: of this scale, in the file's order.
        min_gain: what a rule must gain, 0.02 for 2 %.
        checked: sizes whose results under the rules were compared.
        wrong: those with wrong results.
        idle_cost: log(site as it is / idle plugin) of a collective in the mean over sizes.
        keeps_ends: judge rules as they are: nothing is cut off.
        only: rules that were trimmed already, and are judged alone: ends that gain next to nothing
            stay, being no harm; empty for all.
        n_rules: that share the level; None for the rules that are judged.
    """
    checked, wrong = checked or {}, wrong or {}
    tables = {
        Collective(name): PairTable(rows) for name, rows in pairs.groupby("collective", sort=False)
    }
    n_sizes = sum(
        find_rule(rules, name, int(nbytes)) is not None
        for name, table in tables.items()
        for nbytes in table.nbytes
    )
    n_sharing = n_rules or sum(not one.fallback for one in rules)
    criteria = _Criteria(
        min_gain=log1p(min_gain),
        level=level_of(n_sharing),
        harm_level=level_of(n_sharing, _HARM_LEVEL),
        size_level=level_of(n_sizes),
        idle_cost=idle_cost,
        keeps_ends=keeps_ends,
        is_again=bool(only),
    )
    parts: list[RuleVerdict] = []
    for rule in only or rules:
        table = tables.get(rule.collective)
        why: tuple[RuleState, str] | None = _UNTIMED
        if table is not None:
            at = _answered_sizes(rules, rule, table)
            why = _why_gone(rules, rule, table, at, wrong.get(rule.collective, ()))
            if why is None:
                parts += _RuleJudge(criteria, rule, table, at).judge()
        # A fallback that nobody needed is no rule.
        if why is not None and not (rule.fallback and why == _UNTIMED):
            parts.append(RuleVerdict.of(rule, *why))
    sizes = [
        size
        for name, table in tables.items()
        for size in table.judge_sizes(
            name, checked.get(name, ()), wrong.get(name, ()), criteria.size_level
        )
    ]
    return JudgedFile(rules=tuple(parts), sizes=tuple(sizes))


def _answered_sizes(rules: Sequence[Rule], rule: Rule, table: PairTable) -> Indices:
    """Sizes that a rule answered, or was asked for first where none did."""
    sizes = zip(table.nbytes, table.answers, strict=True)
    answered = [find_rule(rules, rule.collective, int(n), words) is rule for n, words in sizes]
    return np.flatnonzero(answered)


def _why_gone(
    rules: Sequence[Rule],
    rule: Rule,
    table: PairTable,
    at: Indices,
    wrong: Collection[int],
) -> tuple[RuleState, str] | None:
    """Reason for which a rule goes, whatever it gains; None where its sizes decide."""
    if not is_called(rule):
        return RuleState.UNDECIDED, "its regBuff or numPipeOps is of calls that are not timed"
    if not len(at):
        firsts = (find_rule(rules, rule.collective, int(n)) for n in table.nbytes)
        # Where it comes first, a rule behind it answered.
        return _NOT_SELECTABLE if any(one is rule for one in firsts) else _UNTIMED
    if not table.is_asked[at].any():
        return RuleState.BYPASSED, "the library asks no tuner there"
    if (~table.is_asked[at] | (table.answers[at] == "none")).all():
        return _NOT_SELECTABLE
    wrong_here = [format_size(int(n)) for n in table.nbytes[at] if int(n) in wrong]
    if wrong_here:
        return RuleState.WRONG, f"wrong results at {', '.join(wrong_here[:_SHOWN])}"
    why = _more_stalls(table, at)
    return (RuleState.SLOWER, why) if why else None


def _more_stalls(table: PairTable, at: Indices) -> str:
    """Reason for which a rule goes that stalls more often than the library; else empty."""
    here, everywhere = table.stalls.iloc[at].sum(), table.stalls.sum()
    hits, n = int(here["stalls_rules"]), int(here["n_rules"])
    others, n_others = int(everywhere["stalls_library"]), int(everywhere["n_library"])
    if not hits or more_often(hits, n, others, n_others) >= _STALLS:
        return ""
    return f"{hits} of {n} timings stalled, {others} of {n_others} without it"


@dataclass(frozen=True, kw_only=True)
class _Criteria:
    """Criteria for every rule of a file; see :func:`judge`.

    Attributes:
        min_gain: log of what a rule must gain.
        level: of a rule's interval.
        harm_level: of the interval of a rule's calls of another kind.
        size_level: of the interval by which a size is slower, in either placement.
    """

    min_gain: float
    level: float
    harm_level: float
    size_level: float
    idle_cost: IdleCost
    keeps_ends: bool
    is_again: bool

    def is_slower(self, size: LogMean) -> bool:
        """Whether a size is slower."""
        return verdict_at(size, self.size_level) is Verdict.SLOWER

    def has_no_gain(self, size: LogMean) -> bool:
        """Whether a size gains next to nothing."""
        return size.log < self.min_gain / 2 and size.log + size.se < self.min_gain


@dataclass(frozen=True)
class _RuleJudge:
    """Judges one rule at the sizes that it answered.

    Attributes:
        at: of the table's sizes those that it answered, rising. All other indices count these.
    """

    criteria: _Criteria
    rule: Rule
    table: PairTable
    at: Indices

    def judge(self) -> Iterator[RuleVerdict]:
        """Judge neighbouring sizes that are all good, and those that are slower."""
        all_sizes = np.arange(len(self.at))
        if self.criteria.keeps_ends:
            yield self._judge_gain(all_sizes, harm=self._harm_words())
            return
        kinds = np.where(self._is_slower, 2, self._is_slower_registered)
        for part in np.split(all_sizes, np.flatnonzero(np.diff(kinds)) + 1):
            if self._is_slower[part[0]]:
                yield self._cut_out(part)
            elif self._is_slower_registered[part[0]]:
                yield self._restrict_to_unregistered(part)
            elif self.criteria.is_again:
                yield self._judge_gain(part)
            else:
                yield from self._trim_ends(part)

    # --- sizes -----------------------------------------------------------------------------------

    @cached_property
    def nbytes(self) -> npt.NDArray[np.int64]:
        """Sizes that it answered."""
        return self.table.nbytes[self.at]

    @cached_property
    def _is_equivalent(self) -> Truths:
        """Sizes at which both sides made the same calls, which differ by noise."""
        return np.isin(self.nbytes, list(self.table.equivalent))

    @cached_property
    def _gains(self) -> list[LogMean | None]:
        """Gain at each size in the placement that gains least; None where it was seen once."""
        return [_worst_at(self.table.paired, int(n)) for n in self.nbytes]

    @cached_property
    def _timed(self) -> list[LogMean | None]:
        """Gains of sizes at which the two sides made different calls."""
        sizes = zip(self._gains, self._is_equivalent, strict=True)
        return [None if is_equivalent else gain for gain, is_equivalent in sizes]

    @cached_property
    def _losses_with_one_root(self) -> list[LogMean | None]:
        """Proven loss of each size where calls have one root."""
        paired = self.table.beside.get("one_root")
        if paired is None:
            return [None] * len(self.at)
        level = level_of(len(paired.nbytes), _HARM_LEVEL)
        sizes = [_worst_at(paired, int(n)) for n in self.nbytes]
        return [
            one if one and one.log < _WITH_ONE_ROOT and one.high(level) < 0 else None
            for one in sizes
        ]

    @cached_property
    def _is_slower(self) -> Truths:
        sizes = zip(self._timed, self._losses_with_one_root, strict=True)
        return np.array(
            [
                loss is not None or (gain is not None and self.criteria.is_slower(gain))
                for gain, loss in sizes
            ]
        )

    @cached_property
    def _is_slower_registered(self) -> Truths:
        """Whether each size is slower where buffers are registered."""
        paired = self.table.beside.get("registered")
        if paired is None:
            return np.zeros(len(self.at), dtype=bool)
        sizes = [_worst_at(paired, int(n)) for n in self.nbytes]
        return np.array([one is not None and self.criteria.is_slower(one) for one in sizes])

    # --- parts of the rule -----------------------------------------------------------------------

    def _harm_words(self) -> str:
        """Sizes at which the whole rule is slower, in words; empty where it is not."""
        slower = [format_size(int(n)) for n in self.nbytes[self._is_slower]]
        if slower:
            more = f" and {len(slower) - _SHOWN} more sizes" if len(slower) > _SHOWN else ""
            return f"slower at {', '.join(slower[:_SHOWN])}{more}"
        return _SLOWER_REGISTERED if self._is_slower_registered.any() else ""

    def _cut_out(self, part: Indices) -> RuleVerdict:
        """Give slower sizes back, with the interval by which a size is judged."""
        level = self.criteria.size_level
        worst = _least(self._timed[i] for i in part)
        why = "slower" if worst is not None and worst.high(level) < 0 else "looks slower"
        if worst is None or not self.criteria.is_slower(worst):
            worst = _least(self._losses_with_one_root[i] for i in part)
            why = "slower with one root"
        gain = None if worst is None else worst.ratio(level)
        if gain is not None and len(part) > 1:
            why = f"{why}, down to {gain}"
        return self._part(part, RuleState.SLOWER, why, gain)

    def _restrict_to_unregistered(self, part: Indices) -> RuleVerdict:
        """Make a rule for unregistered buffers of sizes that are slower with registered ones.

        It takes what lies between them and the good sizes beside them. A whole rule that loops
        judged is proven by calls that have such buffers.
        """
        harm = _SLOWER_REGISTERED if self.criteria.is_again else ""
        judged = self._judge_gain(part, harm=harm)
        if not judged.is_kept:
            return judged
        if not (self.table.timing[self.at] == LOOP).all():
            judged = replace(judged, state=RuleState.NOT_PROVEN, reason="")
        before, behind = int(part[0]) - 1, int(part[-1]) + 1
        if before >= 0 and not self._is_slower[before]:
            judged = replace(judged, min_nbytes=int(self.nbytes[before]) + 1)
        if behind < len(self.at) and not self._is_slower[behind]:
            judged = replace(judged, max_nbytes=int(self.nbytes[behind]) - 1)
        return replace(judged, reg_buff=0)

    def _trim_ends(self, part: Indices) -> Iterator[RuleVerdict]:
        """Judge a range of good sizes without the ends that gain next to nothing."""
        gains = [self._timed[i] for i in part]
        pays = [gain is None or not self.criteria.has_no_gain(gain) for gain in gains]
        # Where no size pays, the whole range is judged, and says why it goes.
        paying = np.flatnonzero(pays) if any(pays) else np.arange(len(part))
        first, behind = int(paying[0]), int(paying[-1]) + 1
        for end in (part[:first], part[behind:]):
            if len(end):
                worst = _least(self._timed[i] for i in end)
                gain = None if worst is None else worst.ratio(self.criteria.level)
                yield self._part(end, RuleState.NO_GAIN, "gains next to nothing", gain)
        left = self._judge_gain(part[first:behind])
        if left.state is RuleState.NOT_PROVEN and left.min_nbytes == left.max_nbytes:
            # A rule for one number of bytes, which hardly a job has.
            left = replace(left, state=RuleState.NO_GAIN, reason="a single size")
        yield left

    def _judge_gain(self, part: Indices, harm: str = "") -> RuleVerdict:
        """Judge whether one part of the rule gains; with harm it is slower whatever it gains."""
        answered = part[~self._is_equivalent[part]]
        sizes = self.nbytes[answered if len(answered) else part]
        means = self.table.paired.over(np.isin(self.table.nbytes, sizes))
        if not means:
            return self._part(part, RuleState.UNDECIDED, "seen once")
        left_over = float(np.nanmedian(self.table.left_over[self.at[part]]))
        if left_over > self.criteria.min_gain / 2:
            means = [replace(one, log=one.log - left_over) for one in means]
        worst = min(means, key=lambda one: one.low(self.criteria.level))
        beside = {
            name: mean
            for name, paired in self.table.beside.items()
            if (mean := paired.least(np.isin(paired.nbytes, self.nbytes[part]))) is not None
        }
        gain, state, why = self._take_off_idle_cost(worst, sizes, beside)
        if harm and state.is_proven:
            state, why = RuleState.SLOWER, harm
        judged = self._part(part, state, why, gain.ratio(self.criteria.level))
        ratios = {name: mean.ratio() for name, mean in beside.items()}
        return replace(
            judged,
            loop=ratios.get("loop"),
            one_root=ratios.get("one_root"),
            registered=ratios.get("registered"),
            bfloat16=ratios.get("bfloat16"),
        )

    def _take_off_idle_cost(
        self, gain: LogMean, sizes: npt.NDArray[np.int64], beside: Mapping[str, LogMean]
    ) -> tuple[LogMean, RuleState, str]:
        """Gain over the site as it is, and the state by that; over the idle plugin where equal."""
        state, why = self._state_by(gain, beside)
        cost = self.criteria.idle_cost(self.rule.collective, sizes.tolist())
        if cost is None or cost.log >= 0 or is_equal(cost, EQUAL):
            return gain, state, why
        beside_idle = state
        gain = gain + cost
        state, why = self._state_by(gain, beside)
        level = self.criteria.level
        restores = cost.high(level) < 0 and gain.low(level) > log1p(-RESTORED)
        if not state.is_proven and beside_idle.is_proven and restores:
            return gain, RuleState.RESTORES, RESTORES
        if state is RuleState.SLOWER and beside_idle is not RuleState.SLOWER:
            # Without the rule the plugin would cost as much.
            return gain, RuleState.NO_GAIN, "no gain"
        return gain, state, why

    def _state_by(self, gain: LogMean, beside: Mapping[str, LogMean]) -> tuple[RuleState, str]:
        """State of a rule by its gain, and by the harm that calls of another kind prove."""
        level, min_gain = self.criteria.level, self.criteria.min_gain
        if gain.low(level) > 0 and gain.log >= min_gain:
            for name, most, how in _HARMS:
                other = beside.get(name)
                if other and other.log < most and other.high(self.criteria.harm_level) < 0:
                    ratio = other.ratio(self.criteria.harm_level)
                    return RuleState.SLOWER, f"{ratio} {how}"
            return RuleState.PROVEN, ""
        if gain.high(level) < 0 and gain.log < SLIGHT:
            return RuleState.SLOWER, "slower"
        if gain.high(level) < min_gain:
            return RuleState.NO_GAIN, "no gain"
        return RuleState.UNDECIDED, "undecided"

    def _part(
        self, part: Indices, state: RuleState, reason: str, gain: Estimate | None = None
    ) -> RuleVerdict:
        """Verdict on some neighbouring sizes; less than the whole rule is not proven yet."""
        low, high = int(self.nbytes[part[0]]), int(self.nbytes[part[-1]])
        if state.is_proven:
            # Between called sizes it is the rule's own bounds that count.
            low = self.rule.min_nbytes if part[0] == 0 else low
            high = self.rule.max_nbytes if part[-1] == len(self.at) - 1 else high
            if len(part) < len(self.at):
                state, reason = RuleState.NOT_PROVEN, ""
        return replace(
            RuleVerdict.of(self.rule, state, reason),
            min_nbytes=low,
            max_nbytes=high,
            gain=gain,
            n_sizes=len(part),
            n_undecided=sum(self._is_undecided(i) for i in part),
            timing=" and ".join(dict.fromkeys(map(str, self.table.timing[self.at[part]]))),
        )

    def _is_undecided(self, size: int) -> bool:
        gain = self._gains[size]
        is_timed = not self._is_equivalent[size]
        return is_timed and (
            gain is None or verdict_at(gain, self.criteria.size_level) is Verdict.UNDECIDED
        )


def _worst_at(paired: PairedRatios, nbytes: int) -> LogMean | None:
    """Gain at a size in the placement that gains least; None where it was not timed."""
    at = np.flatnonzero(paired.nbytes == nbytes)
    return _least(paired.at(int(i), view) for i in at for view in range(paired.log.shape[1]))


def _least(gains: Iterable[LogMean | None]) -> LogMean | None:
    """The smallest gain."""
    return min((one for one in gains if one is not None), key=lambda one: one.log, default=None)
