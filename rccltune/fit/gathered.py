"""Samples by curve, size and launch, times of an environment's launches told in those beside them.

What only an environment makes selectable, as RCCL_LL128_FORCE_ENABLE does LL128, has launches of
its own, and a launch may be slow or fast as a whole: where launches differ by 40 % a setting that
wins by 15 % is found or lost by chance. One setting that needs no variable runs in both, the
anchor. By what its time differs there, the times of the others are told as they would have been in
the plain launch, where every other setting and the idle plugin ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from math import exp, log
from statistics import median

from rccltune.model.measured import Sample, launch_of_pass, told_in
from rccltune.model.settings import BASELINE, CurveKey, Role, Setting, Variant, base_variant
from rccltune.model.vocabulary import Collective, Doubt

Disqualified = tuple[Collective, Setting, Variant]
# By size: launches, and the time that each of them had.
Table = dict[int, tuple[list[str], list[float]]]


@dataclass(slots=True)
class Gathered:
    """What the samples say before anything is fitted.

    Attributes:
        tables: times in µs by curve and size, each beside its launch, one for each cycle.
        firsts: the same of first passes, which pay for connections and count for nothing else.
        doubted: samples never used, by reason.
        wrong: samples with wrong results, by what they disqualify.
    """

    tables: dict[CurveKey, Table] = field(default_factory=dict)
    firsts: dict[CurveKey, Table] = field(default_factory=dict)
    doubted: Counter[Doubt] = field(default_factory=Counter)
    wrong: Counter[Disqualified] = field(default_factory=Counter)


def gather(samples: Sequence[Sample]) -> Gathered:
    """Group good samples; count the others.

    Keys are frozen records whose hash goes through five nested ones, so each object is hashed
    once and found by identity afterwards (200,000 samples: 0.2 s instead of 2 s).
    """
    result = Gathered()
    settled: dict[int, Table] = {}
    firsts: dict[int, Table] = {}
    for sample in samples:
        if sample.doubt is not None or sample.time_us is None:
            _count_doubt(result, sample)
            if sample.doubt is Doubt.CONNECTING:
                _add(result.firsts, firsts, sample)
            continue
        _add(result.tables, settled, sample)
    return result


def _add(tables: dict[CurveKey, Table], by_identity: dict[int, Table], sample: Sample) -> None:
    if sample.time_us is None:
        return
    table = by_identity.get(id(sample.key))
    if table is None:
        table = tables.setdefault(sample.key, {})
        by_identity[id(sample.key)] = table
    launches, times = table.get(sample.nbytes) or table.setdefault(sample.nbytes, ([], []))
    launches.append(sample.launch)
    times.append(sample.time_us)


def _count_doubt(result: Gathered, sample: Sample) -> None:
    result.doubted[sample.doubt or Doubt.NO_TIME] += 1
    if sample.doubt is Doubt.WRONG:
        key = sample.key
        result.wrong[key.collective, key.setting, key.variant] += 1


@dataclass(frozen=True, slots=True)
class Row:
    """One curve at one size, launches still apart.

    Attributes:
        centres: median in µs over the cycles of each launch, by launch id.
        cycles: all times in µs, for the spread inside a single launch.
        firsts: quickest first pass of each launch in µs, where there was one.
    """

    nbytes: int
    centres: dict[str, float]
    cycles: tuple[float, ...]
    firsts: dict[str, float] = field(default_factory=dict)


def rows(table: Table, firsts: Table | None = None) -> list[Row]:
    """Rows by rising size, launches in the order of their ids."""
    made = [_row(nbytes, _by_launch(*table[nbytes])) for nbytes in sorted(table)]
    if not firsts:
        return made
    return [
        replace(
            row,
            firsts={name: min(times) for name, times in _by_launch(*firsts[row.nbytes]).items()},
        )
        if row.nbytes in firsts
        else row
        for row in made
    ]


def _by_launch(launches: Sequence[str], times: Sequence[float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for launch, time in zip(launches, times, strict=True):
        found.setdefault(launch, []).append(time)
    return found


def _row(nbytes: int, launches: dict[str, list[float]]) -> Row:
    ordered = sorted(launches.items())
    return Row(
        nbytes=nbytes,
        centres={launch: _middle(times) for launch, times in ordered},
        cycles=tuple(time for _, times in ordered for time in times),
    )


def _middle(times: list[float]) -> float:
    return times[0] if len(times) == 1 else median(times)


@dataclass(frozen=True, slots=True)
class _Shift:
    """What a launch's times become in a plain one."""

    plain: str
    factor: float


