"""Launches of variants, and the short control of combined launches.

Whether one launch for all settings measures what separate launches do is a question to each
machine anew: connections, memory and clocks that other settings left behind could change a time.

Each variant is measured as the library behaves in it by itself, with nothing of ours loaded, as
often as the baseline; where a tuner is still asked there, all settings are measured in it
too. Samples of different variants are compared and never pooled.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from math import ceil
from typing import Final

from rccltune.model.measured import Launch, Sweep
from rccltune.model.settings import DEFAULT_VARIANT, Setting, Variant
from rccltune.model.vocabulary import Collective
from rccltune.plan.launches import (
    N_BASELINES,
    Arm,
    Ground,
    arms,
    baselines,
    launch_of,
    sizes,
)
from rccltune.plan.walks import whole_walks, why_no_walk


def plan_variants(sweep: Sweep, ground: Ground, *, walks: bool) -> list[Launch]:
    """Launches of all variants but the default one, ids still empty.

    Rounds of all variants follow each other, so that a drift hits each alike.

    Args:
        sweep: its variants, and what is measured in each.
        ground: what there is.
        walks: whether one launch may go through many settings.
    """
    # What makes LL128 selectable is measured wherever a setting needs it, and not by itself.
    plain = (DEFAULT_VARIANT.name, ground.ll128.name)
    varied = [one for one in sweep.variants if one.name not in plain]
    n_rounds = max(N_BASELINES, sweep.repeats)
    parts = {one.name: _settings_in(one, sweep, ground, walks=walks) for one in varied}
    launches: list[Launch] = []
    for repeat in range(n_rounds):
        for one in _turned(varied, sweep, repeat):
            launches += baselines(_concerned(sweep, one), ground, repeat, one)
            whole = parts[one.name]
            start, end = (len(whole) * k // n_rounds for k in (repeat, repeat + 1))
            launches += whole[start:end]
    return launches


def _concerned(sweep: Sweep, variant: Variant) -> Sweep:
    """The sweep of those collectives alone that a variant concerns."""
    wanted = tuple(c for c in sweep.collectives if not variant.serves or c in variant.serves)
    return replace(sweep, collectives=wanted)


def _turned(varied: Iterable[Variant], sweep: Sweep, repeat: int) -> list[Variant]:
    turn = list(varied)
    random.Random(f"{sweep.seed}/variants/{repeat}").shuffle(turn)  # noqa: S311 - an order, no secret
    return turn


def _settings_in(variant: Variant, sweep: Sweep, ground: Ground, *, walks: bool) -> list[Launch]:
    """All settings in a variant; none where it takes calls before a tuner is asked."""
    if variant.path:
        return []
    concerned = _concerned(sweep, variant)
    wanted = [arm for arm in arms(concerned, ground, variant)[0] if not arm[2].patched]
    if walks and not variant.one_process and why_no_walk(sweep, ground) is None:
        return whole_walks(sweep, ground, wanted)
    return [
        launch_of(sweep, ground, arm, repeat) for repeat in range(sweep.repeats) for arm in wanted
    ]


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
    # Stable: collectives and settings stay in the order in which they were asked for.
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
