"""Zones of the sizes that one setting wins (``winners.py``), each with its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from rccltune.analyse import intervals
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.gains import SettingGains
from rccltune.analyse.intervals import Counts, nan_safe
from rccltune.analyse.segmentation import (
    NONE,
    size_where_equal,
    split_at_gaps,
    split_by_setting,
)
from rccltune.analyse.winners import largest_p, least_gain
from rccltune.model.estimate import Estimate
from rccltune.model.rounding import round_number, round_record
from rccltune.model.rule import RuleState
from rccltune.model.settings import Target
from rccltune.model.units import MAX_NBYTES
from rccltune.model.zone import BASELINE_UNKNOWN, NOT_FASTER, NOT_MEASURED, Zone, not_proven

# Sizes a quarter of an octave apart: between them nothing is guessed.
_CLOSE: Final = 1.25


def make_zones(
    target: Target, gains: SettingGains, options: ChoiceOptions, winners: Counts
) -> list[Zone]:
    """Zones and gaps of a target, from 0 bytes to the largest size.

    Args:
        target: of all.
        gains: of its settings.
        options: of choosing.
        winners: index of a setting, or NONE, by size.
    """
    zones: list[Zone] = []
    for sizes in split_at_gaps(gains.grid.nbytes):
        zones += _zones_of_close_sizes(target, gains, options, sizes, winners[sizes])
    return [round_record(zone) for zone in _with_gaps(target, zones)]


def _zones_of_close_sizes(
    target: Target, gains: SettingGains, options: ChoiceOptions, sizes: Counts, states: Counts
) -> list[Zone]:
    """Zones of sizes that lie close together."""
    nbytes, parts = gains.grid.nbytes, split_by_setting(states)
    ends = [
        _border(
            gains, options, int(sizes[one[0]]) - 1, int(states[one[0] - 1]), int(states[one[0]])
        )
        for one in parts[1:]
    ]
    lows = [int(nbytes[sizes[0]]), *(low for _, low in ends)]
    highs = [*(high for high, _ in ends), int(nbytes[sizes[-1]])]
    return [
        replace(
            _zone(target, gains, options, int(states[one[0]]), sizes[one]),
            min_nbytes=low,
            max_nbytes=high,
        )
        for one, low, high in zip(parts, lows, highs, strict=True)
    ]


def _border(
    gains: SettingGains, options: ChoiceOptions, last: int, before: int, after: int
) -> tuple[int, int]:
    """Last byte of the first of two neighbouring zones, and first byte of the second.

    The border is where their times meet, in the mean of all views; beside the library, where the
    other one still gains what is wanted, and on a measured size where those lie close together. A
    setting reaches no further than it was measured.
    """
    low, high = (int(one) for one in gains.grid.nbytes[last : last + 2])
    if NONE in (before, after) and high <= _CLOSE * low:
        return (high - 1, high) if before == NONE else (low, low + 1)
    times = nan_safe(np.nanmean, gains.times, 0)
    # NONE is -1, and the library is the last row.
    difference = (times[before] - times[after])[last : last + 2]
    if np.isfinite(difference).all():
        least = least_gain(options) * (int(after == NONE) - int(before == NONE))
        edge = size_where_equal([low, high], difference + least)
        return edge, edge + 1
    if before == NONE or np.isfinite(times[before][last + 1]):
        return high - 1, high
    if after == NONE or np.isfinite(times[after][last]):
        return low, low + 1
    return low, high


def _zone(
    target: Target, gains: SettingGains, options: ChoiceOptions, row: int, sizes: Counts
) -> Zone:
    """A zone of measured sizes, from the first of them to the last."""
    measured = [int(one) for one in gains.grid.nbytes[sizes]]
    zone = Zone(
        target=target,
        min_nbytes=measured[0],
        max_nbytes=measured[-1],
        setting=None if row == NONE else gains.settings[row],
        reason=_why_none(gains, options, sizes) if row == NONE else None,
        measured_from=measured[0],
        measured_to=measured[-1],
        n_sizes=len(measured),
    )
    if row == NONE:
        return zone
    regret = np.expm1(gains.regret[row, sizes])
    behind = _fallback(gains, options, row, sizes)
    return replace(
        zone,
        n_communicators=_n_communicators(gains, row, sizes),
        state=_state(gains, row, sizes),
        gain=_gain(gains, row, sizes),
        worst_regret=float(regret.max()),
        fallback=None if behind == NONE else gains.settings[behind],
        fallback_gain=None if behind == NONE else _gain(gains, behind, sizes),
    )


def _state(gains: SettingGains, row: int, sizes: Counts) -> RuleState:
    """What may be said of a rule for these sizes."""
    if gains.library is None:
        return RuleState.NO_BASELINE
    if gains.restores[row, sizes].any():
        return RuleState.RESTORES
    is_proven = gains.adjusted_p[row, sizes].min() <= intervals.PROVEN
    return RuleState.PROVEN if is_proven else RuleState.NOT_PROVEN


def _n_communicators(gains: SettingGains, row: int, sizes: Counts) -> int:
    """Communicators in which a setting was timed, in the median over sizes."""
    n = gains.grid.times.n[:, gains.rows[row], sizes]
    return int(np.median(n[n > 0]))


def _gain(gains: SettingGains, row: int, sizes: Counts) -> Estimate | None:
    """Mean gain over the sizes of a zone with its 95 % interval, in the least favourable view."""
    if gains.library is None:
        return None
    at = np.s_[:, row, sizes]
    if not np.isfinite(gains.ratio.log[at]).any():
        return None
    low, mean, high = intervals.mean_interval(gains.ratio, at)
    return Estimate.of_logs(mean, low, high, _n_communicators(gains, row, sizes))


def _fallback(gains: SettingGains, options: ChoiceOptions, row: int, sizes: Counts) -> int:
    """Row of the best setting that is offered without LL128 forced, where it is worth a rule."""
    if not gains.gated[row]:
        return NONE
    worst = gains.regret[: len(gains.rows), sizes].max(1)
    able = np.isfinite(worst) & ~np.array(gains.gated)
    if gains.library is not None:
        gain = gains.gain[:, sizes]
        is_sure = (gains.adjusted_p[:, sizes] <= largest_p(options)).any(1)
        able &= (gain >= -intervals.SAME).all(1) & (gain >= least_gain(options)).any(1) & is_sure
    return int(np.where(able, worst, np.inf).argmin()) if able.any() else NONE


def _why_none(gains: SettingGains, options: ChoiceOptions, sizes: Counts) -> str:
    """Reason why the sizes of a gap are left to the library."""
    if gains.library is None or not np.isfinite(gains.ratio.log[:, :, sizes]).any():
        is_measured = (
            gains.library is not None and np.isfinite(gains.library.mean[:, :, sizes]).any()
        )
        return NOT_MEASURED if is_measured else BASELINE_UNKNOWN
    gain = np.nan_to_num(gains.gain[:, sizes], nan=-np.inf)
    best = round_number(float(np.expm1(gain.max())))
    if gain.max() < least_gain(options):
        return NOT_FASTER
    row, at = np.unravel_index(gain.argmax(), gain.shape)
    if gains.adjusted_p[row, sizes[at]] <= largest_p(options):
        return not_proven(best, "at too few sizes for a rule")
    once = nan_safe(np.nanmin, gains.ratio.n[:, row, sizes[at]].astype(float), 0) < 2
    low, _ = gains.ratio.interval()
    half_width = (gains.ratio.log - low)[:, row, sizes[at]]
    if not np.isfinite(half_width).any():
        return not_proven(best, "between measured sizes")
    times_seen = "seen once" if once else "seen again"
    known_to = round_number(float(np.expm1(np.nanmax(half_width))))
    return not_proven(best, f"{times_seen}, where times are known to {known_to:.0%}")


def make_gap(target: Target, low: int, high: int, reason: str) -> Zone:
    """A range of sizes that is left to the library."""
    return Zone(target=target, min_nbytes=low, max_nbytes=high, setting=None, reason=reason)


def _with_gaps(target: Target, zones: Sequence[Zone]) -> Iterator[Zone]:
    """Zones in their order, and the ranges before, between and after them that have no rule."""
    end = -1
    for zone in zones:
        if zone.min_nbytes > end + 1:
            yield make_gap(target, end + 1, zone.min_nbytes - 1, NOT_MEASURED)
        yield zone
        end = zone.max_nbytes
    yield make_gap(target, end + 1, MAX_NBYTES, NOT_MEASURED)
