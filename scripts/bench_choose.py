"""Measure what choosing is worth: AMD's published table, public sweeps, a null knob, bursts.

Usage: python scripts/bench_choose.py [--data DIR] [--json] [--only PART]

Every figure is computed in this run, the vendors' method (``optimize_config.py``: fastest row at
each size, boundary at the arithmetic midpoint) and AMD's published rules included, both written
anew here from their description. The public sweeps are read in place and are not part of this
repository; where they are missing their parts are skipped, saying so.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby, product
from math import exp, sqrt
from pathlib import Path
from statistics import fmean

import equal_tables
import single_runs
from choosers import (
    amd_rule,
    curves_of,
    left_out,
    linear_rule,
    regrets,
    times_of,
    vendor_rule,
    zone_rule,
    zones_of,
)
from machine import machine
from public_sweeps import (
    NULL_COLLECTIVES,
    SEED_TABLE,
    channel_sweep,
    find_data,
    gpu107,
    key_of,
    null_sweep,
    rccl_tests_csv,
    seed_samples,
)
from sample_rows import Sample

from rccltune.analyse import intervals
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.model.measurement import Caution
from rccltune.model.settings import BASELINE, Scale, Setting
from rccltune.model.units import KIB, format_size
from rccltune.model.vocabulary import Placement
from rccltune.model.zone import Zone

Row = dict[str, object]
# Below it launches differ by more than any row of these sweeps does above.
_SMALL = 512 * KIB
_SLOWEST = 0.98
# Of rules that nothing proves three in twenty may be luck.
_LUCK = 0.15
# Times in µs that three settings really take; each has six channel counts that change nothing.
TRUTH: dict[str, Callable[[int], float]] = {
    "tree/ll": lambda n: 20 + n / 5e3,
    "ring/ll": lambda n: 30 + n / 1e4,
    "ring/simple": lambda n: 60 + n / 5e4,
}
CHANNELS = ("", "/8", "/16", "/24", "/32", "/48")


def line(part: str, what: str, values: Sequence[float], **more: object) -> Row:
    """One row of the result: mean and worst regret in percent."""
    summary = {"mean": round(100 * fmean(values), 3), "worst": round(100 * max(values), 2)}
    return {"part": part, "what": what, **summary, **more}


def bench_seed() -> list[Row]:
    """AMD's table: four zones without regret, three within 10 %, and both rivals on 88 sizes."""
    samples = seed_samples()
    times = times_of(curves_of(samples))
    # Four sizes an octave from the smallest measured one: 88 of them end below the largest.
    grid = [round(32 * 2 ** (step / 4)) for step in range(88)]
    rows: list[Row] = []
    for tolerance in (0.02, 0.10):
        chosen = zones_of(samples, ChoiceOptions(tolerance=tolerance))
        ruled = [zone for zone in chosen if zone.setting is not None]
        rules = [list(same)[-1] for _, same in groupby(ruled, key=lambda zone: zone.setting)]
        answer = zone_rule(chosen)
        at_sizes = regrets(answer, times, sorted(SEED_TABLE))
        # Seven sizes over seven decades: most of what lies between them is left to the library.
        on_grid = regrets(answer, times, [nbytes for nbytes in grid if answer(nbytes)])
        text = " | ".join(f"{z.setting} to {format_size(z.max_nbytes)}" for z in rules)
        ends = [zone.max_nbytes for zone in rules[:-1]][-2:]
        reached = (
            fmean(on_grid) <= 0.005
            and max(on_grid) <= 0.09
            and 400 * KIB <= ends[0] <= 900 * KIB
            and 1.2 * KIB**2 <= ends[1] <= 2.4 * KIB**2
            and (len(rules) == 3 if tolerance > 0.05 else len(rules) == 4 and max(at_sizes) == 0)
        )
        rows.append(line("published", f"rccltune {tolerance:.0%}", on_grid, zones=text, ok=reached))
    rows.append(line("published", "vendors' method", regrets(vendor_rule(times), times, grid)))
    rows.append(line("published", "AMD's published rules", regrets(amd_rule, times, grid)))
    return rows


