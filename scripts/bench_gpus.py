"""rccltune on this machine's GPUs: sessions of tune, an A/B by nccl-tests, and the share of the gain.

    scripts/bench gpus tune --ranks 2 --sessions 5 -o FOLDER -- --collective all_reduce
    scripts/bench gpus ab --ranks 2 --session SESSION --rccl-tests DIR --collective all_reduce
    scripts/bench gpus sides --ranks 2 --comparison FOLDER --env NAME=VALUE --rccl-tests DIR
    scripts/bench gpus share --ranks 2 --session SESSION --collective all_reduce

``tune`` runs `rccltune tune` as a user would, each time in a new folder; what stands behind ``--`` goes
to it as it is. ``ab`` launches nccl-tests with the session's rules and without, in turns, once launched
one by one and once by ``-G``: intervals of 95 % over pairs of launches, corrected for the number of
sizes. ``sides`` does so with a variable and without, and holds it against what ``rccltune compare site
site+NAME=VALUE`` found: ``-G`` up to 4 MiB, launched one by one above. ``share`` measures every setting,
the rules and silence in each communicator, four sizes an octave, by graphs below 4 MiB; the best of many
is partly luck, so it is chosen on every other communicator and valued on the rest, and the other way
round. NVLink multicast stays off in every process. ``--simulate NODE`` tries the bench itself.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, median, stdev

import numpy as np
import pandas as pd
from machine import SAFETY, ended_well, machine
from perf_runs import GRAPH, LOOP, Ground, ground_of, measure, options_of, run
from sample_rows import samples_of
from scipy import stats

from rccltune import plugin
from rccltune.logs.parsed_log import read_stream
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import BASELINE
from rccltune.model.units import KIB, format_size
from rccltune.model.vocabulary import Collective
from rccltune.rules.rule_file import RuleFile, read_rules

SIZES = tuple(round(KIB * 2 ** (step / 4) / 64) * 64 for step in range(18 * 4 + 1))
# Sizes that must not be slower one by one from here on; by -G, with registered buffers, none may.
BY_LOOP = 3 << 19
GRAPHS_BELOW = 4 << 20
LEAST, LEAST_ONE_BY_ONE = 0.98, 0.97
NEAR = 0.02
LIMIT_S = 300
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PROTOCOLS = ("ll", "ll128", "simple")
N_DRAWS = 400
Logs = dict[int, list[float]]
Gains = np.ndarray[tuple[int], np.dtype[np.float64]]
# By communicator, answer and size.
Half = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]


def main() -> int:
    """The part that was asked for; 1 where it misses what is wanted."""
    options = read_options()
    print(f"{machine()}; {devices()}", flush=True)
    part: Callable[[argparse.Namespace], bool] = options.part
    return int(not part(options))


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(required=True, metavar="tune|ab|sides|share")
    tuning = parts.add_parser("tune")
    tuning.add_argument("--sessions", type=int, default=1)
    tuning.add_argument("-o", "--output", type=Path, required=True, help="folder of sessions")
    tuning.add_argument("further", nargs="*", help="options of rccltune tune, behind --")
    comparing, checking = parts.add_parser("ab"), parts.add_parser("sides")
    for one in (comparing, checking):
        one.add_argument("--rccl-tests", type=Path, required=True, metavar="DIR")
        one.add_argument("--launches", type=int, default=8, help="of each arm and timing mode")
        one.add_argument("--most-s", type=float, default=3600, help="no launch ends behind it")
    checking.add_argument("--comparison", type=Path, required=True, metavar="FOLDER")
    checking.add_argument("--env", required=True, metavar="NAME=VALUE", help="of side B")
    sharing = parts.add_parser("share")
    sharing.add_argument("--communicators", type=int, default=8, help="4 at least")
    for one in (comparing, sharing):
        one.add_argument("--session", type=Path, required=True)
    for one in (comparing, checking, sharing):
        one.add_argument("--collective", type=Collective.parse, default=Collective.ALL_REDUCE)
    parts_of = ((tuning, tune), (comparing, ab), (checking, check_sides), (sharing, share))
    for one, function in parts_of:
        options_of(one)
        one.set_defaults(part=function)
    return parser.parse_args()


def devices() -> str:
    """What nvidia-smi calls them."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no NVIDIA GPU"
    lines = done.stdout.splitlines()
    return f"{len(lines)} x {lines[0]}" if lines else "no NVIDIA GPU"


