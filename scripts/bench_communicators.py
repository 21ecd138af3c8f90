"""What repeats differ by: cycles in a communicator, communicators in a process, processes.

A nested analysis of variance of log times for each collective, size and timing mode: the spread (one
standard deviation) that each level adds to the one below, and whether processes add anything to
their communicators (an F test). Communicators have new buffers, each at another offset.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from machine import machine
from perf_runs import GRAPH, LOOP, Ground, ground_of, measure, options_of, run
from scipy import stats

SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20)
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
KEYS = ["collective", "timing", "nbytes"]


def plan_of(options: argparse.Namespace) -> list[str]:
    """All communicators of one process: cycles of every size by loop, then by graph."""
    steps = []
    for _ in range(options.communicators):
        steps += ["communicator", "answer nothing"]
        for timing in (LOOP, GRAPH):
            for _ in range(options.cycles):
                steps += [
                    measure(f"{collective} float sum out {nbytes}", timing)
                    for collective in options.collective
                    for nbytes in SIZES
                ]
    return steps


def measured(ground: Ground, options: argparse.Namespace) -> pd.DataFrame:
    """Timings of all processes, numbered."""
    parts = []
    for process in range(options.processes):
        table = run(ground, plan_of(options))
        print(f"process {process}: {table.attrs['seconds']:.1f} s", flush=True)
        parts.append(table.assign(process=process))
    table = pd.concat(parts, ignore_index=True)
    timed: pd.DataFrame = table[(table["step"] == "measure") & table["time_us"].notna()]
    return timed


def components(table: pd.DataFrame) -> dict[str, float]:
    """Standard deviations that cycles, communicators and processes add, in %; p of the last.

    Balanced nested ANOVA (Searle, Casella, McCulloch 1992, ch. 3): mean squares of cycles within
    communicators, of communicators within processes, and of processes; differences over the
    number of timings below are the components, 0 where negative.
    """
    log = np.log(table["time_us"])
    of_process = log.groupby(table["process"])
    of_comm = log.groupby([table["process"], table["communicator"]])
    n_process, n_comm = of_process.ngroups, of_comm.ngroups
    cycles = len(log) / n_comm
    means = of_comm.mean()
    per_process = means.groupby(level=0)
    ms_cycle = ((log - of_comm.transform("mean")) ** 2).sum() / max(len(log) - n_comm, 1)
    ms_comm = cycles * ((means - per_process.transform("mean")) ** 2).sum()
    ms_comm /= max(n_comm - n_process, 1)
    each = n_comm / n_process
    ms_process = cycles * each * ((per_process.mean() - means.mean()) ** 2).sum()
    ms_process /= max(n_process - 1, 1)
    ratio = ms_process / ms_comm if ms_comm > 0 else 1.0
    return {
        "time_us": float(np.exp(log.mean())),
        "cycles": 100 * float(np.sqrt(ms_cycle)),
        "communicators": 100 * float(np.sqrt(max(ms_comm - ms_cycle, 0) / cycles)),
        "processes": 100 * float(np.sqrt(max(ms_process - ms_comm, 0) / (cycles * each))),
        "p": float(stats.f.sf(ratio, n_process - 1, n_comm - n_process)),
    }


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    options_of(parser)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--communicators", type=int, default=4)
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--collective", nargs="+", default=COLLECTIVES)
    options = parser.parse_args()
    table = measured(ground_of(options), options)
    if options.rows:
        table.to_csv(options.rows, index=False)
    print(f"{options.ranks} ranks, {machine()}; {options.processes} processes of", end=" ")
    print(f"{options.communicators} communicators of {options.cycles} cycles; sd added, %")
    found = {key: components(one) for key, one in table.groupby(KEYS)}
    shown = pd.DataFrame.from_dict(found, orient="index")
    shown.index.names = KEYS
    print(shown.round({"p": 4} | dict.fromkeys(shown.columns[:-1], 2)).to_string())
    few = (shown["p"] < 0.05 / len(shown)).sum()
    print(f"processes add to their communicators (p < 0.05 / {len(shown)}): {few} of {len(shown)}")


if __name__ == "__main__":
    main()
