"""Calls of a verification, and their turns: the library, the rules, the rules, the library.

Both sides are called in the same communicators, at every size right after each other: our plugin
is told to answer nothing, or what the rule file says. The order turns round from one communicator
to the next, so that neither a drift nor who came first favours a side. Before anything is timed
each side makes calls that do not count; what a switch leaves behind all the same is told by the
calls after one against those that follow their own kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rccltune.compare.judge_sizes import A, B, mark_stalls, means
from rccltune.measure import passes
from rccltune.measure.passes import RunPlan
from rccltune.model.rule import Rule
from rccltune.model.settings import IDLE, RULES, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks import plan
from rccltune.ranks.plan import (
    GRAPH,
    GRAPH_UP_TO,
    LOOP,
    ONE_ROOT,
    REGISTERED,
    CollectiveCall,
    Label,
    Step,
    setting_of,
)

if TYPE_CHECKING:
    import pandas as pd

# Sizes called in a rule, an octave; and twice as close at its ends and where the library changes
# its own choice.
_AN_OCTAVE: Final = 4
_CLOSER: Final = 2
# Large sizes are dear and their times smooth: half as many of them.
_SMOOTH: Final = 32 << 20
# Of more ruled sizes than this each communicator calls every other one between the rules' ends: a
# mean over many sizes needs no more, and neighbours tell the noise.
_MANY: Final = 24
# A rule that was proven by graphs is held against the loop at so many sizes.
_LOOP_SIZES: Final = 3
# Likewise in bfloat16: its ends and its middle.
_TYPED_SIZES: Final = 3
# Sizes that no rule is for are called in so many communicators.
_FOR_OTHERS: Final = 2
TURNS: Final = ((IDLE, RULES, RULES, IDLE), (RULES, IDLE, IDLE, RULES))
_SHORT_TURNS: Final = ((IDLE, RULES), (RULES, IDLE))


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesToCall:
    """Sizes in bytes of one collective.

    Attributes:
        ruled: that a rule of ours answers, rising; ends of rules among them.
        ends: of the rules.
        looped: those of them that are timed by the loop, too.
        typed: those of them that are called in bfloat16, too, where the collective reduces.
        others: that none of our rules answers.
        conditional: of the ruled ones those whose answer depends on registered buffers.
    """

    collective: Collective
    ruled: tuple[int, ...]
    ends: frozenset[int]
    looped: tuple[int, ...]
    typed: tuple[int, ...]
    others: tuple[int, ...]
    conditional: frozenset[int] = frozenset()

    def called_in(self, turn: int) -> tuple[int, ...]:
        """Ruled sizes that a communicator calls.

        Args:
            turn: 0 or 1, which take turns.
        """
        if len(self.ruled) <= _MANY:
            return self.ruled
        return tuple(
            nbytes
            for at, nbytes in enumerate(self.ruled)
            if at % 2 == turn or nbytes in self.ends or nbytes in self.looped
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationCalls:
    """Calls of a verification.

    Attributes:
        sizes: of each collective.
        captures: whether calls can be captured into graphs here.
        registers: whether a tuner is told, in graphs, that buffers are registered.
        timing: ``auto``, ``graph`` or ``loop``.
        checked_up_to: largest call in bytes whose results are checked; None checks all.
        quiet_from: sizes from it on are called in half of the communicators, since the sweep knows
            them well; None calls all in every one.
    """

    sizes: tuple[SizesToCall, ...]
    placements: tuple[Placement, ...]
    dtype: str
    op: str
    captures: bool = True
    registers: bool = False
    timing: str = passes.TIMINGS[0]
    checked_up_to: int | None = None
    quiet_from: int | None = None

    def timings(self, sizes: SizesToCall, nbytes: int) -> tuple[str, ...]:
        """Timing modes of a size: loop above 4 MiB, graph up to there, both at looped ones."""
        if self.registers and nbytes in sizes.conditional:
            return (LOOP,)  # the only calls whose buffers are not registered
        if self.timing != passes.TIMINGS[0]:
            return (self.timing,)
        if not self.captures or nbytes > GRAPH_UP_TO:
            return (LOOP,)
        return (LOOP, GRAPH) if nbytes in sizes.looped else (GRAPH,)

    def has_registered(self, sizes: SizesToCall, nbytes: int, communicator: int) -> bool:
        """Whether a communicator times a size with registered buffers too.

        Two of eight do, which take turns: such graphs take ten times as long to capture.
        """
        is_registered = self.registers and self.timing != LOOP
        at = sizes.ruled.index(nbytes)
        if self.is_quiet(nbytes):
            # Every second one calls it.
            has_turn = at // 2 % 2 == communicator // 2 % 2
        else:
            has_turn = at % 4 == communicator % 4
        return is_registered and nbytes not in sizes.conditional and has_turn

    def is_quiet(self, nbytes: int) -> bool:
        """Whether half of the communicators call a size."""
        return self.quiet_from is not None and nbytes >= self.quiet_from

    def has_one_root(self, collective: Collective) -> bool:
        """Whether calls with one root are timed too, which overlap."""
        return collective.has_root and self.timing != GRAPH


def is_called(rule: Rule) -> bool:
    """Whether a rule is for calls that are made here: alone, with buffers not registered."""
    return rule.num_pipe_ops in (None, 1) and rule.reg_buff in (None, 0)


def find_rule(
    rules: Sequence[Rule], collective: Collective, nbytes: int, answer: str = ""
) -> Rule | None:
    """The rule that answers a size.

    Args:
        rules: of this scale, in the file's order.
        collective: which.
        nbytes: which size.
        answer: what the plugin said, where it was asked. It takes a rule behind the first where
            the library does not let that be chosen.
    """
    mine = [
        one
        for one in rules
        if one.collective is collective and one.reaches(nbytes) and is_called(one)
    ]
    setting = setting_of(answer)
    chosen = (one for one in mine if one.setting == setting)
    return next(chosen, mine[0] if mine else None)


def choose_sizes(
    rules: Sequence[Rule],
    collective: Collective,
    swept: Sequence[int],
    changes: Iterable[tuple[int, int]],
    scale: Scale,
    *,
    only: Sequence[Rule] = (),
) -> SizesToCall:
    """Sizes to call for a collective.

    Args:
        rules: of this scale, in the file's order.
        collective: which.
        swept: sizes in bytes that the sweep measured, rising.
        changes: pairs of swept sizes between which the library changes its own choice.
        scale: of the communicator.
        only: rules of these whose sizes are called, and no others; empty for all sizes.
    """
    grain = plan.grain(collective, scale.n_ranks)
    mine = [one for one in only or rules if one.collective is collective]
    between = list(changes)
    ruled: set[int] = set()
    ends: set[int] = set()
    looped: set[int] = set()
    typed: set[int] = set()
    for rule in mine:
        low = math.ceil(rule.min_nbytes / grain) * grain
        high = rule.max_nbytes // grain * grain
        sizes = {
            nbytes
            for nbytes in _inside(low, high, between, grain)
            if (first := find_rule(rules, collective, nbytes)) is not None
            and (not only or first in only)
        }
        ruled |= sizes
        ends |= {min(sizes), max(sizes)} if sizes else set()
        small = sorted(nbytes for nbytes in sizes if nbytes <= GRAPH_UP_TO)
        looped |= set(_spread(small, _LOOP_SIZES))
        typed |= set(_spread(sorted(sizes), _TYPED_SIZES))
    others = set() if only else {nbytes // grain * grain for nbytes in swept}
    return SizesToCall(
        collective=collective,
        ruled=tuple(sorted(ruled)),
        ends=frozenset(ends),
        looped=tuple(sorted(looped)),
        typed=tuple(sorted(typed)),
        others=tuple(
            sorted(n for n in others - ruled if n > 0 and find_rule(rules, collective, n) is None)
        ),
        conditional=frozenset(
            nbytes
            for rule in rules
            if rule.collective is collective and rule.reg_buff is not None
            for nbytes in ruled
            if rule.reaches(nbytes)
        ),
    )


def _inside(low: int, high: int, changes: Iterable[tuple[int, int]], grain: int) -> Iterator[int]:
    """Sizes from a rule's first to its last."""
    if not 0 < low <= high:
        return
    yield low
    yield high
    step = 2 ** (1 / _AN_OCTAVE)
    closer = 2 ** (1 / _AN_OCTAVE / _CLOSER)
    grid = [
        step**k
        for k in range(math.ceil(math.log(low, step) - 1e-9), _last(high, step) + 1)
        if step**k <= _SMOOTH or k % 2 == 0
    ]
    near = [low * closer, high / closer]
    for below, above in changes:
        near += [closer**k for k in range(_last(below, closer), _last(above, closer) + 1)]
    for nbytes in (*grid, *near):
        rounded = round(nbytes / grain) * grain
        if low <= rounded <= high:
            yield rounded


