"""How much the best choice is expected to lose at each size, and to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rccltune.search.estimates import Array, Estimates

# Draws of what the times may be; the mean of 512 regrets is known to a twentieth of itself.
_DRAWS: Final = 512
# Always the same draws: a search is repeatable, and sizes are compared on equal terms.
_SEED: Final = 8


@dataclass(frozen=True, slots=True)
class Prospect:
    """What is expected, by size.

    Attributes:
        choice: index of the setting that is expected to lose least, -1 where none can run.
        expected: its expected regret, 0 where nothing can run.
        shares: shape (settings, sizes): the part of it that each setting would save by being
            the fastest.
        chance: shape (settings, sizes): how likely each setting is the fastest.
    """

    choice: npt.NDArray[np.int64]
    expected: Array
    shares: Array
    chance: Array


def prospect(estimates: Estimates) -> Prospect:
    """Average over what the times may be.

    A setting's regret at a size is the worst over its views, as for a rule, which serves them all.
    """
    n_settings, _, n_sizes = estimates.centre.shape
    rng = np.random.default_rng(_SEED)
    pairs = [(one.role, one.algorithm, one.protocol) for one in estimates.settings]
    kin = [pairs.index(pair) for pair in pairs]
    noise = np.sqrt(np.maximum(0.0, estimates.spread**2 - estimates.bend**2))
    choice = np.full(n_sizes, -1, dtype=np.int64)
    expected = np.zeros(n_sizes)
    shares = np.zeros((n_settings, n_sizes))
    chance = np.zeros((n_settings, n_sizes))
    for x in range(n_sizes):
        # One for all views of a setting: what is not known is mostly the curve's shape.
        z = rng.standard_normal((_DRAWS, n_settings, 1))
        bent = rng.standard_normal((_DRAWS, n_settings, 1))[:, kin]
        able = np.flatnonzero(np.isfinite(estimates.centre[:, :, x]).all(axis=1))
        if able.size == 0:
            continue
        logs = (
            estimates.centre[able, :, x]
            + noise[able, :, x] * z[:, able]
            + estimates.bend[able, :, x] * bent[:, able]
        )
        over = logs - logs.min(axis=1, keepdims=True)
        regrets = np.expm1(over.max(axis=2))
        means = regrets.mean(axis=0)
        best = int(means.argmin())
        choice[x], expected[x] = able[best], means[best]
        # The rival is the fastest in the view in which the choice loses most.
        view = over[:, best, :].argmax(axis=1)
        fastest = logs[np.arange(_DRAWS), :, view].argmin(axis=1)
        for i, arm in enumerate(able):
            shares[arm, x] = regrets[fastest == i, best].sum() / _DRAWS
            chance[arm, x] = (fastest == i).mean()
    return Prospect(choice, expected, shares, chance)
