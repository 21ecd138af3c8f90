"""A job, recorded; its sizes swept; rules for them, and what they save of a step.

    scripts/bench workload                                  the simulated node, 64 ranks
    scripts/bench workload --python EXE --ranks 2           NVIDIA GPUs: a training loop in PyTorch

On GPUs the job is scripts/training_loop.py under torchrun: with the plugin alone, recorded, and
with the rules, in turns, so that the estimate stands beside what was seen. ``--verify`` holds the
rules against the untouched site before. ``--rccl-tests DIR`` sweeps and verifies with nccl-tests
instead of PyTorch. NVLink multicast stays off in all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_nccl import variables
from bench_tune import rccltune, told
from machine import ended_well, machine

from rccltune import plugin, simulate

ROOT = Path(__file__).resolve().parents[1]
# What the simulated job calls: collective, bytes, calls for each placement.
JOB = (
    ("all_reduce", 64 << 10, 200),
    ("all_reduce", 12_345_676, 50),
    ("all_gather", 64 << 20, 30),
    ("broadcast", 1 << 20, 20),
)
STEPS = 10
PER_STEP = re.compile(r"ms per step, median of \d+: ([\d.]+)")


def main() -> int:
    """Record, sweep, choose, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", help="a Python with PyTorch for the GPUs of this machine")
    parser.add_argument("--plugin", type=Path, default=None, help="default: the installed one")
    parser.add_argument("--ranks", type=int, default=2, help="GPUs of the training loop")
    parser.add_argument("--steps", type=int, default=60, help="of the training loop")
    parser.add_argument("--width", type=int, default=2048, help="of its layers")
    parser.add_argument("--bucket-mb", type=float, default=4.0, help="of its gradients")
    parser.add_argument("--rules", type=Path, help="only the training loop, with these in turns")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the training loop")
    parser.add_argument("--repeats", type=int, default=3, help="of the sweep")
    parser.add_argument("--verify", action="store_true", help="go on with what is proven")
    parser.add_argument("--rccl-tests", type=Path, help="sweep with these instead of PyTorch")
    parser.add_argument("-o", "--output", type=Path, help="keep records, session and rules here")
    options = parser.parse_args()
    if options.rules is not None and options.python is None:
        parser.error("--rules needs --python: the simulated job does not train")
    if options.output is not None and options.output.exists():
        parser.error(f"{options.output} is there; records of two jobs would mix")
    options.plugin = (options.plugin or plugin.library()).resolve()
    print(machine())
    if options.rules is not None:
        in_turns(options, options.rules.resolve())
        return 0
    with tempfile.TemporaryDirectory(prefix="rccltune-workload-") as name:
        work = (options.output or Path(name)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        record = {"RCCLTUNE_RECORD": str(work / "record-%h-%p.csv")}
        if options.python is None:
            simulated_job(options, work, record)
            sweep = ["--mode", "cpx-nps4", "--simulate", "mi300x"]
            steps = STEPS
        else:
            print(f"recorded: {trained(options, record):.3f} ms per step")
            sweep = ["--mode", "none", "--np", str(options.ranks), *runner(options)]
            steps = options.steps
        rules = chosen(work, [*sweep, "--repeats", str(options.repeats)], steps)
        if rules is None:
            print("no rule: the job runs as it did")
            return 0
        if options.verify:
            if code := rccltune(variables({}), "verify", str(work / "session")):
                return code
            told(work / "session" / "verdict.json")
        if options.python is not None:
            in_turns(options, rules)
    return 0


def runner(options: argparse.Namespace) -> list[str]:
    """What measures."""
    if options.rccl_tests is not None:
        return ["--rccl-tests", str(options.rccl_tests)]
    return ["--runner", "torch", "--python", options.python]


def simulated_job(options: argparse.Namespace, work: Path, added: Mapping[str, str]) -> None:
    """The stand-in benchmarks under mpirun: nothing of it is a measurement of hardware."""
    print("SIMULATED: four jobs, a collective each, of 64 ranks of mi300x in cpx-nps4")
    node = work / "job.node"
    node.write_bytes(simulate.compile_node(simulate.node_path("mi300x", "cpx-nps4")))
    environment = {
        **variables(dict(added)),
        "RCCLTUNE_SIM_NODE": str(node),
        "NCCL_TUNER_PLUGIN": str(options.plugin),
    }
    mpirun = [str(Path(sys.executable).parent / "mpirun"), "--allow-run-as-root"]
    for collective, nbytes, calls in JOB:
        program = str(plugin.native_folder() / "sim" / f"{collective}_perf")
        sizes = ["-b", str(nbytes), "-e", str(nbytes), "-n", str(calls), "-w", "0", "-c", "0"]
        ranks = ["--oversubscribe", "--bind-to", "none", "-np", "64"]
        checked([*mpirun, *ranks, program, *sizes, "-g", "1"], environment)


def trained(options: argparse.Namespace, added: Mapping[str, str]) -> float:
    """One run of the training loop with the plugin; ms per step."""
    environment = variables({"NCCL_TUNER_PLUGIN": str(options.plugin), **added})
    torchrun = ["-m", "torch.distributed.run", "--standalone"]
    loop = [str(ROOT / "scripts/training_loop.py"), "--steps", str(options.steps)]
    loop += ["--width", str(options.width), "--bucket-mb", str(options.bucket_mb)]
    command = [options.python, *torchrun, f"--nproc_per_node={options.ranks}", *loop]
    found = PER_STEP.search(checked(command, environment))
    if found is None:
        sys.exit("the training loop did not say how long a step took")
    return float(found[1])


def checked(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """A program's output; ends this one when it fails."""
    return ended_well(command, environment, 3600).stdout


def chosen(work: Path, sweep: Sequence[str], steps: int) -> Path | None:
    """Merge, show, sweep and emit; prints what a user sees, gives the rule file if it has a rule."""
    program = [sys.executable, "-m", "rccltune"]
    files = sorted(str(path) for path in work.glob("record-*.csv"))
    merged, session = str(work / "workload.csv"), str(work / "session")
    environment = variables({})
    print(checked([*program, "workload", "merge", *files, "-o", merged], environment))
    print(checked([*program, "workload", "show", merged], environment))
    command = [*program, "sweep", *sweep, "--workload", merged, "-o", session]
    swept = ended_well(command, environment, 3600)
    for line in swept.stderr.splitlines():
        if "of the workload" in line:
            print(line)
    print(swept.stdout)
    emit = [*program, "emit-config", session, "--workload", merged, "--steps", str(steps)]
    emitted = json.loads(checked([*emit, "--json"], environment))
    rules, saving = Path(emitted["path"]), emitted["saving"]
    show = ["workload", "show", merged, "--session", session, "--rules", str(rules)]
    print(checked([*program, *show], environment))
    print(
        f"estimated: {1e3 * saving['saved_s_per_step']:.3f} ms of "
        f"{1e3 * saving['before_s'] / steps:.3f} ms in collectives saved per step; "
        f"{emitted['rules']} rules"
    )
    return rules if emitted["rules"] else None


def in_turns(options: argparse.Namespace, rules: Path) -> None:
    """The job without rules and with them, in turns; prints each run and the medians."""
    arms = {"without rules": {}, "with rules": {"NCCL_TUNER_CONFIG_FILE": str(rules)}}
    found: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(options.rounds):
        for name in sorted(arms, reverse=bool(turn % 2)):
            found[name].append(trained(options, arms[name]))
            print(f"{name}: {found[name][-1]:.3f} ms per step", flush=True)
    for name, times in found.items():
        print(f"{name}: {statistics.median(times):.3f} ms per step in the median")
    without, with_rules = found.values()
    ratios = [before / after for before, after in zip(without, with_rules, strict=True)]
    print(
        f"as fast with rules, by turns: {statistics.median(ratios):.3f} times in the median "
        f"({min(ratios):.3f} to {max(ratios):.3f})"
    )


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
