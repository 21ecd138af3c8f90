"""The instrument's two timing modes: what communicators differ by, loop against graph, and nccl-tests beside it.

First, by graph, the spread (one standard deviation) over communicators with new buffers of every
setting that is offered, 1 KiB to 1 MiB; broadcast and reduce also against single calls. Then loop
and graph of the library's own choice, from 1 KiB up. With --nccl-tests DIR its programs measure the
same sizes in between, in place and out of place.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
from machine import SAFETY, machine
from perf_runs import GRAPH, LOOP, Ground, ground_of, measure, options_of, run

from rccltune.model.units import format_size

SMALL = tuple(1024 << k for k in range(0, 11, 2))
SETTINGS = ("ring/ll", "ring/ll128", "ring/simple", "tree/ll", "tree/ll128", "tree/simple")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
ROOTED = ("broadcast", "reduce")
ALONE = "1 1 1"
ALL_SIZES = tuple(1024 << k for k in range(19))
ROW = re.compile(r"^\s+(\d+)\s+\d+\s+\S+\s+\S+\s+\S+\s+([\d.]+)\s+\S+\s+\S+\s+\S+\s+([\d.]+)\s")


def settings_of(collective: str) -> tuple[str, ...]:
    """What is tried; only all_reduce has trees."""
    return SETTINGS if collective == "all_reduce" else SETTINGS[:3]


def spread(ground: Ground, options: argparse.Namespace) -> pd.DataFrame:
    """Spread over communicators, in %, of each collective, setting and size, by graph."""
    steps = []
    for _ in range(options.communicators):
        steps.append("communicator")
        for collective in (*COLLECTIVES, *ROOTED):
            for nbytes in SMALL:
                for setting in ("nothing", *settings_of(collective)):
                    call = f"{collective} float sum out {nbytes}"
                    steps += [f"answer {setting}", measure(call, GRAPH)]
    table = run(ground, steps)
    if options.rows:
        table.to_csv(options.rows, index=False)
    table = table[(table["step"] == "measure") & table["time_us"].notna()]
    forced = table["asked_for"] != "nothing"
    table = table[~forced | (table["answer"] == table["asked_for"])]
    print(f"spread: {options.communicators} communicators, {table.attrs.get('seconds', 0):.1f} s")
    keys = ["collective", "asked_for", "nbytes"]
    by_cell = table.groupby(keys)["time_us"]
    found: pd.DataFrame = pd.DataFrame(
        {"us": by_cell.median(), "sd": 100 * by_cell.std() / by_cell.mean()}
    )
    return found


def single_calls(ground: Ground, options: argparse.Namespace) -> pd.DataFrame:
    """µs a call back to back in a graph, and of one call alone in a graph, waited for.

    One alone pays for its launch and the wait, which all_reduce shows: there, no call can begin
    before all ranks have ended the one before. What broadcast and reduce pay beyond that is what
    calls that follow each other closely would hide.
    """
    steps = []
    for _ in range(options.communicators // 2):
        steps += ["communicator", "answer nothing"]
        for collective in ("all_reduce", *ROOTED):
            for nbytes in SMALL:
                call = f"{collective} float sum out {nbytes}"
                steps += [measure(call, GRAPH), *[measure(call, GRAPH, ALONE)] * 20]
    table = run(ground, steps)
    table = table[table["step"] == "measure"]
    # A graph is timed in three parts: three calls in all are one in each.
    table = table.assign(how=["alone" if n == 3 else "in a row" for n in table["calls"]])
    found = table.pivot_table(
        index=["collective", "nbytes"], columns="how", values="time_us", aggfunc="median"
    )
    beyond: pd.DataFrame = found.assign(more=found["alone"] - found["in a row"])
    return beyond


def timings(ground: Ground, options: argparse.Namespace, collective: str) -> pd.DataFrame:
    """Medians of loop and graph, out of place and in place, without the plugin."""
    steps = []
    for _ in range(options.communicators):
        steps.append("communicator")
        for timing in (LOOP, GRAPH):
            steps += [
                measure(f"{collective} float sum {place} {nbytes}", timing)
                for nbytes in ALL_SIZES
                for place in ("out", "in")
            ]
    table = run(ground, steps, with_plugin=False)
    table = table[table["step"] == "measure"]
    found: pd.DataFrame = table.pivot_table(
        index="planned", columns=["placement", "timing"], values="time_us", aggfunc="median"
    )
    return found


def nccl_tests(options: argparse.Namespace, ground: Ground, collective: str) -> pd.DataFrame:
    """Medians of its launches at the same sizes, out of place and in place, in µs."""
    program = options.nccl_tests / f"{collective}_perf"
    argv = ["mpirun", "--allow-run-as-root", "-np", str(options.ranks), "--bind-to", "none"]
    argv += [word for name in SAFETY for word in ("-x", name)]
    argv += [str(program), "-b", "1K", "-e", "256M", "-f", "2", "-g", "1", "-c", "0", "-w", "5"]
    folders = [str(ground.measured.file.parent)]
    if ground.measured.runtime is not None:
        folders.append(str(ground.measured.runtime.parent))
    path = os.pathsep.join([*folders, os.environ.get("LD_LIBRARY_PATH", "")])
    argv[1:1] = ["-x", "LD_LIBRARY_PATH"]
    found = []
    for _ in range(options.launches):
        done = subprocess.run(
            argv,
            env=ground.variables | {"LD_LIBRARY_PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        printed = [match.groups() for match in map(ROW.match, done.stdout.splitlines()) if match]
        if done.returncode or len(printed) != len(ALL_SIZES):
            sys.exit(
                f"{program} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}"
            )
        found += [(int(size), float(out), float(inside)) for size, out, inside in printed]
    rows = pd.DataFrame(found, columns=["nbytes", "out", "in"])
    middle: pd.DataFrame = rows.groupby("nbytes").median()
    return middle


def compare(ground: Ground, options: argparse.Namespace, collective: str) -> None:
    """One table: both timing modes, and nccl-tests' time over ours by loop."""
    first = timings(ground, options, collective)
    theirs = nccl_tests(options, ground, collective) if options.nccl_tests else None
    second = timings(ground, options, collective) if options.nccl_tests else first
    ours = (first + second) / 2
    ours.index = ours.index.astype(int)
    ours = ours.sort_index()
    print(
        f"{collective}, without the plugin: µs, graph / loop"
        + ", nccl-tests / loop" * bool(options.nccl_tests)
    )
    sizes = list(theirs.index) if theirs is not None else list(ours.index)
    for at, nbytes in enumerate(ours.index):
        line = f"{format_size(nbytes):>8}"
        for place in ("out", "in"):
            loop, graph = ours.loc[nbytes, (place, LOOP)], ours.loc[nbytes, (place, GRAPH)]
            line += f"  {place:>3} {loop:9.2f} {graph / loop:6.3f}"
            if theirs is not None:
                line += f" {theirs.loc[sizes[at], place] / loop:6.3f}"
        print(line)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    options_of(parser)
    parser.add_argument("--communicators", type=int, default=8)
    parser.add_argument("--nccl-tests", type=Path, metavar="DIR")
    parser.add_argument("--launches", type=int, default=6, help="of nccl-tests")
    parser.add_argument("--collective", nargs="+", default=["all_reduce", "all_gather"])
    options = parser.parse_args()
    ground = ground_of(options)
    print(
        f"{options.ranks} ranks, {machine()}, {ground.measured.file.name} {ground.measured.version}"
    )
    table = spread(ground, options)
    shown = table.pivot_table(
        index=["collective", "asked_for"], columns="nbytes", values="sd"
    ).round(2)
    print("sd over communicators by graph, %:", shown.to_string(), sep="\n")
    core = table[table.index.get_level_values("collective").isin(COLLECTIVES)]["sd"]
    print(
        f"median cell {core.median():.2f} %, largest {core.max():.2f} %, cells above 3 %: {(core > 3).sum()} of {len(core)}"
    )
    print(
        "µs a call in a row and alone, by graph:",
        single_calls(ground, options).round(2).to_string(),
        sep="\n",
    )
    for collective in options.collective:
        compare(ground, options, collective)


if __name__ == "__main__":
    main()
