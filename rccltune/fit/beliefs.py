"""What the library predicted, held against a session's curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rccltune.model.belief import Belief, Held, by_target, comparable, hold
from rccltune.model.curves import Curve
from rccltune.model.settings import Setting, Target, View
from rccltune.model.vocabulary import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The predictions of one target against what one view of it measured.

    Attributes:
        beliefs: by rising size.
        held: of those sizes at which something was measured.
    """

    target: Target
    view: View
    beliefs: tuple[Belief, ...]
    held: tuple[Held, ...]


OwnChoices = Mapping[Target, Mapping[int, Setting]]


def own_choices(beliefs: Iterable[Belief], *, tunerless: bool) -> OwnChoices:
    """What the library runs by itself, channels left to it, by target and size in bytes.

    Args:
        beliefs: of the site.
        tunerless: it has no tuner that answers before the library's own table does.
    """
    found: dict[Target, dict[int, Setting]] = {}
    for belief in beliefs:
        own = belief.ran or (belief.choice if tunerless else None)
        if own is not None:
            found.setdefault(belief.target, {})[belief.nbytes] = replace(own, channels=None)
    return found


def check_beliefs(beliefs: Iterable[Belief], curves: Sequence[Curve]) -> tuple[Checked, ...]:
    """Hold predictions against what was measured, one view for each target.

    The view is out-of-place where that was measured, then the one with most curves.
    """
    found = []
    for target, mine in by_target(beliefs).items():
        view = _view(target, curves)
        if view is None:
            continue
        near = comparable(curves, target, view)
        held = (hold(belief, near) for belief in mine)
        found.append(
            Checked(
                target=target,
                view=view,
                beliefs=mine,
                held=tuple(one for one in held if one.best is not None),
            )
        )
    return tuple(found)


def _view(target: Target, curves: Sequence[Curve]) -> View | None:
    counts: dict[View, int] = {}
    for curve in curves:
        if curve.key.target == target:
            counts[curve.key.view] = counts.get(curve.key.view, 0) + 1

    def worse(view: View) -> tuple[bool, int, bool, str]:
        in_place = view.placement is Placement.IN_PLACE
        return in_place, -counts[view], bool(view.graph), str(view)

    return min(counts, key=worse, default=None)
