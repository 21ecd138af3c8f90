"""Which sizes a file's rules answered, and which they left to the library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rccltune.model import Judgement, Rule, Target
from rccltune.verify.evidence import Weighed
from rccltune.verify.proofs import Proven, wrong_without_rules


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


def stop_where_untouched_is_wrong(
    folder: Path, answered: Answered, weighed: Iterable[Weighed]
) -> None:
    """Wrong results at a size that no rule answered are the library's own.

    Raises:
        VerificationError: there are some.
    """
    for one in weighed:
        if one.verdict.judgement is Judgement.WRONG and not answered.at(one):
            raise wrong_without_rules(folder)
