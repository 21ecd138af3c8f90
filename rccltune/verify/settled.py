"""What a rule file is held to, and what is found out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rccltune.verify.cuts import Cut
from rccltune.verify.evidence import Weighed
from rccltune.verify.harm import EnvironmentGain, Sizes
from rccltune.verify.held import Held
from rccltune.verify.intervals import Estimate
from rccltune.verify.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a file is held to.

    Attributes:
        where: the file, for messages.
        min_gain: what a rule must gain over its range, 0.02 for 2 %.
        n_looks: while something is undecided.
        keep_losers: nothing is cut.
        needs_stay: the file is for what its rules need: it is worth nothing without.
    """

    where: Path
    min_gain: float
    n_looks: int
    keep_losers: bool
    needs_stay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A file, and what was found out of it.

    Attributes:
        weighed: every size under each condition, in the conditions' order.
        standings: rules that are left, and with ``keep_losers`` those that lose.
        cuts: what went.
        lost_needs: what rules asked of the environment, and was not shown to do no harm.
        environment: log(untouched time / time in it) over sizes without a rule, where it stands.
        environment_gains: where it wins there, of a file that is for it.
        harmed: sizes that no rule answers and that the rules slow.
    """

    text: str
    held: tuple[Held, ...]
    weighed: tuple[tuple[Weighed, ...], ...]
    standings: tuple[Standing, ...]
    cuts: tuple[Cut, ...] = ()
    lost_needs: tuple[str, ...] = ()
    environment: Estimate | None = None
    environment_gains: tuple[EnvironmentGain, ...] = ()
    harmed: Sizes = field(default_factory=dict)
    n_launches: int
    n_looks: int
