"""One launch for all settings against one for each: wall time, launches, and whether times agree.

Both methods measure the same settings, sizes and repeats in one run, taking turns. Without options
on the simulated node, the 24 settings that a stock library can choose and 64 processes under mpirun,
with a library that starts at once and one that takes 10 s; with --real on this machine's GPUs (what
follows -- goes to the sweep). With --faults a node instead on which one of the 24 settings hangs,
one crashes and one is wrong: how many more launches it takes until the other 21 have all samples.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from machine import machine, timed
from search_nodes import SETTINGS, shipped

from rccltune.model import Role, format_size
from rccltune.session import name_of, read_launches

METHODS = ("one-launch", "per-setting")
KEY = ["collective", "setting", "placement", "nbytes"]
SETTING_OPTIONS = [word for name in SETTINGS for word in ("--setting", name)]
MODE = ["--mode", "cpx-nps4", "--collective", "all_reduce"]
SIMULATED = [*MODE, "--simulate", "mi300x"]
SIZES = ["--min-bytes", "1K", "--max-bytes", "64M"]
# How many times less wall time the issue asks for, by the library's start-up in seconds.
SPEEDUPS = {0: 5.0, 10: 10.0}
FAULTS = (
    {"kind": "hang", "setting": "ring/simple", "channels": 8},
    {"kind": "crash", "setting": "tree/ll", "channels": 16, "rank": 5, "how": "segv"},
    {"kind": "wrong", "setting": "ring/ll128", "channels": 4, "elements": 7},
)
MORE_LAUNCHES = 3
# A sweep that quarantined something ends with it.
_DONE = (0, 5)


def options_of(method: str) -> list[str]:
    """Both methods measure everything; launches for each setting cannot do otherwise."""
    return ["--method", method, *(("--exhaustive",) if method == "one-launch" else ())]


def measure(folder: Path, wish: list[str], seed: int) -> dict[str, tuple[float, pd.DataFrame]]:
    """Seconds and samples of each method; who goes first changes with the seed."""
    found = {}
    folder.mkdir(exist_ok=True)
    for method in METHODS if seed % 2 else METHODS[::-1]:
        session = folder / f"{method}-{seed}"
        arguments = [
            "sweep",
            "--runner",
            "rccl-tests",
            *wish,
            *options_of(method),
            "--seed",
            str(seed),
            "-o",
            str(session),
        ]
        seconds, _ = timed(arguments, folder)
        samples = samples_of(session)
        if method == "one-launch":
            controls = control_launches(session)
            # Not of the points that both methods measure.
            samples = samples[~samples["launch"].isin(controls)]
            found["control"] = (sum(controls.values()), samples)
        found[method] = (seconds, samples)
    return found


def control_launches(session: Path) -> dict[str, float]:
    """Separate launches of settings beside walks, once for each new machine, with their seconds."""
    return {
        launch.id: outcome.duration_s or 0.0
        for launch, outcome in read_launches(session)
        if launch.schedule is not None
        and launch.schedule.questions is None
        and launch.schedule.settings[0].role is Role.FORCED
    }


def samples_of(session: Path) -> pd.DataFrame:
    """Half-rows, with the launch that each is of."""
    samples = pd.read_csv(session / "samples.csv", keep_default_na=False)
    launches: pd.Series[str] = samples["launch"].astype(str).str.partition(".")[0]
    named: pd.DataFrame = samples.assign(launch=launches)
    return named


def medians(samples: pd.DataFrame, *, forced: bool) -> pd.Series[float]:
    """Median µs of what may be used, by KEY."""
    used = samples[samples["doubt"] == ""]
    is_forced = ~used["setting"].isin(["baseline", "silent"])
    found: pd.Series[float] = used[is_forced == forced].groupby(KEY)["time_us"].median()
    return found


def compared(found: dict[str, tuple[float, pd.DataFrame]]) -> dict[str, Any]:
    """One seed's figures."""
    one, each = (found[method] for method in METHODS)
    ratios = (medians(one[1], forced=True) / medians(each[1], forced=True)).dropna()
    site = medians(one[1], forced=False)
    level = "setting"
    alone = (site.xs("silent", level=level) / site.xs("baseline", level=level)).dropna()
    apart = (ratios - 1).abs()
    return {
        "one_launch_s": one[0],
        "per_setting_s": each[0],
        "speedup": each[0] / (one[0] - found["control"][0]),
        "speedup_with_control": each[0] / one[0],
        "control_s": found["control"][0],
        "one_launch_n": float(one[1]["launch"].nunique()),
        "per_setting_n": float(each[1]["launch"].nunique()),
        "points": float(len(ratios)),
        "difference_median": float(apart.median()),
        "difference_p95": float(apart.quantile(0.95)),
        "difference_worst": float(apart.max()),
        "ratio_median": float(ratios.median()),
        "silent_to_baseline_median": float(alone.median()),
        "silent_to_baseline_low": float(alone.quantile(0.05)),
        "silent_to_baseline_high": float(alone.quantile(0.95)),
        "by_size": {
            str(nbytes): [float(of_size.median()), float(of_size.quantile(0.95))]
            for nbytes, of_size in apart.groupby("nbytes")
        },
    }


