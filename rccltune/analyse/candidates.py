"""Candidates of one target: measured settings that a rule may name, and those that none can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rccltune.analyse import selectable
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.gains import SettingGains
from rccltune.analyse.points import TARGET, TimeGrid
from rccltune.analyse.zones import ZoneCriteria, choose_zones
from rccltune.model.settings import Role, Scale, Setting, Target
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Collective
from rccltune.model.zone import NOTHING_SELECTABLE, UnselectableSetting, Zone

# (collective, setting) by their names.
Named: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Candidates:
    """Candidates for the rules of one target, with their gains, and what cannot be chosen.

    Attributes:
        target: collective, scale, placement of ranks.
        grid: all that was measured of it.
        gains: gains and regrets of the settings that a rule may name.
        not_selectable: measured settings that no rule may name.
        baseline_left_out: why timings of the library itself were not used; None where all were.
    """

    target: Target
    grid: TimeGrid
    gains: SettingGains
    not_selectable: list[UnselectableSetting]
    baseline_left_out: str | None = None

    @classmethod
    def of(
        cls,
        grid: TimeGrid,
        wrong: set[Named],
        options: ChoiceOptions,
        library: Mapping[Target, Mapping[int, Setting]],
    ) -> Candidates:
        """Sort the measured settings into those that a rule may name and those that none can.

        Args:
            grid: of the target.
            wrong: what computed wrong results.
            options: how to choose.
            library: what the library runs by itself, by target and size in bytes: a rule that
                names it there wins nothing.
        """
        target = target_of([grid.target[name] for name in TARGET])
        not_selectable: list[UnselectableSetting] = []
        numbers: dict[Setting, int] = {}
        for row, word in enumerate(grid.candidates):
            setting = Setting.parse(word)
            if setting.role in (Role.BASELINE, Role.IDLE) or setting == options.baseline:
                continue
            reason = _why_not_selectable(setting, target, options)
            if (target.collective.value, str(setting)) in wrong:
                reason = "it computed wrong results"
            if reason is None:
                numbers[setting] = row
            else:
                not_selectable.append(
                    UnselectableSetting(target=target, setting=setting, reason=reason)
                )
        settings = sorted(numbers, key=_setting_order)
        gains = SettingGains(
            grid=grid,
            rows=[numbers[one] for one in settings],
            gated=[
                selectable.needs_ll128_forced(one, target.scale, options.arch) for one in settings
            ],
            tolerance=options.tolerance,
            library_settings={
                nbytes: str(setting) for nbytes, setting in library.get(target, {}).items()
            },
        )
        return cls(target, grid, gains, not_selectable)

    @property
    def where(self) -> str:
        """Target in a few words, for notices: ``all_reduce, 64 ranks on 1 node``."""
        return f"{self.target.collective.value}, {self.target.scale}"

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
                )
            ]
        weight = {
            nbytes: calls
            for collective, scale, nbytes, calls in options.weights
            if (collective, scale) == (self.target.collective, self.target.scale)
        }
        if weight:
            weight = self._at_measured(weight)
        criteria = ZoneCriteria(
            tolerance=options.tolerance,
            min_gain=options.min_gain,
            is_proven=options.proven,
            weight=weight,
        )
        return choose_zones(self.target, self.gains, criteria)

    def _at_measured(self, calls: Mapping[int, float]) -> dict[int, float]:
        """Calls by the measured size that is nearest to theirs, in log size."""
        sizes = np.log(self.grid.nbytes)
        calls_at_measured = dict.fromkeys((int(n) for n in self.grid.nbytes), 0.0)
        for nbytes, n_calls in calls.items():
            nearest = int(np.abs(sizes - np.log(max(nbytes, 1))).argmin())
            calls_at_measured[int(self.grid.nbytes[nearest])] += n_calls
        return calls_at_measured


def target_of(named: Sequence[Any]) -> Target:
    """Target of a rule, from the words of a table.

    Args:
        named: collective, nodes, ranks, placement of ranks.
    """
    collective, n_nodes, n_ranks, rank_placement = named
    return Target(
        collective=Collective(collective),
        scale=Scale(n_nodes=int(n_nodes), n_ranks=int(n_ranks)),
        rank_placement=str(rank_placement) or None,
    )


def _why_not_selectable(setting: Setting, target: Target, options: ChoiceOptions) -> str | None:
    """Why a measured setting can be in no rule, None where it can."""
    reason = selectable.why_not_selectable(setting, target.collective, target.scale, options.arch)
    if reason is not None:
        return reason
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
