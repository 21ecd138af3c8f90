"""What compare says of equal sides, and of a planted 3 %: comparisons drawn from recorded starts.

    scripts/bench starts --record starts.csv.gz     # 80 starts of one library, on GPUs
    scripts/bench compare starts.csv.gz

Each draw takes eight starts for either side out of those that were recorded, without putting any back. Of 1,000
comparisons of equal sides at most 50 may call any size slower or faster; 3 % that are planted at 64 KiB to 1 MiB
are to be found at each of these sizes in at least 95 of 100. Exit code 1 where either bound is missed.

Recordings of the prototype (columns side and block, ../shared/proto/sides) do as a stand-in: their starts called
the sizes in two orders, whose difference is taken out first, since compare calls them in one.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from machine import machine

from rccltune.compare import judge_sizes
from rccltune.model import defaults
from rccltune.model.units import format_size

DATA = Path(__file__).resolve().parents[2] / "shared/data/starts-2xh200.csv.gz"
PLANTED = 0.03
PLACE = (64 << 10, 1 << 20)
MOST_CALLED, LEAST_FOUND = 0.05, 0.95
CALLS = ["slower", "faster"]


def recorded(path: Path, sides: list[str] | None) -> pd.DataFrame:
    """Timings of starts of equal sides, as judging takes them, with a number for each start."""
    table = pd.read_csv(path)
    if "block" in table:
        table = table[table["side"].isin(sides or table["side"].unique())].copy()
        log = np.log(table["time_us"])
        order = (table["block"] // 2) % 2
        own = log.groupby([table["nbytes"], order]).transform("mean")
        table["time_us"] = np.exp(log - own + log.groupby(table["nbytes"]).transform("mean"))
        table["start"] = table.groupby(["side", "block"]).ngroup()
    table["replicate"] = table["start"].astype(str)
    found: pd.DataFrame = table.assign(collective="all_reduce")
    return found


def draw(table: pd.DataFrame, rng: np.random.Generator, planted: float = 0.0) -> pd.DataFrame:
    """A comparison of eight starts with eight others."""
    n = defaults.STARTS
    chosen = rng.permutation(table["replicate"].unique())[: 2 * n]
    rows = table[table["replicate"].isin(chosen)].copy()
    rows["side"] = np.where(rows["replicate"].isin(chosen[:n]), "a", "b")
    is_slower = (rows["side"] == "b") & rows["nbytes"].between(*PLACE)
    rows["time_us"] *= np.where(is_slower, 1 + planted, 1.0)
    return judge_sizes.judge(rows, margin=defaults.MARGIN, paired=False)


def main() -> None:
    """Draw, and print what was called and found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", default=DATA, help="recorded starts")
    parser.add_argument("--sides", nargs="+", help="equal sides of a recording of the prototype")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    table = recorded(options.file, options.sides)
    n_starts = table["replicate"].nunique()
    if n_starts < 2 * defaults.STARTS:
        sys.exit(f"{n_starts} starts are too few: {2 * defaults.STARTS} at least")
    rng, since = np.random.default_rng(options.seed), time.monotonic()
    equal = [draw(table, rng) for _ in range(options.draws)]
    called = sum(bool(one["verdict"].isin(CALLS).any()) for one in equal)
    every = pd.concat(equal)
    verdicts = every["verdict"].value_counts(normalize=True).round(3).to_dict()
    half = every.assign(half=50 * (every["high"] - every["low"])).groupby("nbytes")["half"].median()
    print(f"{options.file.name}: {n_starts} starts, {machine()}, seed {options.seed}")
    print(f"equal sides: {called} of {options.draws} comparisons call any size; {verdicts}")
    print("half an interval, %:", {format_size(int(n)): round(x, 2) for n, x in half.items()})
    n_planted = max(options.draws // 10, 1)
    inside = [
        one[one["nbytes"].between(*PLACE)].set_index("nbytes")["verdict"] == "slower"
        for one in (draw(table, rng, PLANTED) for _ in range(n_planted))
    ]
    found = pd.DataFrame(inside)
    at = {format_size(int(n)): int(hits) for n, hits in found.sum().items()}
    n_all = int(found.all(axis=1).sum())
    print(f"planted 3 %: at every size in {n_all} of {n_planted}, {at}")
    print(f"{time.monotonic() - since:.0f} s")
    if called > MOST_CALLED * options.draws or n_all < LEAST_FOUND * n_planted:
        sys.exit(1)


if __name__ == "__main__":
    main()
