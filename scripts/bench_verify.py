"""What a verification keeps, leaves and loses: on drawn times, and on simulated nodes with traps.

    scripts/bench verify drawn               # operating characteristics: a table by case and number
    scripts/bench verify traps --seeds 1     # whole sessions on simulated nodes of 64 ranks

``drawn`` starts no process: times are drawn around a known truth (scripts/verify_drawn.py). ``traps``
sweeps, chooses and verifies as users do; both files are compared with the node file's truth at 16 sizes
an octave: how much slower than the untouched library the worst size is, and how much of the gain that
is to be had they keep.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import verify_drawn
from machine import machine
from verify_nodes import MODE, NODES, PAIRS, TrapNode, spoil, write_node
from verify_truth import PER_OCTAVE, Yardstick, judge, yardstick
from verify_verdicts import (
    KEPT_SHARE,
    MEAN_LOSS,
    WORST_LOSS,
    Run,
    Summary,
    Verdict,
    changes,
    verdict,
)

from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.cli import main as rccltune_main
from rccltune.model.errors import RccltuneError
from rccltune.model.reporter import Reporter
from rccltune.model.rule import Rule
from rccltune.model.units import format_size, parse_size
from rccltune.rules.emission import EmitRequest, emit_rules
from rccltune.rules.rule_file import read_rules
from rccltune.simulate import sources as simnode

# Percent of files without any gain that may keep a rule.
MOST_KEEPING = 1.0
# A loss at a size that counts.
LOSS = 0.02
LAST_WORDS = 300
MOST_LINES = 10
LOAD_NODE = simnode.load_node
FORKING = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What every run of this bench has in common.

    Attributes:
        verifies: whether ``rccltune verify`` is wanted.
        options: further ones of verify.
        timeout_s: after which a verification counts as hung.
    """

    min_bytes: int
    max_bytes: int
    verifies: bool
    options: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """How a verification ended."""

    exit_code: int
    wall_s: float
    said: str


def run_once(name: str, seed: int, known: Yardstick, wish: Wish, folder: Path) -> Run:
    """Sweep into a session of its own, write all files, judge them, and leave nothing behind."""
    node = next(one for one in NODES if one.name == name)
    own = folder / f"{name}-{seed}"
    own.mkdir()
    read_nodes_once()
    path, session = write_node(node, own), own / "session"
    measure(node, session, path, seed, wish)
    texts = {"unverified": emitted(session)}
    done = None
    if wish.verifies:
        read_nodes_anew()
        spoil(node, path, session)
        done = verify(session, wish)
        left = file_of(session)
        texts |= {} if left is None else {"verified": left}
    judged = {arm: judge(known, text) for arm, text in texts.items()}
    shutil.rmtree(own)
    if done is None:
        return Run(node=name, seed=seed, judged=judged)
    dropped, narrowed = changes(rules(texts["unverified"]), rules(texts.get("verified", "")))
    return Run(
        node=name,
        seed=seed,
        judged=judged,
        n_dropped=dropped,
        n_narrowed=narrowed,
        **asdict(done),
    )


def read_nodes_once() -> None:
    """Node files have thousands of points and are read three times a sweep; here few change.

    In a process of this bench only: elsewhere a file may change under its name at any time.
    """
    vars(simnode)["load_node"] = cache(LOAD_NODE)


def read_nodes_anew() -> None:
    """Once a node file was written again, and in a process that stands for a user's."""
    vars(simnode)["load_node"] = LOAD_NODE


def measure(node: TrapNode, session: Path, path: Path, seed: int, wish: Wish) -> None:
    """One sweep as its users get it, with the settings of which the node file speaks."""
    words = ["sweep", "--simulate", str(path), "--mode", MODE, "--seed", str(seed)]
    words += [word for name in node.collectives for word in ("--collective", name)]
    words += [word for name in PAIRS for word in ("--setting", name)]
    words += ["--min-bytes", str(wish.min_bytes), "--max-bytes", str(wish.max_bytes)]
    code, said = as_a_user([*words, "-o", str(session), "-q"], wish.timeout_s)
    # A setting that was set aside is the trap of some nodes.
    if code not in (0, 5):
        raise OSError(f"the sweep ended with {code}: {said[-LAST_WORDS:]}")


def emitted(session: Path) -> str:
    """What ``tune`` is about to verify, in the session."""
    wish = EmitRequest(folder=session, options=ChoiceOptions(), overwrite=True)
    return emit_rules(wish, reporter=Reporter()).text


