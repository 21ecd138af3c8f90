"""The plugin under real NCCL: rules are obeyed, everything else is left alone, nothing is slower.

Needs NVIDIA GPUs, mpirun and a build of nccl-tests with MPI (``--nccl-tests DIR``); the standard
library is enough. NVLink multicast stays off: the variables that keep it off must be set, and are
passed to every rank of both arms.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from machine import SAFETY, ended_well

from rccltune.launch import environment
from rccltune.logs import read_stream
from rccltune.model import BASELINE, Collective, Stated, format_size

RULES = (
    (4096, 65536, "tree", "ll", -1),
    (65537, 1048576, "ring", "ll128", -1),
    (1048577, 4194304, "tree", "simple", 4),
)
# "AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..15}"; older releases print
# numbers for algorithm and protocol.
TUNING = re.compile(
    r"AllReduce: (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}"
)
ALGORITHMS = ("tree", "ring")
PROTOCOLS = ("ll", "ll128", "simple")


def command(options: argparse.Namespace, iterations: int) -> list[str]:
    """One launch of all_reduce_perf on every GPU."""
    program = str(options.nccl_tests / "all_reduce_perf")
    ranks = ["mpirun", "-np", str(options.ranks), "--bind-to", "none", "--oversubscribe"]
    sizes = ["-b", "1K", "-e", "64M", "-f", "2", "-g", "1", "-c", "1"]
    return [*ranks, program, *sizes, "-n", str(iterations), "-w", "5"]


def variables(added: dict[str, str]) -> dict[str, str]:
    """The environment of an arm; multicast stays off in each."""
    made = environment(
        dict(os.environ) | SAFETY,
        {**added, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}.items(),
    )
    missing = [name for name, value in SAFETY.items() if made.variables.get(name) != value]
    if missing:
        sys.exit(f"not started: {', '.join(missing)} would not reach the ranks")
    return dict(made.variables)


def run(options: argparse.Namespace, added: dict[str, str], iterations: int) -> str:
    """One launch's output; ends the program when it fails."""
    done = ended_well(command(options, iterations), variables(added), 180)
    return done.stdout + "\n" + done.stderr


def times(output: str, n_ranks: int) -> dict[int, float]:
    """Out-of-place time in µs by size; wrong results end the program."""
    stated = Stated(collective=Collective.ALL_REDUCE, setting=BASELINE, n_ranks=n_ranks, n_nodes=1)
    lines = (line.encode() + b"\n" for line in output.splitlines())
    samples = read_stream(lines, "all_reduce_perf", stated, "a").samples
    if any(sample.n_wrong for sample in samples):
        sys.exit("wrong results")
    return {
        s.nbytes: s.time_us
        for s in samples
        if s.key.placement.value == "out" and s.time_us is not None
    }


def ran(log: str) -> dict[int, tuple[str, int]]:
    """What the library's TUNING log says it launched: setting and channels by size."""
    found = {}
    for nbytes, algorithm, protocol, low, high in TUNING.findall(log):
        names = (
            ALGORITHMS[int(algorithm)] if algorithm.isdigit() else algorithm.lower(),
            PROTOCOLS[int(protocol)] if protocol.isdigit() else protocol.lower(),
        )
        found[int(nbytes)] = ("/".join(names), int(high) - int(low) + 1)
    return found


def wanted(nbytes: int) -> tuple[str, int] | None:
    """What the rules say about a size."""
    return next(
        (
            (f"{algorithm}/{protocol}", channels)
            for low, high, algorithm, protocol, channels in RULES
            if low <= nbytes <= high
        ),
        None,
    )


