"""Sizes that a sweep steps through."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model.defaults import FACTOR
from rccltune.model.schema import Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Sizes that rccl-tests step through: from the smallest by a factor or by a step.

    Attributes:
        step_nbytes: added from size to size; None where sizes are multiplied by ``factor``.
    """

    min_nbytes: Whole
    max_nbytes: Whole
    factor: Whole = FACTOR
    step_nbytes: Whole | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes in bytes, before the benchmark rounds them to whole elements."""
        sizes = [self.min_nbytes]
        while True:
            step = self.step_nbytes
            following = sizes[-1] + step if step else sizes[-1] * self.factor
            if following > self.max_nbytes or following == sizes[-1]:
                return tuple(sizes)
            sizes.append(following)
