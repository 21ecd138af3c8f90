"""Gain of each setting over the library, and its regret against the best, at each size.

A rule serves every view alike, so the least favourable view counts everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from rccltune.analyse import intervals
from rccltune.analyse.intervals import Array, LogRatio, LogTimes, Truths, nan_safe
from rccltune.analyse.points import BASELINE, IDLE, TimeGrid
from rccltune.model.curves import GAP
from rccltune.model.settings import Setting

# Loss to the library as it is that a restoring rule excludes.
RESTORED: Final = 0.02


@dataclass(frozen=True)
class SettingGains:
    """Gains and regrets of the settings of one target, by [setting, size].

    Attributes:
        grid: all that was measured.
        rows: candidates of the grid that a rule may name, in a fixed order.
        gated: whether the library offers each of them with LL128 forced alone.
        tolerance: time over the best, minus 1, that a setting may have in a rule.
        library_settings: setting that the library takes by itself, by size in bytes.
    """

    grid: TimeGrid
    rows: list[int]
    gated: list[bool]
    tolerance: float
    library_settings: dict[int, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The setting of each row."""
        return [self.grid.candidates[row] for row in self.rows]

    @property
    def settings(self) -> list[Setting]:
        """Algorithm, protocol and channels of each row."""
        return [Setting.parse(name) for name in self.names]

    @cached_property
    def library(self) -> LogTimes | None:
        """Times of the library as it is; None where it was not measured.

        Idle was timed in the communicators of the settings, which makes it the fairer one to
        compare with. It is not the library where a vendor's own tuner, which any plugin replaces,
        makes the baseline faster than it.
        """
        baseline, idle = (_row(self.grid, name) for name in (BASELINE, IDLE))
        if baseline is None or idle is None:
            only = idle if baseline is None else baseline
            return None if only is None else self.grid.of(only)
        as_is, quietly = self.grid.of(baseline), self.grid.of(idle)
        is_unknown = ~np.isfinite(quietly.mean)
        take: Truths = np.asarray((self._idle_is_slower | is_unknown) & np.isfinite(as_is.mean))
        return LogTimes(
            np.where(take[..., None], as_is.log_us, quietly.log_us),
            np.where(take[..., None], as_is.pass_var, quietly.pass_var),
        )

    @cached_property
    def _idle_is_slower(self) -> Truths:
        """Whether our plugin, idle, is slower than the library as it is, by [view, 1, size]."""
        baseline, idle = (_row(self.grid, name) for name in (BASELINE, IDLE))
        if baseline is None or idle is None:
            return np.zeros((len(self.grid.views), 1, len(self.grid.nbytes)), dtype=bool)
        ratio = intervals.compare(self.grid.of(idle), self.grid.of(baseline), self.grid.sizes)
        is_slower: Truths = np.asarray(ratio.p_above() <= intervals.PROVEN)
        return is_slower

    @cached_property
    def restores(self) -> Truths:
        """Whether a setting gives back at a size what loading a tuner takes away there.

        A tuner that is loaded may replace a table of the library's own, or an override that only
        libraries without a tuner have (gfx950's). There a rule needs no gain over the library as it
        is: its interval excludes a loss of 2 %, in every view.
        """
        is_taken: Truths = np.asarray(self._idle_is_slower.any((0, 1)))
        if not is_taken.any():
            return np.zeros((len(self.rows), len(self.grid.nbytes)), dtype=bool)
        low = nan_safe(np.nanmin, self.ratio.interval()[0], 0)
        restores: Truths = is_taken & (low > np.log1p(-RESTORED)) & np.isfinite(self.gain)
        return restores

    @cached_property
    def ratio(self) -> LogRatio:
        """Log ratio of the library's time to each setting's, with its interval.

        Raises:
            ValueError: the library was not measured.
        """
        if self.library is None:
            raise ValueError("the library itself was not measured")
        equivalent = [re.sub(r"/\d+$", "", name) for name in self.names]
        return intervals.compare(self.library, self.grid.of(self.rows), self.grid.sizes, equivalent)

    @cached_property
    def _measured(self) -> Array:
        """Log of the median time by [view, setting, size], the library last where it is known."""
        sides = [self.grid.of(self.rows).log_us]
        if self.library is not None:
            sides.append(self.library.log_us)
        return intervals.median(np.concatenate(sides, axis=1))

    @cached_property
    def times(self) -> Array:
        """Measured times, straight between sizes in log-log where a setting was not measured."""
        return _between(self._measured, self.grid.nbytes)

    @cached_property
    def _regrets(self) -> Array:
        return np.maximum(self.times - nan_safe(np.nanmin, self._measured, 1)[:, None], 0.0)

    @cached_property
    def regret(self) -> Array:
        """log(time / best) in the worst view, the library last; NaN where a view is missing."""
        is_some: Truths = np.asarray(np.isfinite(self.times).any(1))
        is_missing = np.isnan(self.times) & is_some[:, None]
        worst: Array = np.where(is_missing.any(0), np.nan, nan_safe(np.nanmax, self._regrets, 0))
        return worst

    @cached_property
    def is_close(self) -> Truths:
        """Whether a setting is within the tolerance of the best, or behind it by noise alone.

        The least of many noisy times lies below all true ones: without this nothing stays within
        two percent of it for long, and one zone falls into many.
        """
        sides = self.grid.of(self.rows)
        best = np.where(np.isnan(self.times), np.inf, self.times)[:, : len(self.rows)].argmin(1)
        at = best[:, None, :, None]
        fastest = LogTimes(
            np.take_along_axis(sides.log_us, at, 1), np.take_along_axis(sides.pass_var, at, 1)
        )
        slack = intervals.compare(fastest, sides, self.grid.sizes).slack()
        allowed = np.log1p(self.tolerance) + np.nan_to_num(slack) + intervals.SAME
        is_close: Truths = ~(self._regrets[:, : len(self.rows)] > allowed).any(0)
        return is_close

    @cached_property
    def is_library_setting(self) -> Truths:
        """Whether the library takes the setting by itself, so that a rule wins nothing."""
        is_same = np.zeros((len(self.rows), len(self.grid.nbytes)), dtype=bool)
        for at, nbytes in enumerate(self.grid.nbytes):
            setting = self.library_settings.get(int(nbytes))
            if setting is not None:
                is_same[:, at] = [_is_same(name, setting) for name in self.names]
        return is_same

    @cached_property
    def gain(self) -> Array:
        """log(the library's time / the setting's) in the worst view; NaN where one is missing."""
        n = len(self.rows)
        by_view = np.where(
            np.isnan(self.ratio.log), self.times[:, n:] - self.times[:, :n], self.ratio.log
        )
        gain = np.where(self.is_library_setting, 0.0, nan_safe(np.nanmin, by_view, 0))
        gains: Array = np.where(np.isnan(self.regret[:n]), np.nan, gain)
        return gains

    @cached_property
    def adjusted_p(self) -> Array:
        """Adjusted p-value of each gain: its false discovery rate among all of this target."""
        return intervals.adjusted_p(self.ratio)


def _between(log_us: Array, nbytes: npt.NDArray[np.int64]) -> Array:
    """Interpolate times between measured sizes that are no further apart than GAP."""
    filled: Array = log_us.copy()
    log_nbytes = np.log(nbytes)
    for row in filled.reshape(-1, filled.shape[-1]):
        known = np.flatnonzero(np.isfinite(row))
        for low, high in pairwise(known):
            if high > low + 1 and nbytes[high] <= GAP * nbytes[low]:
                inner = np.arange(low + 1, high)
                row[inner] = np.interp(log_nbytes[inner], log_nbytes[[low, high]], row[[low, high]])
    return filled


def _row(grid: TimeGrid, setting: str) -> int | None:
    """The candidate of a setting."""
    return grid.candidates.index(setting) if setting in grid.candidates else None


def _is_same(name: str, taken: str) -> bool:
    """Whether a setting asks for no more than what the library takes."""
    asked, library = Setting.parse(name), Setting.parse(taken)
    return asked.channels is None and (asked.algorithm, asked.protocol) == (
        library.algorithm,
        library.protocol,
    )
