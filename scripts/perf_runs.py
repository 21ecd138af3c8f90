"""Plans of one's own for the rank program, and what came of them: for measurements of the instrument."""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from machine import SAFETY

from rccltune import plugin
from rccltune.measure import library
from rccltune.measure.rank_program import LibraryUnderTest
from rccltune.simulate import sources
from rccltune.simulate.compiled import compile_node

LIMIT_S = 300.0
LOOP, GRAPH = "loop", "graph"
# Room for the largest size that a bench calls.
FIRST_LINE = f"plan 2 {1 << 30}"
EFFORT = "2000 20 300000"


def options_of(parser: argparse.ArgumentParser) -> None:
    """Options that every measurement of the instrument has."""
    parser.add_argument("--ranks", type=int, default=2, help="ranks, one a GPU")
    parser.add_argument("--librccl", type=Path, help="library, or torch; the system's by default")
    parser.add_argument("--simulate", metavar="NODE", help="a simulated node: figures mean nothing")
    parser.add_argument("--rows", type=Path, metavar="CSV", help="write all rows there, too")


@dataclass(frozen=True)
class Ground:
    """What is measured, and how many ranks."""

    measured: LibraryUnderTest
    ranks: int
    variables: dict[str, str]


def ground_of(options: argparse.Namespace) -> Ground:
    """The library that the options name; NVLink multicast stays off in every rank."""
    variables = dict(os.environ) | SAFETY
    variables.pop("NCCL_COMM_ID", None)
    if options.simulate is None:
        return Ground(library.find_library(options.librccl, variables), options.ranks, variables)
    node = sources.load_node(sources.node_path(options.simulate, None))
    compiled = Path(tempfile.mkdtemp()) / "bench.node"
    compiled.write_bytes(compile_node(node))
    variables |= {"RCCLTUNE_SIM_NODE": str(compiled), "RCCLTUNE_SIM_SEED": "1"}
    return Ground(library.stand_in(), options.ranks, variables)


def measure(call: str, timing: str, effort: str = EFFORT) -> str:
    """A step: ``call`` is ``all_reduce float sum out 4096``."""
    return f"measure {call} {timing} {effort}"


def run(
    ground: Ground,
    steps: Sequence[str],
    *,
    with_plugin: bool = True,
    options: Sequence[str] = (),
    limit_s: float = LIMIT_S,
) -> pd.DataFrame:
    """One start of all ranks.

    Args:
        ground: where.
        steps: lines of the plan behind its first.
        with_plugin: whether our plugin is loaded; ``answer`` steps need it.
        options: of the rank program, beside the usual ones.
        limit_s: all ranks are ended behind it.

    Returns:
        A row a step that was timed or checked: the plan's words, ``answer`` as asked, the row's
        columns, ``time_us`` the mean over ranks, and ``slowest_us``. ``attrs`` has the seconds that
        it took and the folder of its files.
    """
    folder = Path(tempfile.mkdtemp())
    (folder / "plan.txt").write_text("\n".join([FIRST_LINE, *steps]) + "\n")
    argv = [str(plugin.native_folder() / "rccltune-perf"), "--folder", str(folder)]
    argv += ["--plan", str(folder / "plan.txt"), "--library", str(ground.measured.file)]
    if ground.measured.runtime is not None:
        argv += ["--runtime", str(ground.measured.runtime)]
    if with_plugin:
        argv += ["--plugin", str(plugin.library())]
    argv += options
    variables = ground.variables | {
        "RCCLTUNE_PERF_TOKEN": secrets.token_hex(8),
        "RCCLTUNE_SIM_LAUNCH": secrets.token_hex(8),
    }
    missing = [name for name, value in SAFETY.items() if variables.get(name) != value]
    if missing:
        sys.exit(f"not started: {', '.join(missing)} would not reach the ranks")
    start = time.perf_counter()
    done = subprocess.run(
        [*argv, "--start", str(ground.ranks)],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    if done.returncode:
        sys.exit(f"rccltune-perf ended with {done.returncode}: {done.stderr[:2000]}")
    table = _joined(folder, ground.ranks, [FIRST_LINE, *steps])
    table.attrs["seconds"] = time.perf_counter() - start
    table.attrs["folder"] = str(folder)
    return table


def _joined(folder: Path, ranks: int, plan: Sequence[str]) -> pd.DataFrame:
    parts = [
        pd.read_csv(folder / f"rank-{rank}.csv", comment="#", keep_default_na=False)
        for rank in range(ranks)
    ]
    rows = parts[0].copy()
    times = pd.concat([pd.to_numeric(part["time_us"]) for part in parts], axis=1)
    rows["time_us"], rows["slowest_us"] = times.mean(axis=1, skipna=False), times.max(axis=1)
    words = [plan[line - 1].split() for line in rows["line"]]
    names = ("kind", "collective", "dtype", "op", "placement", "planned", "timing")
    for at, name in enumerate(names):
        rows[name] = [line[at] if at < len(line) else "" for line in words]
    said, asked_for = "", []
    for line in plan:
        said = line.split()[1] if line.startswith("answer ") else said
        asked_for.append(said)
    rows["asked_for"] = [asked_for[line - 1] for line in rows["line"]]
    joined: pd.DataFrame = rows
    return joined
