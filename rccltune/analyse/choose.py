"""Choice of a setting for every size of every target, with what was left out and why.

Candidates (``candidates.py``), the winner at each size (``winners.py``), zones (``zones.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rccltune.analyse import library_behaviour
from rccltune.analyse.candidates import Candidates, candidates_of_targets
from rccltune.analyse.choice_notices import choice_notices
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.intervals import Truths
from rccltune.analyse.library_behaviour import Bypass
from rccltune.analyse.winners import find_winners
from rccltune.analyse.zones import make_gap, make_zones
from rccltune.model.errors import TooLittleDataError
from rccltune.model.measurement import Notice
from rccltune.model.settings import Setting
from rccltune.model.units import MAX_NBYTES
from rccltune.model.zone import NOTHING_SELECTABLE, UnselectableSetting, Zone


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
        TooLittleDataError: no setting was measured beside the library's own choice, no sample is
            good, or all calls take a path that asks no tuner.
        CommandLineError: the baseline that was named was not measured.
    """
    options = options or ChoiceOptions()
    candidates = candidates_of_targets(samples, options)
    bypasses = library_behaviour.bypasses(samples)
    _refuse_nothing(candidates, bypasses)
    tunable = [one for one in candidates if one.target.collective.is_tunable]
    zones = [zone for one in tunable for zone in _choose_zones(one, options)]
    return Choice(
        zones=library_behaviour.explain_gaps(zones, bypasses),
        notices=tuple(notice for one in candidates for notice in choice_notices(one)),
        left_out=tuple(item for one in candidates for item in _left_out(one)),
    )


def _choose_zones(candidates: Candidates, options: ChoiceOptions) -> list[Zone]:
    """Zones and gaps of a target, from 0 to 2^63-1 bytes."""
    target, gains = candidates.target, candidates.gains
    if not gains.rows:
        return [make_gap(target, 0, MAX_NBYTES, NOTHING_SELECTABLE)]
    winners = find_winners(target, gains, options)
    return make_zones(target, gains, options, winners)


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
