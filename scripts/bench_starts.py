"""Starts of all ranks: where their time goes, what one adds to its communicators, what one that waits costs.

    scripts/bench starts --ranks 2 --starts 10 --communicators 4

In each communicator every size is timed as idle, setting, idle, setting, idle: ratios are each setting's time
over the mean of the two beside it. A nested analysis of variance tells what starts add to the spread of their
communicators, of times and of ratios. Then one start measures alone and beside another one that waits, in
turns. NVLink multicast stays off in every rank. ``--simulate NODE`` tries the bench itself.

    scripts/bench starts --record starts.csv.gz --starts 80

times the library as it is, without our plugin, as one side of ``rccltune compare`` does: a communicator a start, each
size twice. ``scripts/bench compare`` draws from that file.
"""

from __future__ import annotations

import argparse
import io
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from machine import SAFETY, machine
from perf_runs import EFFORT, FIRST_LINE, GRAPH, LOOP, Ground, ground_of, options_of
from scipy import stats

from rccltune import plugin
from rccltune.measure import passes
from rccltune.measure.connection import RankConnection, connect
from rccltune.model.settings import BASELINE
from rccltune.model.units import format_size
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks import plan
from rccltune.ranks.plan import GRAPH_UP_TO, CollectiveCall, Step

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
CALLS = (
    *((GRAPH, size) for size in (16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)),
    *((LOOP, size) for size in (1 << 20, 4 << 20, 16 << 20, 64 << 20)),
)
SETTINGS = ("ring/ll", "ring/simple")
HUNG_AFTER_S = 120.0
KEYS = ["collective", "timing", "nbytes", "setting"]


@dataclass
class Started:
    """Ranks that wait for steps, and seconds since they were started at which they came so far."""

    connection: RankConnection
    since: float
    reached: dict[str, float] = field(default_factory=dict)

    def note(self, what: str) -> None:
        """Say that it came so far."""
        self.reached[what] = time.perf_counter() - self.since

    def make(self, lines: list[str]) -> list[str]:
        """Rows of rank 0, in the order of the steps."""
        answers = self.connection.exchange(lines, lambda _: HUNG_AFTER_S)
        return [row for one in answers for row in one.ranks[0] if row[:1].isdigit()]


@contextmanager
def started(ground: Ground, *, with_plugin: bool = True) -> Iterator[Started]:
    """Start all ranks; they end with the block."""
    folder = Path(tempfile.mkdtemp())
    argv = [str(plugin.native_folder() / "rccltune-perf"), "--folder", str(folder)]
    argv += ["--library", str(ground.measured.file)]
    argv += ["--plugin", str(plugin.library())] if with_plugin else []
    if ground.measured.runtime is not None:
        argv += ["--runtime", str(ground.measured.runtime)]
    token = secrets.token_hex(8)
    variables = ground.variables | {
        "RCCLTUNE_PERF_TOKEN": token,
        "RCCLTUNE_SIM_LAUNCH": secrets.token_hex(8),
    }
    if any(variables.get(name) != value for name, value in SAFETY.items()):
        sys.exit("not started: NVLink multicast would not stay off")
    since = time.perf_counter()
    process = subprocess.Popen(
        [*argv, "--start", str(ground.ranks)], env=variables, stdin=subprocess.DEVNULL
    )
    try:
        connection = connect(
            folder,
            token,
            ground.ranks,
            limit_s=HUNG_AFTER_S,
            is_over=lambda: process.poll() is not None,
        )
        found = Started(connection, since)
        found.note("connected")
        found.make([FIRST_LINE])
        found.note("devices taken")
        yield found
        connection.end()
        process.wait(timeout=HUNG_AFTER_S)
        found.note("ended")
    finally:
        process.kill()
        process.wait()


def steps_of(collectives: list[str]) -> list[tuple[str, str]]:
    """What is timed in a communicator: answer and call; loops before graphs."""
    return [
        (answer, f"measure {collective} float sum out {nbytes} {timing} {EFFORT}")
        for timing, nbytes in sorted(CALLS, key=lambda call: call[0] == GRAPH)
        for collective in collectives
        for answer in ("nothing", SETTINGS[0], "nothing", SETTINGS[1], "nothing")
    ]


def timings(start: Started, collectives: list[str]) -> pd.DataFrame:
    """One communicator's timings, a row each, in their order."""
    steps = steps_of(collectives)
    lines = [line for answer, step in steps for line in (f"answer {answer}", step)]
    start.make(["communicator"])
    rows = start.make(lines)
    times = pd.read_csv(io.StringIO("\n".join(rows)), header=None)[5]
    words = [step.split() for _, step in steps]
    found: pd.DataFrame = pd.DataFrame(
        {
            "collective": [one[1] for one in words],
            "nbytes": [int(one[5]) for one in words],
            "timing": [one[6] for one in words],
            "setting": [answer for answer, _ in steps],
            "time_us": times.to_numpy(),
        }
    )
    return found


def log_values(table: pd.DataFrame) -> pd.DataFrame:
    """Log times of idle, and log ratios of the settings to the mean of the idle ones beside them."""
    log = np.log(table["time_us"]).to_numpy().reshape(-1, 5)
    first = table.iloc[::5].reset_index(drop=True)
    beside = {SETTINGS[0]: log[:, 1] - (log[:, 0] + log[:, 2]) / 2}
    beside |= {SETTINGS[1]: log[:, 3] - (log[:, 2] + log[:, 4]) / 2}
    parts = [first.assign(setting="idle", value=log[:, ::2].mean(1))]
    parts += [first.assign(setting=name, value=ratio) for name, ratio in beside.items()]
    found: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return found


