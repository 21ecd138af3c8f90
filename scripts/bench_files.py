"""Rule files made on purpose, verified on this machine: the library's own choice, and rules that lose.

    scripts/bench files null --session SESSION --files 20
    scripts/bench files slower --session SESSION --files 10

Each file is verified with the ranks and the library of a session of tune or sweep, which also says what
the library chooses and how much each setting loses. ``null`` writes the library's own choice as rules,
one collective a file, at all its sizes: none may be kept, none called slower. ``slower`` puts a rule
that loses before the session's own rules of the collective, in turns over a quarter octave and one
octave, about 3 % and about 10 % slower, where it is drawn: the loser may not stay anywhere. NVLink
multicast stays off in every process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from bench_gpus import OPEN_MPI, devices, rules_of
from machine import SAFETY, machine

from rccltune.model.rule import Rule
from rccltune.model.settings import IDLE, Setting
from rccltune.model.units import format_span
from rccltune.model.vocabulary import Collective
from rccltune.rules.rule_file import RuleFile, read_rules
from rccltune.rules.writer import rule_line

GRAPHS_TO = 4 << 20
# How many times as long as the library's own choice a loser takes, at each of its sizes.
LOSSES = {"3 %": (1.02, 1.05), "10 %": (1.06, 1.16)}
# Sizes, four an octave.
WIDTHS = {"a quarter octave": 1, "one octave": 4}
WHERE = ["collective", "n_nodes", "n_ranks"]
LIMIT_S = 300


@dataclass(frozen=True)
class Made:
    """A rule file, what it is, and the rule that must not stay at some sizes."""

    name: str
    rules: Sequence[Rule]
    loser: Rule | None = None
    sizes: Sequence[int] = ()


def main() -> int:
    """The part that was asked for; 1 where a file is not judged as it must be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("null", "slower"))
    parser.add_argument("--session", type=Path, required=True, help="it stays as it is")
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-s", type=float, default=3600, help="no file is begun behind it")
    options = parser.parse_args()
    if not (options.session / "samples.csv").exists():
        parser.error(f"{options.session} is no session: rccltune tune -o FOLDER makes one")
    print(f"{machine()}; {devices()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / options.session.name
        shutil.copytree(
            options.session, session, ignore=shutil.ignore_patterns("verification", "plots")
        )
        return judged(options, session)


def judged(options: argparse.Namespace, session: Path) -> int:
    """Make the files and verify each; 1 where one is not judged as it must be."""
    times = times_of(session)
    if options.part == "null":
        made = null_files(times) * options.files
    else:
        made = slower_files(options, times, rules_of(session)[1])
    began, outcomes = time.monotonic(), []
    for number, one in enumerate(made[: options.files], 1):
        spent_s = time.monotonic() - began
        if spent_s * number / max(number - 1, 1) > options.most_s:
            break
        said = faults(one, *verified(session, one, number))
        outcomes.append(not said)
        took_s = time.monotonic() - began - spent_s
        print(f"  {one.name}: {'; '.join(said) or 'as it must be'}, in {took_s:.0f} s", flush=True)
    print(f"{options.part}: {sum(outcomes)} of {len(outcomes)} files judged as they must be")
    return int(not all(outcomes) or not outcomes)


def times_of(session: Path) -> pd.DataFrame:
    """A row a collective and size: what the library runs, and how each setting compares.

    Returns:
        Columns ``collective``, ``n_nodes``, ``n_ranks``, ``nbytes``, ``library`` (as ``ring/ll``), and
        one a setting with how many times as long as the library's own choice it takes.
    """
    samples = pd.read_csv(session / "samples.csv", dtype={"unusable": str}, low_memory=False)
    samples = samples[samples["time_us"].notna() & samples["unusable"].isna()]
    graph = samples["timing"] == "graph"
    samples = samples[graph == (samples["nbytes"] <= GRAPHS_TO)]
    where = [*WHERE, "nbytes"]
    own = samples[(samples["setting"] == str(IDLE)) & samples["ran"].notna()]
    ran = own["ran"].str.split("/").str[:2].str.join("/")
    library = ran.groupby([own[name] for name in where]).agg(lambda ran: ran.mode().iloc[0])
    base = own.groupby(where)["time_us"].median()
    forced = samples[samples["setting"].str.contains("/")]
    taken = forced.pivot_table("time_us", where, "setting", aggfunc="median")
    compared: pd.DataFrame = taken.div(base, axis=0).assign(library=library).reset_index()
    return compared


def null_files(times: pd.DataFrame) -> list[Made]:
    """The library's own choice as rules, a collective a file."""
    made = []
    for where, table in times.dropna(subset="library").groupby(WHERE):
        rows = table.sort_values("nbytes")
        runs = list(zip(rows["nbytes"].astype(int), rows["library"], strict=True))
        rules = []
        for setting, spans in groupby(runs, key=lambda row: row[1]):
            sizes = [nbytes for nbytes, _ in spans]
            rules.append(rule(where, sizes[0], sizes[-1], setting))
        made.append(Made(f"{where[0]}, {len(rules)} rules over {len(runs)} sizes", rules))
    return made


def slower_files(options: argparse.Namespace, times: pd.DataFrame, own: RuleFile) -> list[Made]:
    """A rule that loses before the session's own, in turns of each loss and width."""
    draw = random.Random(options.seed)
    kinds = [(loss, width) for width in WIDTHS for loss in LOSSES]
    found = {kind: list(losers(times, *kind)) for kind in kinds}
    made = []
    for loss, width in (kind for _ in range(options.files) for kind in kinds if found[kind]):
        where, setting, sizes = draw.choice(found[loss, width])
        # From the middle between two sizes to the next middle, as rules are.
        first, last = round(sizes[0] * 2**-0.125), round(sizes[-1] * 2**0.125)
        loser = rule(where, first, last, setting)
        rest = [one for one in own.rules if one.collective is loser.collective]
        what = f"{where[0]} {format_span(first, last)}, {width}, {loss} slower: {setting}"
        made.append(Made(what, [loser, *rest], loser, sizes))
    return made


def losers(
    times: pd.DataFrame, loss: str, width: str
) -> Iterator[tuple[tuple[Any, ...], str, list[int]]]:
    """Collective and ranks, setting, and sizes at each of which it loses so much."""
    least, most = LOSSES[loss]
    for where, rows in times.groupby(WHERE):
        table = rows.sort_values("nbytes")
        sizes = table["nbytes"].astype(int).tolist()
        for setting in table.columns.difference([*WHERE, "nbytes", "library"]):
            fits = table[setting].between(least, most).tolist()
            for at in range(len(sizes) - WIDTHS[width] + 1):
                if all(fits[at : at + WIDTHS[width]]):
                    yield where, str(setting), sizes[at : at + WIDTHS[width]]


def rule(where: tuple[Any, ...], first: int, last: int, setting: str) -> Rule:
    """A line for a collective of so many nodes and ranks."""
    collective, n_nodes, n_ranks = where
    return Rule(
        collective=Collective.parse(collective),
        min_nbytes=first,
        max_nbytes=last,
        setting=Setting.parse(setting),
        n_nodes=int(n_nodes),
        n_ranks=int(n_ranks),
    )


def verified(session: Path, made: Made, number: int) -> tuple[int, dict[str, Any], list[Rule]]:
    """The exit code of verify, its verdict, and the rules that it leaves."""
    # A file like another one would be judged from what was measured of that.
    shutil.rmtree(session / "verification", ignore_errors=True)
    path = session / f"made-{number}.csv"
    path.write_text("".join(f"{rule_line(one)}\n" for one in made.rules))
    command = [sys.executable, "-m", "rccltune", "verify", str(session), "--rules", str(path)]
    done = subprocess.run(
        [*command, "--no-confirm", "--json"],
        env=dict(os.environ) | SAFETY | OPEN_MPI,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    left = session / f"verified-{path.name}"
    if done.returncode:
        return done.returncode, {"error": done.stderr[-400:]}, []
    rules = read_rules(left.read_bytes()).rules if left.exists() else ()
    return 0, json.loads(done.stdout), list(rules)


def faults(made: Made, code: int, verdict: dict[str, Any], left: Sequence[Rule]) -> list[str]:
    """What verify said or left that it must not."""
    if code:
        return [f"exit code {code}: {verdict['error']}"]
    if made.loser is None:
        # What looks slower is left out, certain or not, and is called so.
        certain = re.compile(r"(?<!looks )slower")
        cuts = [cut for cut in verdict["cuts"] if certain.search(cut["reason"])]
        return [f"kept {rule_line(one)}" for one in left] + [
            f"called slower: {cut}" for cut in cuts
        ]
    return [
        f"kept {rule_line(one)}"
        for one in left
        if one.setting == made.loser.setting and any(one.reaches(nbytes) for nbytes in made.sizes)
    ]


if __name__ == "__main__":
    sys.exit(main())