def _last(nbytes: float, step: float) -> int:
    return math.floor(math.log(nbytes, step) + 1e-9)


def _spread(sizes: Sequence[int], n: int) -> list[int]:
    """So many of the sizes, from the first to the last."""
    if len(sizes) <= n:
        return list(sizes)
    return [sizes[round(k * (len(sizes) - 1) / (n - 1))] for k in range(n)]


def find_changes(table: pd.DataFrame) -> Mapping[str, list[tuple[int, int]]]:
    """Pairs of swept sizes between which the library changes its own choice, by collective.

    Args:
        table: rows of the sweep's runs.
    """
    idle = table[table["setting"] == str(IDLE)]
    idle = idle[(idle["step"] == plan.MEASURE) & (idle["library"] != "")]
    spans: dict[str, list[tuple[int, int]]] = {}
    for collective, rows in idle.groupby("collective", sort=False):
        each = rows.drop_duplicates("nbytes").sort_values("nbytes")
        sizes, words = list(each["nbytes"]), list(each["library"])
        spans[str(collective)] = [
            (int(sizes[i]), int(sizes[i + 1]))
            for i in range(len(sizes) - 1)
            if words[i] != words[i + 1]
        ]
    return spans


def tells_registered(table: pd.DataFrame) -> bool:
    """Whether a tuner is told, in graphs, that buffers are registered; also where none was tried.

    Args:
        table: rows of the sweep's runs.
    """
    graphs = table[table["timing"] == GRAPH]
    return graphs.empty or bool((graphs["registered"] == "1").any())


