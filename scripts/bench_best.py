"""What share of the best forced setting's gain a tuned session keeps, environments included.

    scripts/bench best --rccl-tests DIR --ranks 2 --session SESSION --collective all_reduce

Launches go through all settings, the session's rules and silence in turns, in an order drawn anew
for each cycle, once as the site is and once with each environment: the schedule is written here, and
nothing of the sweep or of verification is used. The best of many is partly luck, so it is chosen on
every other launch and valued on the rest, and the other way round. Channels stay the library's own
but for what the environment raises. NVLink multicast stays off in every process.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_proof import FROM, Bench, session_options
from bench_tune import devices
from machine import machine

from rccltune import plugin
from rccltune.model import Collective, format_size
from rccltune.rules import read_rules

PROTOCOLS = ("ll", "ll128", "simple")
CALLS = ("-n", "5", "-w", "1")
Times = dict[str, dict[int, list[float]]]


@dataclass(frozen=True, slots=True)
class Arm:
    """A setting or a rule file in an environment, by name: ("", "ring/ll")."""

    environment: str
    step: str

    def __str__(self) -> str:
        """As the table names it."""
        return f"{self.step} with {self.environment}" if self.environment else self.step


Medians = Mapping[Arm, Mapping[int, float]]


def main() -> int:
    """Launches, a table, and the shares."""
    options = read_options()
    print(f"{machine()}; {devices()}", flush=True)
    files = rule_files(options.session)
    launches: list[dict[Arm, dict[int, float]]] = []
    for number in range(options.launches):
        medians: dict[Arm, dict[int, float]] = {}
        names = list(files)
        for environment in names if number % 2 == 0 else names[::-1]:
            times = launch(options, files[environment], environment, seed=number)
            for step, by_size in times.items():
                medians[Arm(environment, step)] = {n: median(v) for n, v in by_size.items()}
        launches.append(medians)
    tell(joined(launches[::2]), joined(launches[1::2]), options.collective)
    return 0


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = session_options(__doc__)
    parser.add_argument("--launches", type=int, default=4, help="of each environment, even")
    parser.add_argument("--cycles", type=int, default=16, help="passes of each setting in a launch")
    options = parser.parse_args()
    if options.launches < 2 or options.launches % 2:
        parser.error("--launches: an even number, 2 at least")
    return options


def rule_files(session: Path) -> dict[str, Path | None]:
    """Rule files by the environment that they need; 32 channels are always tried."""
    found: dict[str, Path | None] = {"": None, "NCCL_MIN_NCHANNELS=32": None}
    for path in sorted([*session.glob("rccl_tuner*.csv"), *session.glob("*/rccl_tuner*.csv")]):
        needs = read_rules(path.read_bytes()).needs
        found[" ".join(f"{name}={value}" for name, value in needs)] = path.resolve()
    return found


def settings(collective: Collective) -> list[str]:
    """What can be forced on one node, without NVLink's multicast."""
    algorithms = ("ring", "tree") if collective is Collective.ALL_REDUCE else ("ring",)
    return [f"{algorithm}/{protocol}" for algorithm in algorithms for protocol in PROTOCOLS]


def launch(options: argparse.Namespace, rules: Path | None, environment: str, seed: int) -> Times:
    """One launch's times in µs by step and size, both placements pooled; first passes left out."""
    steps = ["silent", *(["rules"] if rules else []), *settings(options.collective)]
    draw = random.Random(seed)
    order = ["silent", *(s for _ in range(options.cycles) for s in draw.sample(steps, len(steps)))]
    with tempfile.TemporaryDirectory() as name:
        schedule = Path(name) / "all.schedule"
        schedule.write_text(
            f"#@ format 1\n#@ nodes=1 ranks={options.ranks} calls=0\n"
            + "".join(f"{step}\n" for step in ("silent", *order)),
            encoding="utf-8",
        )
        added = dict(one.split("=") for one in environment.split())
        added |= {
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
            "RCCLTUNE_SCHEDULE": str(schedule),
            **({"NCCL_TUNER_CONFIG_FILE": str(rules)} if rules else {}),
        }
        tables = Bench(options, {}, CALLS).run(added, len(order))
    found: Times = {step: {} for step in steps}
    for step, table in zip(order[1:], tables[1:], strict=True):
        for (nbytes, _), time_us in table.items():
            found[step].setdefault(nbytes, []).append(time_us)
    return found


def joined(launches: Sequence[Medians]) -> dict[Arm, dict[int, float]]:
    """Median over launches."""
    return {
        arm: {nbytes: median(one[arm][nbytes] for one in launches) for nbytes in by_size}
        for arm, by_size in launches[0].items()
    }


def tell(first: Medians, second: Medians, collective: Collective) -> None:
    """The table, and the shares from 512 KiB on."""
    own = Arm("", "silent")
    file_arms = [arm for arm in first if arm.step == "rules"]
    everywhere = [arm for arm in first if arm.step != "rules"]
    here = [arm for arm in everywhere if not arm.environment]
    folds = ((first, second), (second, first))

    def best(arms: Sequence[Arm], nbytes: int) -> float:
        """Gain, as a logarithm, of the fastest arm of one half, by the other half's times."""
        gains = []
        for chosen_on, valued_on in folds:
            arm = min(arms, key=lambda one: chosen_on[one][nbytes])
            gains.append(log(valued_on[own][nbytes] / valued_on[arm][nbytes]))
        return fmean(gains)

    def gain(arm: Arm, nbytes: int) -> float:
        return fmean(log(half[own][nbytes] / half[arm][nbytes]) for half in (first, second))

    sizes = sorted(first[own])
    columns = {
        "best here": {n: best(here, n) for n in sizes},
        "best anywhere": {n: best(everywhere, n) for n in sizes},
        **{str(arm): {n: gain(arm, n) for n in sizes} for arm in file_arms},
    }
    print(f"{collective.value}: times as fast as the library's own choice at the site")
    print(f"  {'size':>8} {'own':>9}  {'  '.join(columns)}  fastest")
    for nbytes in sizes:
        cells = "  ".join(f"{exp(c[nbytes]):{len(name)}.3f}" for name, c in columns.items())
        fastest = min(everywhere, key=lambda a: first[a][nbytes] + second[a][nbytes])
        time_us = fmean(half[own][nbytes] for half in (first, second))
        print(f"  {format_size(nbytes):>8} {time_us:6.1f} µs  {cells}  {fastest}")
    large = [nbytes for nbytes in sizes if nbytes >= FROM]
    for name, column in columns.items():
        mean = fmean(column[nbytes] for nbytes in large)
        bests = {bound: fmean(columns[bound][n] for n in large) for bound in list(columns)[:2]}
        shares = ", ".join(f"{100 * mean / of:.0f} % of {b}" for b, of in bests.items() if of > 0)
        lost = [max(columns["best here"][n] - column[n], 0.0) for n in large]
        print(
            f"  from {format_size(FROM)} on, {name}: {exp(mean):.3f} ({shares}); behind the best "
            f"here by {100 * fmean(lost):.2f} % in the mean, {100 * max(lost):.1f} % at worst"
        )


if __name__ == "__main__":
    sys.exit(main())
