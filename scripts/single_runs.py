"""What rules from single launches are worth at launches and sizes that they did not see."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, permutations
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, median, stdev

from choosers import curves_of, zones_of
from public_sweeps import channel_default, channel_sweep, gpu107, key_of, rccl_tests_csv
from sample_rows import Sample

from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.model.settings import BASELINE, Scale, Setting, View
from rccltune.model.vocabulary import Collective, Placement
from rccltune.model.zone import Zone

ROOT = Path(__file__).resolve().parent.parent
Times = dict[View, dict[int, dict[str, float]]]
Rule = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Judged:
    """A rule at sizes of a truth that it did not see.

    Attributes:
        regrets: time of what it answers over the best, the untouched library among them, minus 1.
        speeds: untouched time over it.
    """

    regrets: tuple[float, ...]
    speeds: tuple[float, ...]

    def __str__(self) -> str:
        """Mean and worst regret in percent, and the slowest."""
        return f"{100 * self.mean:.2f}/{100 * self.worst:.1f}, slowest {self.slowest:.3f}"

    @property
    def mean(self) -> float:
        """Mean regret."""
        return fmean(self.regrets)

    @property
    def worst(self) -> float:
        """Largest regret."""
        return max(self.regrets)

    @property
    def slowest(self) -> float:
        """Where it is the slowest beside the untouched library."""
        return min(self.speeds)


def h200() -> list[Sample]:
    """Three launches of each setting on four H200, as ``launch`` 1 to 3."""
    path = ROOT / "examples/h200x4-nccl-2.28.9/sweep.csv"
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    return [
        Sample(
            key=key_of(
                Setting.parse(row["setting"]),
                Collective.parse(row["collective"]),
                Placement.IN_PLACE if row["placement"] == "in" else Placement.OUT_OF_PLACE,
                Scale(n_nodes=1, n_ranks=4),
            ),
            # A point and a number would be passes of one launch.
            launch=f"{row['setting'].replace('/', '-')}-{int(row['repeat']) + 1}",
            nbytes=int(row["nbytes"]),
            time_us=float(row["time_us"]),
        )
        for row in rows
    ]


def mi355x(data: Path) -> dict[str, list[Sample]]:
    """Every public sweep of MI355X that has an untouched run beside its settings."""
    folder = data / "sweeps/gpu107"
    made = {}
    for name, default in (
        ("mi355x_1n8r_broadcast", "default"),
        ("mi355x_2n16r_allreduce", "default_rep1"),
    ):
        untouched = rccl_tests_csv(folder / f"{name}_{default}.csv", BASELINE, default)
        made[name] = gpu107(data, name) + untouched
    made["mi355x_1n8r_allreduce"] = channel_sweep(data) + channel_default(data)
    return made


def times_of(samples: Sequence[Sample]) -> Times:
    """Fitted times by view, size and setting."""
    found: Times = {}
    for curve in curves_of(samples):
        by_size = found.setdefault(curve.key.view, {})
        for point in curve.points:
            by_size.setdefault(point.nbytes, {})[str(curve.key.setting)] = point.time_us
    return {
        view: {n: row for n, row in by.items() if "baseline" in row} for view, by in found.items()
    }


def ours(samples: Sequence[Sample], options: ChoiceOptions | None = None) -> Rule:
    """What our zones answer; the library's own choice in a hole."""
    chosen = zones_of(samples, options)
    return lambda nbytes: _answer(chosen, nbytes)


def _answer(chosen: Sequence[Zone], nbytes: int) -> str:
    zone = next(z for z in chosen if z.min_nbytes <= nbytes <= z.max_nbytes)
    return "baseline" if zone.setting is None else str(zone.setting)


def fastest_row(samples: Sequence[Sample]) -> Rule:
    """The fastest row of each size out of place, boundaries half-way, as vendors' scripts do."""
    found = times_of(samples)
    rows = next(rows for view, rows in found.items() if view.placement is Placement.OUT_OF_PLACE)
    winners = [(nbytes, min(row, key=row.__getitem__)) for nbytes, row in sorted(rows.items())]
    return lambda nbytes: min(winners, key=lambda one: (abs(one[0] - nbytes), -one[0]))[1]


def judged(rule: Rule, truth: Times, sizes: Iterable[int]) -> Judged:
    """A rule at sizes of a truth; the time of a row is the mean of its halves, in logs."""
    regrets, speeds = [], []
    for nbytes in sizes:
        views = [by_size[nbytes] for by_size in truth.values() if nbytes in by_size]
        if not views:
            continue
        names = set.intersection(*(set(row) for row in views))
        times = {name: exp(fmean(log(row[name]) for row in views)) for name in names}
        time = times[rule(nbytes)]
        regrets.append(time / min(times.values()) - 1)
        speeds.append(times["baseline"] / time)
    return Judged(tuple(regrets), tuple(speeds))


def without_stalls(samples: Sequence[Sample]) -> list[Sample]:
    """A row a fifth slower than the others of its setting and size has their median for its time.

    One launch alone cannot tell that such a row stood still; three can.
    """
    medians = _medians(samples)
    made = []
    for one in samples:
        usual = medians[one.key.view][one.nbytes].get(str(one.key.setting))
        stalled = usual is not None and one.time_us is not None and one.time_us > 1.2 * usual
        made.append(replace(one, time_us=usual) if stalled else one)
    return made


def _medians(samples: Sequence[Sample]) -> Times:
    every: dict[View, dict[int, dict[str, list[float]]]] = {}
    for one in samples:
        by_size = every.setdefault(one.key.view, {}).setdefault(one.nbytes, {})
        if one.time_us is not None:
            by_size.setdefault(str(one.key.setting), []).append(one.time_us)
    return {
        view: {n: {name: median(times) for name, times in row.items()} for n, row in by.items()}
        for view, by in every.items()
    }


