"""One launch for all settings against one for each: wall time, launches, and whether times agree.

Both methods measure the same settings, sizes and repeats in one run, taking turns. Without options
on the simulated node, 24 settings and 64 processes under mpirun, with a library that starts at once
and one that takes 10 s; with --real on this machine's GPUs (what follows -- goes to the sweep).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import pandas as pd
from machine import machine, timed

METHODS = ("one-launch", "per-setting")
KEY = ["collective", "setting", "placement", "nbytes"]
# Six pairs with four channel counts each.
SETTINGS = [
    word
    for pair in ("ring/ll", "ring/ll128", "ring/simple", "tree/ll", "tree/ll128", "tree/simple")
    for channels in (4, 8, 16, 32)
    for word in ("--setting", f"{pair}/{channels}")
]
SIMULATED = ["--mode", "cpx-nps4", "--simulate", "mi300x", "--collective", "all_reduce"]
SIZES = ["--min-bytes", "1K", "--max-bytes", "64M"]


def measure(folder: Path, wish: list[str], seed: int) -> dict[str, tuple[float, pd.DataFrame]]:
    """Seconds and samples of each method; who goes first changes with the seed."""
    found = {}
    folder.mkdir(exist_ok=True)
    for method in METHODS if seed % 2 else METHODS[::-1]:
        session = folder / f"{method}-{seed}"
        arguments = ["sweep", *wish, "--method", method, "--seed", str(seed), "-o", str(session)]
        seconds, _ = timed(arguments, folder)
        found[method] = (seconds, pd.read_csv(session / "samples.csv", keep_default_na=False))
    return found


def medians(samples: pd.DataFrame, *, forced: bool) -> pd.Series[float]:
    """Median µs of what may be used, by KEY."""
    used = samples[samples["doubt"] == ""]
    is_forced = ~used["setting"].isin(["baseline", "silent"])
    return used[is_forced == forced].groupby(KEY)["time_us"].median()


def compared(found: dict[str, tuple[float, pd.DataFrame]]) -> dict[str, float]:
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
        "speedup": each[0] / one[0],
        "one_launch_n": float(one[1]["launch"].str.partition(".")[0].nunique()),
        "per_setting_n": float(each[1]["launch"].nunique()),
        "points": float(len(ratios)),
        "difference_median": float(apart.median()),
        "difference_p95": float(apart.quantile(0.95)),
        "difference_worst": float(apart.max()),
        "ratio_median": float(ratios.median()),
        "silent_to_baseline_median": float(alone.median()),
        "silent_to_baseline_low": float(alone.quantile(0.05)),
        "silent_to_baseline_high": float(alone.quantile(0.95)),
    }


def show(title: str, rows: list[dict[str, float]]) -> None:
    """Medians over the seeds, for people."""
    m = pd.DataFrame(rows).median()
    print(f"  {title} ({len(rows)} runs of each, medians)")
    print(
        f"    {m['one_launch_n']:.0f} launches in {m['one_launch_s']:.1f} s against "
        f"{m['per_setting_n']:.0f} in {m['per_setting_s']:.1f} s: {m['speedup']:.1f} times less"
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


def main() -> int:
    """Each case, each seed, both methods."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--real", action="store_true", help="on this machine's GPUs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("rest", nargs="*", help="more options of the sweep, behind --")
    options = parser.parse_args()
    wish = ["--repeats", str(options.repeats), *options.rest]
    cases = {"this machine": [*SIZES, *wish]}
    if not options.real:
        simulated = [*SIMULATED, *SIZES, *SETTINGS, *wish]
        cases = {
            f"SIMULATED, library start-up {startup} s": [
                *simulated,
                *("--env", f"RCCLTUNE_SIM_STARTUP_S={startup}"),
            ]
            for startup in (0, 10)
        }
    result = {}
    with tempfile.TemporaryDirectory() as name:
        for title, arguments in cases.items():
            rows = [
                compared(measure(Path(name) / title.replace(" ", "-"), arguments, seed))
                for seed in range(options.seeds)
            ]
            result[title] = rows
    if options.json:
        print(json.dumps(result, indent=1))
        return 0
    print(machine())
    for title, rows in result.items():
        show(title, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
