"""The PyTorch runner under real NCCL: its times beside nccl-tests', and a walk that it is told.

Needs NVIDIA GPUs, a Python with PyTorch (``--python``), a build of nccl-tests (``--nccl-tests DIR``;
with MPI, or without it under ``--threads``) and the plugin (``--plugin FILE``); the standard library
is enough for the rest. Both run the library that PyTorch brings, in turns. Then one launch walks
through settings, and every half-row of it is proven by the plugin's trace of every rank; with and
without graphs. NVLink multicast stays off: the variables that keep it off reach every rank.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_nccl import variables
from machine import ended_well, machine

from rccltune import logs, plan
from rccltune.logs import read_stream
from rccltune.model import (
    BACKENDS,
    BASELINE,
    Collective,
    Launch,
    Placement,
    Role,
    Sample,
    Scale,
    Setting,
    Stated,
    Sweep,
    defaults,
    format_size,
    parse_size,
)
from rccltune.torchbench.options import LETTERS, argv

SETTINGS = ("tree/ll", "tree/ll128", "tree/simple", "ring/ll", "ring/ll128", "ring/simple")
LIBRARY = re.compile(r"^# Library: (\S+)", re.MULTILINE)
NAMED = re.compile(
    r"^#? ?(?:[RN]CCL version|Library:|nccl-tests version|rccltune PyTorch).*$", re.MULTILINE
)
# A size counts as equal where the ratio of medians is below the arms' own spread, or below this.
LEAST_NOISE = 0.05
WORST_MEDIAN = 0.10
Times = dict[int, list[float]]


def start(options: argparse.Namespace) -> list[str]:
    """The runner's ranks, up to the collective's name."""
    torchrun = ["-m", "torch.distributed.run", "--standalone"]
    ranks = [f"--nproc_per_node={options.ranks}", "--no_python"]
    runner = argv(options.python, options.backend)
    return [options.python, *torchrun, *ranks, *runner]


def tests_start(options: argparse.Namespace) -> list[str]:
    """nccl-tests' ranks: one process each under mpirun, or threads of one process."""
    if options.threads:
        return []
    return ["mpirun", "-np", str(options.ranks), "--bind-to", "none", "--oversubscribe"]


def run(command: Sequence[str], added: Mapping[str, str], limit_s: float = 300) -> str:
    """One launch's output; ends the program when it fails."""
    return ended_well(command, variables(dict(added)), limit_s).stdout


def samples_in(output: str, collective: Collective, n_ranks: int) -> tuple[Sample, ...]:
    """Half-rows of one launch; wrong results end the program."""
    stated = Stated(collective=collective, setting=BASELINE, n_ranks=n_ranks, n_nodes=1)
    lines = (line.encode() + b"\n" for line in output.splitlines())
    samples = read_stream(lines, "stdout", stated, "launch").samples
    if any(sample.n_wrong for sample in samples):
        sys.exit(f"wrong results:\n{output}")
    return samples


def in_place(samples: Sequence[Sample]) -> dict[int, float]:
    """The second pass's time by size: the first pays for connections."""
    kept = [s for s in samples if s.key.placement is Placement.IN_PLACE and s.time_us is not None]
    return {sample.nbytes: float(sample.time_us or 0) for sample in kept}


def beside(options: argparse.Namespace, collective: Collective, sizes: Sequence[str]) -> float:
    """Both arms in turns; prints each size, gives the median of the ratios."""
    common = [*sizes, "-n", str(options.iters), "-w", "5", "-c", "1", "-N", "2"]
    torch = [*start(options), collective.value, *common, "-O", "0"]
    threads = ["-t", str(options.ranks)] if options.threads else []
    program = str(options.nccl_tests / collective.benchmark)
    tests = [*tests_start(options), program, *common, "-g", "1", *threads]
    first = run(torch, {})
    print(*NAMED.findall(first), sep="\n")
    match = LIBRARY.search(first)
    folder = Path(match[1]).parent if match else None
    path = os.pathsep.join(filter(None, (str(folder or ""), os.environ.get("LD_LIBRARY_PATH"))))
    found: dict[str, Times] = {"torch": {}, "tests": {}}
    for turn in range(options.rounds):
        for arm in ("torch", "tests") if turn % 2 == 0 else ("tests", "torch"):
            command, added = (torch, {}) if arm == "torch" else (tests, {"LD_LIBRARY_PATH": path})
            output = run(command, added)
            if turn == 0 and arm == "tests":
                print(*NAMED.findall(output), sep="\n")
            for nbytes, taken in in_place(samples_in(output, collective, options.ranks)).items():
                found[arm].setdefault(nbytes, []).append(taken)
    return compared(collective, found)


