"""Choice of a setting for every size of every target, with what was left out and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pandas as pd

from rccltune.analyse import library_behaviour, points
from rccltune.analyse.candidates import Candidates, Named
from rccltune.analyse.choice_notices import choice_notices
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.intervals import Truths
from rccltune.analyse.library_behaviour import Bypass
from rccltune.analyse.points import BASELINE, IDLE, TimeGrid
from rccltune.model.errors import CommandLineError, TooLittleDataError
from rccltune.model.measurement import Notice
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import UnusableReason
from rccltune.model.zone import UnselectableSetting, Zone

_WRONG: Final = UnusableReason.WRONG.value
_NAMED: Final = ["collective", "setting"]
_PLACE: Final = ["collective", "n_nodes", "n_ranks"]
# Collective, nodes and ranks.
Place: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Zones chosen for all targets of a session.

    Attributes:
        zones: by target, then by size; those of one target cover 0 to 2^63-1.
        left_out: settings that were measured and are in no rule because no rule can choose them.
    """

    zones: tuple[Zone, ...]
    notices: tuple[Notice, ...]
    left_out: tuple[UnselectableSetting, ...]


def choose(samples: pd.DataFrame, options: ChoiceOptions | None = None) -> Choice:
    """Choose a setting for every size of every target.

    Args:
        samples: as ``samples.csv`` has them; all views of a target serve one list of zones.
        options: the defaults unless given.

    Raises:
        TooLittleDataError: no setting was measured beside the library's own choice.
        CommandLineError: the baseline that was named was not measured.
    """
    options = options or ChoiceOptions()
    candidates = candidates_of_targets(samples, options)
    bypasses = library_behaviour.bypasses(samples)
    _refuse_nothing(candidates, bypasses)
    tunable = [one for one in candidates if one.target.collective.is_tunable]
    zones = [zone for one in tunable for zone in one.zones(options)]
    return Choice(
        zones=library_behaviour.explain_gaps(zones, bypasses),
        notices=tuple(notice for one in candidates for notice in choice_notices(one)),
        left_out=tuple(item for one in candidates for item in _left_out(one)),
    )


def candidates_of_targets(
    samples: pd.DataFrame, options: ChoiceOptions | None = None
) -> list[Candidates]:
    """Candidates of each target, from a session's samples.

    Args:
        samples: as of :func:`choose`.
        options: the defaults unless given.
    """
    options = options or ChoiceOptions()
    counted = name_baseline(points.usable(samples), options.baseline)
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
    wrong, lost = wrong_settings(samples), baseline_left_out(samples)
    library = library_behaviour.settings_by_target(library_behaviour.library_settings(samples))
    return [
        replace(
            Candidates.of(grid, wrong, options, library), baseline_left_out=lost.get(_place(grid))
        )
        for grid in grids
    ]


def baseline_left_out(samples: pd.DataFrame) -> dict[Place, str]:
    """Reasons why timings of the library itself were unusable, by collective, nodes and ranks."""
    is_library = samples["setting"].isin((BASELINE, IDLE))
    rows = samples[is_library & (samples["unusable"] != "")]
    reasons = {}
    for place, part in rows.groupby(_PLACE, observed=True):
        counted = part["unusable"].astype(object).value_counts()
        words = (f"{n} x {UnusableReason(reason).meaning}" for reason, n in counted.items())
        reasons[str(place[0]), int(place[1]), int(place[2])] = "; ".join(words)
    return reasons


def _place(grid: TimeGrid) -> Place:
    return tuple(grid.target[name] for name in _PLACE)


def wrong_settings(samples: pd.DataFrame) -> set[Named]:
    """Return (collective, setting) of everything that computed wrong results anywhere."""
    rows = samples.loc[samples["unusable"] == _WRONG, _NAMED].drop_duplicates()
    return {(str(a), str(b)) for a, b in rows.itertuples(index=False, name=None)}


def name_baseline(samples: pd.DataFrame, named: Setting | None) -> pd.DataFrame:
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


def _left_out(candidates: Candidates) -> Iterable[UnselectableSetting]:
    """Settings that no rule can name, with how often each would have won."""
    rows = {Setting.parse(word): row for row, word in enumerate(candidates.grid.candidates)}
    for one in candidates.not_selectable:
        yield replace(one, n_fastest=_n_fastest(candidates, rows[one.setting]))


def _n_fastest(candidates: Candidates, row: int) -> int:
    """Sizes at which a setting beats all that may be chosen, in every view that has both."""
    if not candidates.gains.rows:
        return 0
    mine = candidates.grid.median[:, row]
    best = np.fmin.reduce(candidates.grid.median[:, candidates.gains.rows], axis=1)
    is_known = np.isfinite(mine) & np.isfinite(best)
    is_faster: Truths = is_known.any(0) & ((mine < best) | ~is_known).all(0)
    return int(is_faster.sum())


def _refuse_nothing(candidates: Sequence[Candidates], bypasses: Sequence[Bypass]) -> None:
    """Stop where nothing can be compared with the library's own choice."""
    if any(one.gains.rows or one.not_selectable for one in candidates):
        return
    if bypasses:
        # Where a path takes all that was measured, that is the finding.
        raise TooLittleDataError(
            "no rule can do anything: the library takes a path that asks no tuner for "
            + library_behaviour.bypass_words(bypasses),
            hint="measure larger sizes, or an environment without that path (--env NAME=VALUE).",
        )
    if candidates:
        raise TooLittleDataError(
            "only the library's own choice was measured: there is nothing to compare it with",
            hint="sweep without --setting baseline, or import forced settings beside it.",
        )
    raise TooLittleDataError(
        "no good sample of any setting was measured: there is nothing to choose from",
        hint="sweep or import settings beside the baseline; samples.csv says why samples "
        "were left out.",
    )
