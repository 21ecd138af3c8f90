"""Options of choosing settings."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model import defaults
from rccltune.model.errors import CommandLineError
from rccltune.model.settings import Scale, Setting
from rccltune.model.vocabulary import Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOptions:
    """Options of choosing settings.

    Attributes:
        tolerance: time over the best measured, minus 1, that may save a zone; 0.02 is 2 %.
        min_gain: by how much the library must be beaten for a rule to be worth having.
        max_channels: settings with more channels, or with an unstated number, are left out.
        baseline: a setting that counts as what the library does by itself; None takes what was
            measured of that.
        weights: (collective, scale, bytes, calls) of a workload: sizes that it calls often decide
            between equally few zones. Where it has no call of a target all sizes count alike.
        arch: ``gfx942`` …, ``amd`` or ``nvidia`` where only the vendor is known; None bars and
            requires nothing that holds for one vendor's library alone.
        proven: only rules whose gain repeats prove.
        same_bits: only settings that add in the same order at every size.
    """

    tolerance: float = defaults.TOLERANCE
    min_gain: float = defaults.MIN_GAIN
    max_channels: int | None = None
    baseline: Setting | None = None
    weights: tuple[tuple[Collective, Scale, int, float], ...] = ()
    arch: str | None = None
    proven: bool = False
    same_bits: bool = False

    def __post_init__(self) -> None:
        """Percentages are fractions here."""
        for name in ("tolerance", "min_gain"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0 <= value < 1):
                raise CommandLineError(f"{name} {value} is no fraction: 2 % is 0.02")


def parse_baseline(text: str | None) -> Setting | None:
    """Read ``--baseline``; None where none is named.

    Raises:
        CommandLineError: the text names no setting.
    """
    if text is None:
        return None
    try:
        return Setting.parse(text)
    except ValueError as error:
        raise CommandLineError(f"--baseline: {error}") from None