def compared(collective: Collective, found: Mapping[str, Times]) -> float:
    """Prints a line for each size and what they come to."""
    ratios, n_equal = [], 0
    print(f"{collective.value}: in place, µs, medians [least, most]; ratio torch / nccl-tests")
    for nbytes in sorted(found["torch"].keys() & found["tests"].keys()):
        each = [found[arm][nbytes] for arm in ("torch", "tests")]
        medians = [statistics.median(times) for times in each]
        noise = max(LEAST_NOISE, *(max(times) / min(times) - 1 for times in each))
        ratio = medians[0] / medians[1]
        n_equal += abs(ratio - 1) <= noise
        ratios.append(ratio)
        shown = "  ".join(
            f"{middle:9.2f} [{min(times):.2f}, {max(times):.2f}]"
            for middle, times in zip(medians, each, strict=True)
        )
        print(
            f"  {format_size(nbytes):>8}  {shown}  {ratio:.3f}{'' if noise < 0.5 else ' (noisy)'}"
        )
    middle = statistics.median(ratios)
    print(
        f"{collective.value}: median ratio {middle:.3f} ({min(ratios):.3f} to {max(ratios):.3f}); "
        f"{n_equal} of {len(ratios)} sizes within the arms' own spread or {LEAST_NOISE:.0%}"
    )
    return middle


def walk(options: argparse.Namespace, collective: Collective, *, graph: int) -> None:
    """One launch through all settings; ends the program where it is not proven."""
    launch = planned(options, collective, graph=graph)
    schedule = launch.schedule
    questions = schedule.questions if schedule is not None else None
    if schedule is None or questions is None:
        sys.exit("no walk was planned")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "schedule").write_text(plan.schedule_text(schedule), encoding="ascii")
        added = {
            "NCCL_TUNER_PLUGIN": str(options.plugin.resolve()),
            "RCCLTUNE_SCHEDULE": str(folder / "schedule"),
            "RCCLTUNE_TRACE": str(folder / "trace-%h-%p-%c-%n.csv"),
        }
        began = time.perf_counter()
        output = run(launch.argv, added)
        seconds = time.perf_counter() - began
        walks = {
            path.name: logs.read_walk(path.read_text(encoding="ascii"), path.name)
            for path in sorted(folder.glob("trace-*"))
        }
    if len(walks) != options.ranks:
        sys.exit(f"{len(walks)} traces of {options.ranks} ranks")
    differing = logs.agree_on_walk(walks)
    if differing is not None:
        sys.exit(f"ranks were answered differently: {differing}")
    printed = samples_in(output, collective, options.ranks)
    shortest = min(walks.values(), key=lambda one: one.n_whole)
    report(collective, graph, seconds, logs.place(printed, shortest, schedule.settings, questions))


def planned(options: argparse.Namespace, collective: Collective, *, graph: int) -> Launch:
    """A walk through all settings, each thrown away once and kept three times."""
    sweep = Sweep(
        collectives=(collective,),
        settings=tuple(
            Setting.parse(text)
            for text in SETTINGS
            if collective is Collective.ALL_REDUCE or not text.startswith("tree")
        ),
        min_nbytes=options.min_bytes,
        max_nbytes=options.max_bytes,
        placements=(Placement.IN_PLACE,),
        repeats=3,
        graph=graph,
    )
    ground = plan.Ground(
        programs={collective: collective.value},
        letters=LETTERS,
        launch=lambda _, program: (*start(options), *program),
        scale=Scale(n_nodes=1, n_ranks=options.ranks),
        arch=None,
        tells_steps=True,
    )
    launches = plan.plan_walks(replace(sweep, exhaustive=True), ground).launches
    return next(one for one in launches if one.schedule and one.schedule.questions)