def knowing(samples: Sequence[Sample], min_gain: float = 0.02) -> Rule:
    """What someone would answer who knows the median of all launches, the judged one among them.

    A rule serves both placements, and is for a setting that gains what is wanted in each: this is
    the definition of a rule, with certainty in the place of evidence. What a choice loses beyond
    it, it loses for want of evidence; what this loses, launches differ by.
    """
    medians = list(_medians(samples).values())

    def answer(nbytes: int) -> str:
        views = [by_size[nbytes] for by_size in medians if nbytes in by_size]
        gains = {
            name: min(row["baseline"] / row[name] - 1 for row in views)
            for name in set.intersection(*(set(row) for row in views))
        }
        best = max(sorted(gains), key=gains.__getitem__)
        return best if gains[best] >= min_gain else "baseline"

    return answer


def _by_collective(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    ordered = sorted(samples, key=lambda one: one.key.collective.value)
    return {
        name: list(mine)
        for name, mine in groupby(ordered, key=lambda one: one.key.collective.value)
    }


@dataclass(frozen=True, slots=True)
class Single:
    """One collective, chosen from some launches and judged at another one.

    Attributes:
        sizes: in bytes, as the regrets of each.
        ours: what our zones answer.
        fastest: the fastest row at each size: what launches differ by, it is regret of.
        knowing: see :func:`knowing`.
    """

    sizes: tuple[int, ...]
    ours: Judged
    fastest: Judged
    knowing: Judged


def from_launches(samples: Sequence[Sample], kept: str, held: str) -> dict[str, Single]:
    """Chosen from some launches and judged at another, by collective."""
    found = {}
    for name, mine in _by_collective(samples).items():
        seen = [one for one in mine if one.launch.rpartition("-")[2] in kept]
        times = times_of(seen)
        truth = times_of(
            [one for one in without_stalls(mine) if one.launch.rpartition("-")[2] == held]
        )
        sizes = tuple(sorted({n for by_size in truth.values() for n in by_size}))
        best = {n: _fastest([by[n] for by in times.values() if n in by]) for n in sizes}
        rules = ours(seen), best.__getitem__, knowing(mine)
        found[name] = Single(sizes, *(judged(rule, truth, sizes) for rule in rules))
    return found


def _fastest(views: Sequence[dict[str, float]]) -> str:
    names = set.intersection(*(set(row) for row in views))
    return min(names, key=lambda name: fmean(log(row[name]) for row in views))


def apart(ours: Judged, theirs: Judged) -> tuple[float, float]:
    """Mean of our regrets less theirs, and its standard error over the sizes."""
    each = [a - b for a, b in zip(ours.regrets, theirs.regrets, strict=True)]
    return fmean(each), stdev(each) / sqrt(len(each))


@dataclass(frozen=True, slots=True)
class Between:
    """Chosen from every second size and judged at those between.

    Attributes:
        sizes: in bytes, as the regrets of each.
        ours: what our zones answer.
        fastest: the fastest row, with boundaries half-way.
        answers: of both at each size.
        samples: of the sweep.
    """

    sizes: tuple[int, ...]
    ours: Judged
    fastest: Judged
    answers: tuple[tuple[str, str], ...]
    samples: Sequence[Sample]

    @property
    def behind(self) -> dict[int, float]:
        """Our time over the fastest row's minus 1, by size."""
        pairs = zip(self.sizes, self.ours.regrets, self.fastest.regrets, strict=True)
        return {n: (1 + mine) / (1 + other) - 1 for n, mine, other in pairs}

    def seen_gain(self, at: int, limit: int) -> float:
        """What the fastest row's answer at a size gains over ours, in the mean of its halves.

        Over the sizes below a limit from which both were chosen: all that could tell them apart.
        """
        mine, other = self.answers[self.sizes.index(at)]
        logs = [
            log(row[mine] / row[other])
            for by in times_of(self.samples).values()
            for n, row in by.items()
            if n < limit and n not in self.sizes and mine in row and other in row
        ]
        return exp(fmean(logs)) - 1


def by_luck(gain: float, limit: int) -> float:
    """Share of pairs of launches of one setting in which one gains so much over the other.

    In the mean of all sizes below a limit and of both placements, of four H200 (:func:`h200`).
    """
    logs: dict[tuple[str, str], dict[str, dict[tuple[str, int], float]]] = {}
    for one in h200():
        if one.nbytes < limit and one.time_us is not None:
            key = one.key.collective.value, str(one.key.setting)
            place = one.key.placement.value, one.nbytes
            launch = one.launch.rpartition("-")[2]
            logs.setdefault(key, {}).setdefault(launch, {})[place] = log(one.time_us)
    gains = [
        fmean(first[place] - second[place] for place in first.keys() & second.keys())
        for launches in logs.values()
        for first, second in permutations(launches.values(), 2)
    ]
    return sum(each >= log(1 + gain) for each in gains) / len(gains)


def alternate(samples: Sequence[Sample], half: int) -> Between:
    """Chosen from every second size and judged at those between: ours, and the fastest row."""
    sizes = sorted({one.nbytes for one in samples})
    kept = sizes[half::2]
    between = tuple(n for n in sizes if n not in kept and kept[0] < n < kept[-1])
    seen = [one for one in samples if one.nbytes in kept]
    truth = times_of(samples)
    rules = ours(seen), fastest_row(seen)
    mine, theirs = (judged(rule, truth, between) for rule in rules)
    answers = tuple((rules[0](n), rules[1](n)) for n in between)
    return Between(between, mine, theirs, answers, samples)
