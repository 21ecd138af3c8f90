"""Decide the winner at each size: the fewest zones whose settings are as good as the best.

Each zone with its evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from rccltune.analyse import intervals
from rccltune.analyse.gains import SettingGains
from rccltune.analyse.intervals import Array, Counts, Truths, nan_safe
from rccltune.analyse.segmentation import NONE, fewest_zones, size_where_equal
from rccltune.model import defaults
from rccltune.model.curves import GAP
from rccltune.model.estimate import Estimate
from rccltune.model.rounding import round_number, round_record
from rccltune.model.rule import RuleState
from rccltune.model.settings import Setting, Target
from rccltune.model.units import MAX_NBYTES
from rccltune.model.zone import BASELINE_UNKNOWN, NOT_FASTER, NOT_MEASURED, Zone, not_proven

# Sizes a quarter of an octave apart: between them nothing is guessed.
_CLOSE: Final = 1.25
# Losses that differ by less than this share of the tolerance are a tie: then fewer channels.
_TIE: Final = 0.1
_PER_CHANNEL: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class ZoneCriteria:
    """Criteria that a setting must meet to get a rule.

    Attributes:
        tolerance: time over the best, minus 1, that may save a zone; a tenth of it is a tie.
        min_gain: the library's time over the setting's, minus 1.
        is_proven: only gains that repeats prove make a rule.
        weight: of a loss by size in bytes, where a workload calls some sizes more often.
    """

    tolerance: float = defaults.TOLERANCE
    min_gain: float = defaults.MIN_GAIN
    is_proven: bool = False
    weight: dict[int, float] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """Least log ratio that makes a rule."""
        return float(np.log1p(self.min_gain)) - intervals.SAME

    @property
    def max_p(self) -> float:
        """Largest adjusted p-value with which a gain makes a rule."""
        return intervals.PROVEN if self.is_proven else intervals.LIKELY


def choose_zones(target: Target, gains: SettingGains, criteria: ZoneCriteria) -> list[Zone]:
    """Decide which setting wins at which sizes: zones and gaps from 0 bytes to the largest size.

    Settings win by :func:`wins`; zones are as few as the tolerance permits. Between sizes more than
    a factor of four apart nothing is known: a zone is cut there, and each of its parts needs
    evidence of its own.
    """
    nbytes = gains.grid.nbytes
    loss, carries, none = _loss_of_settings(gains, criteria)
    states = fewest_zones(loss, carries, none)
    zones: list[Zone] = []
    for sizes in np.split(
        np.arange(len(nbytes)), np.flatnonzero(nbytes[1:] > GAP * nbytes[:-1]) + 1
    ):
        inside = states[sizes]
        parts = _ranges(inside)
        for part in parts:
            row = inside[part[0]]
            if row != NONE and not carries[row, sizes[part]].any():
                inside[part] = NONE
        zones += _zones_of_close_sizes(target, gains, criteria, sizes, inside)
    return [round_record(zone) for zone in _with_gaps(target, zones)]


def wins(gains: SettingGains, criteria: ZoneCriteria) -> Truths:
    """Whether each setting wins at each size: it gains enough over the library, and not by chance.

    A setting that the library takes by itself wins nothing. One that restores what loading a tuner
    takes away wins without a gain.
    """
    is_gain = gains.gain >= criteria.least
    is_win: Truths = is_gain & (gains.adjusted_p <= criteria.max_p) & ~gains.is_library_setting
    return is_win | gains.restores


def _ranges(states: Counts) -> list[Counts]:
    """Indices of neighbours that are equal."""
    return np.split(np.arange(len(states)), np.flatnonzero(np.diff(states)) + 1)


def _zones_of_close_sizes(
    target: Target, gains: SettingGains, criteria: ZoneCriteria, sizes: Counts, states: Counts
) -> list[Zone]:
    """Zones of sizes that lie close together."""
    nbytes, parts = gains.grid.nbytes, _ranges(states)
    ends = [
        _border(
            gains, criteria, int(sizes[one[0]]) - 1, int(states[one[0] - 1]), int(states[one[0]])
        )
        for one in parts[1:]
    ]
    lows = [int(nbytes[sizes[0]]), *(low for _, low in ends)]
    highs = [*(high for high, _ in ends), int(nbytes[sizes[-1]])]
    return [
        replace(
            _zone(target, gains, criteria, int(states[one[0]]), sizes[one]),
            min_nbytes=low,
            max_nbytes=high,
        )
        for one, low, high in zip(parts, lows, highs, strict=True)
    ]


def _loss_of_settings(gains: SettingGains, criteria: ZoneCriteria) -> tuple[Array, Truths, Array]:
    """Loss of each setting at each size, whether it may make a zone there, loss of the library.

    A size at which a setting gains too little joins only where that saves a zone.
    """
    n = len(gains.rows)
    weight = np.array([criteria.weight.get(int(one), 1.0) for one in gains.grid.nbytes])
    regret, tolerance, least = (
        gains.regret[:n],
        np.log1p(criteria.tolerance),
        criteria.least,
    )
    if gains.library is None:
        limit = np.fmax(tolerance, nan_safe(np.nanmin, regret, 0))
        is_good = (regret <= limit + intervals.SAME) | (gains.is_close & np.isfinite(regret))
        # Nothing is proven to beat what nobody measured.
        is_good &= not criteria.is_proven
        loss, carries = regret, is_good
        none = np.where(is_good.any(0), np.inf, 0.0)
    else:
        carries = wins(gains, criteria)
        limit = np.fmax(tolerance, nan_safe(np.nanmin, np.where(carries, regret, np.nan), 0))
        is_no_loss = (gains.gain >= -intervals.SAME) | gains.restores
        is_good = is_no_loss & ((regret <= limit + intervals.SAME) | gains.is_close)
        library = gains.regret[n]
        loss = np.where((gains.gain >= least) | gains.restores, regret, library + least)
        carries = carries & is_good
        none = np.where(carries.any(0), np.inf, weight * np.nan_to_num(library))
    channels = np.array([Setting.parse(name).channels or 0 for name in gains.names])
    tie = max(tolerance * _TIE, 1e-9)
    priced = weight * np.round(loss / tie) * tie + _PER_CHANNEL * channels[:, None]
    return np.where(is_good, priced, np.inf), carries, none


def _border(
    gains: SettingGains, criteria: ZoneCriteria, last: int, before: int, after: int
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
        least = criteria.least * (int(after == NONE) - int(before == NONE))
        edge = size_where_equal([low, high], difference + least)
        return edge, edge + 1
    if before == NONE or np.isfinite(times[before][last + 1]):
        return high - 1, high
    if after == NONE or np.isfinite(times[after][last]):
        return low, low + 1
    return low, high


def _zone(
    target: Target, gains: SettingGains, criteria: ZoneCriteria, row: int, sizes: Counts
) -> Zone:
    """A zone of measured sizes, from the first of them to the last."""
    measured = [int(one) for one in gains.grid.nbytes[sizes]]
    zone = Zone(
        target=target,
        min_nbytes=measured[0],
        max_nbytes=measured[-1],
        setting=None if row == NONE else gains.settings[row],
        reason=_why_none(gains, criteria, sizes) if row == NONE else None,
        measured_from=measured[0],
        measured_to=measured[-1],
        n_sizes=len(measured),
    )
    if row == NONE:
        return zone
    regret = np.expm1(gains.regret[row, sizes])
    behind = _fallback(gains, criteria, row, sizes)
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


def _fallback(gains: SettingGains, criteria: ZoneCriteria, row: int, sizes: Counts) -> int:
    """Row of the best setting that is offered without LL128 forced, where it is worth a rule."""
    if not gains.gated[row]:
        return NONE
    worst = gains.regret[: len(gains.rows), sizes].max(1)
    able = np.isfinite(worst) & ~np.array(gains.gated)
    if gains.library is not None:
        gain = gains.gain[:, sizes]
        is_sure = (gains.adjusted_p[:, sizes] <= criteria.max_p).any(1)
        able &= (gain >= -intervals.SAME).all(1) & (gain >= criteria.least).any(1) & is_sure
    return int(np.where(able, worst, np.inf).argmin()) if able.any() else NONE


def _why_none(gains: SettingGains, criteria: ZoneCriteria, sizes: Counts) -> str:
    """Reason why the sizes of a gap are left to the library."""
    if gains.library is None or not np.isfinite(gains.ratio.log[:, :, sizes]).any():
        is_measured = (
            gains.library is not None and np.isfinite(gains.library.mean[:, :, sizes]).any()
        )
        return NOT_MEASURED if is_measured else BASELINE_UNKNOWN
    gain = np.nan_to_num(gains.gain[:, sizes], nan=-np.inf)
    best = round_number(float(np.expm1(gain.max())))
    if gain.max() < criteria.least:
        return NOT_FASTER
    row, at = np.unravel_index(gain.argmax(), gain.shape)
    if gains.adjusted_p[row, sizes[at]] <= criteria.max_p:
        return not_proven(best, "at too few sizes for a rule")
    once = nan_safe(np.nanmin, gains.ratio.n[:, row, sizes[at]].astype(float), 0) < 2
    low, _ = gains.ratio.interval()
    half_width = (gains.ratio.log - low)[:, row, sizes[at]]
    if not np.isfinite(half_width).any():
        return not_proven(best, "between measured sizes")
    times_seen = "seen once" if once else "seen again"
    known_to = round_number(float(np.expm1(np.nanmax(half_width))))
    return not_proven(best, f"{times_seen}, where times are known to {known_to:.0%}")


def _with_gaps(target: Target, zones: Sequence[Zone]) -> Iterator[Zone]:
    """Zones in their order, and the ranges before, between and after them that have no rule."""
    end = -1
    for zone in zones:
        if zone.min_nbytes > end + 1:
            yield _not_measured(target, end + 1, zone.min_nbytes - 1)
        yield zone
        end = zone.max_nbytes
    yield _not_measured(target, end + 1, MAX_NBYTES)


def _not_measured(target: Target, low: int, high: int) -> Zone:
    return Zone(target=target, min_nbytes=low, max_nbytes=high, setting=None, reason=NOT_MEASURED)
