"""Candidates of each target: measured settings that a rule may name, and those that none can."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from rccltune.analyse import library_behaviour, points, selectable, unusable_notices
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.gains import SettingGains
from rccltune.analyse.points import BASELINE, IDLE, TARGET, TimeGrid, target_of
from rccltune.model.errors import CommandLineError
from rccltune.model.settings import Role, Setting, Target
from rccltune.model.vocabulary import UnusableReason
from rccltune.model.zone import UnselectableSetting

_PLACE: Final = ["collective", "n_nodes", "n_ranks"]


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

    @property
    def where(self) -> str:
        """Target in a few words, for notices: ``all_reduce, 64 ranks on 1 node``."""
        return f"{self.target.collective.value}, {self.target.scale}"


def candidates_of_targets(
    samples: pd.DataFrame, options: ChoiceOptions | None = None
) -> list[Candidates]:
    """Candidates of each target, from a session's samples.

    Args:
        samples: as of :func:`choose`.
        options: the defaults unless given.
    """
    options = options or ChoiceOptions()
    counted = _name_baseline(points.usable(samples), options.baseline)
    return candidates_in(points.grids(points.by_communicator(counted)), samples, options)


def candidates_in(
    grids: Iterable[TimeGrid], samples: pd.DataFrame, options: ChoiceOptions
) -> list[Candidates]:
    """Candidates of each target, from grids of times.

    Args:
        grids: times of the targets.
        samples: all of them, those that are not used too.
        options: how to choose.
    """
    wrong, lost = unusable_notices.wrong_counts(samples), _baseline_left_out(samples)
    library = library_behaviour.settings_by_target(library_behaviour.library_settings(samples))
    candidates = []
    for grid in grids:
        target = target_of([grid.target[name] for name in TARGET])
        rows, not_selectable = _sort_settings(grid, target, wrong, options)
        gains = SettingGains(
            grid=grid,
            rows=list(rows.values()),
            gated=[selectable.needs_ll128_forced(one, target.scale, options.arch) for one in rows],
            tolerance=options.tolerance,
            # A rule that names what the library runs by itself wins nothing.
            library_settings={n: str(one) for n, one in library.get(target, {}).items()},
        )
        place = tuple(grid.target[name] for name in _PLACE)
        candidates.append(Candidates(target, grid, gains, not_selectable, lost.get(place)))
    return candidates


def _sort_settings(
    grid: TimeGrid, target: Target, wrong: Collection[tuple[str, str]], options: ChoiceOptions
) -> tuple[dict[Setting, int], list[UnselectableSetting]]:
    """Settings that a rule may name, with their rows of the grid in a fixed order; and the others.

    Args:
        grid: times of the target.
        target: whose settings.
        wrong: (collective, setting) of what computed wrong results.
        options: how to choose.
    """
    rows: dict[Setting, int] = {}
    not_selectable = []
    for row, word in enumerate(grid.candidates):
        setting = Setting.parse(word)
        if setting.role in (Role.BASELINE, Role.IDLE) or setting == options.baseline:
            continue
        reason = _why_not_selectable(setting, target, options)
        if (target.collective.value, str(setting)) in wrong:
            reason = "it computed wrong results"
        if reason is None:
            rows[setting] = row
        else:
            not_selectable.append(
                UnselectableSetting(target=target, setting=setting, reason=reason)
            )
    return {setting: rows[setting] for setting in sorted(rows, key=_setting_order)}, not_selectable


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


def _baseline_left_out(samples: pd.DataFrame) -> dict[tuple[Any, ...], str]:
    """Reasons why timings of the library itself were unusable, by collective, nodes and ranks."""
    is_library = samples["setting"].isin((BASELINE, IDLE))
    rows = samples[is_library & (samples["unusable"] != "")]
    reasons = {}
    for place, part in rows.groupby(_PLACE, observed=True):
        counted = part["unusable"].astype(object).value_counts()
        words = (f"{n} x {UnusableReason(reason).meaning}" for reason, n in counted.items())
        reasons[str(place[0]), int(place[1]), int(place[2])] = "; ".join(words)
    return reasons


def _name_baseline(samples: pd.DataFrame, named: Setting | None) -> pd.DataFrame:
    """Samples with a setting's times as the baseline; as they are where none is named.

    Raises:
        CommandLineError: the setting has no sample.
    """
    if named is None:
        return samples
    is_library = samples["setting"].isin((BASELINE, IDLE))
    copies = samples[samples["setting"] == str(named)].assign(setting=BASELINE)
    if copies.empty:
        settings = sorted(map(str, samples["setting"].unique()))
        raise CommandLineError(
            f"'{named}' was not measured, so it cannot be the baseline",
            hint=f"measured are {', '.join(settings)}.",
        )
    rest = samples[~is_library]
    # Through objects: pandas before 2.2 casts what a category is missing, and numpy warns.
    rest = rest.assign(setting=rest["setting"].astype(object))
    with_copies: pd.DataFrame = pd.concat([rest, copies], ignore_index=True)
    return with_copies
