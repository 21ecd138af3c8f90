"""Records of a choice: zones, rules, verdicts of verification."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from rccltune.model.estimate import Estimate
from rccltune.model.schema import Integer, Line, Number, Whole, Word
from rccltune.model.settings import Mode, Scale, Setting, Target
from rccltune.model.vocabulary import MAX_NBYTES, Collective, Placement, format_size, format_span


class RuleState(Enum):
    """What may be said of a rule, by the choice or by a verification.

    PROVEN: repeats prove its gain. RESTORES: it gives back what loading a tuner takes away, and
    may gain nothing. KEEPS_BITS: of a file with ``#@ bits``, whose rules are judged by the bits of
    results alone. NOT_PROVEN: it gains, and repeats must prove it yet. NO_BASELINE: it is the
    fastest; what it gains is not known.
    """

    PROVEN = "proven"
    RESTORES = "restores"
    KEEPS_BITS = "keeps bits"
    NOT_PROVEN = "not proven"
    NO_BASELINE = "no baseline"
    NO_GAIN = "no gain"
    UNDECIDED = "undecided"
    SLOWER = "slower"
    WRONG = "wrong results"
    FAILED = "failed"
    NOT_SELECTABLE = "not selectable"
    BYPASSED = "bypassed"

    @property
    def is_proven(self) -> bool:
        """Whether repeats prove what it is there for."""
        return self in (RuleState.PROVEN, RuleState.RESTORES, RuleState.KEEPS_BITS)


NOT_MEASURED: Final = "not measured"
NOT_FASTER: Final = "not faster"
_NOT_PROVEN: Final = "not proven: "
BASELINE_UNKNOWN: Final = "baseline not measured here"
# Of a rule that may gain nothing over the library as it is without a plugin.
RESTORES: Final = "restores what loading a tuner takes away"
NOTHING_SELECTABLE: Final = "no selectable setting was measured"


def not_proven(gain: float, why: str) -> str:
    """Reason of a gap in which something looks faster, by this much at best."""
    return f"{_NOT_PROVEN}up to {gain:.0%} faster, {why}"


def is_not_beaten(reason: str | None) -> bool:
    """Whether a gap was measured, and nothing in it is proven to be faster."""
    # "bypassed from 1 MiB on; else not faster": what is said of the rest.
    rest = (reason or "").rpartition("; else ")[2]
    return rest == NOT_FASTER or rest.startswith(_NOT_PROVEN)


def hole_words(min_nbytes: int, max_nbytes: int, reason: str) -> str:
    """``above 4 KiB not measured: left to the library``; any other reason as it is."""
    if reason != NOT_MEASURED:
        return reason
    below, above = format_size(max(min_nbytes - 1, 0)), format_size(max_nbytes + 1)
    if min_nbytes == 0:
        where = "nothing" if max_nbytes == MAX_NBYTES else f"below {above}"
    elif max_nbytes == MAX_NBYTES:
        where = f"above {below}"
    else:
        where = f"between {below} and {above}"
    return f"{where} {NOT_MEASURED}: left to the library"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnselectableSetting:
    """A setting that was measured and can never be in a rule of this target.

    Attributes:
        n_fastest: sizes at which it was faster than every selectable setting in every view.
    """

    target: Target
    setting: Setting
    reason: Line
    n_fastest: Whole = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """An interval of sizes where one setting is chosen, or a gap where none is.

    Attributes:
        setting: None for a gap.
        reason: why it is a gap, None for a choice.
        measured_from: smallest measured size inside, None where nothing was measured.
        measured_to: largest measured size inside.
        worst_regret: time(chosen) / time(best measured) - 1, the largest over sizes and views.
        gain: baseline time / its time in the mean over its sizes, in the view that gains least;
            None where no baseline was measured.
        fallback: what to choose where the setting is not selectable; proven where the zone is.
        fallback_gain: of the fallback, as ``gain``.
        state: what may be said of the rule, None for a gap.
        n_communicators: in which the setting was timed, in the median over sizes; of logs, how
            many there are.
    """

    target: Target
    min_nbytes: Whole
    max_nbytes: Whole
    setting: Setting | None
    reason: Line | None = None
    measured_from: Whole | None = None
    measured_to: Whole | None = None
    n_sizes: Whole = 0
    worst_regret: Number | None = None
    gain: Estimate | None = None
    fallback: Setting | None = None
    fallback_gain: Estimate | None = None
    state: RuleState | None = None
    n_communicators: Whole = 0

    @property
    def is_proven(self) -> bool:
        """Whether repeats prove what its rule is there for."""
        return self.state is not None and self.state.is_proven

    @property
    def behind(self) -> Zone | None:
        """The fallback as a zone of its own."""
        if self.fallback is None:
            return None
        return replace(
            self,
            setting=self.fallback,
            gain=self.fallback_gain,
            fallback=None,
            worst_regret=None,
        )

    @property
    def why_unproven(self) -> str:
        """Words for what is missing to a proof; empty where nothing is."""
        if self.state is None or self.state.is_proven:
            return ""
        is_once = self.state is RuleState.NOT_PROVEN and self.n_communicators < 2
        return "seen once" if is_once else self.state.value

    @property
    def why(self) -> str:
        """Why it is a gap, in a sentence; empty for a choice."""
        return hole_words(self.min_nbytes, self.max_nbytes, self.reason or "")

    def __post_init__(self) -> None:
        """A zone covers sizes and either chooses or says why not."""
        if not 0 <= self.min_nbytes <= self.max_nbytes <= MAX_NBYTES:
            raise ValueError(f"a zone cannot reach from {self.min_nbytes} to {self.max_nbytes}")
        if (self.setting is None) != (self.reason is not None):
            raise ValueError("a zone has either a setting or a reason for having none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a rule file; ``None`` stands for -1, which is *any* or *leave to RCCL*.

    Attributes:
        only_mode: partition mode that the row itself asks for (column 11 of a fork's dialect).
        line: where it was read, from 1.
        fallback: reached only when the rule before it is not selectable.
    """

    collective: Collective
    min_nbytes: Whole
    max_nbytes: Whole
    setting: Setting
    n_nodes: Whole | None = None
    n_ranks: Whole | None = None
    num_pipe_ops: Integer | None = None
    reg_buff: Integer | None = None
    only_mode: Mode | None = None
    line: Whole | None = None
    fallback: bool = False

    def reaches(self, nbytes: int) -> bool:
        """Whether a size is between the bounds, which are inclusive."""
        return self.min_nbytes <= nbytes <= self.max_nbytes

    def matches(
        self,
        collective: Collective,
        nbytes: int,
        scale: Scale,
        num_pipe_ops: int = 1,
        reg_buff: int = 0,
    ) -> bool:
        """Whether a call falls under the rule."""
        return (
            collective is self.collective
            and self.reaches(nbytes)
            and self.n_nodes in (None, scale.n_nodes)
            and self.n_ranks in (None, scale.n_ranks)
            and self.num_pipe_ops in (None, num_pipe_ops)
            and self.reg_buff in (None, reg_buff)
        )


