"""The library as the site has it, beside the library with our plugin idle, in an environment.

Both were measured by the sweep, in processes that took turns: without our plugin, and with it
answering nothing. Where they are shown to be within 1 % of each other a pair inside a communicator
stands for the site; elsewhere what they differ by is taken off the rules' gains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import exp, log1p
from typing import TYPE_CHECKING, Final

import numpy as np

from rccltune.analyse.paired import Estimate, apart, is_equal
from rccltune.model.settings import BASELINE, DEFAULT_VARIANT, SILENT, Variant
from rccltune.model.vocabulary import Collective
from rccltune.perf import plan, runs
from rccltune.perf.samples import by_clock
from rccltune.verify.verdict import Beside, Ratio

if TYPE_CHECKING:
    import pandas as pd

EQUAL: Final = log1p(0.01)
# An environment is judged where it is known within this to each side.
_JUDGED: Final = log1p(0.03)
_NOT_SLOWER: Final = log1p(-0.02)


@dataclass(frozen=True)
class SiteAndIdle:
    """Log times of both, by replicate.

    Args:
        table: rows of the sweep's runs.
        variant: the environment in which the plugin was idle.
    """

    table: pd.DataFrame
    variant: Variant = DEFAULT_VARIANT

    def between(self, collective: Collective, low: int, high: int) -> Estimate | None:
        """log(site as it is / plugin idle) in the mean over sizes; None where it is not known.

        Args:
            collective: which.
            low: first size in bytes; the sweep's sizes half an octave beside count too.
            high: last one.
        """
        own = self.table[
            (self.table["collective"] == collective.value)
            & (self.table["purpose"] == runs.FINE)
            & (self.table["step"] == plan.MEASURE)
            & (self.table["time_us"] > 0)
            & self.table["nbytes"].between(low / 2**0.5, high * 2**0.5)
        ]
        site = own[(own["setting"] == str(BASELINE)) & (own["variant"] == DEFAULT_VARIANT.name)]
        idle = own[(own["setting"] == str(SILENT)) & (own["variant"] == self.variant.name)]
        if site.empty or idle.empty:
            return None
        groups = [_by_replicate(by_clock(one)) for one in (site, idle)]
        shared = groups[0].columns.intersection(groups[1].columns)
        logs = [one[shared].dropna().mean(axis=1).to_numpy() for one in groups]
        return apart(*logs) if len(shared) else None

    def octaves(self, sizes: Mapping[Collective, Iterable[int]]) -> Iterator[Beside]:
        """What the two differ by in each octave of measured sizes."""
        for collective, measured in sizes.items():
            by_octave: dict[int, list[int]] = {}
            for nbytes in sorted(measured):
                by_octave.setdefault(nbytes.bit_length(), []).append(nbytes)
            for own in by_octave.values():
                found = self.between(collective, own[0], own[-1])
                if found is not None:
                    yield Beside(
                        collective=collective,
                        min_nbytes=own[0],
                        max_nbytes=own[-1],
                        ratio=Ratio.of(found),
                        is_equal=is_equal(found, EQUAL),
                    )


def _by_replicate(rows: pd.DataFrame) -> pd.DataFrame:
    """Log times, a row a communicator, a column a size and placement."""
    made: pd.DataFrame = rows.assign(
        log=np.log(rows["time_us"]),
        replicate=rows["run"].astype(str) + ":" + rows["communicator"].astype(str),
    ).pivot_table(values="log", index="replicate", columns=["placement", "nbytes"], aggfunc="mean")
    return made


def not_judged_below(found: Iterable[Beside]) -> int | None:
    """Size in bytes below which an environment is not known within 3 %; None where it is."""
    unknown = [one.max_nbytes for one in found if not _is_judged(one)]
    return max(unknown) + 1 if unknown else None


def _is_judged(one: Beside) -> bool:
    half = max(one.ratio.high / one.ratio.ratio, one.ratio.ratio / one.ratio.low)
    return half <= exp(_JUDGED)


def slower(found: Iterable[Beside]) -> tuple[Beside, ...]:
    """Octaves in which a loss of 2 % is not excluded, though they are known within 3 %."""
    return tuple(one for one in found if _is_judged(one) and one.ratio.low <= exp(_NOT_SLOWER))