def verify(session: Path, wish: Wish) -> Verified:
    """``rccltune verify SESSION``; one that hangs has no exit code of its own and gets -1."""
    start = time.perf_counter()
    code, said = as_a_user(["verify", str(session), "-q", *wish.options], wish.timeout_s)
    return Verified(
        exit_code=code,
        wall_s=time.perf_counter() - start,
        said=" ".join(said.split())[-LAST_WORDS:],
    )


def as_a_user(arguments: list[str], timeout_s: float) -> tuple[int, str]:
    """Exit code and last words of a command line, in a process of its own.

    A forked one: a fresh interpreter imports for a quarter of the whole verification's time.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        child = FORKING.Process(target=command_line, args=(arguments, said.fileno()))
        child.start()
        child.join(timeout_s)
        if child.exitcode is None:
            child.kill()
            child.join()
            return -1, f"still running after {timeout_s:.0f} s"
        said.seek(0)
        return child.exitcode, said.read()


def command_line(arguments: list[str], said: int) -> None:
    """What ``rccltune`` does in a process of its own, stdout and stderr in one file."""
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.argv = ["rccltune", *arguments]
    rccltune_main()


def file_of(session: Path) -> str | None:
    """The rule file that a user would take from the session, None where there is none."""
    found = sorted(session.glob("rccl_tuner*.csv"))
    return found[0].read_text(encoding="utf-8") if found else None


def rules(text: str) -> tuple[Rule, ...]:
    """Those that choose first."""
    return tuple(rule for rule in read_rules(text.encode()).rules if not rule.fallback)


def main() -> int:
    """Every node, every seed."""
    options = read_options()
    if options.part == "drawn":
        named = options.cases or [one.name for one in verify_drawn.CASES]
        cases = [one for one in verify_drawn.CASES if one.name in named]
        return drawn(cases, options.draws, options.numbers, options.jobs)
    verifies = not options.unverified
    wish = Wish(
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        verifies=verifies,
        options=tuple(options.verify.split()),
        timeout_s=options.timeout,
    )
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        tasks = [
            (node, seed)
            for seed in range(options.first_seed, options.first_seed + options.seeds)
            for node in options.nodes
        ]
        found, failed = run_all(tasks, wish, options.jobs, Path(name))
    verdicts = [verdict(node, found[node.name]) for node in NODES if found.get(node.name)]
    if options.json:
        print(json.dumps({"verdicts": [asdict(v) for v in verdicts], "failed": failed}))
    else:
        show(verdicts, wish)
        for line in failed:
            print(f"  FAILED {line}")
        if not verifies:
            print("  without verification: no goal is judged")
        print(f"  {time.perf_counter() - start:.0f} s in all")
    return int(bool(failed) or any(v.missed for v in verdicts))


def read_options() -> argparse.Namespace:
    """The command line."""
    names = [one.name for one in NODES]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=("drawn", "traps"))
    parser.add_argument("--draws", type=int, default=200, help="files of each case and number")
    known = [one.name for one in verify_drawn.CASES]
    parser.add_argument("--cases", nargs="+", choices=known, metavar="WORDS", help="by name")
    parser.add_argument("--numbers", type=int, nargs="+", default=[4, 8, 16], metavar="N")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--nodes", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes in parallel")
    parser.add_argument("--min-bytes", type=parse_size, default=parse_size("1K"))
    parser.add_argument("--max-bytes", type=parse_size, default=parse_size("128M"))
    parser.add_argument("--unverified", action="store_true", help="do not verify")
    parser.add_argument("--verify", default="", metavar="OPTIONS", help="further ones of verify")
    parser.add_argument(
        "--timeout", type=float, default=1800.0, help="seconds until a verification counts as hung"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def drawn(
    cases: Sequence[verify_drawn.Case], n_draws: int, numbers: Sequence[int], jobs: int
) -> int:
    """A table of what became of the files; 1 where more than one null file in a hundred keeps a rule."""
    start = time.perf_counter()
    cells = [(case, n, loops) for case in cases for n in numbers for loops in (False, True)]
    print(f"no process is started, times are drawn, {n_draws} files a cell; {machine()}")
    print("  rules kept in % (small, small, narrow, wide, wide); files that keep any; files with a")
    print("  loss of more than 2 % at a size of what they keep")
    worst = 0.0
    with ProcessPoolExecutor(jobs) as pool:
        found = list(pool.map(draw_cell, *zip(*cells, strict=True), [n_draws] * len(cells)))
    for (case, n, loops), (kept, files, losing) in zip(cells, found, strict=True):
        timing = "loops" if loops else "graphs"
        each = " ".join(f"{share:4.0f}" for share in kept)
        print(
            f"  {case.name:<44} {timing:<6} N={n:<2} {each}   any {files:5.1f}   loss {losing:5.1f}"
        )
        if case.name.startswith("null") and case.times == 1:
            worst = max(worst, files)
    print(f"  {time.perf_counter() - start:.0f} s in all")
    return int(worst > MOST_KEEPING)


def draw_cell(
    case: verify_drawn.Case, n: int, loops: bool, n_draws: int
) -> tuple[list[float], float, float]:
    """Percent of rules kept by place, of files that keep any, and of files with a loss left."""
    rng = np.random.default_rng([7, n, int(loops), verify_drawn.CASES.index(case)])
    found = [verify_drawn.verified(case, n, loops=loops, rng=rng) for _ in range(n_draws)]
    kept = [
        100 * float(np.mean([one.kept[at] for one in found]))
        for at in range(len(verify_drawn.SPANS))
    ]
    files = 100 * float(np.mean([any(one.kept) for one in found]))
    return kept, files, 100 * float(np.mean([one.worst > LOSS for one in found]))


def run_all(
    tasks: Sequence[tuple[str, int]], wish: Wish, jobs: int, folder: Path
) -> tuple[dict[str, list[Run]], list[str]]:
    """Runs by node, in the order of their seeds, and what failed."""
    names = dict.fromkeys(name for name, _ in tasks)
    span = (wish.min_bytes, wish.max_bytes)
    known = {one.name: yardstick(one, folder, span) for one in NODES if one.name in names}
    found: dict[str, list[Run]] = {name: [] for name in names}
    failed = []
    with ProcessPoolExecutor(jobs) as pool:
        running = {
            pool.submit(run_once, name, seed, known[name], wish, folder): f"{name} {seed}"
            for name, seed in tasks
        }
        for number, task in enumerate(as_completed(running)):
            try:
                run = task.result()
                found[run.node].append(run)
            except (RccltuneError, OSError) as error:
                failed.append(f"{running[task]}: {error}")
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {len(tasks)} sessions", end="", file=sys.stderr)
    return {name: sorted(runs, key=lambda run: run.seed) for name, runs in found.items()}, failed


def show(verdicts: Sequence[Verdict], wish: Wish) -> None:
    """For people."""
    span = f"{format_size(wish.min_bytes)} to {format_size(wish.max_bytes)}"
    print(f"SIMULATED, 64 ranks, {MODE}, {span}; {machine()}")
    print(
        f"  judged at {PER_OCTAVE} sizes an octave and more, both halves; wanted: no size more than "
        f"{100 * WORST_LOSS:.0f} % slower than untouched nor {100 * MEAN_LOSS:.1f} % in the mean, "
        f"{100 * KEPT_SHARE:.0f} % of the gain kept"
    )
    for v in verdicts:
        print(f"  {v.node}: {v.trap}")
        for arm, one in v.arms.items():
            print(f"    {arm:>10}: {summary_text(one)}")
        if v.exit_codes:
            codes = ", ".join(f"{code} ({n} times)" for code, n in v.exit_codes.items())
            print(
                f"    exit codes {codes}; {v.n_dropped:.1f} rules dropped, {v.n_narrowed:.1f} "
                f"narrowed; {v.wall_s:.0f} s here"
            )
        if v.missed:
            print(f"    MISSED: {', '.join(v.missed)}")
        for line in v.complaints[:MOST_LINES]:
            print(f"      {line}")


def summary_text(one: Summary) -> str:
    """One arm in a line."""
    kept = ""
    if one.kept is not None and one.least_kept is not None:
        kept = f", gain kept {100 * one.kept:.1f} % mean, {100 * one.least_kept:.1f} % least"
    wrong = f", wrong results in {one.n_wrong}" if one.n_wrong else ""
    idle = f", {one.n_idle} rules decide nothing" if one.n_idle else ""
    return (
        f"worst loss {100 * one.worst_loss:.1f} % ({one.n_losing} of {one.n_seeds} files lose"
        f"{wrong}){kept}, rules {', '.join(map(str, one.rules))}{idle}"
    )


if __name__ == "__main__":
    sys.exit(main())
