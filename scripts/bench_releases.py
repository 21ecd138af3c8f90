"""What releases ask a tuner and obey, and whether sweep, tune and the plugin work on each of them.

    scripts/bench releases libnccl-2.27.7.so libnccl-2.32.3.so.xz … -o FOLDER [--options OPTIONS OF TUNE]
    scripts/bench releases --simulate examples/nodes/smallest.yaml 2.30.7 2.32.3 --ranks 8 \\
        --collectives all_reduce -o FOLDER

Of each library, unpacked where it ends in .xz: the rank program asks for every setting of the collectives
at four sizes (questions a call, answered, obeyed); a job of two processes that knows nothing of
rccltune loads the plugin with two rules (the record's calls, and what `rccltune why` says of its log); then
`rccltune tune`, whose first half is `sweep`. A rank a GPU; where there are fewer GPUs than ranks, ranks share
one for all but tune, if the release lets them (NCCL from 2.30 on). NVLink multicast stays off in every process.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
from bench_gpus import OPEN_MPI, devices
from machine import SAFETY, machine
from perf_runs import Ground, ground_of, run

from rccltune import plugin
from rccltune.model.errors import RccltuneError
from rccltune.rules.rule_file import read_rules
from rccltune.why.explain_job import explain_job
from rccltune.why.job_report import AnswerKind
from rccltune.workload import read_workload

# The first is no whole KiB.
SIZES = (1008, 8192, 262144, 4194304)
PROTOCOLS = ("ll", "ll128", "simple")
SETTINGS = {"all_reduce": ("tree", "ring"), "all_gather": ("ring",)}
# Settings that every library here lets be chosen.
RULES = (
    "allreduce,0,32768,tree,ll,-1,1,-1,-1,-1\nallreduce,32769,16777216,ring,simple,-1,1,-1,-1,-1\n"
)
CALLS = 5
LIMIT_S = 300.0
SHARING = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
SHARED_SINCE = 23000
COLUMNS = (
    *("release", "ABI", "questions a call", "answered", "obeyed", "recorded", "why: hits"),
    *("tune", "rules", "s"),
)


@dataclass(frozen=True)
class Place:
    """Where ranks run: the ground, a device of each, and whether they share one."""

    ground: Ground
    devices: Sequence[int]

    @property
    def shares(self) -> bool:
        """Whether two ranks have one device."""
        return len(set(self.devices)) < len(self.devices)


@dataclass
class Found:
    """A line of the table, and why it is not as it must be."""

    cells: dict[str, str] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)

    def count(self, name: str, n: int, of: int) -> None:
        """So many of so many; anything but all is bad."""
        self.cells[name] = f"{n} of {of}"
        if n != of:
            self.bad.append(f"{name} {n} of {of}")


def main() -> int:
    """1 where a library asks, obeys, or is tuned otherwise than it must be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", nargs="+", help="file, also .xz; a number with --simulate")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--simulate", metavar="NODE", help="a simulated node: tries this bench")
    parser.add_argument("--collectives", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--no-tune", action="store_true", help="what is asked and obeyed alone")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of sessions")
    parser.add_argument(
        "--options", nargs=argparse.REMAINDER, default=[], help="of tune, at the end"
    )
    options = parser.parse_args()
    print(f"{machine()}; {devices()}", flush=True)
    lines = []
    for number, name in enumerate(options.library, start=1):
        start = time.monotonic()
        with library_of(name, simulated=options.simulate is not None) as file:
            found = tried(options, name, file, options.output.resolve() / str(number))
        lines.append(found)
        words = "; ".join(found.bad) or "as it must be"
        print(f"{found.cells['release']}: {words} ({time.monotonic() - start:.0f} s)", flush=True)
    print("\n" + table(lines))
    return int(any(one.bad for one in lines))


@contextmanager
def library_of(name: str, *, simulated: bool) -> Iterator[Path | None]:
    """The file to load: unpacked for as long as it is used; none of a simulated release."""
    if simulated:
        yield None
    elif not name.endswith(".xz"):
        yield Path(name).resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="rccltune-release-") as folder:
            file = Path(folder) / Path(name).name.removesuffix(".xz")
            with lzma.open(name) as packed, file.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 24)
            yield file


