"""The model over scales: 64 ranks from 8, 16 and 32 on made-up nodes; public two nodes from one.

Usage: python scripts/bench_scales.py [--data DIR] [--nodes N] [--json]

The made-up nodes (scripts/scale_nodes.py) have random links, and what they take is not the model;
curves have the noise of three launches. The public sweeps are read in place and are no part of
this repository; without them their part is skipped, saying so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from machine import machine
from public_sweeps import channel_sweep, find_data, gpu107, rccl_tests_csv
from scale_nodes import PER_OAM, SETTINGS, SIZES, made_up, true_us

from rccltune import fit, scaling
from rccltune.model import (
    BASELINE,
    Collective,
    Curve,
    CurveKey,
    CurvePoint,
    Model,
    Placement,
    Sample,
    Scale,
    Setting,
    Shape,
    Span,
    format_size,
)
from rccltune.scaling import Measured, Prediction

Times = Mapping[int, float]
Row = dict[str, object]

BOUND = 0.15
ONE, TWO = (Span(scale=Scale(n_nodes=n, n_ranks=8 * n), n_oams=8 * n) for n in (1, 2))
# The channels of the forced curves of one node; two nodes were measured with the library's own.
PUBLIC_CHANNELS = 56


def measured(span: Span, times: Times, setting: str) -> Measured:
    """Times in µs by size as a curve."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=BASELINE if setting == "baseline" else Setting.parse(setting),
        placement=Placement.OUT_OF_PLACE,
        scale=span.scale,
    )
    points = tuple(
        CurvePoint(nbytes=n, time_us=t, low_us=t, high_us=t) for n, t in sorted(times.items())
    )
    return Measured(span, Curve(key=key, points=points, fits=(), chosen=Model.LOGLOG))


def off(found: Prediction, truth: Times) -> list[float]:
    """(predicted - true) / true at each size."""
    points = [p for p in found.curve.points if p.nbytes in truth]
    return [p.time_us / truth[p.nbytes] - 1 for p in points]


def predicted(known: Sequence[Measured], target: Span, shape: Shape | None = None) -> Prediction:
    """A prediction of a setting that has steps."""
    found = scaling.predict(known, target, shape)
    if found is None:
        raise AssertionError("rings and trees have steps")
    return found


# --- made-up nodes


def noisy(times: Times, random: Random) -> dict[int, float]:
    """Medians of three launches that differ by 1.5 %, on a day of its own by 0.5 %."""
    day = random.lognormvariate(0, 0.005)
    return {
        n: day * statistics.median(t * random.lognormvariate(0, 0.015) for _ in range(3))
        for n, t in times.items()
    }


