"""Sweeps that scripts/bench choose makes up: three zones of known times, and many samples for speed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from math import exp

from public_sweeps import key_of

from rccltune.model import BASELINE, Placement, Sample, Scale, Setting

# Times in µs that three settings really take; each has six channel counts that change nothing.
TRUTH: dict[str, Callable[[int], float]] = {
    "tree/ll": lambda n: 20 + n / 5e3,
    "ring/ll": lambda n: 30 + n / 1e4,
    "ring/simple": lambda n: 60 + n / 5e4,
}
CHANNELS = ("", "/8", "/16", "/24", "/32", "/48")


def noisy(sizes: Sequence[int], n_launches: int, seed: int) -> list[Sample]:
    """Samples of :data:`TRUTH`, with noise of 2 % a size and 1 % a launch."""
    noise = random.Random(seed)
    made: list[Sample] = []
    for (name, time_us), channels, launch in product(TRUTH.items(), CHANNELS, range(n_launches)):
        key = key_of(Setting.parse(name + channels), scale=Scale(n_nodes=1, n_ranks=8))
        mood = noise.gauss(0, 0.01)
        made += [
            Sample(
                key=key,
                launch=str(launch),
                nbytes=n,
                time_us=time_us(n) * exp(mood + noise.gauss(0, 0.02)),
            )
            for n in sizes
        ]
    return made


def synthetic(n_samples: int, repeats: int) -> list[Sample]:
    """Made-up samples with a step and 1 % of noise: 30 settings × 28 sizes × 2 placements."""
    noise = random.Random(1)
    made: list[Sample] = []
    for n_ranks in range(2, 1000):
        for number, placement in product(range(30), Placement):
            setting = BASELINE if number == 0 else Setting.parse(f"ring/ll/{number}")
            key = key_of(setting, placement=placement, scale=Scale(n_nodes=1, n_ranks=n_ranks))
            latency, per_byte = 10 + 50 * noise.random(), 1e-5 + 1e-4 * noise.random()
            for power, repeat in product(range(28), range(repeats)):
                time_us = latency * (1 + (power > 9)) + per_byte * 8 * 2**power
                time_us *= 1 + 0.01 * noise.gauss(0, 1)
                made.append(Sample(key=key, launch=str(repeat), nbytes=8 << power, time_us=time_us))
        if len(made) >= n_samples:
            break
    return made[:n_samples]
