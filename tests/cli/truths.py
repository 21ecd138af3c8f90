"""Samples of a sweep of the simulated node against what its node file says."""

from __future__ import annotations

import pandas as pd
import pytest

from rccltune.simulate import true_times
from rccltune.simulate.node import SimulatedNode

# The text's three significant digits, and rounding in between.
PRINTED = 6e-3


def is_true(samples: pd.DataFrame, node: SimulatedNode) -> None:
    """Every time of AllReduce with 64 ranks is the node file's, as exactly as it was printed."""
    for row in samples.itertuples():
        wanted = true_times.truth(
            node,
            "all_reduce",
            row.setting,
            row.nbytes,
            ranks=64,
            variants=() if row.variant == "default" else (row.variant,),
            in_place=row.placement == "in",
        )
        assert row.time_us == pytest.approx(wanted, rel=PRINTED), row
