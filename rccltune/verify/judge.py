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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log1p
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from rccltune.analyse.gains import RESTORED
from rccltune.analyse.noise import Truths
from rccltune.analyse.paired import LogMean, PairedRatios, is_equal, level_of, more_often
from rccltune.model.choice import RESTORES, Rule, RuleState, SizeVerdict, Verdict
from rccltune.model.vocabulary import Collective, format_size
from rccltune.ranks.plan import LOOP
from rccltune.verify.pairs import answering, is_called
from rccltune.verify.sizes import SLIGHT, PairTable, verdict_at
from rccltune.verify.verdict import RuleVerdict

if TYPE_CHECKING:
    import pandas as pd

# Chance of a mistake that all rules of a file share, of harm by the loop.
_LOOP_LEVEL: Final = 0.01
# What calls with one root may lose, being another use than the one that a rule is chosen for.
_WITH_ONE_ROOT: Final = log1p(-0.02)
# Chance by which more stalls than without rules are luck.
_STALLS: Final = 0.001
# What a rule that restores may lose to the site as it is: nothing of so much.
_RESTORED: Final = log1p(-RESTORED)
# The idle plugin is the library where they are shown to differ by less.
_EQUAL: Final = log1p(0.01)
_SHOWN: Final = 3

_UNTIMED: Final = (RuleState.UNDECIDED, "nothing of it was timed")
_SLOWER_REGISTERED: Final = "slower with registered buffers"
_NOT_SELECTABLE: Final = (RuleState.NOT_SELECTABLE, "the library does not let it be chosen")

IdleCost: TypeAlias = Callable[[Collective, Sequence[int]], "LogMean | None"]
Indices: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFile:
    """What was found of a file.

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
        pairs: as :func:`rccltune.verify.pairs.ratios` makes it.
        rules: of this scale, in the file's order.
        min_gain: what a rule must gain, 0.02 for 2 %.
        checked: sizes whose results under the rules were compared.
        wrong: those with wrong results.
        idle_cost: log(site as it is / idle plugin) of a collective in the mean over sizes.
        keeps_ends: judge rules as they are: nothing is cut off.
        only: rules that were narrowed already, and are judged alone: ends that gain next to nothing
            stay, being no harm; empty for all.
        n_rules: that share the level; None for the rules that are judged.
    """
    checked, wrong = checked or {}, wrong or {}
    tables = {
        Collective(name): PairTable(own) for name, own in pairs.groupby("collective", sort=False)
    }
    n_sizes = sum(
        answering(rules, name, int(nbytes)) is not None
        for name, one in tables.items()
        for nbytes in one.nbytes
    )
    judging = _FileJudge(
        rules=rules,
        least=log1p(min_gain),
        wrong=wrong,
        idle_cost=idle_cost,
        keeps_ends=keeps_ends,
        is_again=bool(only),
        n_rules=n_rules or max(1, sum(not one.fallback for one in rules)),
        n_sizes=max(1, n_sizes),
    )
    found = [
        part for rule in only or rules for part in judging.parts(rule, tables.get(rule.collective))
    ]
    sizes = [
        size
        for name, one in tables.items()
        for size in one.sizes(
            name, checked.get(name, ()), wrong.get(name, ()), judging.level_of_a_size
        )
    ]
    return JudgedFile(rules=tuple(found), sizes=tuple(sizes))