def bench_held_out(data: Path) -> list[Row]:
    """Choose from every second size, judge at the others.

    No baseline takes part: the question is which setting is best at a size that nobody
    measured, and a hole would answer it by declining to.
    """
    sweeps = {
        "A, 10 channel counts": channel_sweep(data),
        "A, 56 channels": channel_sweep(data, 56),
        "2-node all_reduce": gpu107(data, "mi355x_2n16r_allreduce"),
        "1-node broadcast": gpu107(data, "mi355x_1n8r_broadcast"),
    }
    rows: list[Row] = []
    everything: dict[str, list[float]] = {"rccltune": [], "linear": [], "vendors": []}
    for name, samples in sweeps.items():
        for half, placement in product((0, 1), Placement):
            found = _held_out(samples, half, placement)
            if found is None:
                continue
            what = f"{name}, {('odd', 'even')[half]} sizes kept, {placement.value}"
            ours = found["rccltune"]
            rivals = {
                rival: f"{100 * fmean(found[rival]):.2f}/{100 * max(found[rival]):.1f}"
                for rival in ("linear", "vendors")
            }
            reached = fmean(ours) <= 0.016 and max(ours) <= 0.10
            rows.append(line("held out", what, ours, ok=reached, **rivals))
            for method, values in found.items():
                everything[method] += values
    for method, values in everything.items():
        row = line("held out", f"all of them, {method}", values)
        rows.append(row | {"ok": fmean(values) <= 0.008} if method == "rccltune" else row)
    return rows


def _held_out(
    samples: list[Sample], half: int, placement: Placement
) -> dict[str, list[float]] | None:
    sizes = sorted({sample.nbytes for sample in samples})
    kept = sizes[half::2]
    held = [n for n in sizes if n not in kept and kept[0] < n < kept[-1]]
    truth = times_of(curves_of(samples), placement)
    if not truth:
        return None
    seen = [s for s in samples if s.nbytes in kept]
    curves = curves_of(seen)
    ours = [curve for curve in curves if curve.key.placement is placement]
    rules = {
        "rccltune": zone_rule(zones_of(seen)),
        "linear": linear_rule(ours),
        "vendors": vendor_rule(times_of(curves, placement)),
    }
    return {method: regrets(rule, truth, held) for method, rule in rules.items()}


def bench_null(data: Path) -> list[Row]:
    """Each setting of a knob without effect as baseline: no proven rule; a real gain: a rule."""
    sweep = null_sweep(data)
    settings = sorted({sample.key.setting for sample in sweep}, key=lambda s: s.channels or 0)
    n_rules, n_proven = (
        sum(
            zone.setting is not None
            for setting in settings
            for zone in zones_of(sweep, ChoiceOptions(baseline=setting, proven=proven))
        )
        for proven in (False, True)
    )
    rows: list[Row] = [
        {
            "part": "null knob",
            "what": f"{len(settings)} baselines x {len(NULL_COLLECTIVES)} collectives",
            "proven rules": n_proven,
            "unproven rules": n_rules,
            "ok": n_proven == 0,
        }
    ]
    folder = data / "sweeps/gpu107"
    default = rccl_tests_csv(folder / "mi355x_1n8r_broadcast_default.csv", BASELINE, "default")
    samples = gpu107(data, "mi355x_1n8r_broadcast") + default
    chosen = zones_of(samples)
    rules = [zone for zone in chosen if zone.setting is not None]
    reached = any(
        str(zone.setting) == "ring/ll"
        and zone.min_nbytes <= 512 * KIB
        and zone.max_nbytes >= 4 * KIB**2
        for zone in rules
    )
    rows.append({"part": "null knob", "what": "1-node broadcast", "ok": reached} | _shown(rules))
    return rows


def _shown(rules: Sequence[Zone]) -> Row:
    return {
        "zones": " | ".join(
            f"{z.setting} {format_size(z.min_nbytes)} to {format_size(z.max_nbytes)}" for z in rules
        )
        or "none"
    }


def bench_equal(
    kinds: Sequence[equal_tables.Kind] = equal_tables.KINDS, seeds: int = 100
) -> list[Row]:
    """Sweeps of equal settings: the share with any rule, and with one that is called proven."""
    rows: list[Row] = []
    for kind in kinds:
        found = [equal_tables.false_rules(kind, seed) for seed in range(seeds)]
        any_rule, proven = (sum(one) / seeds for one in zip(*found, strict=True))
        # As many as the 99 % bound of that share allows.
        ok = all(
            share <= limit + 2.33 * sqrt(limit * (1 - limit) / seeds)
            for share, limit in ((any_rule, intervals.LIKELY), (proven, intervals.PROVEN))
        )
        shares = {"a rule in": f"{any_rule:.0%}", "a proven one in": f"{proven:.0%}"}
        rows.append({"part": "equal", "what": str(kind), "ok": ok, **shares})
    return rows


