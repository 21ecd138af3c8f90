"""What an idle plugin costs a rule: of the sizes at which the site runs something else alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rccltune.model.settings import BASELINE, IDLE
from rccltune.model.vocabulary import Collective
from rccltune.ranks import plan
from rccltune.verify.site_and_idle import SiteAndIdle

KIB = 1024
# Of the sweep: the site is a third faster than the idle plugin up to 256 KiB, and ran the same above.
SWEPT = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB)
DIFFERENT = SWEPT[:4]
COST = float(np.log(2 / 3))


def table() -> pd.DataFrame:
    """Eight starts of either side where they differ, and a first pass at every size."""
    draws = np.random.default_rng(1)
    kinds = [("idle", n, plan.FIRST, start, 30.0) for n in SWEPT for start in range(2)]
    kinds += [
        (side, n, plan.SITE, f"{side}{start}", us)
        for side, us in ((str(BASELINE), 20.0), (str(IDLE), 30.0))
        for n in DIFFERENT
        for start in range(8)
    ]
    return pd.DataFrame(
        {
            "purpose": purpose,
            "step": plan.MEASURE,
            "setting": setting,
            "collective": "all_reduce",
            "dtype": "float",
            "op": "sum",
            "placement": placement,
            "timing": "graph",
            "nbytes": nbytes,
            "process": process,
            "time_us": us * float(np.exp(draws.normal(0, 0.002))),
        }
        for setting, nbytes, purpose, process, us in kinds
        for placement in ("in", "out")
    )


@pytest.mark.parametrize(
    ("called", "cost"),
    [
        (DIFFERENT, COST),
        # Half way between 256 KiB and 1 MiB on a logarithmic axis, half of it.
        ((256 * KIB, 512 * KIB), 0.75 * COST),
        # From where they differ to where they do not.
        ((64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB), 0.5 * COST),
    ],
)
def test_the_cost_is_of_the_sizes_that_a_rule_has(called: tuple[int, ...], cost: float) -> None:
    """In the mean over the called sizes, as gains are."""
    found = SiteAndIdle(table()).over(Collective.ALL_REDUCE, called)
    assert found is not None
    assert found.log == pytest.approx(cost, abs=0.005)


def test_nothing_is_taken_off_where_both_ran_the_same() -> None:
    """No start was made there, and no other collective's are of use."""
    both = SiteAndIdle(table())
    assert both.over(Collective.ALL_REDUCE, SWEPT[4:]) is None
    assert both.over(Collective.ALL_GATHER, SWEPT) is None
