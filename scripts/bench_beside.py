"""What collectives and matrix products cost each other, setting by setting, and what choosing by both saves.

Each process makes one communicator. In it every collective, size and setting is timed alone, the
products alone, and both at once, launched one by one and then in a captured graph, with products
that last 1, 2 and 4 times as long as the library's collective alone. Intervals (95 %, Student's t)
are over communicators. What a choice saves is told by communicators that did not choose: in each the
setting is taken that was best in all others.

The first process asks for counts: how long the library's calls and a product take, and with how
many channels each setting really runs.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from machine import machine
from perf_runs import GRAPH, LOOP, Ground, ground_of, measure, options_of, run
from scipy import stats

from rccltune.model.settings import Computing
from rccltune.model.vocabulary import format_size
from rccltune.perf.beside import covered
from rccltune.perf.load import products_for

SIZES = (1, 4, 16, 64)
CHANNELS = (2, 4, 8, 12, 16, 20, 24, 32)
SHARES = (1, 2, 4)
LIBRARY = "nothing"
SHORT = "1000 10 20000"
# A product of the first process, enough of them to be sure of their time.
FIRST_PRODUCTS = 20
CELL = ["clock", "collective", "nbytes"]


def settings_of(collective: str, options: argparse.Namespace) -> list[str]:
    """What is compared; only all_reduce has trees."""
    algorithms = ("ring", "tree") if collective == "all_reduce" else ("ring",)
    forced = [f"{a}/simple/{n}" for a in algorithms for n in options.channels]
    return [LIBRARY, *forced]


def call_of(collective: str, nbytes: int) -> str:
    """As lines of a plan have it."""
    return f"{collective} float sum out {nbytes}"


def cells_of(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Collectives and sizes in bytes."""
    return [(collective, mib << 20) for collective in options.collective for mib in options.sizes]


def product_of(options: argparse.Namespace) -> str:
    """What runs beside, without counts."""
    return f"gemm {options.type} {options.size}"


def first(ground: Ground, options: argparse.Namespace) -> pd.DataFrame:
    """The process that asks what runs, how long the library's calls take, and a product."""
    steps = ["communicator"]
    for collective, nbytes in cells_of(options):
        for setting in settings_of(collective, options):
            steps += [f"answer {setting}", f"call {call_of(collective, nbytes)} -"]
    steps.append(f"answer {LIBRARY}")
    # The first calls of all find a cold GPU, and are made once more.
    steps.append(measure(call_of(*cells_of(options)[0]), LOOP, SHORT))
    steps += [measure(call_of(*cell), LOOP, SHORT) for cell in cells_of(options)]
    one = call_of(*cells_of(options)[0])
    steps.append(f"beside {one} {LOOP} {product_of(options)} {FIRST_PRODUCTS} 10")
    return run(ground, steps, options=["--said", *blas_of(options)], limit_s=options.most_s / 2)


def blas_of(options: argparse.Namespace) -> list[str]:
    """The BLAS that the user names."""
    return ["--blas", str(options.blas)] if options.blas else []


Counts = dict[tuple[str, int, int], tuple[int, int]]


def counts_of(table: pd.DataFrame, options: argparse.Namespace) -> Counts:
    """Products and calls of each collective, size and share: all settings do the same work."""
    timed = table[table["step"] == "measure"]
    product_us = float(table[table["step"] == "beside"]["product_us"].iloc[0])
    found = {}
    for collective, nbytes in cells_of(options):
        own = timed[(timed["collective"] == collective) & (timed["planned"] == str(nbytes))]
        call_us = float(own["time_us"].iloc[-1])
        for share in options.shares:
            computing = Computing(
                dtype=options.type, size=options.size, share=round(100 * share / (1 + share))
            )
            counted = products_for(computing, call_us, product_us)
            found[collective, nbytes, share] = (counted.number, counted.calls)
    print(f"a product alone {product_us:.1f} µs", flush=True)
    return found


def one_communicator(
    ground: Ground, options: argparse.Namespace, counts: Counts, number: int, limit_s: float
) -> pd.DataFrame:
    """A process of one communicator; settings stand in another order in each."""
    shuffled = random.Random(number)
    steps, shares = ["communicator"], []
    for clock in options.clock:
        cells = cells_of(options)
        shuffled.shuffle(cells)
        for collective, nbytes in cells:
            settings = settings_of(collective, options)
            shuffled.shuffle(settings)
            for setting in settings:
                steps.append(f"answer {setting}")
                # What follows a switch is slower by some per cent, and must be no share's alone.
                for share in shuffled.sample(options.shares, len(options.shares)):
                    products, calls = counts[collective, nbytes, share]
                    what = f"{product_of(options)} {products} {calls}"
                    steps.append(f"beside {call_of(collective, nbytes)} {clock} {what}")
                    shares.append(share)
    table = run(ground, steps, options=blas_of(options), limit_s=limit_s)
    seconds = table.attrs["seconds"]
    table = table[table["step"] == "beside"].assign(process=number, wanted=shares)
    print(f"communicator {number}: {seconds:.1f} s", flush=True)
    made: pd.DataFrame = table
    return made