def bench_single() -> list[Row]:
    """Chosen from one or two launches of four H200s, judged at another one.

    The first launch stalled at some sizes, so that nothing is judged by it. The goal is the
    issue's. Where launches differ so much that who knows all of them, the judged one too, misses
    it by the same rules, no choice from fewer can reach it: such a row is open, and not reached.
    """
    samples = single_runs.h200()
    rows = []
    for seen, held in (("13", "2"), ("1", "2"), ("3", "2"), ("1", "3"), ("2", "3")):
        for name, one in single_runs.from_launches(samples, seen, held).items():
            what = f"{name}, launch {' and '.join(seen)} on {held}"
            row = line("4 x H200", what, one.ours.regrets, slowest=round(one.ours.slowest, 3))
            row["knowing all launches"] = str(one.knowing)
            row["fastest row"] = str(one.fastest)
            behind = f"{100 * (one.ours.mean - one.knowing.mean):+.2f}"
            row["behind knowing"] = behind + _worse_at(one)
            is_open = not _met(one.knowing) and one.ours.slowest >= _SLOWEST
            rows.append(row | {"ok": _met(one.ours) or (None if is_open else False)})
    return rows


def _met(judged: single_runs.Judged) -> bool:
    return judged.mean <= 0.005 and judged.worst <= 0.025 and judged.slowest >= _SLOWEST


def _worse_at(one: single_runs.Single) -> str:
    """The sizes at which a choice is worse than who knows all launches."""
    pairs = zip(one.sizes, one.ours.regrets, one.knowing.regrets, strict=True)
    sizes = [format_size(n) for n, mine, other in pairs if mine > other]
    return f" at {', '.join(sizes)}" if sizes else ""


def bench_alternate(data: Path) -> list[Row]:
    """Each public sweep of MI355X with its default at every second size, judged at the others.

    The goal: nowhere slower than untouched, no size more than 5 % behind the fastest row, a mean
    regret no worse than its. A row is open, and not reached, where what keeps it from the goal is
    within what can be told: means that differ by less than two standard errors, and a size behind
    a setting that gains, over the sizes seen, no more than settings gain over themselves in
    another launch by luck (:func:`single_runs.by_luck`).
    """
    rows: list[Row] = []
    every: dict[str, list[float]] = {"rccltune": [], "fastest row": []}
    for name, samples in single_runs.mi355x(data).items():
        for half in (0, 1):
            found = single_runs.alternate(samples, half)
            behind = found.behind
            worst = max(behind, key=behind.__getitem__)
            what = f"{name}, {('odd', 'even')[half]} sizes kept"
            row = line("alternate", what, found.ours.regrets, slowest=round(found.ours.slowest, 3))
            row["fastest row"] = str(found.fastest)
            row["behind it"] = f"{100 * behind[worst]:.1f}"
            is_near, can_tell = behind[worst] <= 0.05, True
            if not is_near:
                gain = found.seen_gain(worst, _SMALL)
                luck = single_runs.by_luck(gain, _SMALL)
                can_tell = worst >= _SMALL or luck <= _LUCK
                row["behind it"] = (
                    f"{100 * behind[worst]:.1f} at {format_size(worst)}, of a setting that gains "
                    f"{100 * gain:.1f} at the small sizes seen, as {luck:.0%} of launches do by luck"
                )
            mean, error = single_runs.apart(found.ours, found.fastest)
            row["mean regret less its"] = f"{100 * mean:+.2f} +- {100 * error:.2f}"
            is_open = found.ours.slowest >= _SLOWEST and mean <= 2 * error
            is_open = is_open and (is_near or not can_tell)
            met = found.ours.slowest >= _SLOWEST and is_near and mean <= 0
            rows.append(row | {"ok": met or (None if is_open else False)})
            every["rccltune"] += found.ours.regrets
            every["fastest row"] += found.fastest.regrets
    ours_all, theirs_all = (fmean(one) for one in every.values())
    for who, values in every.items():
        row = line("alternate", f"all of them, {who}", values)
        rows.append(row | {"ok": ours_all <= theirs_all} if who == "rccltune" else row)
    return rows


def bench_bursts(data: Path) -> list[Row]:
    """A stalled repeat beside a good one changes nothing; alone it is named."""
    folder = data / "sweeps/gpu107"
    first, second = (
        rccl_tests_csv(folder / f"mi355x_2n16r_allreduce_default_{name}.csv", BASELINE, name)
        for name in ("rep1", "rep2_outliers")
    )
    arms = gpu107(data, "mi355x_2n16r_allreduce")
    clean = [sample for sample in second if sample.nbytes > 16 * KIB]
    rows: list[Row] = []
    # As baseline, and as an arm of its own, where a stall could cost it its zones.
    for what, role in (("baseline", BASELINE), ("an arm", Setting.parse("ring/ll/64"))):
        runs = [
            [replace(s, key=replace(s.key, setting=role)) for s in run]
            for run in (first, second, clean)
        ]
        same = _ranges(arms + runs[0] + runs[1]) == _ranges(arms + runs[0] + runs[2])
        named = [n for n in left_out(arms + runs[1]) if n.caution is Caution.BURST]
        rows.append(
            {
                "part": "bursts",
                "what": f"stalled repeat of {what}",
                "rules changed": not same,
                "named when alone": bool(named),
                "ok": same and bool(named),
            }
        )
    return rows


