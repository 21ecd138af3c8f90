"""What a user may ask of a choice, and what a choice is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rccltune import defaults
from rccltune.model import LeftOut, Notice, Scale, Setting, Target, Zone
from rccltune.vocab import Collective

Selectable = Callable[[Setting, Target], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOptions:
    """How to choose.

    Attributes:
        tolerance: regret against the best measured setting allowed to save a zone, 0.02 is 2 %.
        min_gain: by how much the baseline must be beaten for a rule to be worth having.
        max_channels: settings with more channels, or with an unstated number, are left out.
        channel_cost: relative time that one channel is worth; 0.001 lets 20 fewer channels
            outweigh 2 % of time.
        baseline: a setting, or the name of a variant, that counts as what the library does by
            itself; None takes the baseline samples of each target's own variant.
        weights: (collective, scale, bytes, calls) of a workload; sizes that it calls often decide
            between equally short lists of zones. Where it has no call of a target every measured
            size counts alike.
        extrapolate: settings also answer where nothing was measured, from 0 to 2^63-1, in zones of
            their own.
        arch: ``gfx942`` …, ``amd`` or ``nvidia`` where only the vendor is known; None bars and
            requires nothing that holds for one vendor's library alone.
        widen: settings may be chosen that only a widening variant makes selectable, which the whole
            job then needs.
        variant: name of the variant to choose whatever it costs; None lets gains decide.
        allow_lossy: a lossy variant may be chosen.
        selectable: why a setting cannot be in a rule for a target, None where it can; replaces
            the built-in table of RCCL's limits.
    """

    tolerance: float = defaults.TOLERANCE
    min_gain: float = defaults.MIN_GAIN
    max_channels: int | None = None
    channel_cost: float = defaults.CHANNEL_COST
    baseline: Setting | str | None = None
    weights: tuple[tuple[Collective, Scale, int, float], ...] = ()
    extrapolate: bool = False
    arch: str | None = None
    widen: bool = True
    variant: str | None = None
    allow_lossy: bool = False
    selectable: Selectable | None = None

    def __post_init__(self) -> None:
        """Percentages are fractions here, and none is negative."""
        for name in ("tolerance", "min_gain", "channel_cost"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} {value} is no fraction: 2 % is 0.02")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen.

    Attributes:
        zones: by target, then by size; those of one target cover 0 to 2^63-1 without a gap.
        left_out: settings that were measured and are in no rule because no rule can choose them.
    """

    zones: tuple[Zone, ...]
    notices: tuple[Notice, ...]
    left_out: tuple[LeftOut, ...]