def show(title: str, rows: list[dict[str, Any]], goal: float | None) -> None:
    """Medians over the seeds, for people."""
    m = pd.DataFrame(rows).drop(columns="by_size").median()
    wanted = "" if goal is None else f" ({goal:.0f} wanted)"
    print(f"  {title} ({len(rows)} runs of each, medians)")
    print(
        f"    {m['one_launch_n']:.0f} launches in {m['one_launch_s'] - m['control_s']:.1f} s "
        f"against {m['per_setting_n']:.0f} in {m['per_setting_s']:.1f} s: "
        f"{m['speedup']:.1f} times less{wanted}; with the control of a new machine "
        f"({m['control_s']:.1f} s) {m['speedup_with_control']:.1f} times"
    )
    print(
        f"    {m['points']:.0f} points differ by {100 * m['difference_median']:.2f} % in the median, "
        f"{100 * m['difference_p95']:.1f} % at most in 95 % of them, "
        f"{100 * m['difference_worst']:.1f} % at worst; median ratio {m['ratio_median']:.4f}"
    )
    print(
        f"    silent against baseline: {m['silent_to_baseline_median']:.4f} in the median, "
        f"{m['silent_to_baseline_low']:.3f} to {m['silent_to_baseline_high']:.3f} in 90 %"
    )
    print("    by size, difference in the median and in 95 % of the points:")
    for nbytes in rows[0]["by_size"]:
        middle, most = (
            statistics.median(row["by_size"][nbytes][k] for row in rows) for k in (0, 1)
        )
        print(f"      {format_size(int(nbytes)):>8} {100 * middle:5.2f} % {100 * most:5.1f} %")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What faults cost.

    Attributes:
        n_planned: launches of the same sweep without faults, until its last walk has ended.
        n_until: launches made when the healthy settings had all their samples, None if never.
        n_made: launches made in all.
        lacking: (setting, placement, size) of healthy settings with too few samples at the end.
        kinds: what each launch measured and how it ended, in their order.
    """

    n_planned: int
    n_until: int | None
    n_made: int
    lacking: int
    kinds: list[str]
    seconds: float

    @property
    def extra(self) -> int | None:
        """Launches more than without faults."""
        return None if self.n_until is None else self.n_until - self.n_planned


def recovered(folder: Path, wish: Sequence[str], repeats: int, seed: int) -> Recovery:
    """One sweep of the node with faults."""
    node = folder / "faults.yaml"
    faults = [{"collective": "all_reduce", **fault} for fault in FAULTS]
    document = shipped() | {"name": "faults", "faults": faults}
    node.write_text(yaml.safe_dump(document), encoding="utf-8")
    session = folder / f"faults-{seed}"
    arguments = [
        *(
            "sweep",
            "--runner",
            "rccl-tests",
            *MODE,
            "--simulate",
            str(node),
            *SIZES,
            *SETTING_OPTIONS,
        ),
        *(*options_of("one-launch"), "--repeats", str(repeats), "--seed", str(seed)),
        *("-o", str(session), *wish),
    ]
    command = [sys.executable, "-m", "rccltune", *arguments]
    planned = subprocess.run(
        [*command, "--plan", "--json"], capture_output=True, text=True, check=True
    )
    start = time.perf_counter()
    done = subprocess.run([*command, "-q"], capture_output=True, text=True, check=False)
    if done.returncode not in _DONE:
        sys.exit(f"the sweep of the node with faults failed:\n{done.stderr}")
    seconds = time.perf_counter() - start
    order, kinds = in_order(session), kinds_of(session)
    samples = samples_of(session)
    healthy = [name for name in SETTINGS if name not in faulty()]
    n_until, lacking = until_complete(samples, order, healthy, repeats)
    return Recovery(
        n_planned=last_walk(json.loads(planned.stdout)["launches"]),
        n_until=n_until,
        n_made=len(order),
        lacking=lacking,
        kinds=[kinds[name] for name in order],
        seconds=seconds,
    )


def last_walk(planned: Sequence[dict[str, Any]]) -> int:
    """The number of the last launch that walks through settings; controls and baselines follow."""
    return max(number for number, one in enumerate(planned, 1) if "-N" in one["argv"])


def faulty() -> set[str]:
    """Names of the three."""
    return {f"{fault['setting']}/{fault['channels']}" for fault in FAULTS}


def in_order(session: Path) -> list[str]:
    """Launches as they ended; an outcome is the last file that is written, and to stay."""
    outcomes = sorted(session.glob("launches/*/outcome.json"), key=lambda p: p.stat().st_mtime_ns)
    return [path.parent.name for path in outcomes]


def kinds_of(session: Path) -> dict[str, str]:
    """For people, by launch: what it was for, and how it ended."""
    return {
        one.id: f"{name_of(one)}: {(outcome.failure or outcome.status).value}"
        for one, outcome in read_launches(session)
    }


def until_complete(
    samples: pd.DataFrame, order: Sequence[str], healthy: Sequence[str], repeats: int
) -> tuple[int | None, int]:
    """How many launches it took until every healthy point had its samples; points that lack some.

    Args:
        samples: of the session, of launches that failed as well.
        order: launches as they were made.
        healthy: settings that must be complete.
        repeats: samples that each of their half-rows must have.
    """
    places = samples[["placement", "nbytes"]].drop_duplicates().itertuples(index=False, name=None)
    missing = {(name, *place): repeats for place in places for name in healthy}
    used = samples[samples["doubt"] == ""]
    n_until = 0
    for number, launch in enumerate(order, 1):
        of_launch = used.loc[used["launch"] == launch, ["setting", "placement", "nbytes"]]
        for point in of_launch.itertuples(index=False, name=None):
            if missing.get(point):
                missing[point] -= 1
                n_until = number
    lacking = sum(n > 0 for n in missing.values())
    return (None if lacking else n_until), lacking


def show_recovery(found: Sequence[Recovery]) -> None:
    """For people."""
    print(f"  SIMULATED, of 24 settings {', '.join(sorted(faulty()))} hang, crash or are wrong")
    for seed, one in enumerate(found):
        if one.extra is None:
            print(f"    seed {seed}: {one.lacking} points of the other 21 settings lack samples")
        else:
            print(
                f"    seed {seed}: the other 21 had all samples after {one.n_until} launches, "
                f"{one.extra} more than without faults ({MORE_LAUNCHES} wanted); "
                f"{one.n_made} in all, {one.seconds:.0f} s"
            )
        for number, kind in enumerate(one.kinds, 1):
            print(f"      {number:>3} {kind}")


def bench_faults(options: argparse.Namespace) -> int:
    """The recovery of each seed."""
    with tempfile.TemporaryDirectory() as name:
        found = [
            recovered(Path(name), options.rest, options.repeats, seed)
            for seed in range(options.seeds)
        ]
    if options.json:
        print(json.dumps([{**one.__dict__, "extra": one.extra} for one in found], indent=1))
    else:
        print(machine())
        show_recovery(found)
    return int(any(one.extra is None or one.extra > MORE_LAUNCHES for one in found))


def cases_of(options: argparse.Namespace) -> dict[str, tuple[list[str], float | None]]:
    """What is measured under which title, and the goal."""
    wish = ["--repeats", str(options.repeats), *options.rest]
    if options.real:
        return {"this machine": ([*SIZES, *wish], None)}
    return {
        f"SIMULATED, library start-up {startup} s": (
            [
                *(*SIMULATED, *SIZES, *SETTING_OPTIONS, *wish),
                *("--env", f"RCCLTUNE_SIM_STARTUP_S={startup}"),
            ],
            SPEEDUPS.get(startup),
        )
        for startup in options.startup
    }


def main() -> int:
    """Each case, each seed, both methods."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--startup", type=int, nargs="+", default=list(SPEEDUPS), metavar="S")
    parser.add_argument("--real", action="store_true", help="on this machine's GPUs")
    parser.add_argument("--faults", action="store_true", help="a simulated node with faults")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("rest", nargs="*", help="more options of the sweep, behind --")
    options = parser.parse_args()
    if options.faults:
        return bench_faults(options)
    result, missed = {}, []
    cases = cases_of(options)
    with tempfile.TemporaryDirectory() as name:
        for title, (arguments, goal) in cases.items():
            rows = [
                compared(measure(Path(name) / title.replace(" ", "-"), arguments, seed))
                for seed in range(options.seeds)
            ]
            result[title] = rows
            if goal is not None and pd.DataFrame(rows)["speedup"].median() < goal:
                missed.append(title)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        print(machine())
        for title, rows in result.items():
            show(title, rows, cases[title][1])
    for title in missed:
        print(f"MISSED: {title}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