def bench_made_up(n_nodes: int) -> list[Row]:
    """Each way of carrying over what lines leave, and the one that the errors choose."""
    ways: tuple[tuple[str, Shape | None], ...] = (
        *((shape.value, shape) for shape in Shape),
        ("chosen by the scales left out", None),
    )
    worst: dict[tuple[str, str], list[float]] = {}
    usual: dict[tuple[str, str], list[float]] = {}
    inside: dict[str, list[bool]] = {}
    for seed in range(n_nodes):
        links, random = made_up(seed), Random(seed)
        for setting in SETTINGS:
            known = []
            for n_ranks in (8, 16, 32):
                span = Span(scale=Scale(n_nodes=1, n_ranks=n_ranks), n_oams=n_ranks // PER_OAM)
                exact = {n: true_us(links, setting, n_ranks, n) for n in SIZES}
                known.append(measured(span, noisy(exact, random), setting))
            truth = {n: true_us(links, setting, 64, n) for n in SIZES}
            target = Span(scale=Scale(n_nodes=1, n_ranks=64), n_oams=8)
            for name, shape in ways:
                found = predicted(known, target, shape)
                errors = [abs(x) for x in off(found, truth)]
                worst.setdefault((name, setting), []).append(max(errors))
                usual.setdefault((name, setting), []).append(statistics.median(errors))
                if shape is None:
                    inside.setdefault(setting, []).extend(
                        p.low_us <= truth[p.nbytes] <= p.high_us for p in found.curve.points
                    )
    return [
        {
            "part": "made up",
            "way": name,
            "setting": setting,
            "median": statistics.median(usual[name, setting]),
            "worst": statistics.median(worst[name, setting]),
            "worst_of_all": max(worst[name, setting]),
            "within": sum(x <= BOUND for x in worst[name, setting]) / n_nodes,
            "covered": sum(inside[setting]) / len(inside[setting]) if shape is None else None,
        }
        for name, shape in ways
        for setting in SETTINGS
    ]


# --- public figures


def bench_public(data: Path) -> list[Row]:
    """MI355X: one node of 8 ranks, then also a few sizes of two nodes with 16."""
    rows: list[Row] = []
    folder = data / "sweeps/gpu107"
    untouched = [
        rccl_tests_csv(folder / f"mi355x_{name}.csv", BASELINE, "default")
        for name in ("1n8r_allreduce_default", "2n16r_allreduce_default_rep1")
    ]
    one_node = times_of([*channel_sweep(data, PUBLIC_CHANNELS), *untouched[0]])
    two_nodes = times_of([*gpu107(data, "mi355x_2n16r_allreduce"), *untouched[1]])
    for name, times in one_node.items():
        setting = name.removesuffix(f"/{PUBLIC_CHANNELS}")
        truth = two_nodes[setting]
        sizes = sorted(truth)
        known = [measured(ONE, times, setting)]
        middle = min(sizes, key=lambda n: abs(n - (1 << 20)))
        for few in (
            (),
            sizes[:1],
            sizes[-1:],
            (sizes[0], sizes[-1]),
            (sizes[0], middle, sizes[-1]),
        ):
            own = [measured(TWO, {n: truth[n] for n in few}, setting)] if few else []
            found = predicted([*known, *own], TWO)
            errors = {p.nbytes: p.time_us / truth[p.nbytes] - 1 for p in found.curve.points}
            unseen = [x for n, x in errors.items() if n not in few]
            hops = {link.value: round(us, 1) for link, us in found.model.hop_us}
            rows.append(
                {
                    "part": "two nodes from one",
                    "setting": setting,
                    "measured": [format_size(n) for n in few],
                    "median": statistics.median(map(abs, unseen)),
                    "worst": max(unseen, key=abs),
                    "assumed": list(found.model.assumed),
                    "hop_us": hops,
                    "error_known": found.curve.extrapolated is not None
                    and found.curve.extrapolated.error is not None,
                }
            )
    return rows


def times_of(samples: Sequence[Sample]) -> dict[str, Times]:
    """Out-of-place times by setting and size."""
    return {
        str(curve.key.setting): {p.nbytes: p.time_us for p in curve.points}
        for curve in fit.curves(samples).curves
        if curve.key.placement is Placement.OUT_OF_PLACE
    }


# --- output


def show(rows: Sequence[Row]) -> None:
    """For people."""
    print(machine())
    print(f"64 ranks from 8, 16 and 32, made-up nodes, sizes to {format_size(SIZES[-1])}:")
    print(f"  {'what lines leave over':32} {'setting':12} median  worst (median, of all)  within")
    for row in (r for r in rows if r["part"] == "made up"):
        covered = row["covered"]
        print(
            f"  {row['way']:32} {row['setting']:12} {percent(row['median'])}  "
            f"{percent(row['worst'])} {percent(row['worst_of_all'])}          "
            f"{percent(row['within'])}"
            + ("" if covered is None else f"  expected error holds at {percent(covered)}")
        )
    print("Two nodes (16 ranks) from one (8), MI355X, all_reduce, out of place:")
    for row in (r for r in rows if r["part"] != "made up"):
        sizes = row["measured"]
        also = f"and two nodes at {', '.join(sizes)}" if isinstance(sizes, list) and sizes else ""
        print(
            f"  {row['setting']:12} one node {also:44} off by {percent(row['median'])} in the "
            f"median, {percent(row['worst'])} at worst; error {'' if row['error_known'] else 'un'}known"
        )


def percent(value: object) -> str:
    """``12 %``, in six places."""
    return f"{100 * value:+5.0f} %".replace("+", " ") if isinstance(value, float) else "     –"


def main() -> int:
    """Run it; 1 where more than one curve in ten is somewhere further off than the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the public sweeps")
    parser.add_argument("--nodes", type=int, default=100, help="made-up nodes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    rows = bench_made_up(options.nodes)
    data = find_data(options.data)
    if data is None:
        print("no public sweeps here: their part is skipped", file=sys.stderr)
    else:
        rows += bench_public(data)
    if options.json:
        print(json.dumps(rows))
    else:
        show(rows)
        print(f"  {time.perf_counter() - start:.0f} s")
    ours = [r for r in rows if str(r.get("way", "")).startswith("chosen")]
    within = [float(str(row["within"])) for row in ours]
    return int(statistics.mean(within) < 0.9)


if __name__ == "__main__":
    sys.exit(main())