def main() -> None:
    """Prove overrides with the log, then compare times in interleaved launches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nccl-tests", type=Path, required=True, help="folder of all_reduce_perf")
    parser.add_argument("--plugin", type=Path, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rules = Path(name) / "rules.csv"
        rules.write_text(
            "".join(
                f"allreduce,{low},{high},{a},{p},{c},1,{options.ranks},-1,-1\n"
                for low, high, a, p, c in RULES
            )
        )
        tuned = {
            "NCCL_TUNER_PLUGIN": str(options.plugin.resolve()),
            "NCCL_TUNER_CONFIG_FILE": str(rules),
        }
        report = measure(options, tuned)
    (options.out / "nccl.json").write_text(json.dumps(report, indent=1) + "\n")
    show(report)


def measure(options: argparse.Namespace, tuned: dict[str, str]) -> dict[str, Any]:
    """All launches of the bench."""
    tell = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,TUNING,ENV"}
    logs = {
        "baseline": run(options, tell, 1),
        "plugin": run(options, tell | tuned | {"RCCLTUNE_LOG": "summary"}, 1),
    }
    for arm, log in logs.items():
        (options.out / f"tuning-{arm}.log").write_text(log)
    chosen = {arm: ran(log) for arm, log in logs.items()}
    arms: dict[str, dict[str, str]] = {"baseline": {}, "plugin": tuned}
    measured: dict[str, list[dict[int, float]]] = {arm: [] for arm in arms}
    for number in range(options.rounds):
        # A B, B A, …: a drift hits both arms alike.
        for arm in list(arms)[:: 1 if number % 2 == 0 else -1]:
            measured[arm].append(times(run(options, arms[arm], 50), options.ranks))
    rows = [row(nbytes, chosen, measured) for nbytes in sorted(measured["baseline"][0])]
    version = re.search(r"NCCL version (\S+)", logs["baseline"])
    summary = [
        line for line in logs["plugin"].splitlines() if "rccltune" in line or "TUNER" in line
    ]
    return {
        "nccl": version[1] if version else "unknown",
        "ranks": options.ranks,
        "rounds": options.rounds,
        "safety": SAFETY,
        "plugin_says": summary[:40],
        "rows": rows,
    }


def row(
    nbytes: int,
    chosen: dict[str, dict[int, tuple[str, int]]],
    measured: dict[str, list[dict[int, float]]],
) -> dict[str, object]:
    """One size: what ran in each arm and the ratio of times over the rounds."""
    ratios = [
        base[nbytes] / tuned[nbytes]
        for base, tuned in zip(measured["baseline"], measured["plugin"], strict=True)
    ]
    rule = wanted(nbytes)
    told, did = chosen["plugin"].get(nbytes), chosen["baseline"].get(nbytes)
    obeyed = told is not None and (
        told == did if rule is None else told[0] == rule[0] and rule[1] in (-1, told[1])
    )
    return {
        "nbytes": nbytes,
        "rule": rule,
        "baseline": did,
        "plugin": told,
        "obeyed": obeyed,
        "baseline_us": statistics.median(run[nbytes] for run in measured["baseline"]),
        "plugin_us": statistics.median(run[nbytes] for run in measured["plugin"]),
        "ratio": statistics.median(ratios),
    }


def show(report: dict[str, Any]) -> None:
    """A table for documents."""
    print(f"NCCL {report['nccl']}, {report['ranks']} ranks, NVLS off in both arms")
    print(f"{'size':>10} {'rule':>14} {'alone':>16} {'with plugin':>16} {'ratio':>6}")
    for one in report["rows"]:
        cells = [
            "–" if cell is None else f"{cell[0]} x{cell[1]}" if cell[1] > 0 else cell[0]
            for cell in (one["rule"], one["baseline"], one["plugin"])
        ]
        mark = "" if one["obeyed"] else "  NOT OBEYED"
        print(
            f"{format_size(one['nbytes']):>10} {cells[0]:>14} {cells[1]:>16} {cells[2]:>16} "
            f"{one['ratio']:6.3f}{mark}"
        )
    for line in report["plugin_says"]:
        print(line)


if __name__ == "__main__":
    main()
