"""What the library predicts, and what measuring says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rccltune.model.curves import Curve
from rccltune.model.defaults import TOLERANCE
from rccltune.model.schema import Number, Whole
from rccltune.model.settings import Role, Setting, Target, Variant, View, base_variant

# A choice that loses less than this is as good as the best measured.
AS_GOOD: Final = TOLERANCE


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A prediction held against what was measured at its size.

    Attributes:
        choice: what runs by itself: what was seen to run, else what its table says.
        table: what its table says.
        choice_us: measured time of its choice, None where that was not measured.
        predicted_us: what its model says of its choice.
        best: the setting measured fastest, None where nothing was measured.
        best_variant: where that was measured.
    """

    nbytes: Whole
    choice: Setting | None
    table: Setting | None
    choice_us: Number | None
    predicted_us: Number | None
    best: Setting | None
    best_variant: Variant | None
    best_us: Number | None

    @property
    def loss(self) -> float | None:
        """Measured time of its choice / time of the fastest - 1."""
        if self.choice_us is None or self.best_us is None:
            return None
        return self.choice_us / self.best_us - 1.0

    @property
    def is_beaten(self) -> bool:
        """Whether another setting is faster by more than what passes for equal."""
        return self.loss is not None and self.loss > AS_GOOD

    @property
    def is_corrected(self) -> bool:
        """Whether the library did not do what its table says."""
        return None not in (self.choice, self.table) and self.choice != self.table

    @property
    def optimism(self) -> float | None:
        """Predicted / measured time of its choice: below 1 it is slower than the model says."""
        if self.choice_us is None or self.predicted_us is None:
            return None
        return self.predicted_us / self.choice_us


def comparable(curves: Iterable[Curve], target: Target, view: View) -> tuple[Curve, ...]:
    """Curves that a prediction of the target is held against.

    What was measured in a variant that only widens what can be chosen stands beside the rest;
    what needs a patched library or gave wrong results does not. The baseline is among them:
    where it is known what ran, it measured that.
    """
    wanted = _base(target)
    return tuple(
        curve
        for curve in curves
        if curve.key.view == view
        and _base(curve.key.target) == wanted
        and (curve.key.setting.is_complete or curve.key.setting.role is Role.BASELINE)
        and not curve.n_wrong
    )


def _base(target: Target) -> tuple[object, ...]:
    name = base_variant(target.variant).name
    return target.collective, target.scale, target.rank_placement, name


def hold(belief: Belief, curves: Iterable[Curve]) -> Held:
    """Hold a prediction against what was measured at exactly its size.

    Args:
        belief: of one size.
        curves: as :func:`comparable` gives them.
    """
    measured = [
        (point.time_us, curve.key.setting, curve.key.variant)
        for curve in curves
        for point in curve.points
        if point.nbytes == belief.nbytes
    ]
    times = [found for found in measured if found[1].role is Role.FORCED]
    choice = belief.ran or belief.choice
    if belief.ran is not None and belief.ran not in [setting for _, setting, _ in times]:
        untouched = [found for found in measured if found[1].role is Role.BASELINE]
        times += [(us, belief.ran, v) for us, _, v in untouched if v == belief.target.variant]
    best = min(times, key=lambda found: found[0], default=None)
    own = [found for found in times if found[1] == choice]
    # Measured in several variants, it is what the belief's own variant gave.
    same = [found for found in own if found[2] == belief.target.variant]
    return Held(
        nbytes=belief.nbytes,
        choice=choice,
        table=belief.choice,
        choice_us=min((us for us, _, _ in same or own), default=None),
        predicted_us=belief.predicted_us(choice) if choice else None,
        best=best[1] if best else None,
        best_variant=best[2] if best else None,
        best_us=best[0] if best else None,
    )


def by_target(beliefs: Iterable[Belief]) -> Mapping[Target, tuple[Belief, ...]]:
    """Predictions by target, each by rising size, in the order in which targets first appear."""
    found: dict[Target, list[Belief]] = {}
    for belief in beliefs:
        found.setdefault(belief.target, []).append(belief)
    return {t: tuple(sorted(b, key=lambda one: one.nbytes)) for t, b in found.items()}