def plan_communicators(
    calls: VerificationCalls, n_communicators: int, digest: str, text: str
) -> RunPlan:
    """Communicators that a verification makes.

    Args:
        calls: what is called.
        n_communicators: in all.
        digest: of the rule file.
        text: of it.
    """
    communicators = {}
    for number in range(n_communicators):
        steps = _steps(calls, number)
        communicators[Label(plan.VERIFY, number, digest)] = (
            (*_checks(calls), *steps) if number == 0 else steps
        )
    return RunPlan(plugin=True, communicators=communicators, rules=text)


def _checks(calls: VerificationCalls) -> Iterator[Step]:
    """One call of either side at every ruled size, whose result is compared."""
    most = calls.checked_up_to
    typed = (call for sizes in calls.sizes for call in _in_bfloat16(calls, sizes))
    for call in (*list_calls(calls), *typed):
        kind = plan.CHECK if most is None or call.nbytes <= most else plan.CALL
        yield Step(kind, IDLE, call)
        yield Step(kind, RULES, call)


def _calls(
    calls: VerificationCalls, collective: Collective, sizes: Iterable[int]
) -> Iterator[CollectiveCall]:
    for nbytes in sizes:
        for placement in plan.placements_for(calls.placements, collective):
            yield CollectiveCall(collective, calls.dtype, calls.op, placement, nbytes)


def list_calls(calls: VerificationCalls) -> Iterator[CollectiveCall]:
    """Every call of a ruled size."""
    for sizes in calls.sizes:
        yield from _calls(calls, sizes.collective, sizes.ruled)


def _in_bfloat16(calls: VerificationCalls, sizes: SizesToCall) -> Iterator[CollectiveCall]:
    """Calls at the ends and in the middle of each rule that reduces, in bfloat16."""
    if sizes.collective.reduces and calls.dtype != plan.BFLOAT16:
        for call in _calls(calls, sizes.collective, sizes.typed):
            yield replace(call, dtype=plan.BFLOAT16)


