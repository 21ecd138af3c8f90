"""Constants of the library's own model, and what it would choose with others: an experiment."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model.schema import Number, Whole
from rccltune.model.settings import Setting, Target
from rccltune.model.vocabulary import Algorithm, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """What would make the model's times of one cell those that were measured.

    Attributes:
        latency_us: added to ``hwLatencies`` of the links inside a node, for one step.
        ratio: multiplies ``bwRatio`` of up to two nodes.
        n_sizes: measured sizes behind it, over all collectives.
        error_before: median of |model / measured - 1|, as the model is.
        error_after: the same with the change.
    """

    algorithm: Algorithm
    protocol: Protocol
    latency_us: Number
    ratio: Number
    n_sizes: Whole
    error_before: Number
    error_after: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """One size: what the library's table chooses now, and what it would choose.

    Attributes:
        now_us: measured time of the present choice.
        then_us: measured time of the other one.
        best_us: of the fastest that is offered.
    """

    target: Target
    nbytes: Whole
    now: Setting
    then: Setting
    now_us: Number
    then_us: Number
    best_us: Number

    @property
    def gain(self) -> float:
        """Time now / time then - 1, below 0 where it would be slower."""
        return self.now_us / self.then_us - 1.0
