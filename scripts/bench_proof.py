"""What verification says, held against the GPUs by another program, and rules that change nothing.

    scripts/bench proof --rccl-tests DIR --ranks 2 --session SESSION --null 10
    scripts/bench proof --rccl-tests DIR --ranks 2 --session SESSION --collective all_reduce --ab 8

``--null N`` writes rules that ask for what the library chooses anyway (the traces of the session
say what that is) and sends them through `rccltune verify` N times, each in a session of its own:
none may be kept, and none may be called harmful. ``--ab N`` takes the session's verified rules and
starts the benchmark N times with them and N times without, in turns; and four times in a launch that
goes through both by a schedule that is written here: a launch may be a third slower for some passes,
and two of it for just those with the rules. Of `rccltune verify` it uses nothing. NVLink multicast
stays off in every process.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_nccl import variables
from bench_tune import devices
from machine import ended_well, machine

from rccltune import plugin
from rccltune.logs import read_stream
from rccltune.model import BASELINE, Collective, Placement, Rule, Setting, Stated, format_size
from rccltune.rules import read_rules, render_rules

# Below, launches differ by tens of percent, and only pairs in one launch say anything.
FROM = 512 << 10
LEAST = 0.98
LIMIT_S = 180
ARMS = ("silent", "silent", "rules", "rules")
N_TURNS = 10
N_PAIRED = 4
Key = tuple[int, Placement]


def main() -> int:
    """Both, as asked for."""
    options = read_options()
    print(f"{machine()}; {devices()}", flush=True)
    failed = False
    if options.null:
        failed |= not nulls(options)
    if options.ab:
        failed |= not compared(options)
    return int(failed)


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = session_options(__doc__)
    parser.add_argument("--null", type=int, default=0, metavar="N")
    parser.add_argument("--ab", type=int, default=0, metavar="N")
    return parser.parse_args()


def session_options(about: str) -> argparse.ArgumentParser:
    """Of a bench that holds a session against the GPUs which it was made on."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--rccl-tests", type=Path, required=True, help="folder of all_reduce_perf")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument(
        "--session", type=Path, required=True, help="that tune made on this machine"
    )
    parser.add_argument("--collective", default="all_reduce", type=Collective.parse)
    parser.add_argument("--min-bytes", default="1K")
    parser.add_argument("--max-bytes", default="256M")
    return parser


def own_choices(session: Path, collective: Collective) -> dict[int, str]:
    """What the library chooses at each size of a session, by its traces' word."""
    found: dict[int, str] = {}
    for path in sorted(session.glob("launches/*/trace-*.csv")):
        lines = [x for x in path.read_text(encoding="utf-8").splitlines() if not x.startswith("#")]
        for row in csv.DictReader(lines):
            if row["collective"] == collective.value.replace("_", "") and row["host_choice"]:
                found[int(row["nbytes"])] = row["host_choice"]
    return dict(sorted(found.items()))


def null_rules(session: Path, collective: Collective, n_ranks: int) -> list[Rule]:
    """One rule for each run of sizes with one choice, from its first size to its last."""
    found = []
    for choice, run in groupby(own_choices(session, collective).items(), key=lambda one: one[1]):
        sizes = [nbytes for nbytes, _ in run]
        rule = Rule(
            collective=collective,
            min_nbytes=sizes[0],
            max_nbytes=sizes[-1],
            setting=Setting.parse(choice),
            n_nodes=1,
            n_ranks=n_ranks,
        )
        found += [rule] if len(sizes) > 1 else []
    return found


def nulls(options: argparse.Namespace) -> bool:
    """Whether rules that change nothing are neither kept nor called harmful, each time."""
    text = render_rules(
        "null rules", null_rules(options.session, options.collective, options.ranks)
    )
    print("rules that ask for the library's own choice:")
    print("".join(f"  {line}\n" for line in text.splitlines() if not line.startswith("#")), end="")
    good = 0
    for number in range(options.null):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "session"
            leave = shutil.ignore_patterns("verification", "verdict*.json", "plots")
            shutil.copytree(options.session, folder, ignore=leave)
            rules = Path(name) / "null.csv"
            rules.write_text(text, encoding="utf-8")
            left = Path(name) / "left.csv"
            start = time.monotonic()
            command = [sys.executable, "-m", "rccltune", "verify", str(folder), "--rules"]
            done = subprocess.run(
                [*command, str(rules), "-o", str(left)],
                env=variables({}),
                # A checkout's rccltune is no installed one.
                cwd=name,
                capture_output=True,
                text=True,
                check=False,
            )
            kept = len(read_rules(left.read_bytes()).rules) if left.exists() else -1
            verdict = json.loads((folder / "verdict_left.json").read_text(encoding="utf-8"))
            worse = sum(one["judgement"] == "worse" for one in verdict["verdicts"])
        is_good = done.returncode == 0 and kept == 0 and "are slower" not in done.stderr
        good += is_good
        print(
            f"  {number + 1}: exit code {done.returncode}, {kept} rules kept, {worse} of "
            f"{len(verdict['verdicts'])} called slower, {verdict['launches']} launches, "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )
        if not is_good:
            print("\n".join(f"    {line}" for line in done.stderr.splitlines()[-8:]))
    print(f"  {good} of {options.null} say no gain and no harm")
    return bool(good == options.null)


