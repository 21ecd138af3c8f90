"""Curves sorted into targets: what may be chosen, what it is compared with, what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rccltune.model import (
    BASELINE,
    DEFAULT_VARIANT,
    LL128_FORCED,
    Curve,
    Role,
    Setting,
    Target,
    Variant,
    View,
    base_variant,
    widened_by,
)
from rccltune.zones.options import ChoiceOptions
from rccltune.zones.selectable import needs_ll128_forced, why_not_selectable

_Name = tuple[Setting, Variant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One setting that may be chosen.

    Attributes:
        variant: environment that a rule with it needs.
        curves: one for each view in which it was measured.
    """

    setting: Setting
    variant: Variant
    curves: dict[View, Curve]


@dataclass(frozen=True, slots=True)
class Barred:
    """A measured setting that no rule can choose, with its curves for comparison."""

    setting: Setting
    variant: Variant
    reason: str
    curves: dict[View, Curve]


@dataclass(slots=True, kw_only=True)
class Group:
    """All curves of one target.

    Attributes:
        arms: settings that may be chosen, in a fixed order.
        baseline: what the library does by itself, by view; empty where unknown.
        barred: what was measured and can never be chosen.
    """

    target: Target
    arms: list[Arm] = field(default_factory=list)
    baseline: dict[View, Curve] = field(default_factory=dict)
    barred: list[Barred] = field(default_factory=list)


def groups_of(curves: Sequence[Curve], options: ChoiceOptions) -> list[Group]:
    """Sort curves into targets, in the order in which they first appear.

    A variant that only makes more cells selectable stands beside the one that it widens; every
    other variant is a target of its own, except that one of a patched library is none: what was
    measured there is left out of the target that it patches.
    """
    by_target: dict[Target, dict[_Name, dict[View, Curve]]] = {}
    for curve in curves:
        key = curve.key
        target = replace(key.target, variant=base_variant(key.variant))
        named = by_target.setdefault(target, {})
        named.setdefault((key.setting, key.variant), {})[key.view] = curve
    made = [
        _group(target, named, _baseline(target, curves, options), options)
        for target, named in by_target.items()
        if not target.variant.patched
    ]
    for target, named in by_target.items():
        if target.variant.patched:
            _leave_out_patched(target, named, made)
    return [g for g in made if g.arms or g.barred]


def _baseline(target: Target, curves: Sequence[Curve], options: ChoiceOptions) -> dict[View, Curve]:
    """What counts as the untouched library for this target, by view."""
    wanted = options.baseline
    setting = wanted if isinstance(wanted, Setting) else BASELINE
    variant = wanted if isinstance(wanted, str) else target.variant.name
    place = (target.collective, target.scale, target.rank_placement)
    return {
        curve.key.view: curve
        for curve in curves
        if curve.key.setting == setting
        and curve.key.variant.name == variant
        and (curve.key.collective, curve.key.scale, curve.key.rank_placement) == place
    }


def _group(
    target: Target,
    named: dict[_Name, dict[View, Curve]],
    baseline: dict[View, Curve],
    options: ChoiceOptions,
) -> Group:
    made = Group(target=target, baseline=baseline)
    merged: dict[Setting, Arm] = {}
    # The target's own variant first: where both measured a setting, its curves are taken.
    for setting, variant in sorted(named, key=lambda name: name[1] != target.variant):
        views = named[setting, variant]
        if setting.role in (Role.BASELINE, Role.SILENT) or setting == options.baseline:
            continue
        needed = _needed(setting, variant, target, options)
        reason = _barred(setting, target, views, options)
        if reason is None and not options.widen and needed != target.variant:
            reason = f"it needs {needed.name}, which other scales were not measured under"
        if reason is not None:
            made.barred.append(Barred(setting, variant, reason, views))
        elif setting in merged:
            merged[setting].curves.update(views | merged[setting].curves)
        else:
            merged[setting] = Arm(setting=setting, variant=needed, curves=dict(views))
    made.arms = [merged[setting] for setting in sorted(merged, key=setting_order)]
    return made


def _barred(
    setting: Setting, target: Target, views: dict[View, Curve], options: ChoiceOptions
) -> str | None:
    """Why a measured setting cannot be chosen, None where it can."""
    n_wrong = max(curve.n_wrong for curve in views.values())
    if n_wrong:
        return f"{n_wrong} samples with wrong results disqualify it"
    if options.selectable is not None:
        reason = options.selectable(setting, target)
    else:
        reason = why_not_selectable(setting, target, options.arch)
    limit = options.max_channels
    if reason is None and limit is not None:
        if setting.channels is None:
            return f"it leaves channels to RCCL, which a limit of {limit} cannot bound"
        if setting.channels > limit:
            return f"{setting.channels} channels are above the limit of {limit}"
    return reason


def _needed(setting: Setting, variant: Variant, target: Target, options: ChoiceOptions) -> Variant:
    """The environment in which a setting was measured, and without which a rule would be skipped.

    What was measured in the target's own variant too is taken from there: a widening variant
    changes nothing for a cell that was selectable anyway.
    """
    if variant.widens is None and needs_ll128_forced(setting, target.scale, options.arch):
        return widened_by(target.variant, LL128_FORCED)
    return variant


def _leave_out_patched(
    target: Target, named: dict[_Name, dict[View, Curve]], groups: list[Group]
) -> None:
    """Hand the curves of a patched library to the target beside which they were measured."""
    place = (target.collective, target.scale, target.rank_placement)
    hosts = [
        g for g in groups if (g.target.collective, g.target.scale, g.target.rank_placement) == place
    ]
    host = next((g for g in hosts if g.target.variant == DEFAULT_VARIANT), None)
    if host is None:
        host = hosts[0] if hosts else None
    if host is None:
        host = Group(target=target)
        groups.append(host)
    host.barred.extend(
        Barred(setting, variant, "its library is patched; the stock one cannot choose it", views)
        for (setting, variant), views in named.items()
        if setting.role is Role.FORCED
    )


def setting_order(setting: Setting) -> tuple[int, int, int]:
    """A fixed order, so that ties fall alike on every machine: ABI numbers, then channels."""
    return (
        setting.algorithm.index if setting.algorithm else -1,
        setting.protocol.index if setting.protocol else -1,
        setting.channels or 0,
    )
