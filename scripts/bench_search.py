"""The search for what to measure against measuring everything: collective time, launches, regret.

On simulated nodes of different character, 24 settings, 64 ranks, one process playing them all: each
seed is swept (the first --exhaustive-seeds both ways), rules are emitted and read back from their
text; what they choose at each size, the library's own choice where there is none, is compared with
the node file's truth. Simulated collectives take no time: their seconds are those of the simulated clock,
and a launch is taken for --startup seconds of the library and --overhead of everything else, which
is measured under mpirun with that start-up for the first --mpirun-seeds of the first node.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from math import log2
from pathlib import Path

import search_nodes
from machine import machine
from search_nodes import CHARACTERS, MODE, N_RANKS, SETTINGS
from search_verdicts import (
    ARMS,
    COLLECTIVE_SHARE,
    MEAN_REGRET,
    TOLERANCES,
    WALL_SHARE,
    WORST_REGRET,
    Run,
    Verdict,
    is_comparable,
    judge,
    verdict,
)

from rccltune import plugin, rules, simulate
from rccltune.measure import find_site, merge_request, parse_duration, prepare, simulated_s, sweep
from rccltune.model import Collective, RccltuneError, Reporter, Rule, Setting, parse_size
from rccltune.rules import EmitRequest, emit_rules
from rccltune.session import read_launches
from rccltune.simulate import sources as simnode
from rccltune.zones import ChoiceOptions

PER_OCTAVE = 4
MOST_LINES = 10
LOAD_NODE = simnode.load_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What every run of this bench has in common."""

    min_bytes: int
    max_bytes: int
    repeats: int
    startup_s: float
    budget: float | None = None

    @property
    def sizes(self) -> list[int]:
        """The sizes that a sweep steps through."""
        count = int(log2(self.max_bytes / self.min_bytes)) + 1
        return [self.min_bytes << power for power in range(count)]

    @property
    def between(self) -> list[int]:
        """Sizes between those, not measured by anybody."""
        parts = [2 ** (part / PER_OCTAVE) for part in range(1, PER_OCTAVE)]
        return [round(size * part) for size in self.sizes[:-1] for part in parts]


def run_once(path: Path, arm: str, seed: int, wish: Wish, library: dict[int, Setting]) -> Run:
    """Sweep into a session of its own, choose, judge, and leave nothing behind."""
    node = simulate.load_node(path)
    session = path.parent / f"{node.name}-{arm}-{seed}"
    start = time.perf_counter()
    expected = swept(session, path, arm, seed, wish, launcher="none")
    python_s = time.perf_counter() - start
    judged = {
        tolerance: judge(node, rules_of(session, tolerance), library, wish.sizes, wish.between)
        for tolerance in TOLERANCES
    }
    n_launches = len(read_launches(session))
    clock = simulated_s(session)
    made = Run(
        node=node.name,
        seed=seed,
        arm=arm,
        # The simulated clock counts the node's start-up, though nobody waits for it here.
        collective_s=clock - n_launches * search_nodes.STARTUP_S,
        n_launches=n_launches,
        python_s=python_s,
        judged=judged,
        expected_regret=expected,
    )
    shutil.rmtree(session)
    return made


def swept(
    session: Path, path: Path, arm: str, seed: int, wish: Wish, *, launcher: str
) -> float | None:
    """One sweep; what it expects its own regret to be."""
    request = merge_request(
        None,
        {
            "simulate": str(path),
            "launcher": launcher,
            "seed": seed,
            "collective": (Collective.ALL_REDUCE,),
            "setting": tuple(Setting.parse(name) for name in SETTINGS),
            "min_bytes": wish.min_bytes,
            "max_bytes": wish.max_bytes,
            "repeats": wish.repeats,
            "method": "one-launch",
            "exhaustive": arm == "exhaustive",
            "budget": wish.budget,
            "env": (
                ("RCCLTUNE_SIM_STARTUP_S", "0" if launcher == "none" else f"{wish.startup_s}"),
            ),
        },
    )
    prepared = prepare(
        request.sweep, find_site(request.site), session, timeout_s=None, budget_s=request.budget_s
    )
    done = sweep(prepared, reporter=Reporter(), command="bench", force=True)
    return done.expected[0].mean if done.expected else None