def measured(
    ground: Ground, options: argparse.Namespace, counts: Counts, began: float
) -> pd.DataFrame:
    """All communicators that there is time for; rows are written as they come."""
    parts: list[pd.DataFrame] = []
    longest = 0.0
    for number in range(options.communicators):
        before = time.monotonic()
        if before - began + 1.2 * longest > options.most_s and parts:
            print(f"{number} of {options.communicators} communicators: no time for more")
            break
        try:
            limit_s = options.most_s + began - before
            parts.append(one_communicator(ground, options, counts, number, limit_s))
        except subprocess.TimeoutExpired as error:
            print(f"communicator {number} did not end in {error.timeout:.0f} s and was ended")
            break
        except SystemExit as error:
            if not parts:
                raise
            print(f"communicator {number}: {error}")  # what is there is shown all the same
            break
        longest = max(longest, time.monotonic() - before)
        if options.rows:
            pd.concat(parts).to_csv(options.rows, index=False)
    if not parts:
        sys.exit("no communicator came to its end")
    return pd.concat(parts, ignore_index=True)


def kept(table: pd.DataFrame) -> pd.DataFrame:
    """Rows whose setting was answered for every call, with what each costs while both run."""
    forced = table["asked_for"] != LIBRARY
    answered = (table["made"] == table["asked"]) & (table["answer"] == table["asked_for"])
    there = (answered | ~forced) & table["both_us"].notna()
    by = ["clock", "collective", "asked_for", "answer", "made", "asked", "note"]
    for words, n in table[~there].groupby(by).size().items():
        said_of_it = dict(zip(by, map(str, words), strict=True))
        print(
            "left out:", *(f"{name} {word or '-'}" for name, word in said_of_it.items()), f"({n})"
        )
    return covered(table[there].rename(columns={"time_us": "alone_us"}))


def interval(values: pd.Series) -> tuple[float, float]:
    """Mean, and half of its 95 % interval; NaN of one value."""
    known = values.dropna().to_numpy(dtype=float)
    n = len(known)
    if n < 2:
        return (float(known[0]) if n else np.nan), np.nan
    return float(known.mean()), float(stats.t.ppf(0.975, n - 1) * known.std(ddof=1) / n**0.5)


def plus_minus(values: pd.Series, digits: int) -> str:
    """``33.7±0.4``."""
    mean, half = interval(values)
    return "-" if np.isnan(mean) else f"{mean:.{digits}f}±{half:.{digits}f}"


def said(ran: dict[tuple[str, int, str], str], collective: str, nbytes: int, setting: str) -> str:
    """What the library said that it ran, where that is not just what was asked for."""
    word = ran.get((collective, nbytes, setting), "?")
    return "" if word == setting else word


def show_costs(table: pd.DataFrame, ran: dict[tuple[str, int, str], str], share: int) -> None:
    """The table of the prototype: each alone and while both run, µs and factors."""
    own = table[table["wanted"] == share]
    for (clock, collective), cells in own.groupby(["clock", "collective"], sort=False):
        print(
            f"\n{collective}, {clock}: µs of a call, factors of both while both run (share {share})"
        )
        head = f"{'size':>8} {'setting':<15}{'ran':<16}{'alone':>14}{'beside':>14}"
        print(f"{head}{'call ×':>12}{'product ×':>13}{'round ÷ library':>17}")
        for nbytes in sorted(set(cells["nbytes"].astype(int))):
            cell = cells[cells["nbytes"] == nbytes]
            library = cell[cell["asked_for"] == LIBRARY].set_index("process")["both_us"]
            for setting in sorted(set(cell["asked_for"]), key=_order):
                one = cell[cell["asked_for"] == setting]
                ratio = one.set_index("process")["both_us"] / library
                print(
                    f"{format_size(nbytes):>8} {_shown(setting):<15}"
                    f"{said(ran, collective, nbytes, setting):<16}"
                    f"{plus_minus(one['alone_us'], 1):>14}{plus_minus(one['call_us'], 1):>14}"
                    f"{plus_minus(one['call_factor'], 2):>12}"
                    f"{plus_minus(one['computing_factor'], 2):>13}{plus_minus(ratio, 3):>17}"
                )


def _shown(setting: str) -> str:
    return "library" if setting == LIBRARY else setting


