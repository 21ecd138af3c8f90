"""Record of a verdict: what is said of one side at a size, held against another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rccltune.model.estimate import Estimate
from rccltune.model.schema import Number, Whole, Word
from rccltune.model.vocabulary import Collective, Placement


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
