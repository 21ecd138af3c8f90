"""Whether two ways of measuring gave the same times: silence and site, one launch and separate."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.fields import Number, Whole
from rccltune.model.settings import CurveKey, Target, View


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRatio:
    """Time of the one over time of the other at one size."""

    nbytes: Whole
    ratio: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Neighbouring sizes at which two ways of measuring differ beyond noise, the same way round.

    Attributes:
        sizes: by rising size, at least one.
        ratio: median over them; above 1 the first way was the slower.
    """

    sizes: tuple[SizeRatio, ...]
    ratio: Number

    @property
    def min_nbytes(self) -> int:
        """Smallest size of the stretch."""
        return self.sizes[0].nbytes

    @property
    def max_nbytes(self) -> int:
        """Largest size of the stretch."""
        return self.sizes[-1].nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Our plugin answering nothing beside the untouched site.

    Attributes:
        n_sizes: measured both ways, at least one.
        median_ratio: time of silent over time of baseline.
        stretches: where they differ beyond noise and by more than matters; none where they agree.
    """

    target: Target
    view: View
    n_sizes: Whole
    median_ratio: Number
    stretches: tuple[Stretch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """A setting measured in walks beside the same setting in launches of its own.

    Attributes:
        n_sizes: measured both ways, at least one.
        median_ratio: time in walks over time in separate launches.
        worst: the size at which the ratio is farthest from 1, noise included.
        disagrees: beyond noise, and by more than matters.
        stretches: where they do.
    """

    key: CurveKey
    n_sizes: Whole
    median_ratio: Number
    worst: SizeRatio
    disagrees: bool
    stretches: tuple[Stretch, ...] = ()
