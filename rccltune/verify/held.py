"""What is looked at, under which conditions, and what launches have said of it so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rccltune.measure import Site
from rccltune.model import Collective, Reporter, Rule
from rccltune.plan import Condition
from rccltune.rules import RuleFile
from rccltune.verify.evidence import Evidence
from rccltune.verify.proofs import Proven
from rccltune.verify.swept import Swept


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all looks have in common.

    Attributes:
        folder: in which launches are kept.
        conditions: the sweep's own, and others in which rules must do no harm.
        swept: what the sweep saw: how long launches are to be, and in how many settings ran.
        is_paired: the idle plugin is the baseline but for the plugin, and launches can be combined.
    """

    folder: Path
    conditions: tuple[Condition, ...]
    site: Site
    swept: Swept
    is_paired: bool
    walks: bool
    timeout_s: float | None
    reporter: Reporter


@dataclass(slots=True)
class Held:
    """One condition: what its launches say, and what the plugin did in them.

    Attributes:
        evidence: of all looks at what is left of the file.
        fresh: of the last look alone.
        n_launches: made for it.
    """

    condition: Condition
    evidence: Evidence
    fresh: Evidence
    proven: Proven = field(default_factory=Proven)
    n_launches: int = 0


def new_held(condition: Condition) -> Held:
    """A condition of which nothing is known."""
    made = [Evidence(is_own=condition.is_own, words=condition.beside_words) for _ in range(2)]
    return Held(condition=condition, evidence=made[0], fresh=made[1])


def forget_checks(held: Sequence[Held]) -> None:
    """Have results checked again: launches behind one that failed checked nothing."""
    for one in held:
        one.evidence.checked.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at one state of a file.

    Attributes:
        text: of the file.
        number: from 1; those of another look are further launches.
        is_brief: all that is missing is more launches: each goes through both sides once.
        suspects: sizes without a rule looked slower in the look before, which is to be seen again.
        edges: whether the boundaries of rules are looked at.
        needs_doubted: whether what the rules need does harm is undecided.
        missing: rules that are to be seen in so many launches more; nothing else is.
        open_in: collectives of which something is undecided; None for all.
    """

    file: RuleFile
    text: str
    number: int
    is_brief: bool = False
    suspects: bool = False
    edges: bool = True
    needs_doubted: bool = True
    missing: tuple[tuple[Rule, int], ...] = ()
    open_in: frozenset[Collective] | None = None

    def is_about(self, collective: Collective) -> bool:
        """Whether its launches are to be made: what is decided needs none."""
        return self.open_in is None or collective in self.open_in

    @property
    def n_replicates(self) -> int:
        """Launches of each range: where only their number is missing, one is one more."""
        return 1 if self.is_brief else 2
