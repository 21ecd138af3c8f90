"""The short control of walks: two settings again, each in a launch of its own.

Whether one launch for all settings measures what separate launches do is a question to each
machine anew: connections, memory and clocks that other settings left behind could change a time.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import ceil
from typing import Final

from rccltune.model import DEFAULT_VARIANT, Launch, Setting, Sweep, Variant
from rccltune.plan.launches import Arm, Ground, arms, launch_of, sizes
from rccltune.vocab import Collective

N_CONTROL_SIZES: Final = 8


def controls(sweep: Sweep, ground: Ground) -> list[Launch]:
    """One launch for each of two settings that have as little as possible in common.

    Of the first collective and variant that have two, the default variant before others; at no
    more than eight of the sweep's own sizes, since only common sizes can be compared. Empty where
    nothing has two.
    """
    pair = _pair(arms(sweep, ground)[0])
    short = _short(sweep)
    return [launch_of(short, ground, arm, 0) for arm in pair]


def _pair(wanted: list[Arm]) -> tuple[Arm, ...]:
    groups: dict[tuple[Collective, Variant], list[Arm]] = {}
    for arm in wanted:
        collective, setting, variant = arm
        if setting.is_complete and not variant.patched:
            groups.setdefault((collective, variant), []).append(arm)
    # Stable: collectives and settings stay in the order in which they were wished for.
    for _, found in sorted(groups.items(), key=lambda group: group[0][1] != DEFAULT_VARIANT):
        if len(found) > 1:
            return max(combinations(found, 2), key=lambda two: _unlike(two[0][1], two[1][1]))
    return ()


def _unlike(one: Setting, other: Setting) -> int:
    return (one.algorithm != other.algorithm) + (one.protocol != other.protocol)


def _short(sweep: Sweep) -> Sweep:
    """Every so many of the sweep's sizes."""
    every = ceil(len(sizes(sweep)) / N_CONTROL_SIZES)
    if sweep.step_nbytes:
        return replace(sweep, step_nbytes=sweep.step_nbytes * every)
    return replace(sweep, factor=sweep.factor**every)
