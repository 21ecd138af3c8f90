"""Launches with the plugin idle and with rules in turns; the idle plugin beside the baseline.

Launches of their own differ by more than settings do, so both sides take turns in one launch: the
idle plugin and the rules in turns, each twice, so that every side follows every side equally often.
Which sizes they go over, octaves.py says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from types import MappingProxyType
from typing import Final

from rccltune.model.chosen import Rule
from rccltune.model.measured import Beside, Launch, Sweep
from rccltune.model.settings import BASELINE, DEFAULT_VARIANT, RULES, SILENT, Variant
from rccltune.model.vocabulary import Collective, format_size
from rccltune.plan.launches import Ground, benchmark_options, launch_of, repeat_letter, sizes
from rccltune.plan.octaves import FACTOR, Part, parts
from rccltune.plan.walks import LEADING, called_sizes, grain, schedule_of, shows_steps

# Tables that what runs beside a launch prints, one after the other: more than it ever has time for.
_ENDLESS: Final = 1_000_000_000
_CALLS_OF_A_TABLE: Final = 200
# The first use of a setting pays for its connections.
_THROWN: Final = (SILENT, RULES)
# Every arm follows every arm equally often; the second of each follows its own kind.
CYCLE: Final = (SILENT, SILENT, RULES, RULES)
# Sizes of a launch, so that none of them is measured almost alone.
_FEWEST_SIZES: Final = 6
_NOTHING: Final[Mapping[Collective, Collection[int]]] = MappingProxyType({})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """With and without the rules over one range of sizes.

    Attributes:
        tuned: goes through the idle plugin and rules in turns; or has rules alone, where nothing
            combined launches.
        untouched: the same sizes with nothing of ours, next to it; None where it was not wanted.
        bare: beside that one the same with the variables that the rules need, and without plugin
            and rules: a call costs half a microsecond more while a combined launch is recorded,
            which on an H100 is 5 % of a small one. None where rules need nothing.
        first: whether the untouched one comes first.
    """

    tuned: Launch
    untouched: Launch | None
    bare: Launch | None = None
    first: bool = True

    @property
    def launches(self) -> tuple[Launch, ...]:
        """In the order in which they are made."""
        made = [one for one in (self.untouched, self.bare, self.tuned) if one is not None]
        return tuple(made if self.first else made[::-1])


def plan_pairs(
    under: Condition,
    ground: Ground,
    rules: Sequence[Rule],
    tuned: Variant,
    look: int,
    *,
    others: Iterable[Collective] = (),
    n_cycles: Callable[[Sweep, Collective], int] | None,
    n_untouched: int | None = None,
    needs: Variant | None = None,
    checks: bool = True,
    edges: bool = True,
    known: Mapping[Collective, Collection[int]] = _NOTHING,
    missing: Sequence[tuple[Rule, int]] = (),
    n_replicates: int = 2,
) -> list[Pair]:
    """One launch for each range of sizes that is to be looked at, ids still empty.

    Args:
        under: options of all launches, the range of sizes, and what runs at the same time.
        ground: what there is.
        rules: for this scale.
        tuned: environment of the tuned side, plugin and rules among it.
        needs: what of it the rules need from the job; None where that is nothing.
        look: its number; those of another one are further launches.
        others: collectives without a rule that what the rules need may harm.
        n_cycles: how often a launch of these sizes goes through both sides; None where no launch
            can be combined, so that rules have launches of their own.
        n_untouched: ranges of each collective with an untouched launch beside; None for all.
        checks: whether results are still to be checked.
        edges: whether the boundaries of rules are looked at.
        known: sizes that need no range for a boundary: earlier looks have them.
        missing: rules that are to be seen in so many launches more; nothing else is looked at then.
        n_replicates: launches of each range of the grid: what replicates differ by is noise.

    Without any rule results are checked all the same, in one launch: of what ``needs`` sets.
    """
    pairs: list[Pair] = []
    beside = _beside(under, ground)
    n_ranks = ground.scale.n_ranks
    for collective in dict.fromkeys((*(rule.collective for rule in rules), *others)):
        if collective not in ground.programs:
            continue
        mine = [rule for rule in rules if rule.collective is collective]
        found = parts(
            under.sweep, collective, mine if edges else (), n_ranks, known.get(collective, ())
        )
        found = [replace(one, sweep=replace(one.sweep, check=False)) for one in found]
        if checks and not missing:
            found += _checked(found, collective, mine, n_ranks) if rules else _all_checked(found)
        if n_cycles is not None:
            found = [one for one in found if shows_steps(one.sweep, collective, n_ranks)]
        # A boundary has one launch: its noise is known from those of the grid.
        again = [part for part in found if part.is_grid] * (n_replicates - 1)
        every = _enough(found, collective, missing, n_ranks) if missing else [*again, *found]
        # Untouched launches come first: what fails in both arms is nobody's fault.
        for number, part in enumerate(every):
            wanted = n_untouched is None or number < n_untouched
            sweep = part.sweep
            if n_cycles is None:
                made = launch_of(sweep, ground, (collective, BASELINE, tuned), 0)
            else:
                made = _walk(sweep, ground, collective, tuned, n_cycles(sweep, collective))
            plain, bare = (
                None
                if variant is None or not wanted
                else replace(
                    launch_of(sweep, ground, (collective, BASELINE, variant), 0),
                    round=look,
                    beside=beside,
                    repeat=number,
                )
                for variant in (DEFAULT_VARIANT, needs)
            )
            pairs.append(
                Pair(
                    tuned=replace(made, round=look, beside=beside, repeat=number),
                    untouched=plain,
                    bare=bare,
                    # What drifts along the way hits both arms alike.
                    first=(number + look) % 2 == 1,
                )
            )
    return pairs


def _checked(
    grid: Iterable[Part], collective: Collective, rules: Sequence[Rule], n_ranks: int
) -> list[Part]:
    """Ranges in which results are checked: of each of the grid what rules answer.

    A check of a row takes 28 ms on an H100, where its calls take one, and checked runs are 1 %
    slower from 1 to 64 MiB: it has launches of its own, after those that have an untouched one
    beside them, and so many sizes that none is measured almost alone.
    """
    found = []
    for part in (part for part in grid if part.is_grid):
        unit = grain(part.sweep, collective, n_ranks)
        starts = list(sizes(part.sweep))
        reached = [
            number
            for number, nbytes in enumerate(starts)
            if any(rule.reaches(nbytes // unit * unit) for rule in rules)
        ]
        if reached:
            # Smaller ones cost least.
            first = max(0, min(reached[0], reached[-1] - _FEWEST_SIZES + 1))
            last = min(len(starts) - 1, max(reached[-1], first + _FEWEST_SIZES - 1))
            sweep = replace(
                part.sweep, min_nbytes=starts[first], max_nbytes=starts[last], check=True
            )
            found.append(Part(sweep=sweep, is_grid=False))
    return found


def _all_checked(grid: Sequence[Part]) -> list[Part]:
    """One range of the grid, with its results."""
    return [
        Part(sweep=replace(part.sweep, check=True), is_grid=False) for part in grid if part.is_grid
    ][:1]


def _enough(
    found: Sequence[Part],
    collective: Collective,
    missing: Iterable[tuple[Rule, int]],
    n_ranks: int,
) -> list[Part]:
    """As many ranges, some of them again, as bring every rule into so many launches more."""
    wanted: Counter[Part] = Counter()
    for rule, n in missing:
        if rule.collective is not collective:
            continue
        holding = [
            part
            for part in found
            if any(map(rule.reaches, called_sizes(part.sweep, collective, n_ranks)))
        ]
        wanted |= Counter(islice(cycle(holding), n if holding else 0))
    return list(wanted.elements())


def _walk(
    sweep: Sweep, ground: Ground, collective: Collective, tuned: Variant, n_cycles: int
) -> Launch:
    steps = (*_THROWN, *CYCLE * n_cycles)
    return replace(
        launch_of(sweep, ground, (collective, SILENT, tuned), 0, len(steps)),
        schedule=schedule_of(sweep, ground, collective, (*(SILENT,) * LEADING, *steps)),
    )


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
        factor=FACTOR,
        iterations=_CALLS_OF_A_TABLE,
        check=False,
        graph=0,
    )
    options = benchmark_options(sweep, ground.letters, collective)
    program = (ground.programs[collective], *options, letter, str(_ENDLESS))
    argv = ground.launch(ground.scale.n_ranks, program)
    shares = ground.shares if argv != program else ()
    return Beside(collective=collective, nbytes=nbytes, argv=(argv[0], *shares, *argv[1:]))
