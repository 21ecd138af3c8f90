"""Launches that hold rules against the untouched site, in turns: A B B A and so on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rccltune.model import (
    BASELINE,
    DEFAULT_VARIANT,
    MAX_NBYTES,
    Beside,
    Collective,
    Launch,
    Rule,
    Sweep,
    Variant,
    format_size,
)
from rccltune.plan.call_sizes import called_sizes, grain, unit_of
from rccltune.plan.launches import Ground, benchmark_options, launch_of, repeat_letter

# Sizes an octave: a loss over a range of a factor 1.25 between powers of two holds one of them.
PER_OCTAVE: Final = 4
_FACTOR: Final = 2
# Tables that what runs beside a launch prints, one after the other: more than it ever has time for.
_ENDLESS: Final = 1_000_000_000
_CALLS_OF_A_TABLE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What collectives are called under.

    Attributes:
        is_own: the sweep's own; under any other rules must do no harm, and need not win.
        sweep: with the options of this condition.
        beside: collective and size of what runs at the same time.
    """

    sweep: Sweep
    is_own: bool = True
    beside: tuple[Collective, int] | None = None

    def __str__(self) -> str:
        """``bfloat16``, ``-G 4``, ``beside all_gather of 1 MiB``."""
        if self.is_own:
            return "as swept"
        if self.beside is not None:
            return f"beside {self.beside_words}"
        graph = f"-G {self.sweep.graph}" if self.sweep.graph else "without -G"
        return f"{self.sweep.dtypes[0]}, {graph}"

    @property
    def beside_words(self) -> str | None:
        """What runs at the same time, None where nothing does."""
        if self.beside is None:
            return None
        return f"{self.beside[0].value} of {format_size(self.beside[1])}"


def conditions(
    sweep: Sweep,
    *,
    dtypes: Iterable[str] = (),
    graphs: Iterable[int] = (),
    besides: Iterable[tuple[Collective, int]] = (),
) -> tuple[Condition, ...]:
    """The sweep's own condition, then each other one by itself.

    Args:
        sweep: as swept.
        dtypes: further element types.
        graphs: further numbers of graph replays, 0 for eager calls.
        besides: what runs at the same time.
    """
    found = [Condition(sweep=sweep)]
    found += [
        Condition(sweep=replace(sweep, dtypes=(dtype,)), is_own=False)
        for dtype in dict.fromkeys(dtypes)
        if dtype != sweep.dtypes[0]
    ]
    found += [
        Condition(sweep=replace(sweep, graph=n), is_own=False)
        for n in dict.fromkeys(graphs)
        if n != sweep.graph
    ]
    found += [Condition(sweep=sweep, is_own=False, beside=one) for one in dict.fromkeys(besides)]
    return tuple(found)


def plan_verification(
    under: Condition,
    ground: Ground,
    rules: Sequence[Rule],
    tuned: Variant,
    repeats: Sequence[int],
    *,
    others: Iterable[Collective] = (),
) -> list[Launch]:
    """Both arms at every size, ids still empty.

    Powers of two of the smallest size and sizes between them have a launch of each arm in each
    repeat; the sizes around each boundary of a rule one in the first two, in the sweep's own
    condition: where a boundary lies does not depend on any other.

    Args:
        under: options of all launches, the range of sizes, and what runs at the same time.
        ground: what there is.
        rules: for this scale.
        tuned: environment of the tuned arm, plugin and rules among it.
        repeats: their numbers. Those of another state of the file have others, since an untouched
            run of minutes ago is nothing to hold a drifting machine against.
        others: collectives without a rule that what the rules need may harm.
    """
    launches: list[Launch] = []
    sweep, beside = under.sweep, _beside(under, ground)
    concerned = dict.fromkeys((*(rule.collective for rule in rules), *others))
    for turn, repeat in enumerate(repeats):
        for collective in (c for c in concerned if c in ground.programs):
            ranges = list(grids(sweep))
            if under.is_own and turn < _BOUNDARY_REPEATS:
                edged = [rule for rule in rules if rule.collective is collective]
                ranges += boundaries(sweep, edged, grain(sweep, collective, ground.scale.n_ranks))
            for number, part in enumerate(ranges):
                arms = (DEFAULT_VARIANT, tuned)
                # A B B A: what drifts along the way hits both arms alike.
                order = arms if (turn + number) % 2 == 0 else arms[::-1]
                made = [launch_of(part, ground, (collective, BASELINE, a), repeat) for a in order]
                launches += [replace(one, beside=beside) for one in made]
    return launches


_BOUNDARY_REPEATS: Final = 2


def _beside(under: Condition, ground: Ground) -> Beside | None:
    """One size again and again, unchecked, on as many ranks as are measured."""
    letter = repeat_letter(ground)
    if under.beside is None or letter is None or under.beside[0] not in ground.programs:
        return None
    collective, nbytes = under.beside
    sweep = replace(
        under.sweep,
        min_nbytes=nbytes,
        max_nbytes=nbytes,
        step_nbytes=None,
        factor=_FACTOR,
        iterations=_CALLS_OF_A_TABLE,
        check=False,
        graph=0,
    )
    options = benchmark_options(sweep, ground.letters, collective)
    program = (ground.programs[collective], *options, letter, str(_ENDLESS))
    argv = ground.launch(ground.scale.n_ranks, program)
    shares = ground.shares if argv != program else ()
    return Beside(collective=collective, nbytes=nbytes, argv=(argv[0], *shares, *argv[1:]))


def grids(sweep: Sweep) -> Iterable[Sweep]:
    """The sweep's octaves, each with sizes between its ends; one range for each of these.

    Those between begin where an element is a small part of a size: below, whole elements leave no
    room for them.
    """
    unit = unit_of(sweep)
    base = sweep.min_nbytes
    while base < _FINE * unit:
        base *= _FACTOR
    for part in range(PER_OCTAVE):
        between = round(base * 2 ** (part / PER_OCTAVE) / unit) * unit
        least = between if part else max(unit, sweep.min_nbytes)
        if least <= sweep.max_nbytes:
            yield replace(sweep, min_nbytes=least, factor=_FACTOR, step_nbytes=None)


def verified_sizes(sweep: Sweep, collective: Collective, n_ranks: int) -> tuple[int, ...]:
    """Sizes in bytes that the octaves and those between them call with, rising."""
    called = (n for part in grids(sweep) for n in called_sizes(part, collective, n_ranks))
    return tuple(sorted(set(called)))


# Elements of a size from which on a quarter of an octave is told exactly enough.
_FINE: Final = 32


def boundaries(sweep: Sweep, rules: Iterable[Rule], unit: int) -> list[Sweep]:
    """The last size of a rule and the first behind it, with one more on either side.

    Args:
        sweep: the range of sizes.
        rules: of one collective.
        unit: bytes between sizes that can be called with.
    """
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
