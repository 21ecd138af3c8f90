"""When runs are compared, and which part of the chance of a false answer each look may use.

Runs are compared after planned rounds, so that a kind that is told apart stops, and a last time
when the budget is over. The looks share the chance of a false answer: half of it is the last one's,
the rest is split among the planned ones. Whenever it ends, an interval that is said holds the truth
but for ``LEVEL``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import expm1, inf, log, log1p, sqrt
from typing import Final

from rccltune.job.runs import Arm
from rccltune.model.curves import upper_quantile
from rccltune.model.defaults import LEVEL
from rccltune.verify.intervals import Estimate, Value, by_launch

FEWEST_ROUNDS: Final = 3
MOST_ROUNDS: Final = 12
LOOKS: Final = (2, 3, 4, 6, 8)
_LAST_SHARE: Final = 0.5
_SHARE: Final = (1 - _LAST_SHARE) / len(LOOKS)
# Differences up to this are called none, and bad rules that cost no more show that none matter.
MATTERS: Final = 0.02
# Nothing is looked for below this: it is as much as counting calls may cost, and runs of a job are
# seldom alike by more.
NEGLIGIBLE: Final = 0.005
# A rule set that does no harm is called harmful once in so many jobs at the most.
HARM_LEVEL: Final = 1e-3
# A chance of being told apart below this, on either side, is not worth the budget.
_HOPE: Final = 0.2
# Logarithms beyond this are infinite to everybody.
_FAR: Final = 50.0


class Verdict(Enum):
    """What a kind is beside the job as it is."""

    FASTER = "faster"
    SLOWER = "slower"
    PERHAPS_SLOWER = "perhaps slower"
    SAME = "no difference"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A kind beside the job as it is.

    Attributes:
        speed: natural logarithm of the kind's speed over that of the job as it is.
        share: of the chance of a false answer, that this look may use.
    """

    arm: Arm
    speed: Estimate
    share: float

    @property
    def low(self) -> float:
        """Lower end of the interval, a logarithm."""
        return self.speed.low(LEVEL * self.share / 2)

    @property
    def high(self) -> float:
        """Its upper end."""
        return self.speed.high(LEVEL * self.share / 2)

    @property
    def percent(self) -> tuple[float, float, float]:
        """Change of speed, and the ends of its interval, in percent."""
        return _percent(self.speed.mean), _percent(self.low), _percent(self.high)

    @property
    def verdict(self) -> Verdict:
        """In a word."""
        # Of bad rules any loss is one, and two rounds may show it.
        if self.arm is Arm.CONTROL and self.costs:
            return Verdict.SLOWER
        if self.speed.n_launches < FEWEST_ROUNDS:
            return Verdict.UNKNOWN
        if self.low > 0:
            return Verdict.FASTER
        if self.speed.high(HARM_LEVEL * self.share) < log1p(-NEGLIGIBLE):
            return Verdict.SLOWER
        if self.high < 0:
            return Verdict.PERHAPS_SLOWER
        return Verdict.SAME if self._is_within(MATTERS) else Verdict.UNKNOWN

    @property
    def changes_it(self) -> bool:
        """Whether it is told apart from the job as it is."""
        return self.verdict in (Verdict.FASTER, Verdict.SLOWER)

    @property
    def is_settled(self) -> bool:
        """Whether more rounds are not needed: told apart, or nothing is left to be found."""
        is_same = self.verdict is Verdict.SAME and self._is_within(NEGLIGIBLE)
        return self.changes_it or is_same

    @property
    def costs(self) -> bool:
        """Whether it is slower at all; of bad rules this shows that settings matter."""
        return self.high < 0

    @property
    def costs_nothing(self) -> bool:
        """Whether it costs so little at most that no setting can matter."""
        return self.low >= log1p(-MATTERS)

    def _is_within(self, margin: float) -> bool:
        return self.low >= log1p(-margin) and self.high <= log1p(margin)


def _percent(logarithm: float) -> float:
    return 100 * expm1(min(logarithm, _FAR))


def compared(arm: Arm, as_is: Sequence[float], own: Sequence[float]) -> Compared | None:
    """A kind beside the job as it is: at the first look that settles it, else at the last one.

    Args:
        arm: what is compared.
        as_is: times of the job as it is, a round each.
        own: of the kind, of the same rounds.

    Returns:
        None without a round.
    """
    logs = [log(base / other) for base, other in zip(as_is, own, strict=False)]
    if not logs:
        return None
    for n_rounds in LOOKS:
        if n_rounds <= len(logs):
            found = Compared(arm=arm, speed=_estimate(logs[:n_rounds]), share=_SHARE)
            if is_over(found):
                return found
    return Compared(arm=arm, speed=_estimate(logs), share=_LAST_SHARE)


def is_over(found: Compared) -> bool:
    """Whether a kind needs no more runs: the rules settled, the control told apart or harmless."""
    if found.arm is Arm.CONTROL:
        return found.costs or found.costs_nothing
    return found.is_settled


def is_hopeless(found: Compared, n_possible: int) -> bool:
    """Whether the rounds that fit into the budget can hardly settle it.

    By what is known after at least four: neither would the last interval exclude 0, should the mean
    move as far as it does once in five times, nor would it be narrow enough to say that there is no
    difference.

    Args:
        found: at a look before the last one.
        n_possible: rounds that there can be in all.
    """
    n = found.speed.n_launches
    if n < 4 or n not in LOOKS or found.speed.spread == inf:
        return False
    each = found.speed.spread * sqrt(n)
    freedom = max(1.0, n_possible - 1.0)
    reach = upper_quantile(freedom, LEVEL * _LAST_SHARE / 2) * each / sqrt(max(n, n_possible))
    moves = upper_quantile(n - 1.0, _HOPE) * each * sqrt(max(0.0, 1 / n - 1 / max(n, n_possible)))
    return abs(found.speed.mean) + moves < reach and reach > MATTERS


def _estimate(logs: Sequence[float]) -> Estimate:
    if len(logs) == 1:
        return Estimate(mean=logs[0], spread=inf, freedom=1.0, n_launches=1)
    return by_launch(Value(0, str(number), value) for number, value in enumerate(logs))
