"""The site as it is, beside our plugin idle, where the two ran different things.

Both were measured by the sweep in starts that took turns. Elsewhere a pair inside a communicator
stands for the site; here what the two differ by is taken off the rules' gains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log1p
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from rccltune.analyse.intervals import Array
from rccltune.analyse.paired_intervals import LogMean, compare_groups, is_equal
from rccltune.analyse.points import by_timing
from rccltune.model.settings import BASELINE, IDLE, Setting
from rccltune.model.vocabulary import Collective
from rccltune.ranks import plan
from rccltune.verify.verdict_file import IdleEffect

if TYPE_CHECKING:
    import pandas as pd

EQUAL: Final = log1p(0.01)


@dataclass(frozen=True)
class SiteAndIdle:
    """Log times of both, by start.

    Args:
        table: rows of the sweep's runs.
    """

    table: pd.DataFrame

    def over(self, collective: Collective, called: Sequence[int]) -> LogMean | None:
        """log(site as it is / plugin idle) in the mean over sizes; None where they ran the same.

        Between two measured sizes it is what lies between theirs, on a logarithmic axis. A rule may
        reach from sizes where the two differ to others where they do not.

        Args:
            collective: which.
            called: sizes in bytes.
        """
        sides = [one.get(collective.value) for one in self._sides]
        if any(one is None for one in sides):
            return None
        logs = [_by_size(one) for one in sides if one is not None]
        known = logs[0].columns.intersection(logs[1].columns)
        is_swept = (self.table["step"] == plan.MEASURE) & (
            self.table["collective"] == collective.value
        )
        swept = np.unique(self.table.loc[is_swept, "nbytes"])
        weights = _weights(np.asarray(called), swept)[np.isin(swept, known)]
        if not (weights > 0).any():
            return None
        first, second = (one[known].dropna().to_numpy() @ weights for one in logs)
        return compare_groups(first, second)

    @cached_property
    def _sides(self) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
        """Log times of the site as it is, and of the plugin idle, by collective."""
        site, idle = (_by_start(_in_starts(self.table, one)) for one in (BASELINE, IDLE))
        return site, idle

    def octaves(self, sizes: Mapping[Collective, Iterable[int]]) -> Iterator[IdleEffect]:
        """Ratio of the two in each octave of measured sizes."""
        for collective, measured in sizes.items():
            by_octave: dict[int, list[int]] = {}
            for nbytes in sorted(measured):
                by_octave.setdefault(nbytes.bit_length(), []).append(nbytes)
            for own in by_octave.values():
                difference = self.over(collective, own)
                if difference is not None:
                    yield IdleEffect(
                        collective=collective,
                        min_nbytes=own[0],
                        max_nbytes=own[-1],
                        ratio=difference.ratio(),
                        is_equal=is_equal(difference, EQUAL),
                    )


def _in_starts(table: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Timings of starts in turns, by the timing mode that counts."""
    timings = table[
        (table["purpose"] == plan.SITE)
        & (table["step"] == plan.MEASURE)
        & (table["time_us"] > 0)
        & (table["setting"] == str(setting))
    ]
    return by_timing(timings)


def _by_start(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Log times by collective, a row a start, a column a size and placement."""
    plain = rows.assign(log=np.log(rows["time_us"]))
    return {
        str(name): group.pivot_table(
            values="log", index="process", columns=["placement", "nbytes"], aggfunc="mean"
        )
        for name, group in plain.groupby("collective", sort=False)
    }


def _by_size(logs: pd.DataFrame) -> pd.DataFrame:
    """Means over placements, a column a size, rising."""
    by_size: pd.DataFrame = logs.T.groupby(level="nbytes").mean().T
    return by_size


def _weights(called: npt.NDArray[np.int64], swept: npt.NDArray[np.int64]) -> Array:
    """Weight of each measured size in the mean over called ones."""
    at, grid = np.log2(called), np.log2(swept)
    ones = np.eye(len(swept))
    return np.array([np.interp(at, grid, one).mean() for one in ones])
