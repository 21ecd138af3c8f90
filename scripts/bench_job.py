"""Rules in jobs of PyTorch's: where they should pay, where nothing can, and rules that are bad.

    scripts/bench job --python PYTHON --part pays       # all-reduces between products, in a graph
    scripts/bench job --python PYTHON --part bound      # training_loop.py, which the CPU bounds
    scripts/bench job --python PYTHON --part bad        # bad on purpose: exit 9 is what is wanted
    scripts/bench job --python PYTHON --part overhead   # of the marks

Each part takes less than five minutes, and every run in it has a limit. ``pays`` sweeps all_reduce
from 1 to 16 MiB first, and the others take its rules (``-o`` is the same folder), or those of
``--rules``. PYTHON has torch, and may be the one that runs this; rccltune is the one that this
Python imports outside of a checkout, with its plugin. ``--backend gloo`` walks the same way without GPUs: no library
loads a tuner there, so ``pays`` ends with exit code 4, as it should. NVLink multicast stays off.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench_nccl import SAFETY
from machine import machine

ROOT = Path(__file__).resolve().parents[1]
SWEEP_S, JOB_S, RUN_S = 90, 170, 45
BAD = "# bad on purpose\n" + "".join(
    f"{name},0,9223372036854775807,ring,simple,1,-1,-1,-1,-1\n"
    for name in ("allreduce", "allgather", "reducescatter", "broadcast", "reduce")
)
PER_STEP = r"ms per step, median of \d+: ([0-9.]+)"


def main() -> int:
    """One part, or all of them one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="has torch")
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--rules", type=Path, help="instead of a sweep")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--budget", type=int, default=JOB_S, metavar="S", help="of a job's runs")
    parser.add_argument("-o", "--output", type=Path, default=Path("bench-job"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    options.output = options.output.resolve()
    if "/" in options.python:
        options.python = str(Path(options.python).absolute())
    print(machine(), flush=True)
    parts = PARTS if options.part == "all" else (options.part,)
    codes = [PARTS[part](options) for part in parts]
    return max(codes)


def pays(options: argparse.Namespace) -> int:
    """Sweep, choose, and try in a captured loop: whichever way it comes out is the finding."""
    print("== pays: tensor-parallel loop, all-reduces of 1.5 to 6 MiB", flush=True)
    return job(options, "pays", rules_of(options), (), loop(options))


def bound(options: argparse.Namespace) -> int:
    """A loop that the CPU bounds: no difference, so much at most."""
    print("== bound: training_loop.py", flush=True)
    if options.backend == "gloo":
        print("training_loop.py needs GPUs")
        return 0
    words = [*torchrun(options), str(ROOT / "scripts/training_loop.py"), "--steps", "200"]
    return job(options, "bound", rules_of(options), ("--measure", PER_STEP), words)


def bad(options: argparse.Namespace) -> int:
    """Bad rules as if they were good ones: 9 is right."""
    print("== bad: one channel of ring/simple, given as rules", flush=True)
    path = options.output / "bad.csv"
    path.write_text(BAD, encoding="utf-8")
    code = job(options, "bad", path, ("--no-control",), loop(options))
    return 0 if code == (4 if options.backend == "gloo" else 9) else 1


def overhead(options: argparse.Namespace) -> int:
    """What marks cost."""
    print("== overhead of rccltune.torch.step()", flush=True)
    return run(options.output, [*loop(options), "--overhead"], 120)


def rules_of(options: argparse.Namespace) -> Path:
    """Given, there from an earlier part, or made now."""
    if options.rules is not None:
        return Path(options.rules).resolve()
    session, rules = Path(options.output, "session"), Path(options.output, "rules.csv")
    if options.backend == "gloo":
        rules.write_text(BAD, encoding="utf-8")
    if not rules.exists():
        how = ["--runner", "torch", "--python", options.python, "--np", str(options.ranks)]
        sizes = ["--collective", "all_reduce", "--min-bytes", "1M", "--max-bytes", "16M"]
        limits = ["--budget", f"{SWEEP_S}s", "--timeout", f"{RUN_S}s", "-o", str(session)]
        command = ["sweep", "--mode", "none", *how, *sizes, *limits]
        emit = ["emit-config", str(session), "-o", str(rules)]
        for words, limit_s in ((command, 2 * SWEEP_S), (emit, 60)):
            if run(options.output, [*rccltune(), *words], limit_s):
                sys.exit("no rules")
    print(rules.read_text(encoding="utf-8"), flush=True)
    return rules


def job(
    options: argparse.Namespace, name: str, rules: Path, more: Sequence[str], words: Sequence[str]
) -> int:
    """Try rules; the exit code of ``rccltune job``."""
    limits = ["--budget", f"{options.budget}s", "--timeout", f"{RUN_S}s"]
    session = options.output / "session"
    given = [str(session)] if (session / "session.json").exists() else []
    place = ["--rules", str(rules), "-o", str(options.output / name)]
    command = [*rccltune(), "job", *given, *place, *limits, *more, "--", *words]
    code = run(options.output, command, options.budget + 2 * RUN_S)
    print(f"{name}: exit code {code}", flush=True)
    return code


def loop(options: argparse.Namespace) -> list[str]:
    """The tensor-parallel loop."""
    size = ["--width", "256", "--layers", "4", "--mib", "0.25"] if options.backend == "gloo" else []
    steps = ["--steps", str(options.steps), "--backend", options.backend]
    return [*torchrun(options), str(ROOT / "scripts/tensor_parallel_loop.py"), *steps, *size]


def torchrun(options: argparse.Namespace) -> list[str]:
    """How ranks start."""
    ranks = ["--standalone", f"--nproc_per_node={options.ranks}"]
    return [options.python, "-m", "torch.distributed.run", *ranks]


def rccltune() -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "rccltune"]


def run(place: Path, command: Sequence[str], limit_s: float) -> int:
    """A program with its output shown, and its exit code; one that takes too long fails."""
    environment = {**os.environ, **SAFETY, "PYTHONUNBUFFERED": "1"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    # Not in the checkout: there -m would find its rccltune, which has no plugin beside it.
    process = subprocess.Popen(command, env=environment, cwd=place, stdin=subprocess.DEVNULL)
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        # Both rccltune and torchrun end what they have started when they are asked to.
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
        print(f"ended after {limit_s:.0f} s: {' '.join(command)}", flush=True)
        return 124


PARTS = {"pays": pays, "bound": bound, "bad": bad, "overhead": overhead}

if __name__ == "__main__":
    sys.exit(main())
