"""The library as the site has it, beside the library with our plugin idle.

Both were measured by the sweep, in processes that took turns: without our plugin, and with it
answering nothing. Where they are shown to be within 1 % of each other a pair inside a communicator
stands for the site; elsewhere what they differ by is taken off the rules' gains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp, log1p
from typing import TYPE_CHECKING, Final

import numpy as np

from rccltune.analyse.paired import Estimate, apart, is_equal
from rccltune.model.settings import BASELINE, SILENT, Setting
from rccltune.model.vocabulary import Collective
from rccltune.perf import plan, runs
from rccltune.perf.samples import by_clock
from rccltune.verify.verdict import IdleEffect, Ratio

if TYPE_CHECKING:
    import pandas as pd

EQUAL: Final = log1p(0.01)
# An environment is judged where it is known within this to each side.
_JUDGED: Final = log1p(0.03)


@dataclass(frozen=True)
class SiteAndIdle:
    """Log times of both, by replicate.

    Args:
        site: rows of the sweep's runs that have the site as it is.
        idle: rows of those with the plugin idle; the same, but where two environments are compared.
    """

    site: pd.DataFrame
    idle: pd.DataFrame

    def between(self, collective: Collective, low: int, high: int) -> Estimate | None:
        """log(site as it is / plugin idle) in the mean over sizes; None where it is not known.

        Args:
            collective: which.
            low: first size in bytes; the sweep's sizes half an octave beside count too.
            high: last one.
        """
        site, idle = (one.get(collective.value) for one in self._sides)
        if site is None or idle is None:
            return None
        shared = site.columns.intersection(idle.columns)
        nbytes = shared.get_level_values("nbytes")
        near = shared[(nbytes >= low / 2**0.5) & (nbytes <= high * 2**0.5)]
        logs = [one[near].dropna().mean(axis=1).to_numpy() for one in (site, idle)]
        return apart(*logs) if len(near) else None

    @cached_property
    def _sides(self) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
        """Log times of the site as it is, and of the plugin idle, by collective."""
        return _by_replicate(_fine(self.site, BASELINE)), _by_replicate(_fine(self.idle, SILENT))

    def octaves(self, sizes: Mapping[Collective, Iterable[int]]) -> Iterator[IdleEffect]:
        """What the two differ by in each octave of measured sizes."""
        for collective, measured in sizes.items():
            by_octave: dict[int, list[int]] = {}
            for nbytes in sorted(measured):
                by_octave.setdefault(nbytes.bit_length(), []).append(nbytes)
            for own in by_octave.values():
                found = self.between(collective, own[0], own[-1])
                if found is not None:
                    yield IdleEffect(
                        collective=collective,
                        min_nbytes=own[0],
                        max_nbytes=own[-1],
                        ratio=Ratio.of(found),
                        is_equal=is_equal(found, EQUAL),
                    )


def _fine(table: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Timings of the second pass, or of starts in turns, by the clock that counts."""
    own = table[
        table["purpose"].isin((runs.FINE, runs.SITE))
        & (table["step"] == plan.MEASURE)
        & (table["time_us"] > 0)
        & (table["setting"] == str(setting))
    ]
    is_start = own["purpose"] == runs.SITE
    has_starts = is_start.groupby([own["collective"], own["nbytes"]]).transform("any")
    return by_clock(own[is_start | ~has_starts])


def _by_replicate(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Log times by collective, a row a communicator, a column a size and placement."""
    plain = rows.assign(
        log=np.log(rows["time_us"]),
        replicate=rows["run"].astype(str) + ":" + rows["communicator"].astype(str),
    )
    return {
        str(name): own.pivot_table(
            values="log", index="replicate", columns=["placement", "nbytes"], aggfunc="mean"
        )
        for name, own in plain.groupby("collective", sort=False)
    }


def is_judged(one: IdleEffect) -> bool:
    """Whether an environment is known within 3 % to each side."""
    half = max(one.ratio.high / one.ratio.ratio, one.ratio.ratio / one.ratio.low)
    return half <= exp(_JUDGED)