def _steps(calls: VerificationCalls, communicator: int) -> tuple[Step, ...]:
    """Steps of one communicator; the first two call what no rule is for, too."""
    turn = communicator % 2
    steps: list[Step] = []
    for sizes in calls.sizes:
        for call in _calls(calls, sizes.collective, sizes.called_in(turn)):
            if turn and calls.is_quiet(call.nbytes):
                continue
            for timing in calls.timings(sizes, call.nbytes):
                steps += _time_in_turns(call, timing, TURNS[turn])
            if calls.has_one_root(sizes.collective):
                steps += _time_in_turns(call, ONE_ROOT, _SHORT_TURNS[turn])
            if calls.has_registered(sizes, call.nbytes, communicator):
                steps += _time_in_turns(call, REGISTERED, _SHORT_TURNS[turn])
        if communicator < _FOR_OTHERS:
            for call in _calls(calls, sizes.collective, sizes.others):
                timing = calls.timings(sizes, call.nbytes)[0]
                steps += _time_in_turns(call, timing, _SHORT_TURNS[turn])
        for call in _in_bfloat16(calls, sizes):
            timing = calls.timings(sizes, call.nbytes)[-1]
            steps += _time_in_turns(call, timing, _SHORT_TURNS[turn])
    return passes.loops_first(steps)


def _time_in_turns(call: CollectiveCall, timing: str, turns: Sequence[Setting]) -> list[Step]:
    effort = plan.effort_of(call.nbytes)
    return [Step(plan.MEASURE, who, call, timing, effort) for who in turns]


def pair_times(table: pd.DataFrame) -> pd.DataFrame:
    """Library against rules, a row for each communicator, size, placement and timing mode.

    Args:
        table: rows of a rule file's verification (see :mod:`rccltune.ranks.rows`).

    Returns:
        Columns collective, dtype, placement, nbytes, timing, replicate, library_us, rules_us,
        gain (log), left_over (log: what a switch costs the library beyond what it costs the
        rules), stalls_library, stalls_rules, n_library, n_rules, answer,
        is_asked, is_equivalent (both sides made the very same calls).
    """
    import numpy as np
    import pandas as pd

    timed = table[(table["step"] == plan.MEASURE) & (table["time_us"] > 0)].copy()
    # A library that was asked for it may do otherwise.
    timed = timed[(timed["timing"] != REGISTERED) | (timed["registered"] == "1")]
    # Whatever is not answered by the rules is what they are held against.
    is_ruled = timed["setting"] == str(RULES)
    timed["side"] = is_ruled.map({True: B, False: A})
    timed["replicate"] = timed["run"].astype(str) + ":" + timed["communicator"].astype(str)
    names = ["collective", "dtype", "placement", "nbytes", "timing"]
    cell = [*names, "replicate"]
    before = timed.groupby(cell, sort=False)["side"].shift()
    timed["is_first"] = before.notna() & (before != timed["side"])
    timed = mark_stalls(timed, names)
    sides = _by_side(timed, names, "log").dropna(how="all")
    fresh, settled = (
        _by_side(rows, names, "log").reindex(sides.index)
        for rows in (timed[timed["is_first"]], timed[~timed["is_first"]])
    )
    left = fresh - settled
    made = pd.DataFrame(
        {
            "library_us": np.exp(sides[A]),
            "rules_us": np.exp(sides[B]),
            "gain": sides[A] - sides[B],
            "left_over": left[A] - left[B],
        }
    )
    for column in ("stalls", "n"):
        counts = _by_side(timed, names, column).reindex(sides.index).fillna(0).astype(int)
        for side, name in ((A, "library"), (B, "rules")):
            made[f"{column}_{name}"] = counts[side]
    ruled = timed[timed["side"] == B]
    made["answer"] = (
        ruled.groupby(cell, sort=False)["answer"].first().reindex(made.index).fillna("")
    )
    n_asked = ruled.groupby(cell, sort=False)["asked"].min().reindex(made.index).fillna(0)
    made["is_asked"] = n_asked > 0
    # The plugin was asked on both sides, and answered nothing on either.
    made["is_equivalent"] = made["is_asked"] & (made["answer"] == "none")
    result: pd.DataFrame = made.reset_index()
    return result


def _by_side(rows: pd.DataFrame, names: list[str], value: str) -> pd.DataFrame:
    """A value of each replicate, a column for the library and one for the rules."""
    pivoted: pd.DataFrame = means(rows, names).pivot_table(
        values=value, index=[*names, "replicate"], columns="side", aggfunc="first"
    )
    table: pd.DataFrame = pivoted.reindex(columns=[A, B])
    return table
