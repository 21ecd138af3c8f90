"""A sweep over sizes that have no order of their own: a workload's.

rccltune measures ranges, since rccl-tests does; so the sizes of each collective are parted into
the ranges that cost least, each of which is a sweep of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rccltune.model import Range, Sweep
from rccltune.plan.call_sizes import grain
from rccltune.plan.launches import N_BASELINES, Ground, arms, pass_s
from rccltune.plan.ranges import stretches
from rccltune.plan.rounds import over

# What a launch costs beside its calls: ranks start slowly.
_LAUNCH_S: Final = 2.0
_RANK_S: Final = 0.5
# A launch of one setting prints its table twice.
_PASSES: Final = 2


def parted(sweep: Sweep, ground: Ground, start_s: float | None = None) -> tuple[Sweep, ...]:
    """One sweep for each collective and range; together they measure every size that is wanted.

    Further sizes are measured only where a range has them, or where one size alone would not
    show the plugin where a step ends.

    Args:
        sweep: with ``wanted``.
        ground: what there is.
        start_s: what a launch is known to take beside its calls, None for a rough guess.
    """
    forced = arms(sweep, ground)[0]
    launch_s = _LAUNCH_S + _RANK_S * ground.scale.n_ranks if start_s is None else start_s
    found: list[Sweep] = []
    for collective, sizes in sweep.wanted:
        settings = frozenset(setting for one, setting, _ in forced if one is collective)

        def price(sizes: Range, n_settings: int) -> float:
            n_passes = N_BASELINES * _PASSES + (n_settings + 1) * (sweep.repeats + 1)
            return (N_BASELINES + 1) * launch_s + n_passes * pass_s(over(sweep, sizes))

        part = replace(sweep, collectives=(collective,), wanted=())
        unit = grain(sweep, collective, ground.scale.n_ranks)
        wants = dict.fromkeys(sizes, settings)
        found += [over(part, one.range) for one in stretches(wants, price, unit=unit)]
    return tuple(found)
