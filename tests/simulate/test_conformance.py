"""The simulated library chooses as the real RCCL 2.27.7 did, where both get the same topology.

Expected choices are recordings of the real library (examples/mi300x-*/rccl-2.27.7-choices.csv,
scripts/bench conform --live --save).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import bench_conform
from real_runs import COLLECTIVES, PLACES

QUICK = ("spx-8", "cpx-8", "cpx-64", "two-hosts")
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK))
        for name in PLACES
    ],
)
def test_choices_and_channels_are_the_real_ones(place: str) -> None:
    """At every power of two from 8 B to 1 GiB, in all five collectives."""
    for collective in COLLECTIVES:
        real = bench_conform.recorded(PLACES[place], collective)
        ours = bench_conform.asked(None, PLACES[place], collective, [bench_conform.POWERS])
        assert len(real) > 20
        assert ours.keys() == real.keys()
        assert ours == real, (place, collective)
