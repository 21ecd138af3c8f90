"""Record of a zone: sizes with one choice, or a gap and why it is one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from rccltune.model.estimate import Estimate
from rccltune.model.rule import RuleState
from rccltune.model.schema import Line, Number, Whole
from rccltune.model.settings import Setting, Target
from rccltune.model.units import MAX_NBYTES, format_size

NOT_MEASURED: Final = "not measured"


NOT_FASTER: Final = "not faster"


_NOT_PROVEN: Final = "not proven: "


BASELINE_UNKNOWN: Final = "baseline not measured here"


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