def _order(setting: str) -> tuple[str, int]:
    algorithm, _, rest = setting.partition("/")
    return ("" if setting == LIBRARY else algorithm, int(rest.split("/")[1]) if rest else 0)


def best(table: pd.DataFrame, column: str) -> str:
    """The setting whose median over communicators is least."""
    return str(table.groupby("asked_for")[column].median().idxmin())


def savings(cell: pd.DataFrame) -> dict[str, object]:
    """What the choice by both saves of a round, in % of the other choice's round.

    Each communicator tells it of the settings that all others would choose.
    """
    times = cell.pivot_table(index="process", columns="asked_for", values="both_us")
    against: dict[str, list[float]] = {"library": [], "alone": []}
    for process in times.index:
        others = cell[cell["process"] != process]
        if others.empty:
            continue
        mine = times.loc[process]
        chosen = mine[best(others, "both_us")]
        against["library"].append(100 * (1 - chosen / mine[LIBRARY]))
        against["alone"].append(100 * (1 - chosen / mine[best(others, "alone_us")]))
    return {
        "share": f"{cell['share'][cell['asked_for'] == LIBRARY].median():.2f}",
        "beside": _shown(best(cell, "both_us")),
        "alone": _shown(best(cell, "alone_us")),
        "saves of library %": plus_minus(pd.Series(against["library"], dtype=float), 1),
        "of alone %": plus_minus(pd.Series(against["alone"], dtype=float), 1),
        "_library": against["library"],
        "_alone": against["alone"],
    }


def show_savings(table: pd.DataFrame) -> None:
    """One line a collective, size, share and clock; then all together."""
    found: dict[tuple[str, str, int, int], dict[str, object]] = {}
    for keys, cell in table.groupby([*CELL, "wanted"], sort=True):
        if LIBRARY not in set(cell["asked_for"]):
            continue
        clock, name, nbytes, share = map(str, keys)
        found[clock, name, int(nbytes), int(share)] = savings(cell)
    if not found:
        return
    shown = pd.DataFrame.from_dict(found, orient="index")
    shown.index = pd.MultiIndex.from_tuples(
        [(clock, name, format_size(n), share) for clock, name, n, share in found],
        names=[*CELL, "for share"],
    )
    print("\nWhat choosing by a round of both saves of it: of the library's, of the choice alone")
    print(shown[[name for name in shown.columns if not name.startswith("_")]].to_string())
    for clock, cells in shown.groupby(level="clock"):
        for share, ones in cells.groupby(level="for share"):
            means = {name: pd.Series(ones[name].map(np.mean)) for name in ("_library", "_alone")}
            print(
                f"{clock}, share {share}: mean of {len(ones)} cells"
                f" {means['_library'].mean():.1f} % of the library,"
                f" {means['_alone'].mean():.1f} % of the choice alone;"
                f" largest {means['_library'].max():.1f} and {means['_alone'].max():.1f} %"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    options_of(parser)
    parser.add_argument("--communicators", type=int, default=6, help="at least 5 for intervals")
    collectives = ("all_reduce", "all_gather", "reduce_scatter")
    parser.add_argument("--collective", nargs="+", default=collectives, choices=collectives)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="MIB")
    parser.add_argument("--channels", nargs="+", type=int, default=CHANNELS)
    parser.add_argument("--shares", nargs="+", type=int, default=SHARES)
    parser.add_argument("--clock", nargs="+", default=(LOOP, GRAPH), choices=(LOOP, GRAPH))
    parser.add_argument("--type", default="bf16", choices=("bf16", "half", "float"))
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of each matrix")
    parser.add_argument("--blas", type=Path, help="libcublas or librocblas; found by itself")
    parser.add_argument("--most-s", type=float, default=220, help="everything ends behind it")
    options = parser.parse_args()
    # Loops come before the first graph of a communicator.
    options.clock = sorted(options.clock, reverse=True)
    began = time.monotonic()
    ground = ground_of(options)
    what = f"{ground.measured.file.name} {ground.measured.version}"
    print(f"{options.ranks} ranks, {machine()}, {what}; {product_of(options)} beside", flush=True)
    try:
        asked = first(ground, options)
    except subprocess.TimeoutExpired as error:
        sys.exit(f"the first process did not end in {error.timeout:.0f} s")
    calls = asked[asked["step"] == "call"]
    keys = zip(calls["collective"], calls["planned"].astype(int), calls["asked_for"], strict=True)
    ran = dict(zip(keys, calls["ran"], strict=True))
    table = kept(measured(ground, options, counts_of(asked, options), began))
    print(f"{table['process'].nunique()} communicators, {time.monotonic() - began:.0f} s in all")
    show_costs(table, ran, options.shares[0])
    show_savings(table)


if __name__ == "__main__":
    main()
