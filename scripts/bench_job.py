"""Rules in jobs of PyTorch's: where they should pay, where nothing can, and rules that are bad.

    scripts/bench job --python PYTHON --part pays       # all-reduces between products, in a graph
    scripts/bench job --python PYTHON --part bound      # training_loop.py, which the CPU bounds
    scripts/bench job --python PYTHON --part bad        # bad on purpose: exit 9 is what is wanted
    scripts/bench job --python PYTHON --part overhead   # of the marks

Each part ends within five minutes, and every run in it has a limit. ``pays`` sweeps all_reduce from
1 to 16 MiB first; ``bound`` takes its rules where ``-o`` is the same folder, and sweeps else.
``--rules`` gives rules instead. What programs say is kept in the folder, and shown.

PYTHON has torch, and may be the one that runs this; rccltune is the one that this Python imports
outside of a checkout, with its plugin. Ranks are started by start_ranks.py. ``--backend gloo``
walks the same way without GPUs: no library loads a tuner there, so ``pays`` and ``bad`` end with
the job's exit code 4, as they should. NVLink multicast stays off.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from machine import SAFETY, machine

SCRIPTS = Path(__file__).resolve().parent
PART_S, SWEEP_S, SWEEP_LIMIT_S, EMIT_S, RUN_S, GRACE_S = 285, 75, 110, 30, 40, 15
BAD = "# bad on purpose\n" + "".join(
    f"{name},0,9223372036854775807,ring,simple,1,-1,-1,-1,-1\n"
    for name in ("allreduce", "allgather", "reducescatter", "broadcast", "reduce")
)
PER_STEP = r"ms per step, median of \d+: ([0-9.]+)"
WHERE = (
    "import torch; print('torch', torch.__version__, 'CUDA', torch.version.cuda, 'HIP', "
    "torch.version.hip, 'library', torch.cuda.nccl.version() if torch.cuda.is_available() else "
    "'none', [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())])"
)


class Part:
    """One part: what it was asked for, its folder, and when it must be over."""

    def __init__(self, options: argparse.Namespace, name: str) -> None:
        """Its time begins."""
        self.options = options
        self.name = name
        self.folder: Path = options.output
        self.until = time.monotonic() + PART_S

    @property
    def left_s(self) -> float:
        """Until it must be over."""
        return self.until - time.monotonic()

    def run(self, name: str, command: Sequence[str], limit_s: float = PART_S) -> int:
        """A program's exit code; what it says is kept and shown. One that takes too long fails."""
        limit_s = max(1.0, min(limit_s, self.left_s - GRACE_S))
        environment = {**os.environ, **SAFETY, "PYTHONUNBUFFERED": "1"}
        environment.setdefault("OMP_NUM_THREADS", "1")
        paths = [self.folder / f"{self.name}-{name}.{end}" for end in ("out", "err")]
        began = time.monotonic()
        with paths[0].open("w") as out, paths[1].open("w") as err:
            # Not in the checkout: there -m would find its rccltune, which has no plugin beside it.
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            code = ended(process, limit_s)
        for path in paths:
            print("\n".join(path.read_text(errors="replace").splitlines()[-60:]), flush=True)
        print(f"{name}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
        return code

    def ranks(self, script: str, *words: str) -> list[str]:
        """A script of this folder's in every rank."""
        options = self.options
        start = [options.python, str(SCRIPTS / "start_ranks.py"), str(options.ranks)]
        return [*start, options.python, str(SCRIPTS / script), *words]

    def loop(self, *words: str) -> list[str]:
        """The tensor-parallel loop."""
        options = self.options
        small = ["--width", "256", "--layers", "4", "--mib", "0.25"]
        size = small if options.backend == "gloo" else []
        steps = ["--steps", str(options.steps), "--backend", options.backend]
        return self.ranks("tensor_parallel_loop.py", *steps, *size, *words)

    def job(self, rules: Path, command: Sequence[str], *more: str) -> int:
        """Try rules; the exit code of ``rccltune job``."""
        # A run that hangs in the last round ends before the part must.
        budget = int(max(1, min(self.options.budget, self.left_s - RUN_S - 2 * GRACE_S)))
        session = self.folder / "session"
        given = [str(session)] if (session / "session.json").exists() else []
        place = ["--rules", str(rules), "-o", str(self.folder / self.name)]
        limits = ["--budget", f"{budget}s", "--timeout", f"{RUN_S}s"]
        words = [*RCCLTUNE, "job", *given, *place, *limits, *more, "--", *command]
        code = self.run("job", words)
        if code not in (0, 9):
            self.show_last_run()
        return code

    def show_last_run(self) -> None:
        """What the last run of the job said."""
        for folder in sorted(Path(self.folder, self.name).glob("runs/*"))[-1:]:
            for log in (folder / "stdout.log", folder / "stderr.log"):
                if log.is_file():
                    print(
                        f"-- {log}", *log.read_text(errors="replace").splitlines()[-40:], sep="\n"
                    )


def pays(part: Part) -> int:
    """Sweep, choose, and try in a captured loop: whichever way it comes out is the finding."""
    rules = rules_of(part)
    code = part.job(rules, part.loop())
    wanted = (4,) if part.options.backend == "gloo" else (0, 9)
    return 0 if code in wanted else code


def bound(part: Part) -> int:
    """A loop that the CPU bounds: no difference, so much at most."""
    if part.options.backend == "gloo":
        print("training_loop.py needs GPUs")
        return 0
    command = part.ranks("training_loop.py", "--steps", "200")
    return part.job(rules_of(part), command, "--measure", PER_STEP)


def bad(part: Part) -> int:
    """One channel of ring/simple, given as rules: 9 is right."""
    path = part.folder / "bad.csv"
    path.write_text(BAD, encoding="utf-8")
    code = part.job(path, part.loop(), "--no-control")
    return 0 if code == (4 if part.options.backend == "gloo" else 9) else 1


def overhead(part: Part) -> int:
    """What marks cost a step of the loop."""
    return part.run("loop", part.loop("--overhead"), 120)


def rules_of(part: Part) -> Path:
    """Given, there from an earlier part, or made now."""
    options = part.options
    if options.rules is not None:
        return Path(options.rules).resolve()
    session, rules = part.folder / "session", part.folder / "rules.csv"
    if options.backend == "gloo":
        rules.write_text(BAD, encoding="utf-8")
    if not rules.exists():
        how = ["--runner", "torch", "--python", options.python, "--np", str(options.ranks)]
        sizes = ["--collective", "all_reduce", "--min-bytes", "1M", "--max-bytes", "16M"]
        limits = ["--budget", f"{SWEEP_S}s", "--timeout", f"{RUN_S}s", "-o", str(session)]
        sweep = [*RCCLTUNE, "sweep", "--mode", "none", *how, *sizes, *limits]
        part.run("sweep", "--runner", "rccl-tests", sweep, SWEEP_LIMIT_S)
        # A sweep that was ended has samples too.
        emit = [*RCCLTUNE, "emit-config", str(session), "-o", str(rules)]
        if part.run("emit", emit, EMIT_S) or not rules.exists():
            sys.exit("no rules: give some with --rules")
    print(rules.read_text(encoding="utf-8"), flush=True)
    return rules


def ended(process: subprocess.Popen[bytes], limit_s: float) -> int:
    """Its exit code; after its time it is asked to end, then made to."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        # Both rccltune and start_ranks.py end what they have started when they are asked to.
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return 124


RCCLTUNE = (sys.executable, "-m", "rccltune")
PARTS = {"pays": pays, "bound": bound, "bad": bad, "overhead": overhead}


def main() -> int:
    """One part, or all of them one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="has torch")
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--rules", type=Path, help="instead of a sweep")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--budget", type=int, default=PART_S, metavar="S", help="of a job's runs")
    parser.add_argument("-o", "--output", type=Path, default=Path("bench-job"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    options.output = options.output.resolve()
    if "/" in options.python:
        options.python = str(Path(options.python).absolute())
    print(f"{machine()}; NVLink multicast off in every process", flush=True)
    first = Part(options, "machine")
    if first.run("torch", [options.python, "-c", WHERE], 120):
        sys.exit(f"{options.python} has no torch that starts")
    if first.run("plugin", [*RCCLTUNE, "plugin", "--path"], 60):
        sys.exit(f"{sys.executable} has no rccltune with its plugin")
    codes = []
    for name in PARTS if options.part == "all" else (options.part,):
        print(f"== {name}: {PARTS[name].__doc__}", flush=True)
        began = time.monotonic()
        codes.append(PARTS[name](Part(options, name)))
        print(f"== {name}: {codes[-1]} after {time.monotonic() - began:.0f} s", flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