def components(values: pd.DataFrame) -> pd.Series[float]:
    """Spread of communicators in %, what starts add to it, and the chance that they add nothing.

    Balanced one-way analysis of variance (Searle, Casella, McCulloch 1992, ch. 3).
    """
    by_start = values.groupby("start")["value"]
    n, each = by_start.ngroups, len(values) / by_start.ngroups
    within = ((values["value"] - by_start.transform("mean")) ** 2).sum() / (len(values) - n)
    between = each * by_start.mean().var(ddof=1)
    found: pd.Series[float] = pd.Series(
        {
            "value": values["value"].mean(),
            "communicators": 100 * np.sqrt(within),
            "starts": 100 * np.sqrt(max(between - within, 0) / each),
            "F": between / within,
            "p": stats.f.sf(between / within, n - 1, len(values) - n),
        }
    )
    return found


def spread(ground: Ground, options: argparse.Namespace) -> pd.DataFrame:
    """Values of all communicators of all starts; says where the starts' time went."""
    parts, reached = [], []
    for number in range(options.starts):
        with started(ground) as start:
            for communicator in range(options.communicators):
                table = timings(start, options.collective)
                start.note("first communicator" if communicator == 0 else "all communicators")
                parts.append(log_values(table).assign(start=number, communicator=communicator))
        reached.append(start.reached)
    median = pd.DataFrame(reached).median()
    print("seconds since the start, median:", median.round(2).to_dict(), flush=True)
    found: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return found


def waiting(ground: Ground, options: argparse.Namespace) -> pd.DataFrame:
    """Log of times beside a start that waits, over those alone: a row a turn and cell."""
    found = []
    with started(ground) as measuring:
        measuring.make(["communicator"])
        for turn in range(options.turns):
            alone = log_values(timings(measuring, options.collective))
            with started(ground) as idle:
                idle.make(["communicator"])
                beside = log_values(timings(measuring, options.collective))
            idle_only = alone["setting"] == "idle"
            found.append(alone[idle_only].assign(value=beside["value"] - alone["value"], turn=turn))
    turns: pd.DataFrame = pd.concat(found, ignore_index=True)
    return turns


def record(ground: Ground, n_starts: int, path: Path) -> None:
    """Time the library as it is in so many starts, one after the other, and write every timing."""
    steps = passes.loops_first(
        [
            Step(
                plan.MEASURE,
                BASELINE,
                CollectiveCall(Collective.ALL_REDUCE, "float", "sum", Placement.OUT_OF_PLACE, n),
                GRAPH if n <= GRAPH_UP_TO else LOOP,
                plan.effort_of(n),
            )
            for n in (1 << power for power in range(10, 27))
            for _ in range(2)
        ]
    )
    parts = []
    since = time.perf_counter()
    for number in range(n_starts):
        with started(ground, with_plugin=False) as start:
            start.make(["communicator"])
            rows = start.make([step.line for step in steps])
        times = pd.read_csv(io.StringIO("\n".join(rows)), header=None)[5]
        own = {
            "start": number,
            "nbytes": [step.call.nbytes for step in steps],
            "timing": [step.timing for step in steps],
            "time_us": times.to_numpy(),
        }
        parts.append(pd.DataFrame(own))
        # What was measured is kept, also where a limit ends the command.
        pd.concat(parts).to_csv(path, index=False)
    print(f"{n_starts} starts in {time.perf_counter() - since:.0f} s, in {path}")


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options_of(parser)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--communicators", type=int, default=4)
    parser.add_argument("--turns", type=int, default=8, help="alone and beside a waiting start")
    parser.add_argument("--collective", nargs="+", default=list(COLLECTIVES))
    parser.add_argument("--record", type=Path, metavar="CSV", help="only time the library, to here")
    options = parser.parse_args()
    ground = ground_of(options)
    if options.record is not None:
        record(ground, options.starts, options.record)
        return
    print(f"{options.ranks} ranks, {machine()}; {options.starts} starts", end=" ")
    print(f"of {options.communicators} communicators")
    values = spread(ground, options)
    if options.rows:
        values.to_csv(options.rows, index=False)
    table = values.groupby(KEYS)[["start", "value"]].apply(components)
    digits = pd.Series({"value": 4, "communicators": 2, "starts": 2, "F": 1, "p": 4})
    print(table.round(digits).to_string())
    certain = table[table["p"] < 0.05 / len(table)]
    print(f"starts add with certainty (p < 0.05 / {len(table)}) in {len(certain)} of {len(table)}")
    for timing in (GRAPH, LOOP):
        own = table.xs(timing, level="timing")
        for kind, some in (
            ("times", own.xs("idle", level="setting")),
            ("ratios", own.drop("idle", level="setting")),
        ):
            by_size = some.groupby("nbytes")["starts"].median().round(2)
            words = ", ".join(
                f"{format_size(int(size))} {float(value)}"
                for size, value in zip(by_size.index, by_size, strict=True)
            )
            print(f"{timing}, {kind}: median % that starts add: {words}")
    if options.turns:
        cost = waiting(ground, options).groupby(["timing", "nbytes"])["value"]
        shown = pd.DataFrame({"percent": 100 * cost.mean(), "se": 100 * cost.sem()})
        print("a start that waits costs a measuring one, %:")
        print(shown.round(2).to_string())


if __name__ == "__main__":
    main()