def which_wait(rules: Iterable[Rule]) -> tuple[bool, ...]:
    """Whether each rule of a file waits behind an earlier one that is for all of its calls."""
    before: dict[object, list[Rule]] = {}
    waits = []
    for rule in rules:
        mine = before.setdefault((rule.collective, rule.n_nodes, rule.n_ranks), [])
        waits.append(
            rule.fallback
            or any(
                one.min_nbytes <= rule.min_nbytes and rule.max_nbytes <= one.max_nbytes
                for one in mine
            )
        )
        mine.append(rule)
    return tuple(waits)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """Rules by what they are there for.

    Attributes:
        rules: that answer by themselves.
        fallbacks: that wait behind those, for hosts where their settings are not selectable.
    """

    rules: Whole
    fallbacks: Whole

    def __str__(self) -> str:
        """``3 rules (and 1 fallback)``."""
        text = f"{self.rules} rule{'' if self.rules == 1 else 's'}"
        if self.fallbacks:
            text += f" (and {self.fallbacks} fallback{'' if self.fallbacks == 1 else 's'})"
        return text

    def plus(self, now: RuleCount, then: RuleCount) -> RuleCount:
        """Add the rules that came to be between two counts."""
        return RuleCount(
            rules=self.rules + now.rules - then.rules,
            fallbacks=self.fallbacks + now.fallbacks - then.fallbacks,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftToLibrary:
    """Sizes that are left to the library, and why: of a rule file, of a verification.

    Attributes:
        collective, scale: None for any.
    """

    min_nbytes: Whole
    max_nbytes: Whole
    reason: Line
    collective: Collective | None = None
    scale: Scale | None = None

    def __str__(self) -> str:
        """``all_reduce 4 MiB to 8 MiB: slower``."""
        name = self.collective.value if self.collective else "any"
        return f"{name} {format_span(self.min_nbytes, self.max_nbytes)}: {self.reason}"

    def is_of(self, collective: Collective, scale: Scale) -> bool:
        """Whether it speaks of these calls."""
        return self.collective in (None, collective) and self.scale in (None, scale)

    def reaches(self, nbytes: int) -> bool:
        """Whether a size is among them."""
        return self.min_nbytes <= nbytes <= self.max_nbytes


class Verdict(Enum):
    """What is said of one side at a size, held against another: of B, or of the rules.

    EQUAL is within a margin to both sides, NOT_SLOWER is no loss that counts, whatever is gained.
    """

    FASTER = "faster"
    EQUAL = "equal"
    NOT_SLOWER = "not slower"
    SLOWER = "slower"
    UNDECIDED = "undecided"
    WRONG = "wrong"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeVerdict:
    """What verification found at one size, in one placement, by one timing mode.

    Attributes:
        timing: ``graph`` or ``loop``.
        baseline_us, tuned_us: medians of the library and of the rules.
        gain: baseline time / tuned time.
        n_wrong: elements, with the rules: 0, or None where none was checked or some are wrong
            (``verdict`` says which).
    """

    collective: Collective
    placement: Placement
    timing: Word
    nbytes: Whole
    baseline_us: Number
    tuned_us: Number
    gain: Estimate
    verdict: Verdict
    n_wrong: Whole | None = None
