"""How many matrix products run beside collectives, so that computing has its share of the work.

The library's own calls say it, and all settings of a size do the same work: what they take together
with the products can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rccltune.model.errors import LaunchError
from rccltune.model.settings import SILENT, Computing, Setting
from rccltune.perf import plan, runs
from rccltune.perf.plan import LOOP, ROUGH, CollectiveCall, MatrixProducts, Step, TimingEffort

if TYPE_CHECKING:
    import pandas as pd

# Products that tell how long one takes, and calls beside them.
_PRODUCTS: Final = 20
_CALLS: Final = 10
# A round lasts about so long; of calls and of products it has so many at least.
ROUND_US: Final = 1000.0
_LEAST_EACH: Final = 3
_MOST_CALLS: Final = 200
# Of plans before anything is measured: a product of bf16 4096 and calls, on two H200.
_PRODUCT_US: Final = 200.0
_CALL_US: Final = 8.0
_BYTES_A_US: Final = 100_000.0


@dataclass(frozen=True, kw_only=True)
class Load:
    """How many products run beside the calls of each size.

    Attributes:
        product_us: µs of a product alone.
        library_us: µs of the library's call alone, by collective, placement and size in bytes.
    """

    computing: Computing | None
    product_us: float
    library_us: Mapping[tuple[str, str], Mapping[int, float]]

    @classmethod
    def guessed(cls, computing: Computing | None) -> Load:
        """A load for plans, before anything is measured."""
        return cls(computing=computing, product_us=_PRODUCT_US, library_us={})

    @classmethod
    def of(cls, computing: Computing, alone: pd.DataFrame, table: pd.DataFrame) -> Load:
        """Take both times from what was measured.

        Args:
            computing: the products, and their share of the work.
            alone: rows of calls alone, the library's own among them.
            table: rows of runs, with the one that asked how long a product takes.

        Raises:
            LaunchError: that one has no time.
        """
        asked = table[(table["purpose"] == runs.PRODUCT) & (table["product_us"] > 0)]
        if asked.empty:
            raise LaunchError(
                "no matrix product was timed, so that nothing can be measured beside some",
                hint="the log of the last run says why; rccltune doctor looks for usual causes.",
            )
        product_us = float(asked["product_us"].median())
        alone = alone[alone["setting"] == str(SILENT)]
        times: dict[tuple[str, str], dict[int, float]] = {}
        cell = ["collective", "placement", "nbytes"]
        middle = alone.groupby(cell)["time_us"].median().reset_index()
        for name, placement, nbytes, time_us in middle.itertuples(index=False, name=None):
            times.setdefault((name, placement), {})[int(nbytes)] = float(time_us)
        return cls(computing=computing, product_us=product_us, library_us=times)

    def step(
        self, setting: Setting, call: CollectiveCall, clock: str, effort: TimingEffort = ROUGH
    ) -> Step:
        """A step that times a setting; beside products where there are some."""
        if self.computing is None:
            return Step(plan.MEASURE, setting, call, clock, effort)
        products = products_for(self.computing, self._call_us(call), self.product_us)
        return Step(plan.BESIDE, setting, call, clock, products=products)

    def _call_us(self, call: CollectiveCall) -> float:
        """µs of the library's call alone; between measured sizes by their logarithms."""
        import numpy as np

        known = self.library_us.get((call.collective.value, call.placement.value))
        if not known:
            return _CALL_US + call.nbytes / _BYTES_A_US
        sizes = sorted(known)
        times = [math.log(known[nbytes]) for nbytes in sizes]
        return float(np.exp(np.interp(math.log(call.nbytes), np.log(sizes), times)))


# Calls that have the GPUs to themselves.
ALONE: Final = Load.guessed(None)


def products_for(computing: Computing, call_us: float, product_us: float) -> MatrixProducts:
    """How many calls and products make a round.

    Args:
        computing: the products, and their share of the work.
        call_us: µs of the library's call alone.
        product_us: µs of a product alone.
    """
    ratio = computing.share / (100 - computing.share)
    # At least three of each, so that the share is what it says within a sixth.
    products = max(_LEAST_EACH, round(ratio * ROUND_US / product_us))
    calls = round(products * product_us / ratio / call_us)
    calls = min(max(_LEAST_EACH, calls), _MOST_CALLS)
    products = max(_LEAST_EACH, round(ratio * calls * call_us / product_us))
    return MatrixProducts(computing.dtype, computing.size, products, calls)


def first_products(computing: Computing, call: CollectiveCall) -> Step:
    """The step that tells how long a product takes."""
    products = MatrixProducts(computing.dtype, computing.size, _PRODUCTS, _CALLS)
    return Step(plan.BESIDE, SILENT, call, LOOP, products=products)