def tune(options: argparse.Namespace) -> bool:
    """Whether every session ends with exit code 0, and rules of two agree where both have one."""
    where = ["--simulate", options.simulate] if options.simulate else ["--mode", "none"]
    where += ["--librccl", str(options.librccl)] if options.librccl else []
    variables = dict(os.environ) | SAFETY | OPEN_MPI
    files: list[RuleFile] = []
    seconds, codes = [], []
    for number in range(1, options.sessions + 1):
        session = options.output / str(number)
        words = ["tune", *where, "--np", str(options.ranks), "-o", str(session), *options.further]
        print(f"$ rccltune {' '.join(words)}", flush=True)
        start = time.monotonic()
        command = [sys.executable, "-m", "rccltune", *words]
        codes.append(subprocess.run(command, env=variables, check=False).returncode)
        seconds.append(time.monotonic() - start)
        made = sorted(session.glob("rccl_tuner*.csv"))
        files += [read_rules(path.read_bytes()) for path in made[:1]]
        print(f"exit code {codes[-1]}, {seconds[-1]:.0f} s", flush=True)
        for rule in files[-1].rules if made else ():
            span = f"{format_size(rule.min_nbytes)} to {format_size(rule.max_nbytes)}"
            print(f"  {rule.collective.value} {span}: {rule.setting}")
    both, other = agreement(files)
    print(
        f"{options.sessions} sessions: exit codes {codes}; {median(seconds):.0f} s in the median, "
        f"{max(seconds):.0f} s at most; of {both} sizes with rules of two sessions {other} differ"
    )
    return not any(codes) and not other


def agreement(files: Sequence[RuleFile]) -> tuple[int, int]:
    """Sizes, four an octave, at which two sessions have a rule, and those at which they differ."""
    answers = [
        {
            (rule.collective, n): str(rule.setting)
            for rule in reversed(file.rules)
            for n in SIZES
            if rule.min_nbytes <= n <= rule.max_nbytes
        }
        for file in files
    ]
    pairs = [(a[key], b[key]) for a, b in combinations(answers, 2) for key in a.keys() & b.keys()]
    return len(pairs), sum(one != other for one, other in pairs)


def rules_of(session: Path) -> tuple[Path, RuleFile]:
    """The rule file that a user would take."""
    found = sorted(session.glob("rccl_tuner*.csv"))
    if not found:
        sys.exit(f"{session} has no rule file")
    return found[0].resolve(), read_rules(found[0].read_bytes())


def ab(options: argparse.Namespace) -> bool:
    """Whether no size is slower with the rules: in its own timing mode, and launched one by one."""
    path, file = rules_of(options.session)
    tuned = dict(file.needs) | {
        "NCCL_TUNER_PLUGIN": str(plugin.library()),
        "NCCL_TUNER_CONFIG_FILE": str(path),
    }
    found = pairs_of_launches(options, tuned)
    sizes = sorted(found[LOOP])
    n_launches = len(found[LOOP][sizes[0]])
    print(f"{path.name}, {options.collective.value}: {n_launches} launches of each arm")
    print(f"  {'size':>10}  untouched / tuned one by one   by -G")
    slow = []
    for nbytes in sizes:
        cells = {timing: interval(found[timing][nbytes], len(sizes)) for timing in found}
        counts = {LOOP: nbytes >= BY_LOOP, GRAPH: True}
        is_slow = any(counts[timing] and high < LEAST for timing, (_, _, high) in cells.items())
        slow += [nbytes] * is_slow
        told = "   ".join(f"{mid:.3f} ({low:.3f} to {up:.3f})" for mid, low, up in cells.values())
        print(f"  {format_size(nbytes):>10}  {told}{'  SLOWER' * is_slow}")
    # Two sizes an octave.
    octaves = [sizes[at : at + 2] for at in range(0, len(sizes), 2)]
    means = {
        octave[0]: interval(
            [fmean(two) for two in zip(*(found[LOOP][n] for n in octave), strict=True)]
        )
        for octave in octaves
    }
    behind = [format_size(n) for n, (_, _, high) in means.items() if high < LEAST_ONE_BY_ONE]
    print(
        f"  sizes below {LEAST}: {len(slow)} of {len(sizes)}; octaves whose mean is below "
        f"{LEAST_ONE_BY_ONE} one by one: {', '.join(behind) or 'none'}"
    )
    return not slow and not behind