# By size in bytes and launch.
_Shifts = dict[int, dict[str, _Shift]]


def anchored(gathered: Gathered) -> Gathered:
    """The same, with times of widening variants told in launches of what they widen.

    Nothing is told where the anchor was not measured by both launches at a size, or gave wrong
    results. Its own times in the environment are left out: it is known from plain launches.
    """
    anchors = _anchors(gathered)
    if not anchors:
        return gathered
    shifts: dict[CurveKey, _Shifts] = {}
    for key in anchors:
        found = _shifts(gathered.tables[key], gathered.tables[_plain(key)])
        for nbytes, by_launch in found.items():
            at = shifts.setdefault(_place(key), {}).setdefault(nbytes, {})
            at.update(by_launch | at)

    def told(tables: Mapping[CurveKey, Table]) -> dict[CurveKey, Table]:
        return {
            key: _told(table, shifts[_place(key)]) if _place(key) in shifts else table
            for key, table in tables.items()
            if key not in anchors
        }

    return replace(gathered, tables=told(gathered.tables), firsts=told(gathered.firsts))


def _anchors(gathered: Gathered) -> tuple[CurveKey, ...]:
    """Settings that need no variable and ran beside those that do, in combined launches."""
    return tuple(
        key
        for key, table in gathered.tables.items()
        if key.variant.widens is not None
        and not key.variant.patched
        and key.setting.role is Role.FORCED
        and not gathered.wrong[key.collective, key.setting, key.variant]
        and _plain(key) in gathered.tables
        and any(_is_pass(name) for launches, _ in table.values() for name in launches)
    )


def _is_pass(name: str) -> bool:
    """Whether a combined launch made it; what one file names alike were processes of their own."""
    return launch_of_pass(name) != name


def _plain(key: CurveKey) -> CurveKey:
    return replace(key, variant=base_variant(key.variant))


def _place(key: CurveKey) -> CurveKey:
    """All but the setting, which is what launches of one environment share."""
    return replace(key, setting=BASELINE)


def _shifts(own: Table, plain: Table) -> _Shifts:
    """Where there are several launches of either, each has its turn.

    What a launch is slow or fast by changes little from size to size, and a pass of the anchor may
    stand still: so the middle of three sizes counts.
    """
    logs: dict[tuple[str, str], dict[int, float]] = {}
    for nbytes in sorted(own.keys() & plain.keys()):
        here, there = _log_times(*own[nbytes]), _log_times(*plain[nbytes])
        for name, partner in zip(sorted(here), cycle(sorted(there)), strict=False):
            logs.setdefault((name, partner), {})[nbytes] = there[partner] - here[name]
    found: _Shifts = {}
    for (name, partner), by_size in logs.items():
        every = list(by_size.values())
        for at, nbytes in enumerate(by_size):
            start = max(0, min(at - 1, len(every) - 3))
            shift = _Shift(partner, exp(median(every[start : start + 3])))
            found.setdefault(nbytes, {})[name] = shift
    return found


def _log_times(launches: list[str], times: list[float]) -> dict[str, float]:
    """Median of the log times in µs of a launch's passes."""
    found: dict[str, list[float]] = {}
    passes = ((n, t) for n, t in zip(launches, times, strict=True) if _is_pass(n))
    for name, time in passes:
        found.setdefault(launch_of_pass(name), []).append(log(time))
    return {name: median(logs) for name, logs in found.items()}


def _told(table: Table, shifts: _Shifts) -> Table:
    made: Table = {}
    for nbytes, (launches, times) in table.items():
        names, told = made.setdefault(nbytes, ([], []))
        for name, time in zip(launches, times, strict=True):
            way = shifts.get(nbytes, {}).get(launch_of_pass(name)) if _is_pass(name) else None
            names.append(told_in(way.plain, name) if way else name)
            told.append(time * way.factor if way else time)
    return made
