"""Decide the winner at each size: the setting that gets a rule there, or none.

A setting *wins* where it gains enough over the library, and not by chance (:func:`wins`); gains
and p-values are those of ``gains.py``. Of the settings that are as good as the best,
:func:`find_winners` takes one for each size, so that zones are as few as the tolerance permits;
``zones.py`` makes zones of them, with their evidence.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from rccltune.analyse import intervals
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.gains import SettingGains
from rccltune.analyse.intervals import Array, Counts, Truths, nan_safe
from rccltune.analyse.segmentation import NONE, fewest_zones, split_at_gaps, split_by_setting
from rccltune.model.settings import Setting, Target

# Losses are rounded to steps of this share of the tolerance; in one step fewer channels win.
_TIE: Final = 0.1
_PER_CHANNEL: Final = 1e-6


def find_winners(target: Target, gains: SettingGains, options: ChoiceOptions) -> Counts:
    """Decide which setting wins at each size.

    Between sizes more than a factor of four apart nothing is known: a setting needs evidence on
    each side of the gap.

    Args:
        target: whose sizes.
        gains: of its settings.
        options: of choosing.

    Returns:
        Index of a setting in ``gains``, or :data:`NONE`, by size.
    """
    weight = _weights(target, gains.grid.nbytes, options)
    loss, carries, library_loss = _find_losses(gains, options, weight)
    winners = fewest_zones(loss, carries, library_loss)
    for sizes in split_at_gaps(gains.grid.nbytes):
        for part in split_by_setting(winners[sizes]):
            row, at = winners[sizes[part[0]]], sizes[part]
            if row != NONE and not carries[row, at].any():
                winners[at] = NONE
    return winners


def wins(gains: SettingGains, options: ChoiceOptions) -> Truths:
    """Whether each setting wins at each size: it gains enough over the library, and not by chance.

    A setting that the library takes by itself wins nothing. One that restores what loading a tuner
    takes away wins without a gain.
    """
    is_gain = (gains.gain >= least_gain(options)) & (gains.adjusted_p <= largest_p(options))
    is_win: Truths = is_gain & ~gains.is_library_setting
    return is_win | gains.restores


def least_gain(options: ChoiceOptions) -> float:
    """Least log ratio that makes a rule."""
    return float(np.log1p(options.min_gain)) - intervals.SAME


def largest_p(options: ChoiceOptions) -> float:
    """Largest adjusted p-value with which a gain makes a rule."""
    return intervals.PROVEN if options.proven else intervals.LIKELY


def _find_losses(
    gains: SettingGains, options: ChoiceOptions, weight: Array
) -> tuple[Array, Truths, Array]:
    """Loss of each setting at each size, whether it may make a zone there, loss of the library.

    A size at which a setting gains too little joins only where that saves a zone.
    """
    n = len(gains.rows)
    regret, tolerance = gains.regret[:n], np.log1p(options.tolerance)
    if gains.library is None:
        limit = np.fmax(tolerance, nan_safe(np.nanmin, regret, 0))
        is_good = (regret <= limit + intervals.SAME) | (gains.is_close & np.isfinite(regret))
        # Nothing is proven to beat what nobody measured.
        is_good &= not options.proven
        loss, carries = regret, is_good
        library_loss = np.where(is_good.any(0), np.inf, 0.0)
    else:
        carries, least = wins(gains, options), least_gain(options)
        limit = np.fmax(tolerance, nan_safe(np.nanmin, np.where(carries, regret, np.nan), 0))
        is_no_loss = (gains.gain >= -intervals.SAME) | gains.restores
        is_good = is_no_loss & ((regret <= limit + intervals.SAME) | gains.is_close)
        library = gains.regret[n]
        loss = np.where((gains.gain >= least) | gains.restores, regret, library + least)
        carries = carries & is_good
        library_loss = np.where(carries.any(0), np.inf, weight * np.nan_to_num(library))
    channels = np.array([Setting.parse(name).channels or 0 for name in gains.names])
    tie = max(tolerance * _TIE, 1e-9)
    priced = weight * np.round(loss / tie) * tie + _PER_CHANNEL * channels[:, None]
    return np.where(is_good, priced, np.inf), carries, library_loss


def _weights(target: Target, nbytes: npt.NDArray[np.int64], options: ChoiceOptions) -> Array:
    """Weight of a loss by size: calls of a workload nearest to it in log size, 1 without calls."""
    calls = [
        (size, n_calls)
        for collective, scale, size, n_calls in options.weights
        if (collective, scale) == (target.collective, target.scale)
    ]
    weights = np.zeros(len(nbytes))
    for size, n_calls in calls:
        weights[np.abs(np.log(nbytes) - np.log(max(size, 1))).argmin()] += n_calls
    return weights if calls else np.ones(len(nbytes))
