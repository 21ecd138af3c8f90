"""The fewest and shortest launches for a round of a search, or for sizes without an order.

rccltune measures ranges, since rccl-tests does; so the sizes of each collective are parted into
the ranges that cost least, each of which is a sweep of its own.

A combined launch measures all its settings at all its sizes, and each combined launch pays a start;
so sizes are parted into ranges, a launch each, where that costs less than measuring everything
everywhere. The parting is exact: the cheapest of all ways, by dynamic programming over the sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, gcd
from typing import Final

from rccltune.model import defaults
from rccltune.model.curves import LAUNCHES_DIFFER
from rccltune.model.measured import Launch, Sweep
from rccltune.model.search import Range, Round, Want
from rccltune.model.settings import Setting, Variant, base_variant
from rccltune.model.vocabulary import Collective
from rccltune.plan.launches import (
    LONGEST_S,
    N_BASELINES,
    Ground,
    anchor_of,
    arms,
    baselines,
    pass_s,
    sizes,
    variant_of,
)
from rccltune.plan.walks import Group, grain, walks_of

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
    for collective, asked in sweep.wanted:
        settings = frozenset(setting for one, setting, _ in forced if one is collective)

        def price(sizes: Range, settings: frozenset[Setting]) -> float:
            n_passes = N_BASELINES * _PASSES + (len(settings) + 1) * (sweep.repeats + 1)
            return (N_BASELINES + 1) * launch_s + n_passes * pass_s(over(sweep, sizes))

        part = replace(sweep, collectives=(collective,), wanted=())
        unit = grain(sweep, collective, ground.scale.n_ranks)
        wants = dict.fromkeys(asked, settings)
        found += [over(part, one.range) for one in stretches(wants, price, unit=unit)]
    return tuple(found)


# A range that measures many sizes that nobody wants is no cover.
_MOST_SIZES: Final = 64
_LEAST: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What one launch measures: settings over a range of sizes."""

    range: Range
    settings: frozenset[Setting]


# Seconds that a launch takes: its sizes, and which forced settings walk.
Price = Callable[[Range, frozenset[Setting]], float]


