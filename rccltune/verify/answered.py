"""Which sizes a file's rules answered, and which they left to the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rccltune.model import Rule, Target
from rccltune.verify.evidence import Weighed
from rccltune.verify.proofs import Proven


@dataclass(frozen=True, slots=True)
class Answered:
    """Whether it was the rule for a size that answered, and no path, fallback or nobody."""

    rules: Sequence[Rule]
    proven: Proven

    def at(self, one: Weighed) -> bool:
        """Of a size that was weighed."""
        return self(one.verdict.target, one.verdict.nbytes)

    def __call__(self, target: Target, nbytes: int) -> bool:
        """Of calls of so many bytes."""
        collective = target.collective
        first = next((r for r in self.rules if r.matches(collective, nbytes, target.scale)), None)
        if first is None or first.vendor or nbytes in self.proven.bypassed.get(collective, ()):
            return False
        return nbytes not in self.proven.skipped.get((collective, first.setting), ())
