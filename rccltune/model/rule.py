"""Records of rules: one line of a rule file, what may be said of it, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rccltune.model.schema import Integer, Line, Whole
from rccltune.model.settings import Mode, Scale, Setting
from rccltune.model.units import format_span
from rccltune.model.vocabulary import Collective


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


# Of a rule that may gain nothing over the library as it is without a plugin.
RESTORES: Final = "restores what loading a tuner takes away"


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