def rules_of(session: Path, tolerance: float) -> tuple[Rule, ...]:
    """The rules of a session, from the text that a library would get."""
    done = emit_rules(
        EmitRequest(
            folders=(session,),
            options=lambda _: ChoiceOptions(tolerance=tolerance),
            output=Path("-"),
        ),
        reporter=Reporter(),
    )
    return tuple(rule for rule in rules.read_rules(done.text.encode()).rules if not rule.fallback)


def library_choice(path: Path, sizes: Iterable[int]) -> dict[int, Setting]:
    """What the untouched library runs at each size: the benchmark's own column says it."""
    compiled = path.with_suffix(".node")
    compiled.write_bytes(simulate.compile_node(path))
    program = plugin.native_folder() / "sim" / "all_reduce_perf"
    environment = {
        "PATH": os.environ["PATH"],
        "RCCLTUNE_SIM_NODE": str(compiled),
        "RCCLTUNE_SIM_STARTUP_S": "0",
    }
    found = {}
    for nbytes in sizes:
        size = str(nbytes - nbytes % 4)
        options = ("-b", size, "-e", size, "-n", "1", "-w", "1", "-c", "0", "-A", "1")
        done = subprocess.run(
            [program, *options], env=environment, capture_output=True, text=True, check=True
        )
        row = next(line.split() for line in done.stdout.splitlines() if line[:1] == " ")
        algorithm, protocol = (word for word in row if word.lower() in _WORDS)
        found[nbytes] = Setting.parse(f"{algorithm}/{protocol}".lower())
    return found


_WORDS = {"tree", "ring", "ll", "ll128", "simple"}


def overhead_s(path: Path, wish: Wish, seeds: int) -> tuple[float, list[dict[str, float]]]:
    """Seconds of a launch beyond the library's start-up and its collectives, under mpirun."""
    rows, found = [], []
    for seed in range(seeds):
        row: dict[str, float] = {}
        for arm in ARMS:
            session = path.parent / f"mpirun-{arm}-{seed}"
            start = time.perf_counter()
            swept(session, path, arm, seed, wish, launcher="auto")
            waited = time.perf_counter() - start
            n_launches = len(read_launches(session))
            found.append(waited / n_launches - wish.startup_s)
            row |= {f"{arm}_waited_s": waited, f"{arm}_launches": n_launches}
            shutil.rmtree(session)
        rows.append(row)
    return statistics.median(found), rows


def main() -> int:
    """Every node, every seed, both arms."""
    options = read_options()
    wish = Wish(
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        repeats=options.repeats,
        startup_s=options.startup,
        budget=options.budget,
    )
    characters = [one for one in CHARACTERS if one.name in options.nodes]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {one.name: search_nodes.write_node(one, folder) for one in characters}
        launch_s: float = options.overhead
        waits: list[dict[str, float]] = []
        if options.mpirun_seeds:
            first = paths[characters[0].name]
            launch_s, waits = overhead_s(first, wish, options.mpirun_seeds)
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        n_seeds = {"adaptive": len(seeds), "exhaustive": options.exhaustive_seeds}
        tasks = [
            (path, arm, seed)
            for number, seed in enumerate(seeds)
            for path in paths.values()
            for arm in ARMS
            if number < n_seeds[arm]
        ]
        found, failed = run_all(tasks, wish, options.jobs)
    verdicts = [
        verdict(one, found[one.name], launch_s + wish.startup_s)
        for one in characters
        if is_comparable(found[one.name])
    ]
    if options.json:
        print(
            json.dumps(
                {"verdicts": [asdict(v) for v in verdicts], "waits": waits, "failed": failed}
            )
        )
    else:
        show(verdicts, wish, launch_s)
        for seed, wait in enumerate(waits):
            print(
                f"  under mpirun, seed {seed}: "
                + ", ".join(f"{k} {v:.1f}" for k, v in wait.items())
            )
        for line in failed:
            print(f"  FAILED {line}")
        print(f"  {time.perf_counter() - start:.0f} s in all")
    return int(bool(failed) or any(v.missed for v in verdicts))


