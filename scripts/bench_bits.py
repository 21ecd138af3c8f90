"""Which trees a library adds by, whether every bit is as they predict, and what equal bits cost.

Trees: every setting and channel limit at sizes around chunks and shares, float and bfloat16, in and
out of place, captured too. With --share, ranks share GPUs (NCCL from 2.30 on): enough for trees, and
no time is worth anything. Times: settings of --class beside the library's own choice and beside one
channel of tree/simple, in turns, by graph up to 4 MiB and by loop above.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import pandas as pd
from machine import machine
from perf_runs import GRAPH, LOOP, Ground, ground_of, measure, options_of, run

from rccltune.model.units import format_size

SETTINGS = ("tree/ll", "tree/ll128", "tree/simple", "ring/ll", "ring/ll128", "ring/simple")
SIZES = (16, 1008, 8192, 65552, 262144, 1048576, 3145728, 16777216)
TIMED = tuple(1024 << k for k in range(0, 17, 2))
TREE = re.compile(r"^# tree ([0-9a-f]{16}) (.*)$", re.MULTILINE)
PIN = "tree/simple/1"
COMMUNICATORS = 4


def probes(options: argparse.Namespace) -> list[str]:
    """Steps of the plan."""
    sizes = [nbytes for nbytes in SIZES if nbytes <= options.max_bytes]
    counts = [f"/{n}" for n in options.channels]
    steps = ["communicator orders:0"]
    for setting in (f"{one}{n}" for one in SETTINGS for n in ("", *counts)):
        steps.append(f"answer {setting}")
        for collective in ("all_reduce", "reduce_scatter"):
            if collective == "reduce_scatter" and setting.startswith("tree"):
                continue
            for nbytes in sizes:
                own = max(nbytes, 16 * options.ranks)
                steps.append(f"order {collective} float sum out {own} {LOOP}")
                if nbytes in sizes[::3] and nbytes <= 4 << 20:
                    steps.append(f"order {collective} bfloat16 sum in {own} {LOOP}")
                    steps.append(f"order {collective} float sum out {own} {GRAPH}")
    return steps


def look_at_trees(ground: Ground, options: argparse.Namespace) -> bool:
    """Probe, and print how many elements were predicted and which settings have one tree."""
    steps = probes(options)
    found = run(ground, steps, limit_s=options.limit)
    folder = Path(found.attrs["folder"])
    texts = [(folder / f"rank-{rank}.csv").read_text() for rank in range(ground.ranks)]
    parts = [pd.read_csv(folder / f"rank-{rank}.csv", comment="#") for rank in range(ground.ranks)]
    orders = found[found["kind"] == "order"]
    is_order = parts[0]["step"] == "order"
    compared, wrong = (
        int(sum(part.loc[is_order, name].sum() for part in parts)) for name in ("checked", "wrong")
    )
    wide = orders["dtype"].map({"float": 4, "bfloat16": 2})
    n_elements = int((orders["nbytes"] / wide).sum())
    print(f"{len(orders)} probes in {found.attrs['seconds']:.0f} s, {machine()}, rows in {folder}")
    print(f"elements {n_elements}, their tree known {compared}, with other bits {wrong}")
    trees = dict(pair for text in texts for pair in TREE.findall(text))
    print("setting (asked), collective: most trees at a size; ids over all sizes; what ran")
    for (collective, asked), own in orders.groupby(["collective", "asked_for"], sort=False):
        ids = own["tree"].unique()
        most = int(pd.to_numeric(own["trees"]).max())
        text = trees.get(ids[0], "") if len(ids) == 1 and most == 1 else ""
        ran = " ".join(sorted(set(own["ran"])))
        print(f"  {collective} {asked}: {most}; {len(ids)}; {ran} {text[:80]}")
    if options.rows is not None:
        orders.to_csv(options.rows, index=False)
    return wrong == 0 and compared == n_elements


def look_at_times(ground: Ground, options: argparse.Namespace) -> None:
    """Time the class beside the library and the pin, and print ratios by size."""
    tried = [*options.members.split(","), PIN]
    steps = []
    for number in range(COMMUNICATORS):
        steps.append(f"communicator times:{number}")
        # Loops come before the first graph of a communicator.
        for timing in (LOOP, GRAPH):
            for nbytes in TIMED:
                if (timing == GRAPH) != (nbytes <= 4 << 20):
                    continue
                for setting in ("nothing", *tried)[:: 1 if number % 2 == 0 else -1]:
                    steps.append(f"answer {setting}")
                    steps.append(measure(f"all_reduce float sum out {nbytes}", timing))
    found = run(ground, steps, limit_s=options.limit)
    timed = found[found["kind"] == "measure"]
    is_taken = (timed["asked_for"] == "nothing") | (timed["answer"] == timed["asked_for"])
    middle = timed[is_taken].pivot_table(
        values="time_us", index="planned", columns="asked_for", aggfunc="median"
    )
    middle.index = middle.index.astype(int)
    middle = middle.sort_index()
    members = [one for one in options.members.split(",") if one in middle]
    print(
        f"all_reduce, {ground.ranks} ranks, {found.attrs['seconds']:.0f} s, {machine()}; derived:"
    )
    print("the class is that of other ranks or channels, here timed with one rank a GPU")
    print("bytes      library    class  by          class/library  pin/class")
    for nbytes, row in middle.dropna(subset=members, how="all").iterrows():
        best = row[members].min()
        pin = row[PIN] / best if PIN in middle else float("nan")
        print(
            f"{format_size(int(nbytes)):8} {row['nothing']:9.2f} {best:8.2f}  "
            f"{row[members].idxmin():12} {best / row['nothing']:12.2f}x {pin:9.2f}x"
        )


def main() -> None:
    """Trees, or times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options_of(parser)
    parser.add_argument("--times", action="store_true", help="what the class costs, not its trees")
    parser.add_argument("--share", action="store_true", help="ranks share GPUs; never for times")
    parser.add_argument("--channels", type=int, nargs="*", default=[1, 2, 6, 8], metavar="N")
    parser.add_argument("--max-bytes", type=int, default=1 << 24, help="largest probe")
    parser.add_argument(
        "--class",
        dest="members",
        default="tree/ll/6,tree/ll128/6,tree/simple/6",
        metavar="SETTING,…",
        help="settings with the same bits",
    )
    parser.add_argument(
        "--limit", type=float, default=550, metavar="S", help="end it after so long"
    )
    options = parser.parse_args()
    ground = ground_of(options)
    if options.share:
        # Every block of every rank must fit at once, or ranks wait for each other for ever.
        ground.variables.update(
            NCCL_MULTI_RANK_GPU_ENABLE="1",
            NCCL_MAX_NCHANNELS="16",
            NCCL_CGA_CLUSTER_SIZE="0",
        )
    if options.times:
        look_at_times(ground, options)
    elif not look_at_trees(ground, options):
        sys.exit("not every element was predicted")


if __name__ == "__main__":
    main()