def pairs_of_launches(options: argparse.Namespace, added: Mapping[str, str]) -> dict[str, Logs]:
    """log(untouched / with ``added``) of each pair of launches, by timing and size."""
    variables: dict[str, str] = {**ground_of(options).variables, **OPEN_MPI}
    found: dict[str, Logs] = {LOOP: {}, GRAPH: {}}
    began, made_of = time.monotonic(), []
    for number in range(options.launches):
        spent_s = time.monotonic() - began
        if number > 1 and spent_s * (number + 1) / number > options.most_s:
            print(f"  {number} of {options.launches} launches: no time for more")
            break
        for timing, more in ((LOOP, ()), (GRAPH, ("-G", "20"))):
            made = {}
            for is_b in (False, True) if number % 2 == 0 else (True, False):
                made[is_b] = times(options, {**variables, **(added if is_b else {})}, more)
            for nbytes, time_us in made[False].items():
                ratio = log(time_us / made[True][nbytes])
                found[timing].setdefault(nbytes, []).append(ratio)
                made_of.append((number, timing, nbytes, time_us, made[True][nbytes]))
        print(f"  launch {number}: {time.monotonic() - began:.0f} s", flush=True)
        if options.rows:
            names = ["launch", "timing", "nbytes", "untouched_us", "tuned_us"]
            pd.DataFrame(made_of, columns=names).to_csv(options.rows, index=False)
    return found


def check_sides(options: argparse.Namespace) -> bool:
    """Whether nccl-tests say what a comparison says, within 2 % at nine sizes of ten."""
    name, _, value = options.env.partition("=")
    compared = pd.read_csv(options.comparison / "comparison.csv")
    own = compared[compared["collective"] == options.collective.value].set_index("nbytes")
    found = pairs_of_launches(options, {name: value})
    print(f"{options.env}, {options.collective.value}: time with it / time without")
    print(f"  {'size':>10}  compare                  nccl-tests")
    is_near = []
    for nbytes, row in own.iterrows():
        timing = GRAPH if nbytes <= GRAPHS_BELOW else LOOP
        if nbytes not in found[timing]:
            continue
        by_tests, low, high = interval([-one for one in found[timing][nbytes]])
        is_near.append(abs(log(by_tests / row["ratio"])) <= NEAR)
        print(
            f"  {format_size(nbytes):>10}  {row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
            f"   {by_tests:.3f} ({low:.3f} to {high:.3f}){'' if is_near[-1] else '  OTHERWISE'}"
        )
    print(f"  within 2 %: {sum(is_near)} of {len(is_near)} sizes")
    return sum(is_near) >= 0.9 * len(is_near) > 0


def times(
    options: argparse.Namespace, variables: Mapping[str, str], more: Sequence[str]
) -> dict[int, float]:
    """Times in us of two launches, whose sizes lie between each other's; both placements' mean."""
    program = str(options.rccl_tests / options.collective.benchmark)
    ranks = ["mpirun", "-np", str(options.ranks), "--bind-to", "none", "--oversubscribe", program]
    stated = StatedFacts(
        collective=options.collective, setting=BASELINE, n_ranks=options.ranks, n_nodes=1
    )
    found: dict[int, list[float]] = {}
    for first in ("1K", "1536"):
        sizes = ["-b", first, "-e", "256M", "-f", "2", "-g", "1", "-c", "0", "-w", "5", *more]
        done = ended_well([*ranks, *sizes], variables, LIMIT_S)
        lines = (line.encode() + b"\n" for line in done.stdout.splitlines())
        for sample in samples_of(read_stream(lines, program, stated, "ab")):
            if sample.time_us is not None:
                found.setdefault(sample.nbytes, []).append(log(sample.time_us))
    return {nbytes: exp(fmean(logs)) for nbytes, logs in found.items()}


def interval(logs: Sequence[float], n_tests: int = 1) -> tuple[float, float, float]:
    """A ratio with its interval of 95 % by Student's t, corrected for so many of them (Bonferroni)."""
    half = stats.t.ppf(1 - 0.025 / n_tests, len(logs) - 1) * stdev(logs) / sqrt(len(logs))
    return exp(fmean(logs)), exp(fmean(logs) - half), exp(fmean(logs) + half)