def tried(options: argparse.Namespace, name: str, file: Path | None, session: Path) -> Found:
    """All of one library; what ends in an error is said, and the next one follows."""
    found = Found({"release": Path(name).name})
    try:
        place = place_of(options, name, file)
        rows = asked(options, place, found)
        runtime = remark(rows, "runtime").partition(" (")[0]
        plain_job(place, runtime, session.with_name(f"{session.name}-job"), found)
        if not options.no_tune and not place.shares:
            tune(options, place, session, found)
    except (SystemExit, subprocess.SubprocessError, OSError, RccltuneError, ValueError) as error:
        found.bad.append(f"{type(error).__name__}: {str(error)[:2000]}")
    return found


def place_of(options: argparse.Namespace, name: str, file: Path | None) -> Place:
    """A device for each rank, or one for all."""
    wanted = argparse.Namespace(librccl=file, simulate=options.simulate, ranks=options.ranks)
    ground = ground_of(wanted)
    for chosen in ("NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE", "NCCL_ALGO", "NCCL_PROTO"):
        ground.variables.pop(chosen, None)
    if file is None:
        variables = {**ground.variables, "RCCLTUNE_SIM_RELEASE": name}
        return Place(replace(ground, variables=variables), range(options.ranks))
    n_devices = n_gpus()
    if n_devices >= options.ranks:
        return Place(ground, range(options.ranks))
    return Place(replace(ground, variables=ground.variables | SHARING), [0] * options.ranks)


def n_gpus() -> int:
    """GPUs that are visible here."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        return len(visible.split(","))
    command = ["nvidia-smi", "-L"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return len(done.stdout.splitlines())


def asked(options: argparse.Namespace, place: Place, found: Found) -> pd.DataFrame:
    """What the rank program saw: each setting asked for, answered, and what ran."""
    steps = ["communicator"]
    for collective in options.collectives:
        settings = [f"{a}/{p}" for a in SETTINGS[collective] for p in PROTOCOLS]
        for setting in ("nothing", *settings):
            steps.append(f"answer {setting}")
            steps += [f"call {collective} float sum out {nbytes} -" for nbytes in SIZES]
    listed = ",".join(map(str, place.devices))
    rows = run(place.ground, steps, options=("--devices", listed), limit_s=LIMIT_S)
    version = int(remark(rows, "version"))
    release = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    found.cells["release"] = f"{release}, ranks on one GPU" if place.shares else release
    if place.shares and version < SHARED_SINCE:
        found.bad.append("ranks cannot share a GPU")
    all_questions, counted = map(int, re.findall(r"\d+", remark(rows, "questions")))
    of_calls = rows[rows["step"] == "call"]
    found.cells["questions a call"] = f"{all_questions / max(counted, 1):.2f}"
    if (pd.to_numeric(of_calls["asked"]) != pd.to_numeric(of_calls["made"])).any():
        found.bad.append("questions that count are not one a call")
    if (of_calls["note"] != "").any():
        found.bad.append("questions differed within one measurement")
    forced = of_calls[of_calls["asked_for"] != "nothing"]
    offered = forced[[is_offered(row.selectable, row.asked_for) for row in forced.itertuples()]]
    found.count("answered", int((offered["answer"] == offered["asked_for"]).sum()), len(offered))
    ran = offered["ran"].str.rpartition("/")[0]
    found.count("obeyed", int((ran == offered["asked_for"]).sum()), len(offered))
    return rows


def is_offered(mask: str, setting: str) -> bool:
    """Whether a row's bits of cells have a setting's."""
    algorithm, protocol = setting.split("/")
    bit = ("tree", "ring").index(algorithm) * len(PROTOCOLS) + PROTOCOLS.index(protocol)
    return bool(int(mask or "0", 16) >> bit & 1)


def remark(rows: pd.DataFrame, word: str) -> str:
    """What rank 0 says behind a word."""
    text = (Path(rows.attrs["folder"]) / "rank-0.csv").read_text(encoding="utf-8")
    said = re.search(rf"^# {word} (.*)$", text, re.MULTILINE)
    if said is None:
        sys.exit(f"the rank program says nothing of '{word}'")
    return said[1]


def plain_job(place: Place, runtime: str, folder: Path, found: Found) -> None:
    """Processes that know nothing of rccltune, with the plugin and two rules."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rules = folder / "rules.csv"
    rules.write_text(RULES, encoding="ascii")
    variables = place.ground.variables | {
        "NCCL_TUNER_PLUGIN": str(plugin.library()),
        "NCCL_TUNER_CONFIG_FILE": str(rules),
        "RCCLTUNE_LOG": f"decisions:{folder}/decisions-%p.log",
        "RCCLTUNE_RECORD": f"{folder}/record-%p.csv",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,TUNING",
        "NCCL_DEBUG_FILE": f"{folder}/nccl-%p.log",
    }
    with_ranks(place, runtime, variables, folder)
    told = [path.read_text("utf-8") for path in sorted(folder.glob("decisions-*.log"))]
    loaded = {version for text in told for version in re.findall(r" abi=(v\d+) ", text)}
    found.cells["ABI"] = "/".join(sorted(loaded)) or "none"
    records = [read_workload(path) for path in sorted(folder.glob("record-*.csv"))]
    n = sum(one.calls for record in records for one in record.counts)
    found.count("recorded", n, place.ground.ranks * CALLS * len(SIZES))
    logs = [*folder.glob("nccl-*.log"), *folder.glob("decisions-*.log")]
    answers = explain_job([*sorted(logs), rules]).answers
    hit = [one for one in answers if one.kind is AnswerKind.HIT]
    inside = [
        nbytes
        for nbytes in SIZES
        if any((one.min_nbytes or 0) <= nbytes <= (one.max_nbytes or 0) for one in hit)
    ]
    found.count("why: hits", len(inside), len(SIZES))


