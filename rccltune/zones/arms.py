"""Curves sorted into targets: what may be chosen, what it is compared with, what is left out.

A rule names a cell of the cost table; cells that the library marks as ignored stay ignored
whatever a rule says (a plugin that writes them all the same runs kernels behind gates that exist
for correctness). The table is that of RCCL 2.28.3, ``src/graph/tuning.cc:660`` (Tree with Simple
on one node of gfx94x and gfx95x) and ``:866`` (LL128), read in ROCm's public source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rccltune.model import defaults
from rccltune.model.chosen import LeftOut, Zone
from rccltune.model.curves import Curve
from rccltune.model.measured import Notice
from rccltune.model.settings import (
    BASELINE,
    DEFAULT_VARIANT,
    LL128_FORCED,
    Role,
    Scale,
    Setting,
    Target,
    Variant,
    Vendor,
    View,
    base_variant,
    vendor_of,
    widened_by,
)
from rccltune.model.vocabulary import TREE_SIMPLE_NEEDS_NODES, Algorithm, Collective, Protocol

Selectable = Callable[[Setting, Target], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOptions:
    """How to choose.

    Attributes:
        tolerance: regret against the best measured setting allowed to save a zone, 0.02 is 2 %.
        min_gain: by how much the baseline must be beaten for a rule to be worth having.
        max_channels: settings with more channels, or with an unstated number, are left out.
        baseline: a setting, or the name of a variant, that counts as what the library does by
            itself; None takes the baseline samples of each target's own variant.
        weights: (collective, scale, bytes, calls) of a workload; sizes that it calls often decide
            between equally short lists of zones. Where it has no call of a target every measured
            size counts alike.
        arch: ``gfx942`` …, ``amd`` or ``nvidia`` where only the vendor is known; None bars and
            requires nothing that holds for one vendor's library alone.
        widen: settings may be chosen that only a widening variant makes selectable, which the whole
            job then needs.
        variant: name of the variant that rules are for; None is the site as it is.
        proven: only rules whose gain repeats prove; else what is likely fills their gaps.
        selectable: why a setting cannot be in a rule for a target, None where it can; replaces
            the built-in table of RCCL's limits.
        own: what the library runs by itself, by target and size in bytes: a rule that names it
            there can win nothing.
        to_verify: sizes in bytes, by collective, at which rules are verified next. Beside a gap
            rules then end at these, or at measured ones. Two of them meet half-way where neither
            setting was measured at the other's first size, and towards a path that asks no tuner
            they reach beyond their last measured size: verification takes back what is slower or
            what no tuner is asked for.
    """

    tolerance: float = defaults.TOLERANCE
    min_gain: float = defaults.MIN_GAIN
    max_channels: int | None = None
    baseline: Setting | str | None = None
    weights: tuple[tuple[Collective, Scale, int, float], ...] = ()
    arch: str | None = None
    widen: bool = True
    variant: str | None = None
    proven: bool = False
    selectable: Selectable | None = None
    own: Mapping[Target, Mapping[int, Setting]] = field(default_factory=dict)
    to_verify: Mapping[Collective, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Percentages are fractions here."""
        for name in ("tolerance", "min_gain"):
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


_SWITCHED = (
    Algorithm.COLLNET_DIRECT,
    Algorithm.COLLNET_CHAIN,
    Algorithm.NVLS,
    Algorithm.NVLS_TREE,
)
_NARROW = ("gfx94", "gfx95")


def why_not_selectable(setting: Setting, target: Target, arch: str | None = None) -> str | None:
    """Why no rule for this target can choose the setting; None where one can.

    Args:
        setting: as measured.
        target: where a rule would apply.
        arch: ``gfx942`` …; ``amd`` is taken for gfx94x, whose limits are the narrowest. None, where
            nobody knows whose GPUs they are, has no vendor's limits.
    """
    if setting.role is not Role.FORCED:
        return "which setting ran is not known"
    if setting.algorithm is None or setting.protocol is None:
        return "a rule needs both an algorithm and a protocol"
    if not target.collective.is_tunable:
        return f"{target.collective.value} never asks a tuner"
    reason = _general(setting.algorithm, target.collective)
    return reason or (_amd(setting, target.scale, arch) if _is_amd(arch) else None)


def _is_amd(arch: str | None) -> bool:
    return vendor_of(arch) is Vendor.AMD


def _is_narrow(arch: str | None) -> bool:
    """Of gfx94x or gfx95x, or of AMD without an arch."""
    is_other = arch is not None and arch.startswith("gfx") and not arch.startswith(_NARROW)
    return _is_amd(arch) and not is_other


def _general(algorithm: Algorithm, collective: Collective) -> str | None:
    if algorithm is Algorithm.TREE and not collective.has_tree:
        return "only all_reduce has a tree"
    if algorithm is Algorithm.PAT and not collective.is_shared:
        return "PAT serves all_gather and reduce_scatter only"
    return None


def _amd(setting: Setting, scale: Scale, arch: str | None) -> str | None:
    if setting.algorithm in _SWITCHED:
        return "RCCL ignores CollNet and NVLS: there is no switch that could serve them"
    if setting.algorithm is Algorithm.PAT and setting.protocol is not Protocol.SIMPLE:
        return "PAT has the Simple protocol only"
    one_node = scale.n_nodes < TREE_SIMPLE_NEEDS_NODES
    tree_simple = setting.algorithm is Algorithm.TREE and setting.protocol is Protocol.SIMPLE
    if tree_simple and one_node and _is_narrow(arch):
        return "RCCL ignores Tree with Simple on one node of this GPU, whatever a rule says"
    return None


def needs_ll128_forced(setting: Setting, scale: Scale, arch: str | None = None) -> bool:
    """Whether LL128 is off by default there and needs RCCL_LL128_FORCE_ENABLE=1.

    On one node no matched topology model of gfx942 or gfx950 switches LL128 on. NCCL has no such
    variable, so that none is needed where nobody knows whose GPUs they are.
    """
    return setting.protocol is Protocol.LL128 and scale.n_nodes == 1 and _is_narrow(arch)


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
        own: what the library runs by itself, by size in bytes.
    """

    target: Target
    arms: list[Arm] = field(default_factory=list)
    baseline: dict[View, Curve] = field(default_factory=dict)
    barred: list[Barred] = field(default_factory=list)
    own: Mapping[int, Setting] = field(default_factory=dict)


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
    made = Group(target=target, baseline=baseline, own=options.own.get(target, {}))
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
    why = "its library is patched; the stock one cannot choose it"
    host.barred.extend(
        Barred(setting, variant, why, views)
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
