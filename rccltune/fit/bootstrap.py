"""How far a crossover could be elsewhere, from the spread between launches.

Two or three launches are too few to resample by themselves, so the deviations from each size's
own centre are pooled over the neighbouring sizes and drawn from that pool. A launch is slow or
fast as a whole as well (1-4 %), so its mean deviation is drawn once for all sizes, and what is
left over once for each. Where both settings ran in the same launches, that common part cancels
in their ratio, and the ratio is what is resampled.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from rccltune.fit.linear import Array
from rccltune.fit.ratio import Ratio
from rccltune.model import CurvePoint

DRAWS = 400
# Neighbours on each side of the crossing whose noise and whose ratios matter.
REACH = 4
_SEED = 20_261_121


def interval(ratio: Ratio, confidence: float = 0.95) -> tuple[float, float] | None:
    """Percentile interval of the crossing in bytes; None where too little was repeated.

    The draws start from a fixed seed: the same samples give the same interval.
    """
    at = ratio.crossing()
    measured = [i for i, pair in enumerate(ratio.pairs) if pair is not None]
    if at is None or len(measured) < 2:
        return None
    near = sorted(measured, key=lambda i: abs(log(ratio.sizes[i] / at)))[: 2 * REACH]
    near.sort()
    pairs = [pair for i in near if (pair := ratio.pairs[i]) is not None]
    generator = np.random.default_rng(_SEED)
    noise = _noise(pairs, generator)
    if noise is None:
        return None
    logs = np.array([ratio.logs[i] for i in near]) + noise
    crossings = _crossings(np.log([ratio.sizes[i] for i in near]), logs)
    tail = (1 - confidence) / 2
    low, high = np.exp(np.quantile(crossings, [tail, 1 - tail]))
    return float(low), float(high)


def _noise(
    pairs: list[tuple[CurvePoint, CurvePoint]], generator: np.random.Generator
) -> Array | None:
    """Draws of the error of each size's log-ratio, shape (draws, sizes)."""
    launches = pairs[0][0].launches
    if launches and all(a.launches == launches == b.launches for a, b in pairs):
        # Same launches: only what differs between the two settings is noise.
        ratios = [
            [log(x / y) for x, y in zip(a.launch_times_us, b.launch_times_us, strict=True)]
            for a, b in pairs
        ]
        return _drawn(ratios, generator)
    parts = [
        _drawn([[log(x) for x in pair[side].launch_times_us] for pair in pairs], generator)
        for side in (0, 1)
    ]
    if parts[0] is None or parts[1] is None:
        return None
    return parts[0] - parts[1]


def _drawn(logs: list[list[float]], generator: np.random.Generator) -> Array | None:
    """Errors of the centres of repeated values, shape (draws, sizes)."""
    repeated = [np.array(row) for row in logs if len(row) >= 2]
    if not repeated:
        return None
    n_launches = min(len(row) for row in repeated)
    # Deviations from a centre that they define themselves are too small by this factor.
    widen = sqrt(n_launches / (n_launches - 1))
    deviations = np.array([row[:n_launches] - row[:n_launches].mean() for row in repeated]) * widen
    common = deviations.mean(axis=0)
    rest = (deviations - common).ravel()
    n_sizes = len(logs)
    shared = generator.choice(common, (DRAWS, n_launches)).mean(axis=1)
    own = np.median(generator.choice(rest, (DRAWS, n_sizes, n_launches)), axis=2)
    return np.asarray(shared[:, None] + own)


def _crossings(x: Array, logs: Array) -> Array:
    """Log-size of each draw's crossing; the ends of the range where it has none."""
    zeros = np.zeros((len(logs), 1))
    first = np.hstack([zeros, np.cumsum(np.maximum(logs, 0), axis=1)])
    second = np.hstack([np.cumsum(np.maximum(-logs, 0)[:, ::-1], axis=1)[:, ::-1], zeros])
    index = np.argmin(first + second, axis=1)
    inner = np.clip(index, 1, len(x) - 1)
    draw = np.arange(len(logs))
    below, above = logs[draw, inner - 1], logs[draw, inner]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(below == above, 0.5, below / (below - above))
    at = x[inner - 1] + np.clip(share, 0, 1) * (x[inner] - x[inner - 1])
    return np.asarray(np.where(index == 0, x[0], np.where(index == len(x), x[-1], at)))