def report(collective: Collective, graph: int, seconds: float, samples: Sequence[Sample]) -> None:
    """What of a walk is proven, by setting, with the spread of its kept passes."""
    proven = [sample for sample in samples if sample.doubt is None]
    print(
        f"{collective.value}: walk{f' with graphs (-G {graph})' if graph else ''}: "
        f"{len(proven)} half-rows proven of {len(samples)} in {seconds:.1f} s"
    )
    for setting in dict.fromkeys(sample.key.setting for sample in samples):
        own = [sample for sample in samples if sample.key.setting == setting]
        times: Times = {}
        for sample in own:
            if sample.doubt is None and sample.time_us is not None:
                times.setdefault(sample.nbytes, []).append(sample.time_us)
        doubts = {str(s.doubt.value) for s in own if s.doubt is not None} - {"connecting"}
        spreads = [max(each) / min(each) - 1 for each in times.values()]
        spread = f"median spread {statistics.median(spreads):.1%}" if spreads else "nothing proven"
        said = f" ({', '.join(sorted(doubts))})" if doubts else ""
        print(f"  {setting!s:<12} {len(times)} sizes, {spread}{said}")
        if setting.role is Role.SILENT and not times:
            sys.exit("not even silence is proven")


def sweep(options: argparse.Namespace, collectives: Sequence[Collective]) -> None:
    """A whole session through the runner, searched in one launch a round; prints what it says."""
    sizes = ["--min-bytes", str(options.min_bytes), "--max-bytes", str(options.max_bytes)]
    runner = ["--runner", "torch", "--python", options.python, "--np", str(options.ranks)]
    named = [word for each in collectives for word in ("--collective", each.value)]
    words = ["sweep", "--mode", "none", *runner, *sizes, *named, "--force"]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rccltune", *words, "-o", str(options.session)],
        env=variables({}),
        timeout=580,
        check=False,
    )
    print(f"session: exit code {done.returncode} after {time.perf_counter() - began:.0f} s")


def main() -> None:
    """Compare, walk, walk with graphs, and measure a session."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the one that has torch")
    parser.add_argument("--nccl-tests", type=Path, help="folder of all_reduce_perf")
    parser.add_argument("--threads", action="store_true", help="nccl-tests were built without MPI")
    parser.add_argument("--plugin", type=Path, help="librccl-tuner-rccltune.so")
    parser.add_argument("--session", type=Path, help="sweep into this folder (needs rccltune)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iters", type=int, default=20, help="timed calls of both arms")
    parser.add_argument("--backend", default=defaults.BACKEND, choices=BACKENDS)
    parser.add_argument("--collective", action="append", type=Collective.parse)
    parser.add_argument("--min-bytes", type=parse_size, default=parse_size("1K"))
    parser.add_argument("--max-bytes", type=parse_size, default=parse_size("64M"))
    options = parser.parse_args()
    collectives = options.collective or [Collective.ALL_REDUCE, Collective.ALL_GATHER]
    sizes = ["-b", str(options.min_bytes), "-e", str(options.max_bytes), "-f", "2"]
    print(f"{machine()}; {options.ranks} ranks; NVLS and multicast off in every process")
    far = []
    for collective in collectives:
        if options.nccl_tests is not None:
            middle = beside(options, collective, sizes)
            far += [collective.value] if abs(middle - 1) > WORST_MEDIAN else []
        if options.plugin is not None:
            for graph in (0, 4):
                walk(options, collective, graph=graph)
    if options.session is not None:
        sweep(options, collectives)
    if far:
        sys.exit(f"the runner's times are not nccl-tests': {', '.join(far)}")


if __name__ == "__main__":
    main()
