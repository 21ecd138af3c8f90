"""Records of a verification, as verdict.json keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Final

from rccltune.model.estimate import Estimate
from rccltune.model.rule import LeftToLibrary, Rule, RuleState
from rccltune.model.schema import Line, Number, Text, VariableName, Whole
from rccltune.model.settings import Scale, Setting, Target
from rccltune.model.units import format_size, format_span
from rccltune.model.verdict import SizeVerdict
from rccltune.model.vocabulary import Collective
from rccltune.ranks.plan import GRAPH, GRAPH_UP_TO, LOOP

_TOO_WIDE: Final = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RanAt:
    """A setting that the library ran where a rule answered.

    Attributes:
        answer: the plugin's.
        ran: as the library's log has it, with the channels that were busy.
    """

    nbytes: Whole
    answer: Setting
    ran: Setting

    @property
    def is_as_answered(self) -> bool:
        """Whether algorithm and protocol are those that were answered; channels are a bound."""
        return not self.answer.contradicts(replace(self.ran, channels=None))

    def __str__(self) -> str:
        """``ring/simple was answered and ring/ll ran at 512 KiB``."""
        return f"{self.answer} was answered and {self.ran} ran at {format_size(self.nbytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVerdict(Rule):
    """A rule, or what is left of one, as it was verified; sizes that go are those called.

    Attributes:
        state: proven, or why it is not.
        gain: in the placement that gains least; None where nothing was timed.
        loop: the same launched one by one, at a few sizes, of a rule that graphs prove.
        one_root: the same with one root in all calls, which overlap, of broadcast and reduce.
        registered: in graphs whose buffers are registered; of a rule for others why it is one.
        bfloat16: the same in bfloat16 at its ends and in its middle, of a collective that reduces.
        n_sizes: sizes called.
        n_undecided: of these, sizes at which a loss of 2 % is not excluded.
        timing: graph, loop, or both where sizes of both are in it.
        ran: what the library ran at the first and the last size called; empty where no log says.
        reason: a sentence where it is not kept as it was.
    """

    state: RuleState
    gain: Estimate | None = None
    loop: Estimate | None = None
    one_root: Estimate | None = None
    registered: Estimate | None = None
    bfloat16: Estimate | None = None
    n_sizes: Whole = 0
    n_undecided: Whole = 0
    timing: Line = ""
    ran: tuple[RanAt, ...] = ()
    reason: Text = ""

    @classmethod
    def of(cls, rule: Rule, state: RuleState, reason: str = "") -> RuleVerdict:
        """A verdict on a whole rule."""
        values = {one.name: getattr(rule, one.name) for one in fields(Rule)}
        return cls(**values, state=state, reason=reason)

    @property
    def rule(self) -> Rule:
        """The rule alone."""
        return Rule(**{one.name: getattr(self, one.name) for one in fields(Rule)})

    @property
    def up_to_graphs(self) -> str:
        """Sizes of ``loop`` where larger ones are timed so in the first place, in words."""
        return f" up to {format_size(GRAPH_UP_TO)}" if LOOP in self.timing else ""

    def worst_gain(self, sizes: Iterable[SizeVerdict]) -> float | None:
        """Smallest gain of one of several sizes, by the timing mode that counts there.

        Args:
            sizes: of the verification, also those of other rules.
        """
        both = GRAPH in self.timing and LOOP in self.timing
        gains = {
            one.nbytes: one.gain.value
            for one in sorted(sizes, key=lambda one: -one.gain.value)
            if one.collective is self.collective
            and self.min_nbytes <= one.nbytes <= self.max_nbytes
            and one.timing in self.timing
            and (not both or (one.timing == GRAPH) == (one.nbytes <= GRAPH_UP_TO))
        }
        return min(gains.values()) if len(gains) > 1 else None

    @property
    def overwritten(self) -> tuple[RanAt, ...]:
        """Ends at which the library ran something else than the rule asked for."""
        return tuple(one for one in self.ran if not one.is_as_answered)

    @property
    def is_kept(self) -> bool:
        """Whether the file has it, for the time being where it is not proven."""
        return self.state.is_proven or self.state is RuleState.NOT_PROVEN

    @property
    def is_loop_noisy(self) -> bool:
        """Whether the loop's interval is wider than 5 % to a side, and says nothing."""
        loop = self.loop
        return loop is not None and max(loop.high / loop.value, loop.value / loop.low) > _TOO_WIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleEffect:
    """Effect of the idle plugin on a collective, from starts in turns (verdict.json).

    Attributes:
        ratio: time of the site as it is / time with the plugin idle.
        is_equal: whether the two are shown to be within 1 % of each other.
    """

    collective: Collective
    min_nbytes: Whole
    max_nbytes: Whole
    ratio: Estimate
    is_equal: bool

    def __str__(self) -> str:
        """``all_reduce 4 KiB to 8 KiB: 0.99x (0.98 to 1.00)``."""
        span = format_span(self.min_nbytes, self.max_nbytes)
        return f"{self.collective.value} {span}: {self.ratio}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BitsTime:
    """Times with and without the bits kept at one size; medians in µs.

    Attributes:
        library_us: of the library's own choice.
        rules_us: of the rules.
        fastest_us: of the sweep's fastest setting, whatever its bits; None where it has no rule.
        pin_us: of one channel of tree/simple; None where the library does not offer it.
    """

    collective: Collective
    nbytes: Whole
    library_us: Number
    rules_us: Number
    fastest_us: Number | None = None
    pin_us: Number | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFile:
    """Contents of verdict.json.

    Attributes:
        path: of the rule file; None where nothing was written.
        runner: what made times of a simulated node, as session.json has it.
        scale, rank_placement: ranks that it was verified on.
        dtype, op: of the calls, in the rank program's words.
        rules_before: rules that the file had for this scale.
        rules, fallbacks: that it has now.
        replicates, processes: communicators in which both sides were called, and starts of all
            ranks that made them.
        seconds: of all runs.
        cost_ns: what a question costs the ranks' processors with the rules; None where simulated.
        rules_sha256: digest of the file that was verified.
        verdicts: a row for each size, placement and timing mode.
        standings: of every rule of ours.
        cuts: what was left to the library at this scale, by earlier verifications of the file too.
        beside: octaves in which the idle plugin is not the site as it is.
        needs: what the file asks of the environment.
        environment: what both sides had beside that; the rules are proven with it.
        requires: what it asks of a machine.
        lost_needs: what it no longer asks.
        bits: name of the bits that its rules keep; None of one that is judged by speed.
        bits_times: what that costs.
        confirmed: what rccl-tests says of it, in a sentence; empty where it was not asked.
    """

    FORMAT: ClassVar[int] = 5

    path: Line | None
    simulated: bool
    runner: Line | None = None
    scale: Scale
    rank_placement: Line | None
    dtype: Line
    op: Line
    rules_before: Whole
    rules: Whole
    fallbacks: Whole
    replicates: Whole
    processes: Whole
    seconds: Number
    cost_ns: Number | None = None
    rules_sha256: Line
    verdicts: tuple[SizeVerdict, ...]
    standings: tuple[RuleVerdict, ...]
    cuts: tuple[LeftToLibrary, ...]
    beside: tuple[IdleEffect, ...] = ()
    needs: dict[VariableName, Line]
    environment: dict[VariableName, Line] = field(default_factory=dict)
    requires: dict[Line, Line] | None = None
    lost_needs: tuple[VariableName, ...] = ()
    bits: Line | None = None
    bits_times: tuple[BitsTime, ...] = ()
    confirmed: Text = ""

    @property
    def judging(self) -> tuple[SizeVerdict, ...]:
        """Verdicts in the mode that judges: a loop beside graphs of a size judges nothing."""
        graphs = {(one.collective, one.nbytes) for one in self.verdicts if one.timing == GRAPH}
        return tuple(
            one
            for one in self.verdicts
            if one.timing == GRAPH or (one.collective, one.nbytes) not in graphs
        )

    def target(self, collective: Collective) -> Target:
        """Collective, scale and placement of ranks."""
        return Target(collective=collective, scale=self.scale, rank_placement=self.rank_placement)


def replicates_of(n: int, n_processes: int) -> str:
    """``16 communicators of 2 starts of all ranks``."""
    return f"{n} communicators of {n_processes} start{'s' * (n_processes != 1)} of all ranks"