def share(options: argparse.Namespace) -> bool:
    """Whether the rules keep 90 % of what the best forced setting gains, where that is over 3 %."""
    path, file = rules_of(options.session)
    if file.needs:
        sys.exit(f"{path} needs variables, which silence would have too")
    ground = ground_of(options)
    ground = replace(ground, variables=ground.variables | {"NCCL_TUNER_CONFIG_FILE": str(path)})
    forced = [
        f"{algorithm}/{protocol}"
        for algorithm in ("ring", "tree")[: 1 + (options.collective is Collective.ALL_REDUCE)]
        for protocol in PROTOCOLS
    ]
    answers = ["nothing", "rules", *forced]
    logs = measured(options, ground, answers)
    halves = logs[::2], logs[1::2]
    best, ours, fastest = gains(*halves)
    print(f"{path.name}, {options.collective.value}: as fast as the library's own choice, in times")
    for at, nbytes in enumerate(SIZES):
        name = answers[fastest[at]]
        print(
            f"  {format_size(nbytes):>10}  best {exp(best[at]):.3f}  rules {exp(ours[at]):.3f}  {name}"
        )
    draw = np.random.default_rng(36)
    again = []
    for _ in range(N_DRAWS):
        picked = (half[draw.integers(len(half), size=len(half))] for half in halves)
        one, mine, _ = gains(*picked)
        again.append(mine.mean() / one.mean() if one.mean() > 0 else np.nan)
    kept, (low, high) = ours.mean() / best.mean(), np.nanquantile(again, (0.025, 0.975))
    print(
        f"  mean gain {exp(best.mean()):.3f} of the best, {exp(ours.mean()):.3f} of the rules: "
        f"{100 * kept:.0f} % ({100 * low:.0f} to {100 * high:.0f} %); behind the best by "
        f"{100 * np.maximum(best - ours, 0).mean():.2f} % in the mean"
    )
    return bool(exp(best.mean()) <= 1.03 or kept >= 0.9)


def measured(options: argparse.Namespace, ground: Ground, answers: Sequence[str]) -> Half:
    """Logarithms of times by communicator, answer and size; what was not answered so is infinite."""
    steps = [step for seed in range(options.communicators) for step in plan(options, answers, seed)]
    table = run(ground, steps)
    if options.rows:
        table.to_csv(options.rows, index=False)
    table = table[(table["step"] == "measure") & table["time_us"].notna()]
    free = table["asked_for"].isin(("nothing", "rules"))
    table = table[free | (table["answer"] == table["asked_for"])]
    found = np.full((options.communicators, len(answers), len(SIZES)), np.inf)
    for row in table.itertuples():
        where = row.communicator, answers.index(row.asked_for), SIZES.index(int(row.planned))
        found[where] = log(row.time_us)
    return found


def plan(options: argparse.Namespace, answers: Sequence[str], seed: int) -> Iterator[str]:
    """A communicator's steps: at each size all answers in an order that is drawn; loops first."""
    draw = random.Random(seed)
    yield "communicator"
    for nbytes in reversed(SIZES):
        timing = GRAPH if nbytes < GRAPHS_BELOW else LOOP
        for answer in draw.sample(answers, len(answers)):
            yield f"answer {answer}"
            yield measure(f"{options.collective.value} float sum out {nbytes}", timing)


def gains(first: Half, second: Half) -> tuple[Gains, Gains, list[int]]:
    """Logarithms of what the best forced setting and the rules gain by size, and which is the best."""
    medians = [np.median(half, axis=0) for half in (first, second)]
    forced = [np.delete(one, 1, axis=0) for one in medians]
    at = np.arange(len(SIZES))
    best = [
        valued[0] - valued[chosen.argmin(axis=0), at] for chosen, valued in (forced, forced[::-1])
    ]
    rules = [one[0] - one[1] for one in medians]
    fastest = np.sum(forced, axis=0).argmin(axis=0)
    return np.mean(best, axis=0), np.mean(rules, axis=0), [n + (n > 0) for n in fastest]


if __name__ == "__main__":
    sys.exit(main())