def ranges_over(
    sizes: Sequence[int], least: int = 1, unit: int = 1, *, led: bool = False
) -> Iterator[Range]:
    """Every range from the first to the last size that holds all of them.

    Args:
        sizes: rising, in bytes; at least one. One size alone gets a neighbour, since a combined
            launch sees where a step ends by a size that falls.
        least: no size is added below so many bytes, where perhaps no tuner is asked.
        unit: sizes that are added have whole ones, in bytes.
        led: one size below the first goes ahead, which pays for the setting that ran before.
    """
    first, last = sizes[0], sizes[-1]
    lowest = max(_LEAST, least)
    if len(sizes) == 1:
        # A far smaller one costs next to nothing.
        whole = (f for f in (16, 4, 2) if first % (f * unit) == 0)
        far = next((f for f in whole if first // f >= lowest), None)
        if far is not None:
            yield Range(min_nbytes=first // far, max_nbytes=first, factor=far)
        else:
            yield Range(min_nbytes=first, max_nbytes=2 * first)
        return
    for factor in _factors(sizes):
        below = first // factor
        is_led = led and first % (factor * unit) == 0 and below >= lowest
        start = below if is_led else first
        yield Range(min_nbytes=start, max_nbytes=last, factor=factor)
    step = gcd(*(b - a for a, b in itertools.pairwise(sizes)))
    # Newer benchmarks warm up at the first size, twice that, and so on: with less than twice the
    # first size that is one size alone, and no size falls where the table begins.
    start = first
    while last < 2 * start and start - step >= least:
        start -= step
    if led and start - step >= lowest and (start - step) % unit == 0:
        start -= step
    if last >= 2 * start and (last - start) // step < _MOST_SIZES:
        yield Range(min_nbytes=start, max_nbytes=last, step_nbytes=step)


def _factors(sizes: Sequence[int]) -> Iterator[int]:
    """Whole factors by which one comes from the first size to every other."""
    first = sizes[0]
    for root in range(1, 32):
        ratio = sizes[1] / first
        factor = round(ratio ** (1 / root))
        if factor < 2:
            return
        reached = set(Range(min_nbytes=first, max_nbytes=sizes[-1], factor=factor).sizes)
        if reached.issuperset(sizes):
            yield factor


def stretches(
    wants: Mapping[int, frozenset[Setting]],
    price: Price,
    least: int = 1,
    unit: int = 1,
    *,
    led: bool = False,
) -> tuple[Stretch, ...]:
    """The cheapest launches that measure every wanted setting at its sizes.

    Args:
        wants: settings by size in bytes; an empty set where the idle plugin alone is wanted.
        price: of one launch.
        least: no size is added below so many bytes.
        unit: sizes that are added have whole ones, in bytes.
        led: as of :func:`ranges_over`.

    Returns:
        By rising size. Settings may be measured at sizes where nobody wants them, where that is
        cheaper than another launch.
    """
    sizes = sorted(wants)
    best: list[tuple[float, tuple[Stretch, ...]]] = [(0.0, ())]
    for end in range(1, len(sizes) + 1):
        ways = []
        for start in range(end):
            members = sizes[start:end]
            settings = frozenset[Setting]().union(*(wants[n] for n in members))
            for one in ranges_over(members, least, unit, led=led):
                cost = best[start][0] + price(one, settings)
                ways.append((cost, start, Stretch(range=one, settings=settings)))
        cost, start, stretch = min(ways, key=lambda way: (way[0], -way[1]))
        best.append((cost, (*best[start][1], stretch)))
    return best[-1][1]


# Settings take turns, so the first size of a pass pays for the one that ran before.
_led = partial(stretches, led=True)
# A call that takes so long is timed by a quarter of the calls.
_LONG_US: Final = 100.0
_FEWER: Final = 4
# A row beside its calls: barriers and the line itself (nccl-tests 2.19 on 2 H100, 1.5 ms a row of
# 50 calls of 11 µs).
_ROW_S: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take here.

    Attributes:
        launch_s: a launch beside its collectives.
        call_us: one call of a collective at a size, of a setting or of a faster one where that is
            not given or not known; None where nothing is known yet.
    """

    launch_s: float = defaults.START_S
    call_us: Callable[[Collective, int, Setting | None], float | None] = lambda *_: None


def plan_round(
    sweep: Sweep,
    ground: Ground,
    made: Round,
    pace: Pace | None = None,
    *,
    asked_from: Mapping[Collective, int] | None = None,
    anchors: Mapping[Collective, Setting] | None = None,
) -> tuple[Launch, ...]:
    """Launches of a round, baselines among them, ids still empty.

    The library as it is gets measured once, first of all and at every size of the sweep: the idle
    plugin runs along in every launch and stands for it, but a size where it seems to differ would
    be one without a baseline, and a gap in the middle of a rule. Results are checked in the
    combined launches of the first round alone, where every setting runs and the idle plugin too.

    Args:
        sweep: options of all launches; sizes and repeats of combined launches are those of the
            wants.
        ground: what there is.
        made: what is wanted.
        pace: how long launches and calls take.
        asked_from: smallest size in bytes at which a tuner is known to be asked: below it ranks
            may have nothing to send, or the library may take another path.
        anchors: settings that run in wider environments too; of those that are wanted by default.
    """
    pace = pace or Pace()
    # A check takes longer than the calls of most sizes (20 to 37 ms a row on an H100), and every
    # setting runs in the first round; verification checks the rules at every size.
    unchecked = replace(sweep, check=False)
    sweep = sweep if made.number == 1 else unchecked
    launches = baselines(unchecked, ground, 0) if made.number == 1 else []
    walks: list[tuple[float, Launch]] = []
    for collective in sweep.collectives:
        wants = [want for want in made.wants if want.collective is collective]
        wanted = dict.fromkeys(setting for want in wants for setting in want.settings)
        anchor = anchor_of(wanted, ground) if anchors is None else anchors.get(collective)
        walks += _Walks(sweep, ground, made, pace, asked_from or {}, anchor).over(wants)
    # What promises most in its time comes first, since a budget may end between any two.
    launches += [launch for _, launch in sorted(walks, key=lambda pair: -pair[0])]
    return tuple(replace(one, round=made.number) for one in launches)


def over(sweep: Sweep, sizes: Range) -> Sweep:
    """The same sweep over other sizes."""
    return replace(
        sweep,
        min_nbytes=sizes.min_nbytes,
        max_nbytes=sizes.max_nbytes,
        factor=sizes.factor,
        step_nbytes=sizes.step_nbytes,
    )


@dataclass(frozen=True, slots=True)
class _Walks:
    """What the combined launches of one round have in common."""

    sweep: Sweep
    ground: Ground
    made: Round
    pace: Pace
    asked_from: Mapping[Collective, int]
    anchor: Setting | None

    def over(self, wants: Sequence[Want]) -> list[tuple[float, Launch]]:
        """Combined launches of one collective, each with the regret that it may save a second."""
        found: list[tuple[float, Launch]] = []
        for variant, by_size in _by_variant(wants, self.ground, self.anchor):
            group = (wants[0].collective, variant)
            for stretch in self._stretches(group, by_size, wants):
                wanted = [want for want in wants if want.nbytes in stretch.range.sizes]
                promise = sum(want.promise for want in wanted)
                repeats = max(want.repeats for want in wanted)
                promise /= self._price(group, stretch.range, stretch.settings, repeats)
                found += [(promise, walk) for walk in self._of_stretch(group, stretch, repeats)]
        return found

    def _stretches(
        self, group: Group, by_size: Mapping[int, frozenset[Setting]], wants: Sequence[Want]
    ) -> tuple[Stretch, ...]:
        """One range over the grid's sizes and those between, or ranges of their own."""
        repeats = {want.nbytes: want.repeats for want in wants}

        def price(sizes: Range, settings: frozenset[Setting]) -> float:
            most = max(repeats.get(nbytes, 1) for nbytes in sizes.sizes)
            return self._price(group, sizes, settings, most)

        # Nor below what was asked for.
        least = max(self.asked_from.get(group[0], 1), self.sweep.min_nbytes)
        grid = set(sizes(self.sweep))
        parts = [
            {nbytes: settings for nbytes, settings in by_size.items() if (nbytes in grid) is inside}
            for inside in (True, False)
        ]
        apart = tuple(stretch for part in parts for stretch in _led(part, price, least))
        together = _led(by_size, price, least)
        costs = [
            sum(price(stretch.range, stretch.settings) for stretch in way)
            for way in (together, apart)
        ]
        return together if costs[0] <= costs[1] else apart

    def _price(
        self, group: Group, sizes: Range, settings: frozenset[Setting], repeats: int
    ) -> float:
        here = self._over(group, sizes)
        turn: list[Setting | None] = [None] * self._is_silence_worth(group)
        turn_s = sum(seconds(here, group[0], self.pace, one) for one in (*turn, *settings))
        return self.pace.launch_s + (repeats + 1) * turn_s

    def _over(self, group: Group, sizes: Range) -> Sweep:
        return _with_fewer_calls(over(self.sweep, sizes), group[0], self.pace)

    def _is_silence_worth(self, group: Group) -> bool:
        """Only the plain variant's is compared with the baseline; once shows the others."""
        return self.made.number == 1 or base_variant(group[1]) == group[1]

    def _of_stretch(self, group: Group, stretch: Stretch, repeats: int) -> list[Launch]:
        here = replace(self._over(group, stretch.range), repeats=repeats)
        n_passes = LONGEST_S / seconds(here, group[0], self.pace)
        silence = self._is_silence_worth(group)
        shared = self.anchor if base_variant(group[1]) != group[1] else None
        settings = sorted(stretch.settings - {shared}, key=str)
        # Held against another launch: one alone proves nothing at sizes that no other has.
        is_held = silence or shared is not None
        n_launches = 1 if is_held or stretch.range.min_nbytes >= LAUNCHES_DIFFER else 2
        return walks_of(
            here,
            self.ground,
            group,
            settings,
            n_passes,
            anchor=shared,
            n_launches=n_launches,
            silence=silence,
        )


def _by_variant(
    wants: Sequence[Want], ground: Ground, anchor: Setting | None
) -> Iterable[tuple[Variant, dict[int, frozenset[Setting]]]]:
    """Settings by size for each environment; the idle plugin at all sizes of the plain one.

    At the sizes of a wider environment the anchor runs in both.
    """
    found: dict[Variant, dict[int, set[Setting]]] = {}
    for want in wants:
        for setting in want.settings:
            variant = variant_of(setting, ground)
            found.setdefault(variant, {}).setdefault(want.nbytes, set()).add(setting)
            plain = base_variant(variant) if not variant.patched else None
            if plain is not None:
                found.setdefault(plain, {}).setdefault(want.nbytes, set())
                if plain != variant and anchor is not None:
                    for one in (variant, plain):
                        found[one][want.nbytes].add(anchor)
    for variant, by_size in found.items():
        yield variant, {nbytes: frozenset(settings) for nbytes, settings in by_size.items()}


def _with_fewer_calls(sweep: Sweep, collective: Collective, pace: Pace) -> Sweep:
    """With a quarter of the calls where each takes long.

    Few calls of 100 µs are timed as well as many: what a first call costs more is 10 µs, and the
    idle plugin runs along in the same launch.
    """
    shortest_us = pace.call_us(collective, sweep.min_nbytes, None)
    if shortest_us is None or shortest_us < _LONG_US:
        return sweep
    return replace(
        sweep,
        iterations=ceil(sweep.iterations / _FEWER),
        warmup=ceil(sweep.warmup / _FEWER),
    )


def size_s(sweep: Sweep, collective: Collective, nbytes: int, pace: Pace) -> float:
    """One pass over one size."""
    here = over(sweep, Range(min_nbytes=nbytes, max_nbytes=nbytes))
    return seconds(_with_fewer_calls(here, collective, pace), collective, pace)


def seconds(
    sweep: Sweep, collective: Collective, pace: Pace, setting: Setting | None = None
) -> float:
    """One pass of a setting over the sizes, of a faster one where none is given."""
    calls = (sweep.iterations + sweep.warmup + 1) * len(sweep.placements)
    times = [pace.call_us(collective, nbytes, setting) for nbytes in sizes(sweep)]
    if any(time is None for time in times):
        return pass_s(sweep)
    return sum(_ROW_S + calls * time * 1e-6 for time in times if time is not None)