@dataclass(frozen=True, slots=True)
class Bench:
    """How the benchmark is started, and what makes it use the rules."""

    options: argparse.Namespace
    tuned: Mapping[str, str]
    calls: Sequence[str] = ("-n", "20", "-w", "5")

    def run(self, added: Mapping[str, str], n_cycles: int) -> list[dict[Key, float]]:
        """Times in µs of each table that one launch prints, the first ones among them."""
        options = self.options
        program = str(options.rccl_tests / options.collective.benchmark)
        sizes = ["-b", options.min_bytes, "-e", options.max_bytes, "-f", "2", "-g", "1"]
        calls = ["-c", "0", *self.calls, "-N", str(n_cycles)]
        ranks = ["mpirun", "-np", str(options.ranks), "--bind-to", "none", "--oversubscribe"]
        done = ended_well([*ranks, program, *sizes, *calls], variables(dict(added)), LIMIT_S)
        stated = Stated(
            collective=options.collective, setting=BASELINE, n_ranks=options.ranks, n_nodes=1
        )
        lines = (line.encode() + b"\n" for line in done.stdout.splitlines())
        tables: list[dict[Key, float]] = [{}]
        for sample in read_stream(lines, program, stated, "a").samples:
            key = (sample.nbytes, sample.key.placement)
            if key in tables[-1]:
                tables.append({})
            if sample.time_us is not None:
                tables[-1][key] = sample.time_us
        return tables

    def pairs(self, folder: Path, arms: Sequence[str]) -> tuple[dict[Key, float], dict[Key, float]]:
        """Silence / rules, and silence / silence, in passes of one launch that follow their own."""
        steps = tuple(arms) * N_TURNS
        schedule = folder / "turns.schedule"
        schedule.write_text(
            f"#@ format 1\n#@ nodes=1 ranks={self.options.ranks} calls=0\nsilent\n"
            + "".join(f"{step}\n" for step in steps),
            encoding="utf-8",
        )
        tables = self.run({**self.tuned, "RCCLTUNE_SCHEDULE": str(schedule)}, len(steps))
        settled = [(at, tables[at]) for at in range(1, len(steps)) if steps[at] == steps[at - 1]]
        silent = [table for at, table in settled if steps[at] == "silent"]
        rules = [table for at, table in settled if steps[at] == "rules"]
        return ratio(silent, rules), ratio(silent[::2], silent[1::2])


def ratio(
    first: Sequence[dict[Key, float]], second: Sequence[dict[Key, float]]
) -> dict[Key, float]:
    """Median over median at each size."""
    return {key: median(t[key] for t in first) / median(t[key] for t in second) for key in first[0]}


def mean_of(found: Sequence[dict[Key, float]]) -> dict[Key, float]:
    """Geometric mean at each size."""
    return {key: exp(fmean(log(one[key]) for one in found)) for key in found[0]}


def compared(options: argparse.Namespace) -> bool:
    """Whether no size from 512 KiB on is below 0.98, and none below beyond the control's spread."""
    path = next(iter(sorted(options.session.glob("rccl_tuner*.csv"))))
    file = read_rules(path.read_bytes())
    tuned = {
        **dict(file.needs),
        "NCCL_TUNER_PLUGIN": str(plugin.library()),
        "NCCL_TUNER_CONFIG_FILE": str(path.resolve()),
    }
    bench = Bench(options, tuned)
    plain: list[dict[Key, float]] = []
    with_rules: list[dict[Key, float]] = []
    for number in range(options.ab):
        for arm in ("plain", "rules") if number % 2 == 0 else ("rules", "plain"):
            _, table = bench.run(tuned if arm == "rules" else {}, 2)[:2]
            (with_rules if arm == "rules" else plain).append(table)
    with tempfile.TemporaryDirectory() as name:
        made = [
            bench.pairs(Path(name), ARMS if number % 2 == 0 else ARMS[::-1])
            for number in range(N_PAIRED)
        ]
    paired = mean_of([one for one, _ in made])
    between = ratio(plain, with_rules)
    squares = [log(x) ** 2 for _, one in made for key, x in one.items() if key[0] < FROM]
    spread = exp(2 * sqrt(fmean(squares) / N_PAIRED)) - 1
    print(f"{path.name}: {options.ab} launches of each arm, {N_PAIRED} that take turns")
    print(
        f"  below {format_size(FROM)} silence differs from silence by {100 * spread:.1f} % "
        f"(two standard errors of {N_PAIRED} launches)"
    )
    for line in told(between, paired):
        print(line)
    slow = [key for key in between if key[0] >= FROM and between[key] < LEAST]
    slow += [key for key in paired if key[0] < FROM and paired[key] < LEAST - spread]
    print(f"  slower than it may be: {len(slow)} of {len(between)}")
    return not slow


def told(between: Mapping[Key, float], paired: Mapping[Key, float]) -> Iterator[str]:
    """A table for documents."""
    yield f"  {'size':>10} {'launches out':>13} {'in':>6} {'pairs out':>10} {'in':>6}"
    for nbytes in sorted({size for size, _ in between}):
        cells = [
            made[nbytes, placement]
            for made in (between, paired)
            for placement in (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
        ]
        yield (
            f"  {format_size(nbytes):>10} {cells[0]:13.3f} {cells[1]:6.3f} {cells[2]:10.3f} "
            f"{cells[3]:6.3f}"
        )


if __name__ == "__main__":
    sys.exit(main())
