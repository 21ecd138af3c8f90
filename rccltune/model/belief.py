"""What the library predicts."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model.schema import Number, Whole
from rccltune.model.settings import Setting, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """The library's own table for one size.

    Attributes:
        offered: settings that it would have taken, each with the time in µs that its model
            predicts; None where the library shows none (tuner ABI v2).
        choice: the least of its table, None where it shows no times.
        ran: what the baseline was seen to run, None where nothing said so. Where it is not
            the choice, the library corrected its table afterwards.
    """

    target: Target
    nbytes: Whole
    offered: tuple[tuple[Setting, Number | None], ...]
    choice: Setting | None
    ran: Setting | None = None

    def predicted_us(self, setting: Setting) -> float | None:
        """Predicted time of a setting, whatever its channels; None where it is not offered."""
        for offered, time_us in self.offered:
            if (offered.algorithm, offered.protocol) == (setting.algorithm, setting.protocol):
                return time_us
        return None
