"""What share of the best forced setting's gain a tuned session keeps, environments included.

    scripts/bench best --rccl-tests DIR --ranks 2 --session SESSION --collective all_reduce

Launches go through all settings, the session's rules and silence in turns, in an order drawn anew
for each cycle, once as the site is and once with each environment: the schedule is written here, and
nothing of the sweep or of verification is used. The best of many is partly luck, so it is chosen on
every other launch and valued on the rest, and the other way round. Launches differ by 10 % below
2 MiB, so many short ones are made, and shares have intervals of 95 % (launches drawn again with
replacement). Channels stay the library's own but for what the environment raises. NVLink multicast
stays off in every process.
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
from statistics import fmean, median, quantiles

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
    tell(launches, options.collective)
    return 0


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = session_options(__doc__)
    parser.add_argument("--launches", type=int, default=12, help="of each environment, even")
    parser.add_argument("--cycles", type=int, default=4, help="passes of each setting in a launch")
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


@dataclass(frozen=True, slots=True)
class Gains:
    """What each column of the table gains, as logarithms by size.

    Attributes:
        columns: by name; the best here and anywhere, chosen on one half of the launches and valued
            on the other, then the files.
        fastest: setting, over both halves.
        own_us: time of the library's own choice at the site.
    """

    columns: dict[str, dict[int, float]]
    fastest: dict[int, Arm]
    own_us: dict[int, float]

    def mean(self, name: str) -> float:
        """From 512 KiB on."""
        return fmean(gain for nbytes, gain in self.columns[name].items() if nbytes >= FROM)


HERE, ANYWHERE = "best here", "best anywhere"
N_DRAWS = 400


def gains_of(first: Medians, second: Medians) -> Gains:
    """Of two halves of the launches."""
    own = Arm("", "silent")
    file_arms = [arm for arm in first if arm.step == "rules"]
    everywhere = [arm for arm in first if arm.step != "rules"]
    here = [arm for arm in everywhere if not arm.environment]
    folds = ((first, second), (second, first))

    def best(arms: Sequence[Arm], nbytes: int) -> float:
        found = []
        for chosen_on, valued_on in folds:
            arm = min(arms, key=lambda one: chosen_on[one][nbytes])
            found.append(log(valued_on[own][nbytes] / valued_on[arm][nbytes]))
        return fmean(found)

    def gain(arm: Arm, nbytes: int) -> float:
        return fmean(log(half[own][nbytes] / half[arm][nbytes]) for half in (first, second))

    sizes = sorted(first[own])
    return Gains(
        columns={
            HERE: {n: best(here, n) for n in sizes},
            ANYWHERE: {n: best(everywhere, n) for n in sizes},
            **{str(arm): {n: gain(arm, n) for n in sizes} for arm in file_arms},
        },
        fastest={n: min(everywhere, key=lambda a: first[a][n] + second[a][n]) for n in sizes},
        own_us={n: fmean(half[own][n] for half in (first, second)) for n in sizes},
    )


def tell(launches: Sequence[Medians], collective: Collective) -> None:
    """The table, and the shares from 512 KiB on."""
    halves = launches[::2], launches[1::2]
    found = gains_of(*map(joined, halves))
    draw = random.Random(27)
    again = [
        gains_of(*(joined(draw.choices(half, k=len(half))) for half in halves))
        for _ in range(N_DRAWS)
    ]
    print(f"{collective.value}: times as fast as the library's own choice at the site")
    print(f"  {'size':>8} {'own':>9}  {'  '.join(found.columns)}  fastest")
    for nbytes, time_us in found.own_us.items():
        cells = "  ".join(f"{exp(c[nbytes]):{len(name)}.3f}" for name, c in found.columns.items())
        print(f"  {format_size(nbytes):>8} {time_us:6.1f} µs  {cells}  {found.fastest[nbytes]}")
    for name, column in found.columns.items():
        shares = [share(found, again, name, of) for of in (HERE, ANYWHERE) if of != name]
        lost = [max(found.columns[HERE][n] - gain, 0.0) for n, gain in column.items() if n >= FROM]
        told = ", ".join(filter(None, shares))
        print(
            f"  from {format_size(FROM)} on, {name}: {exp(found.mean(name)):.3f}"
            f"{f' ({told})' if told else ''}; behind the best here by "
            f"{100 * fmean(lost):.2f} % in the mean, {100 * max(lost):.1f} % at worst"
        )


def share(found: Gains, again: Sequence[Gains], name: str, of: str) -> str:
    """Of a best's mean gain, with its interval; nothing where the best gains nothing for sure."""
    known = [one.mean(name) / one.mean(of) for one in again if one.mean(of) > 0]
    if found.mean(of) <= 0 or len(known) < len(again):
        return ""
    low, high = (100 * quantiles(known, n=40)[at] for at in (0, -1))
    return f"{100 * found.mean(name) / found.mean(of):.0f} % ({low:.0f} to {high:.0f}) of {of}"


if __name__ == "__main__":
    sys.exit(main())
