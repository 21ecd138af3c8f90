"""What a search for settings wants measured next, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rccltune.model.defaults import FACTOR
from rccltune.model.schema import Number, Whole
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective


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
        """In bytes, before the benchmark rounds them to whole elements."""
        found = [self.min_nbytes]
        while True:
            step = self.step_nbytes
            following = found[-1] + step if step else found[-1] * self.factor
            if following > self.max_nbytes or following == found[-1]:
                return tuple(found)
            found.append(following)


class Motive(Enum):
    """Why something is measured; the value says it."""

    COARSE = "all settings at a few sizes"
    CONTEND = "another setting may be faster there"
    CROSSOVER = "the best setting changes nearby"
    CHANNELS = "fewer or more channels may do better"
    CONFIRM = "winners are measured once more"
    FIRST_USE = "only a first use was seen, which does not count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Settings of one collective at one size.

    Attributes:
        settings: forced ones; the idle plugin is measured along with whatever is.
        motive: the first of the reasons.
        repeats: passes that count.
        promise: regret that is expected there as things are; 1 where nothing is known yet.
    """

    collective: Collective
    nbytes: Whole
    settings: tuple[Setting, ...]
    motive: Motive
    repeats: Whole = 1
    promise: Number = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the best choice is still expected to lose, averaged over what times may be.

    Attributes:
        mean: regret averaged over the sizes.
        worst: at the size where it is largest.
        at_nbytes: that size.
        open_nbytes: sizes at which it is above what the search aims at, rising.
    """

    collective: Collective
    mean: Number
    worst: Number
    at_nbytes: Whole
    open_nbytes: tuple[Whole, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A setting that is measured no more, because it loses everywhere by more than noise.

    Attributes:
        by: least relative time by which it loses at any measured size.
    """

    collective: Collective
    setting: Setting
    by: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of a search.

    Attributes:
        number: from 1.
        wants: by collective and size; empty where the search is over.
        expected: as it was before this round, by collective; empty before the first.
        dropped: since the round before.
    """

    number: Whole
    wants: tuple[Want, ...]
    expected: tuple[Expected, ...] = ()
    dropped: tuple[Dropped, ...] = ()
