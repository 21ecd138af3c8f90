"""One target out of several placements of ranks: what holds in each of them holds for any.

A tuner sees how many ranks there are and not where. So each placement is one more view that a
rule serves: its regret is the worst of them, and it must beat the baseline in every one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rccltune.model import Curve, Setting, Target, View
from rccltune.zones.arms import Arm, Barred, Group, groups_of
from rccltune.zones.options import ChoiceOptions

_Parts = dict[str, Group]


def together(parts: Mapping[str, Sequence[Curve]], options: ChoiceOptions) -> list[Group]:
    """One group for each target that every part has, with its placements as views.

    A target without a baseline in some part is left out: nobody knows that it is not slower there.

    Args:
        parts: curves by the name of where the ranks were, of one machine.
        options: as for one part.
    """
    targets: dict[Target, _Parts] = {}
    for name, curves in parts.items():
        for group in groups_of(curves, options):
            anywhere = replace(group.target, rank_placement=" and ".join(parts))
            targets.setdefault(anywhere, {})[name] = group
    return [
        _joined(target, groups)
        for target, groups in targets.items()
        if len(groups) == len(parts) and all(group.baseline for group in groups.values())
    ]


def _joined(target: Target, groups: _Parts) -> Group:
    sizes = set.intersection(*(_sizes(group) for group in groups.values()))
    barred = _barred(groups)
    everywhere = set.intersection(
        *({arm.setting for arm in group.arms} for group in groups.values())
    ) - {one.setting for one in barred}
    first = next(iter(groups.values()))
    arms = [_arm(arm, groups, sizes) for arm in first.arms if arm.setting in everywhere]
    return Group(
        target=target,
        arms=[arm for arm in arms if arm is not None],
        baseline={
            replace(view, ranks=name): curve
            for name, group in groups.items()
            for view, curve in group.baseline.items()
        },
        barred=barred,
    )


def _sizes(group: Group) -> set[int]:
    """Sizes at which any setting was measured there."""
    return {p.nbytes for arm in group.arms for curve in arm.curves.values() for p in curve.points}


def _arm(arm: Arm, groups: _Parts, sizes: set[int]) -> Arm | None:
    """An arm with its curves of all places; None where one of them has no point to compare."""
    curves: dict[View, Curve] = {}
    for name, group in groups.items():
        own = _curves(name, _of(arm.setting, group), sizes)
        if not own:
            return None
        curves |= own
    return replace(arm, curves=curves)


def _of(setting: Setting, group: Group) -> Mapping[View, Curve]:
    return next(arm.curves for arm in group.arms if arm.setting == setting)


def _curves(name: str, curves: Mapping[View, Curve], sizes: set[int]) -> dict[View, Curve]:
    """Curves at the sizes that every place has: at others a place would have no say."""
    found = {}
    for view, curve in curves.items():
        points = tuple(p for p in curve.points if p.nbytes in sizes)
        if points:
            found[replace(view, ranks=name)] = replace(curve, points=points)
    return found


def _barred(groups: _Parts) -> list[Barred]:
    """What cannot be chosen in some place, once, with its curves of all."""
    found: dict[tuple[Setting, str], Barred] = {}
    for name, group in groups.items():
        for one in group.barred:
            curves = {replace(view, ranks=name): curve for view, curve in one.curves.items()}
            known = found.get((one.setting, one.variant.name))
            before = known.curves if known is not None else {}
            found[one.setting, one.variant.name] = replace(one, curves=before | curves)
    return list(found.values())
