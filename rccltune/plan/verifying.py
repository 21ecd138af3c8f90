"""Launches that hold rules against the untouched site, in turns: A B B A and so on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rccltune.model import BASELINE, DEFAULT_VARIANT, Launch, Rule, Sweep, Variant
from rccltune.plan.launches import Ground, launch_of
from rccltune.units import MAX_NBYTES
from rccltune.vocab import DTYPE_BYTES

# Sizes an octave: a loss over a range of a factor 1.25 between powers of two holds one of them.
PER_OCTAVE: Final = 4
_FACTOR: Final = 2


def plan_verification(
    sweep: Sweep, ground: Ground, rules: Sequence[Rule], tuned: Variant, n_rounds: int
) -> list[Launch]:
    """Both arms at every size, ids still empty.

    Powers of two of the smallest size and sizes between them have a launch of each arm in each
    round; the sizes around each boundary of a rule one in the first round and in the second.

    Args:
        sweep: options of all launches, and the range of sizes.
        ground: what there is.
        rules: for this scale.
        tuned: environment of the tuned arm, plugin and rules among it.
        n_rounds: how often.
    """
    launches: list[Launch] = []
    concerned = dict.fromkeys(rule.collective for rule in rules)
    for repeat in range(n_rounds):
        for collective in (c for c in concerned if c in ground.programs):
            ranges = list(grids(sweep))
            if repeat < _BOUNDARY_ROUNDS:
                ranges += boundaries(sweep, [r for r in rules if r.collective is collective])
            for number, part in enumerate(ranges):
                arms = (DEFAULT_VARIANT, tuned)
                # A B B A: what drifts along the way hits both arms alike.
                turn = arms if (repeat + number) % 2 == 0 else arms[::-1]
                launches += [
                    launch_of(part, ground, (collective, BASELINE, arm), repeat) for arm in turn
                ]
    return launches


_BOUNDARY_ROUNDS: Final = 2


def grids(sweep: Sweep) -> Iterable[Sweep]:
    """The sweep's octaves, each with sizes between its ends; one range for each of these.

    Those between begin where an element is a small part of a size: below, whole elements leave no
    room for them.
    """
    unit = _unit(sweep)
    base = sweep.min_nbytes
    while base < _FINE * unit:
        base *= _FACTOR
    for part in range(PER_OCTAVE):
        between = round(base * 2 ** (part / PER_OCTAVE) / unit) * unit
        least = between if part else max(unit, sweep.min_nbytes)
        if least <= sweep.max_nbytes:
            yield replace(sweep, min_nbytes=least, factor=_FACTOR, step_nbytes=None)


# Elements of a size from which on a quarter of an octave is told exactly enough.
_FINE: Final = 32


def boundaries(sweep: Sweep, rules: Iterable[Rule]) -> list[Sweep]:
    """The last size of a rule and the first behind it, with one element on either side."""
    unit = _unit(sweep)
    edges = {rule.min_nbytes for rule in rules} | {rule.max_nbytes + 1 for rule in rules}
    inside = sorted(
        edge for edge in edges if sweep.min_nbytes < edge <= min(sweep.max_nbytes, MAX_NBYTES)
    )
    found = []
    for edge in inside:
        first = -(-edge // unit) * unit
        low, high = max(unit, first - 2 * unit), first + unit
        found.append(
            replace(sweep, min_nbytes=low, max_nbytes=high, step_nbytes=unit, factor=_FACTOR)
        )
    return found


def _unit(sweep: Sweep) -> int:
    """Bytes of an element."""
    return DTYPE_BYTES.get(sweep.dtypes[0], 4)