@dataclass(frozen=True, kw_only=True)
class _FileJudge:
    """Judges rules of a file, one after the other; see :func:`judge` for what it is told."""

    rules: Sequence[Rule]
    least: float
    wrong: Mapping[Collective, frozenset[int]]
    idle_cost: IdleCost
    keeps_ends: bool
    is_again: bool
    n_rules: int
    n_sizes: int

    @property
    def level_of_a_size(self) -> float:
        """Of the interval by which a size is slower, in either placement: all share the chance."""
        return level_of(self.n_sizes)

    @property
    def level(self) -> float:
        """Of a rule's interval: all rules share the chance of a mistake."""
        return level_of(self.n_rules)

    def parts(self, rule: Rule, table: PairTable | None) -> Iterator[RuleVerdict]:
        """What is left of a rule, and what goes; nothing of a fallback that nobody needed."""
        if table is None:
            gone: tuple[RuleState, str] | None = _UNTIMED
        else:
            inside = np.isin(np.arange(len(table.nbytes)), self._inside(rule, table))
            gone = self._why_gone(rule, table, inside)
            if gone is None:
                yield from self._stretches(rule, table, inside)
        if gone is not None and not (rule.fallback and gone == _UNTIMED):
            yield RuleVerdict.of(rule, *gone)

    def _why_gone(
        self, rule: Rule, table: PairTable, inside: Truths
    ) -> tuple[RuleState, str] | None:
        """Why nothing is left of a rule, whatever it gains; None where its sizes decide."""
        if not is_called(rule):
            return RuleState.UNDECIDED, "its regBuff or numPipeOps is of calls that are not timed"
        if not inside.any():
            firsts = (answering(self.rules, rule.collective, int(n)) for n in table.nbytes)
            # Where it comes first, a rule behind it answered.
            return _NOT_SELECTABLE if any(one is rule for one in firsts) else _UNTIMED
        bypassed = inside & ~table.is_asked.astype(bool)
        if (bypassed == inside).all():
            return RuleState.BYPASSED, "the library asks no tuner there"
        if ((bypassed | (table.answers == "none")) >= inside).all():
            return _NOT_SELECTABLE
        everywhere = self.wrong.get(rule.collective, frozenset())
        wrong = [int(n) for n in table.nbytes[inside] if int(n) in everywhere]
        if wrong:
            where = ", ".join(format_size(n) for n in wrong[:_SHOWN])
            return RuleState.WRONG, f"wrong results at {where}"
        why = self._stalls(table, inside)
        return (RuleState.SLOWER, why) if why else None

    def _inside(self, rule: Rule, table: PairTable) -> Indices:
        """Sizes that the rule answered, or was asked for first where none did."""
        return np.array(
            [
                i
                for i, nbytes in enumerate(table.nbytes)
                if answering(self.rules, rule.collective, int(nbytes), table.answers[i]) is rule
            ],
            dtype=np.intp,
        )

    def _stalls(self, table: PairTable, inside: Truths) -> str:
        """Why a rule goes whose timings stall more often than without it; else empty."""
        own = table.stalls[inside]
        hits, n = int(own["stalls_rules"].sum()), int(own["n_rules"].sum())
        others, n_others = (
            int(table.stalls[name].sum()) for name in ("stalls_library", "n_library")
        )
        if not hits or hits * max(1, n_others) <= others * n:
            return ""
        if more_often(hits, n, others, n_others) >= _STALLS:
            return ""
        return f"{hits} of {n} timings stalled, {others} of {n_others} without it"

    def _stretches(self, rule: Rule, table: PairTable, inside: Truths) -> Iterator[RuleVerdict]:
        """Neighbouring sizes of a rule that are all good, and those that are slower."""
        paired = table.paired
        at = np.flatnonzero(inside)
        # Where the same calls were made on both sides they differ by noise.
        each = [
            None if int(table.nbytes[i]) in table.alike else self._worst(paired, int(i)) for i in at
        ]
        overlapping = [self._with_one_root(table, int(i)) for i in at]
        registered = np.array([self._is_slower_registered(table, int(i)) for i in at])
        bad = np.array(
            [
                other is not None or (one is not None and self._is_slower(one))
                for one, other in zip(each, overlapping, strict=True)
            ]
        )
        if self.keeps_ends:
            harm = _SLOWER_REGISTERED if registered.any() else ""
            if bad.any():
                sizes = ", ".join(format_size(int(table.nbytes[i])) for i in at[bad][:_SHOWN])
                more = f" and {bad.sum() - _SHOWN} more sizes" if bad.sum() > _SHOWN else ""
                harm = f"slower at {sizes}{more}"
            yield self._judged(rule, table, at, is_whole=True, harm=harm)
            return
        cuts = np.flatnonzero(np.diff(np.where(bad, 2, registered))) + 1
        for stretch in np.split(np.arange(len(at)), cuts):
            if bad[stretch[0]]:
                own = at[stretch]
                # With the interval that a size is judged by, which rules do not share.
                level = self.level_of_a_size
                worst = _least(each[i] for i in stretch)
                why = "slower" if worst is not None and worst.high(level) < 0 else "looks slower"
                if worst is None or not self._is_slower(worst):
                    worst, why = _least(overlapping[i] for i in stretch), "slower with one root"
                if worst is not None and len(stretch) > 1:
                    why = f"{why}, down to {worst.ratio(level)}"
                part = self._part(
                    rule, table, own, RuleState.SLOWER, gain=worst, reason=why, is_whole=False
                )
                yield replace(part, gain=None if worst is None else worst.ratio(level))
            elif registered[stretch[0]]:
                yield self._unregistered(rule, table, at, stretch, is_good=~bad)
            elif self.is_again:
                is_whole = len(stretch) == len(at)
                yield self._judged(rule, table, at[stretch], is_whole=is_whole)
            else:
                yield from self._trimmed(rule, table, at, stretch, each)

    def _is_slower(self, size: LogMean) -> bool:
        return verdict_at(size, self.level_of_a_size) is Verdict.SLOWER

    def _worst(self, paired: PairedRatios, size: int) -> LogMean | None:
        return _least(paired.at(size, view) for view in range(paired.log.shape[1]))

    def _with_one_root(self, table: PairTable, size: int) -> LogMean | None:
        """What a size loses where calls have one root; None where no loss is proven."""
        if table.one_root is None:
            return None
        paired = table.one_root
        at = np.flatnonzero(paired.nbytes == table.nbytes[size])
        one = self._worst(paired, int(at[0])) if len(at) else None
        level = level_of(len(paired.nbytes), 2 * _LOOP_LEVEL)
        is_slower = one is not None and one.log < _WITH_ONE_ROOT and one.high(level) < 0
        return one if is_slower else None

    def _is_slower_registered(self, table: PairTable, size: int) -> bool:
        """Whether a size is slower where buffers are registered."""
        if table.registered is None:
            return False
        paired = table.registered
        at = np.flatnonzero(paired.nbytes == table.nbytes[size])
        one = self._worst(paired, int(at[0])) if len(at) else None
        return one is not None and self._is_slower(one)

    def _unregistered(
        self, rule: Rule, table: PairTable, at: Indices, stretch: Indices, *, is_good: Truths
    ) -> RuleVerdict:
        """Sizes of a rule that are slower with registered buffers: a rule for others, if it gains.

        It takes what lies between them and the good sizes beside them. A whole rule that loops
        judged is proven by calls that have such buffers.
        """
        is_proven = len(stretch) == len(at) and (table.timing[at] == LOOP).all()
        harm = _SLOWER_REGISTERED if self.is_again else ""
        found = self._judged(rule, table, at[stretch], is_whole=bool(is_proven), harm=harm)
        if not found.is_kept:
            return found
        low, high = found.min_nbytes, found.max_nbytes
        first, last = int(stretch[0]), int(stretch[-1])
        if first > 0 and is_good[first - 1]:
            low = int(table.nbytes[at[first - 1]]) + 1
        if last + 1 < len(at) and is_good[last + 1]:
            high = int(table.nbytes[at[last + 1]]) - 1
        return replace(found, reg_buff=0, min_nbytes=low, max_nbytes=high)

    def _trimmed(
        self,
        rule: Rule,
        table: PairTable,
        at: Indices,
        stretch: Indices,
        each: Sequence[LogMean | None],
    ) -> Iterator[RuleVerdict]:
        """A range of good sizes without the ends that gain next to nothing."""

        def is_idle(i: int) -> bool:
            one = each[i]
            return one is not None and one.log < self.least / 2 and one.log + one.se < self.least

        first, last = 0, len(stretch) - 1
        while first < last and is_idle(int(stretch[first])):
            first += 1
        while last > first and is_idle(int(stretch[last])):
            last -= 1
        if first == last and is_idle(int(stretch[first])):
            first, last = 0, len(stretch) - 1
        kept = stretch[first : last + 1]
        is_whole = len(kept) == len(at)
        for tail in (stretch[:first], stretch[last + 1 :]):
            if len(tail):
                worst = _least(each[i] for i in tail)
                yield self._part(
                    rule,
                    table,
                    at[tail],
                    RuleState.NO_GAIN,
                    gain=worst,
                    reason="gains next to nothing",
                    is_whole=False,
                )
        left = self._judged(rule, table, at[kept], is_whole=is_whole)
        if left.state is RuleState.NOT_PROVEN and left.min_nbytes == left.max_nbytes:
            # A rule for one number of bytes, which hardly a job has.
            left = replace(left, state=RuleState.NO_GAIN, reason="a single size")
        yield left

    def _judged(
        self,
        rule: Rule,
        table: PairTable,
        own: Indices,
        *,
        is_whole: bool,
        harm: str = "",
    ) -> RuleVerdict:
        """One part of a rule: whether it gains; with harm it is slower whatever it gains."""
        chosen = np.isin(np.arange(len(table.nbytes)), own)
        answered = chosen & ~np.isin(table.nbytes, list(table.alike))
        chosen = answered if answered.any() else chosen
        found = table.paired.over(chosen)
        if not found:
            return self._part(
                rule,
                table,
                own,
                RuleState.UNDECIDED,
                gain=None,
                reason="seen once",
                is_whole=is_whole,
            )
        left_over = float(np.nanmedian(table.left_over[own])) if len(own) else 0.0
        if left_over > self.least / 2:
            found = [replace(one, log=one.log - left_over) for one in found]
        worst = min(found, key=lambda one: one.low(self.level))
        loop = _mean(table.loop, table.nbytes[own])
        one_root = _mean(table.one_root, table.nbytes[own])
        registered = _mean(table.registered, table.nbytes[own])
        bfloat16 = _mean(table.bfloat16, table.nbytes[own])
        state, why = self._state(worst, loop, one_root, bfloat16)
        cost = self.idle_cost(rule.collective, [int(n) for n in table.nbytes[chosen]])
        if cost is not None and cost.log < 0 and not is_equal(cost, _EQUAL):
            beside_idle = state
            worst = worst + cost
            state, why = self._state(worst, loop, one_root, bfloat16)
            restores = cost.high(self.level) < 0 and worst.low(self.level) > _RESTORED
            if not state.is_proven and beside_idle.is_proven and restores:
                state, why = RuleState.RESTORES, RESTORES
            elif state is RuleState.SLOWER and beside_idle is not RuleState.SLOWER:
                # Without the rule the plugin would cost as much.
                state, why = RuleState.NO_GAIN, "no gain"
        if harm and state.is_proven:
            state, why = RuleState.SLOWER, harm
        return self._part(
            rule,
            table,
            own,
            state,
            gain=worst,
            reason=why,
            is_whole=is_whole,
            loop=loop,
            one_root=one_root,
            registered=registered,
            bfloat16=bfloat16,
        )

    def _state(
        self,
        one: LogMean,
        loop: LogMean | None,
        one_root: LogMean | None,
        bfloat16: LogMean | None,
    ) -> tuple[RuleState, str]:
        if one.low(self.level) > 0 and one.log >= self.least:
            level = level_of(self.n_rules, 2 * _LOOP_LEVEL)
            for other, most, how in (
                (loop, SLIGHT, "launched one by one"),
                (one_root, _WITH_ONE_ROOT, "with one root"),
                (bfloat16, SLIGHT, "in bfloat16"),
            ):
                if other is not None and other.log < most and other.high(level) < 0:
                    return RuleState.SLOWER, f"{other.ratio(level)} {how}"
            return RuleState.PROVEN, ""
        if one.high(self.level) < 0 and one.log < SLIGHT:
            return RuleState.SLOWER, "slower"
        if one.high(self.level) < self.least:
            return RuleState.NO_GAIN, "no gain"
        return RuleState.UNDECIDED, "undecided"

    def _part(
        self,
        rule: Rule,
        table: PairTable,
        own: Indices,
        state: RuleState,
        *,
        gain: LogMean | None,
        reason: str,
        is_whole: bool,
        loop: LogMean | None = None,
        one_root: LogMean | None = None,
        registered: LogMean | None = None,
        bfloat16: LogMean | None = None,
    ) -> RuleVerdict:
        paired = table.paired
        undecided = sum(
            one is None or verdict_at(one, self.level_of_a_size) is Verdict.UNDECIDED
            for one in (
                self._worst(paired, int(i)) for i in own if int(table.nbytes[i]) not in table.alike
            )
        )
        timings = dict.fromkeys(str(table.timing[i]) for i in own)
        inside = self._inside(rule, table)
        low, high = int(table.nbytes[own[0]]), int(table.nbytes[own[-1]])
        if state.is_proven:
            # Between called sizes it is the rule's own bounds that count.
            low = rule.min_nbytes if own[0] == inside[0] else low
            high = rule.max_nbytes if own[-1] == inside[-1] else high
            state, reason = (state, reason) if is_whole else (RuleState.NOT_PROVEN, "")
        return replace(
            RuleVerdict.of(rule, state, reason),
            min_nbytes=low,
            max_nbytes=high,
            gain=None if gain is None else gain.ratio(self.level),
            loop=None if loop is None else loop.ratio(),
            one_root=None if one_root is None else one_root.ratio(),
            registered=None if registered is None else registered.ratio(),
            bfloat16=None if bfloat16 is None else bfloat16.ratio(),
            n_sizes=len(own),
            n_undecided=undecided,
            timing=" and ".join(timings),
        )


def _mean(other: PairedRatios | None, sizes: npt.NDArray[np.int64]) -> LogMean | None:
    """Mean over a rule's sizes in another timing mode, of the placement that gains least."""
    return None if other is None else other.least(np.isin(other.nbytes, sizes))


def _least(found: Iterable[LogMean | None]) -> LogMean | None:
    """The one that gains least."""
    return min((one for one in found if one is not None), key=lambda one: one.log, default=None)
