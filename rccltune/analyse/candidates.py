"""Candidates of one target: measured settings that a rule may name, and those that none can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from rccltune.analyse import selectable
from rccltune.analyse.gains import SettingGains
from rccltune.analyse.options import ChoiceOptions
from rccltune.analyse.points import TARGET, TimeGrid
from rccltune.analyse.segmentation import NONE
from rccltune.analyse.zones import ZoneByRow, ZoneCriteria, choose_zones
from rccltune.model.choice import NOTHING_SELECTABLE, Zone
from rccltune.model.rounding import rounded_record
from rccltune.model.settings import (
    DEFAULT_VARIANT,
    LL128_FORCED,
    Role,
    Scale,
    Setting,
    Target,
    Variant,
    widened_by,
)
from rccltune.model.vocabulary import MAX_NBYTES, Collective

# (collective, setting, variant) by their names.
Named: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True)
class NotSelectable:
    """A measured setting that no rule can name."""

    row: int
    setting: Setting
    variant: Variant
    reason: str


@dataclass(frozen=True)
class Candidates:
    """Candidates for the rules of one target, with their gains, and what cannot be chosen.

    Attributes:
        target: collective, scale, placement of ranks, environment.
        grid: all that was measured of it.
        gains: gains and regrets of the settings that a rule may name.
        variants: by name, those that rules with them need.
        not_selectable: measured settings that no rule may name.
        baseline_left_out: why timings of the library itself were not used; None where all were.
    """

    target: Target
    grid: TimeGrid
    gains: SettingGains
    variants: dict[str, Variant]
    not_selectable: list[NotSelectable]
    baseline_left_out: str | None = None

    @classmethod
    def of(
        cls,
        grid: TimeGrid,
        variants: Mapping[str, Variant],
        wrong: set[Named],
        options: ChoiceOptions,
    ) -> Candidates:
        """Sort the measured settings into those that a rule may name and those that none can.

        Args:
            grid: of the target.
            variants: by name, all that are known.
            wrong: what computed wrong results.
            options: how to choose.
        """
        target = target_of([grid.target[name] for name in TARGET], variants)
        home = target.variant
        not_selectable: list[NotSelectable] = []
        taken: dict[Setting, tuple[int, Variant]] = {}
        # The target's own environment first: where both measured a setting, its times count.
        order = sorted(
            range(len(grid.candidates)), key=lambda i: grid.candidates[i][1] != home.name
        )
        for row in order:
            setting = Setting.parse(grid.candidates[row][0])
            variant = _variant(grid.candidates[row][1], variants)
            is_library = setting.role in (Role.BASELINE, Role.SILENT) or setting == options.baseline
            if is_library or setting in taken:
                continue
            named = (target.collective.value, str(setting), variant.name)
            needed = _needed(setting, variant, target, options)
            reason = _why_not_selectable(setting, needed, target, options)
            if home.patched:
                reason = "its library is patched; the stock one cannot choose it"
            if named in wrong:
                reason = "it computed wrong results"
            if reason is None:
                taken[setting] = (row, needed)
            else:
                not_selectable.append(NotSelectable(row, setting, variant, reason))
        own = options.own.get(target, {})
        settings = sorted(taken, key=_setting_order)
        gains = SettingGains(
            grid=grid,
            rows=[taken[one][0] for one in settings],
            needs=[taken[one][1].name for one in settings],
            tolerance=options.tolerance,
            library_settings={nbytes: str(setting) for nbytes, setting in own.items()},
        )
        return cls(target, grid, gains, {v.name: v for _, v in taken.values()}, not_selectable)

    @property
    def where(self) -> str:
        """Target in a few words, for notices: ``all_reduce, 64 ranks on 1 node``."""
        name = self.target.variant.name
        more = "" if name == DEFAULT_VARIANT.name else f", variant {name}"
        return f"{self.target.collective.value}, {self.target.scale}{more}"

    def zones(self, options: ChoiceOptions) -> list[Zone]:
        """Zones and gaps of the target, from 0 to 2^63-1 bytes."""
        if not self.gains.rows:
            return [
                Zone(
                    target=self.target,
                    min_nbytes=0,
                    max_nbytes=MAX_NBYTES,
                    setting=None,
                    reason=NOTHING_SELECTABLE,
                    variant=self.target.variant,
                )
            ]
        weight = {
            nbytes: calls
            for collective, scale, nbytes, calls in options.weights
            if (collective, scale) == (self.target.collective, self.target.scale)
        }
        if weight:
            weight = self._at_measured(weight)
        wanted = ZoneCriteria(
            tolerance=options.tolerance,
            min_gain=options.min_gain,
            is_proven=options.proven,
            weight=weight,
        )
        return [rounded_record(self._zone(one)) for one in choose_zones(self.gains, wanted)]

    def _at_measured(self, calls: Mapping[int, float]) -> dict[int, float]:
        """Calls by the measured size that is nearest to theirs, in log size."""
        sizes = np.log(self.grid.nbytes)
        calls_at_measured = dict.fromkeys((int(n) for n in self.grid.nbytes), 0.0)
        for nbytes, n_calls in calls.items():
            nearest = int(np.abs(sizes - np.log(max(nbytes, 1))).argmin())
            calls_at_measured[int(self.grid.nbytes[nearest])] += n_calls
        return calls_at_measured

    def _zone(self, by_row: ZoneByRow) -> Zone:
        is_rule = by_row.row != NONE
        return Zone(
            target=self.target,
            min_nbytes=by_row.min_nbytes,
            max_nbytes=by_row.max_nbytes,
            setting=self._setting(by_row.row),
            reason=by_row.reason,
            measured_from=by_row.sizes[0] if by_row.sizes else None,
            measured_to=by_row.sizes[-1] if by_row.sizes else None,
            n_sizes=len(by_row.sizes),
            worst_regret=by_row.worst_regret,
            mean_regret=by_row.mean_regret,
            gain=by_row.gain,
            fallback=self._setting(by_row.fallback),
            fallback_gain=by_row.fallback_gain,
            variant=self.variants[self.gains.needs[by_row.row]] if is_rule else self.target.variant,
            proof=by_row.proof,
            n_communicators=by_row.n_communicators,
        )

    def _setting(self, row: int) -> Setting | None:
        return None if row == NONE else Setting.parse(self.gains.names[row])


def target_of(named: Sequence[Any], variants: Mapping[str, Variant]) -> Target:
    """Target of a rule, from the words of a table.

    Args:
        named: collective, nodes, ranks, placement of ranks, name of the variant.
        variants: by name, all that are known.
    """
    collective, n_nodes, n_ranks, rank_placement, variant = named
    return Target(
        collective=Collective(collective),
        scale=Scale(n_nodes=int(n_nodes), n_ranks=int(n_ranks)),
        rank_placement=str(rank_placement) or None,
        variant=_variant(str(variant), variants),
    )


def _variant(name: str, variants: Mapping[str, Variant]) -> Variant:
    variant = variants.get(name) or Variant(name=name)
    return variant if variant.name == name else replace(variant, name=name)


def _needed(setting: Setting, variant: Variant, target: Target, options: ChoiceOptions) -> Variant:
    """The environment without which a rule with the setting would be skipped."""
    is_plain = variant.widens is None
    if is_plain and selectable.needs_ll128_forced(setting, target.scale, options.arch):
        return widened_by(target.variant, LL128_FORCED)
    return variant


def _why_not_selectable(
    setting: Setting, needed: Variant, target: Target, options: ChoiceOptions
) -> str | None:
    """Why a measured setting can be in no rule, None where it can."""
    reason = selectable.why_not_selectable(setting, target.collective, target.scale, options.arch)
    if reason is not None:
        return reason
    if not options.widen and needed != target.variant:
        return f"it needs {needed.name}, which other scales were not measured under"
    limit = options.max_channels
    if limit is not None and setting.channels is None:
        return f"it leaves channels to RCCL, which a limit of {limit} cannot bound"
    if limit is not None and setting.channels is not None and setting.channels > limit:
        return f"{setting.channels} channels are above the limit of {limit}"
    return None


def _setting_order(setting: Setting) -> tuple[int, int, int]:
    """A fixed order, so that ties fall alike on every machine: ABI numbers, then channels."""
    return (
        setting.algorithm.index if setting.algorithm else -1,
        setting.protocol.index if setting.protocol else -1,
        setting.channels or 0,
    )
