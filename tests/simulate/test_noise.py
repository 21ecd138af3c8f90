"""Noise by size: a launch's one draw, a setting's own in a launch, and what the file may say of them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from math import log, sqrt
from pathlib import Path

import pytest
from simulation import Sim, Small

LAUNCHES = 60
# Of a standard deviation over so many launches: 4 standard errors.
CHANCE = 4 / sqrt(2 * (LAUNCHES - 1))
FLAT = (
    "  - {collective: all_reduce, setting: ring/simple, kind: modelled, source: a test,"
    " points: [[8, 1000], [4194304, 1000]], variant: flat}\n"
    "variants: [{name: flat, when: {unset: [NOT_FLAT]}}]\n"
)


def by_size(sim: Sim, node: Path, launch: int, arguments: str) -> dict[int, list[float]]:
    """Logarithms of what noise made of 1000 µs, at each size in the order of the passes."""
    env = {"NCCL_ALGO": "ring", "NCCL_PROTO": "Simple", "RCCLTUNE_SIM_LAUNCH": str(launch)}
    found = defaultdict(list)
    for row in sim.run(node, arguments, **env).rows:
        found[row.size].append(log(row.time_us / 1000))
    return found


def test_a_launch_is_as_slow_at_one_size_as_at_the_next(sim: Sim, small: Small) -> None:
    """As two H200 do: 40 % between launches at 8 and 16 KiB alike, 1 % at 1 MiB, none at 4 MiB."""
    sigma = "[[16384, 0.4], [1048576, 0.01], [4194304, 0]]"
    node = small(f"{FLAT}noise: {{launch_sigma: {sigma}}}\n")
    small_ones, large_ones = [], []
    for launch in range(LAUNCHES):
        found = by_size(sim, node, launch, "-b 8K -e 4M -f 2 -N 2")
        at = {size: values[0] for size, values in found.items()}
        assert all(len(set(values)) == 1 for values in found.values())  # both passes alike
        assert at[8192] == pytest.approx(at[16384], abs=1e-4)  # flat before the first point
        # A third of the way from 2^14 to 2^20: straight lines of sigma over log2 of the size.
        share = (0.4 * 4 + 0.01 * 2) / 6 / 0.4
        assert at[65536] == pytest.approx(share * at[8192], abs=1e-4)  # as far as is printed
        assert at[4194304] == 0
        small_ones.append(at[8192])
        large_ones.append(at[1048576])
    assert statistics.stdev(small_ones) == pytest.approx(0.4, rel=CHANCE)
    assert statistics.stdev(large_ones) == pytest.approx(0.01, rel=CHANCE)