def _ranges(samples: Sequence[Sample]) -> list[tuple[int, int, str]]:
    chosen = zones_of(samples)
    return [(zone.min_nbytes, zone.max_nbytes, str(zone.setting)) for zone in chosen]


def noisy(sizes: Sequence[int], n_launches: int, seed: int) -> list[Sample]:
    """Samples of :data:`TRUTH`, with noise of 2 % a size and 1 % a launch."""
    drawn = random.Random(seed)
    made: list[Sample] = []
    for (name, time_us), channels, launch in product(TRUTH.items(), CHANNELS, range(n_launches)):
        key = key_of(Setting.parse(name + channels), scale=Scale(n_nodes=1, n_ranks=8))
        mood = drawn.gauss(0, 0.01)
        made += [
            Sample(
                key=key,
                launch=str(launch),
                nbytes=n,
                time_us=time_us(n) * exp(mood + drawn.gauss(0, 0.02)),
            )
            for n in sizes
        ]
    return made


def bench_known(seeds: int = 10) -> list[Row]:
    """Rules where three zones are true; noise of 2 % a size and 1 % a launch."""
    rows: list[Row] = []
    for per_octave, n_launches in product((1, 4), (1, 3)):
        sizes = [round(KIB * 2 ** (i / per_octave) / 4) * 4 for i in range(18 * per_octave)]
        counts, losses = [], []
        for seed in range(seeds):
            chosen = zones_of(noisy(sizes, n_launches, seed))
            rule = zone_rule(chosen)
            counts.append(sum(zone.setting is not None for zone in chosen))
            for n in sizes:
                answer = "/".join(str(rule(n)).split("/")[:2])
                losses.append(TRUTH[answer](n) / min(time(n) for time in TRUTH.values()) - 1)
        counts.sort()
        what = f"{per_octave} sizes an octave, {n_launches} launches"
        reached = counts[len(counts) // 2] == 3 and counts[-1] <= 4 and max(losses) <= 0.08
        rows.append(line("3 zones", what, losses, ok=reached, rules=f"{counts[0]}-{counts[-1]}"))
    return rows


def show(rows: Sequence[Row]) -> None:
    """One line a row, for people."""
    marks = {True: "ok  ", False: "MISS", None: "open"}
    for row in rows:
        mark = marks[_verdict(row)] if "ok" in row else " " * 4
        rest = [f"{k} {v}" for k, v in row.items() if k not in {"part", "what", "ok"}]
        print(f"{mark} {row['part']:10} {row['what']}: {', '.join(rest)}")


def _verdict(row: Row) -> bool | None:
    """Whether the goal is reached; None where nothing measured tells how it could be."""
    return None if row["ok"] is None else row["ok"] is True


PARTS: dict[str, Callable[..., list[Row]]] = {
    "published": bench_seed,
    "zones": bench_known,
    "equal": bench_equal,
    "launches": bench_single,
    "held-out": bench_held_out,
    "alternate": bench_alternate,
    "null": bench_null,
    "bursts": bench_bursts,
}
_PUBLIC = ("held-out", "alternate", "null", "bursts")


def main() -> int:
    """Run all parts; 1 where a figure misses its goal."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--data", type=Path, help="folder with sweeps/ (default: ../shared/data)")
    options.add_argument("--json", action="store_true", help="print one JSON object")
    options.add_argument("--only", choices=sorted(PARTS), help="one part")
    asked = options.parse_args()
    data = find_data(asked.data)
    wanted = [asked.only] if asked.only else list(PARTS)
    rows: list[Row] = []
    skipped = None
    for name, make in ((name, PARTS[name]) for name in wanted):
        if name in _PUBLIC and data is None:
            skipped = f"{', '.join(_PUBLIC)}: the public sweeps are not on this machine (--data)"
        elif name in _PUBLIC:
            rows += make(data)
        else:
            rows += make()
    if asked.json:
        print(json.dumps({"machine": machine(), "rows": rows, "skipped": skipped}, indent=2))
    else:
        print(f"regret in percent: mean, worst; {machine()}")
        show(rows)
        if skipped:
            print(f"skipped: {skipped}")
    return int(any(row.get("ok") is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