def with_ranks(place: Place, runtime: str, variables: Mapping[str, str], folder: Path) -> None:
    """Start the job's processes, and end what is left of them where one fails."""
    job = Path(__file__).with_name("plain_job.py")
    library = str(place.ground.measured.file)
    ranks = []
    for rank, device in enumerate(place.devices):
        words = [library, runtime, rank, place.ground.ranks, device, folder / "id", CALLS, *SIZES]
        with (folder / f"rank-{rank}.txt").open("wb") as output:
            ranks.append(
                subprocess.Popen(
                    [sys.executable, str(job), *map(str, words)],
                    env=dict(variables),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
    until = time.monotonic() + LIMIT_S
    try:
        codes = [one.wait(max(1.0, until - time.monotonic())) for one in ranks]
    finally:
        for one in ranks:
            one.kill()
    if any(codes):
        said = "; ".join(path.read_text("utf-8")[-500:] for path in folder.glob("rank-*.txt"))
        sys.exit(f"the job ended with {codes}: {said}")


def tune(options: argparse.Namespace, place: Place, session: Path, found: Found) -> None:
    """As a user would, in a new folder."""
    shutil.rmtree(session, ignore_errors=True)
    where = ["--mode", "none", "--librccl", str(place.ground.measured.file)]
    if options.simulate is not None:
        where = ["--simulate", options.simulate]
    words = ["tune", *where, "--np", str(options.ranks), "--collective", "all_reduce", "-q"]
    variables = place.ground.variables | SAFETY | OPEN_MPI
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "rccltune", *words, "-o", str(session), *options.options],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    found.cells["s"] = f"{time.monotonic() - start:.0f}"
    found.cells["tune"] = f"exit {done.returncode}"
    if done.returncode:
        found.bad.append(f"tune: {done.stderr.strip()[-1500:]}")
    rules = [
        rule
        for path in sorted(session.glob("rccl_tuner*.csv"))
        for rule in read_rules(path.read_bytes()).rules
    ]
    found.cells["rules"] = str(len(rules))
    for rule in rules:
        print(f"  {found.cells['release']}: {rule.min_nbytes} to {rule.max_nbytes} {rule.setting}")


def table(lines: Sequence[Found]) -> str:
    """As a page has it."""
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    rows += [[one.cells.get(name, "–") for name in COLUMNS] for one in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