def read_options() -> argparse.Namespace:
    """The command line."""
    names = [one.name for one in CHARACTERS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--exhaustive-seeds", type=int, default=10, help="so many of them measure everything too"
    )
    parser.add_argument(
        "--nodes", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes in parallel")
    parser.add_argument("--min-bytes", type=parse_size, default=parse_size("8"))
    parser.add_argument("--max-bytes", type=parse_size, default=parse_size("1G"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--budget", type=parse_duration, help="of the adaptive sweeps")
    parser.add_argument("--startup", type=float, default=10.0, help="seconds of the library")
    parser.add_argument("--overhead", type=float, default=2.0, help="seconds of a launch beside it")
    parser.add_argument(
        "--mpirun-seeds", type=int, default=0, help="measure the overhead with so many"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def run_all(
    tasks: Sequence[tuple[Path, str, int]], wish: Wish, jobs: int
) -> tuple[dict[str, list[Run]], list[str]]:
    """Runs by node, in the order of their seeds, and what failed."""
    paths = dict.fromkeys(path for path, _, _ in tasks)
    choices = {path: library_choice(path, [*wish.sizes, *wish.between]) for path in paths}
    found: dict[str, list[Run]] = {path.stem: [] for path in paths}
    failed = []
    with ProcessPoolExecutor(jobs, initializer=read_nodes_once) as pool:
        running = {
            pool.submit(run_once, path, arm, seed, wish, choices[path]): f"{path.stem} {arm} {seed}"
            for path, arm, seed in tasks
        }
        for number, task in enumerate(as_completed(running)):
            try:
                run = task.result()
                found[run.node].append(run)
            except RccltuneError as error:
                failed.append(f"{running[task]}: {error}")
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {len(tasks)} sweeps", end="", file=sys.stderr)
    return {name: sorted(runs, key=lambda run: run.seed) for name, runs in found.items()}, failed


def read_nodes_once() -> None:
    """Node files have thousands of points and are read three times a sweep; here few change.

    In a process of this bench only: elsewhere a file may change under its name at any time.
    """
    vars(simnode)["load_node"] = cache(LOAD_NODE)


def read_nodes_anew() -> None:
    """Once a node file was written again, and in a process that stands for a user's."""
    vars(simnode)["load_node"] = LOAD_NODE


def show(verdicts: Sequence[Verdict], wish: Wish, launch_s: float) -> None:
    """For people."""
    print(f"SIMULATED, {N_RANKS} ranks, {MODE}, 24 settings x {len(wish.sizes)} sizes; {machine()}")
    print(
        f"  adaptive against exhaustive; a launch is taken for {wish.startup_s:.0f} + {launch_s:.1f} s; "
        f"wanted: {100 * COLLECTIVE_SHARE:.0f} % of the collective time, {100 * WALL_SHARE:.0f} % of "
        f"the wall time, regret {100 * MEAN_REGRET:.0f} % mean and {100 * WORST_REGRET:.0f} % worst"
    )
    for v in verdicts:
        print(f"  {v.node} ({v.n_seeds} seeds)")
        print(
            f"    {v.collective_s['adaptive']:.0f} s of collectives against "
            f"{v.collective_s['exhaustive']:.0f} s: {100 * v.collective_share:.0f} %; "
            f"{v.n_launches['adaptive']:.1f} launches against {v.n_launches['exhaustive']:.1f}; "
            f"wall {100 * v.wall_share:.0f} %; {v.python_s['adaptive']:.1f} and "
            f"{v.python_s['exhaustive']:.1f} s of our own"
        )
        for key, one in v.summaries.items():
            print(
                f"    {key:>16}: regret {100 * one.mean:.2f} % mean, {100 * one.worst:.2f} % worst "
                f"(between the sizes {100 * one.mean_between:.2f} and "
                f"{100 * one.worst_between:.1f}), rules {', '.join(map(str, one.rules))}"
            )
        if v.expected is not None:
            print(f"    the search itself expects {100 * v.expected:.2f} %")
        if v.missed:
            print(f"    MISSED: {', '.join(v.missed)}")
        for line in v.complaints[:MOST_LINES]:
            print(f"      {line}")


if __name__ == "__main__":
    sys.exit(main())
