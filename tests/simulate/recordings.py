"""What the real RCCL 2.27.7 ran on simulated nodes, as recorded, and the same asked of the stand-in or of it.

The recordings (``recorded/``, and the choices in CPX in ``examples/mi300x-cpx-nps4/``) were made at de9b49c0 by
scripts/bench conform and scripts/bench real, which are in the history.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from real_runs import COLLECTIVES, PLACES, Place, RealCall, run

from rccltune import plugin

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = Path(__file__).parent / "recorded"
RELEASE: Final = "2.27.7"
# MSCCL's files are not in the package that was asked; with them the real library takes all_reduce of 8 ranks.
WITHOUT: Final = {"RCCL_MSCCL_ENABLE": "0"}
ONCE: Final = ("-n", "1", "-w", "0", "-c", "0")
POWERS: Final = ("-b", "8", "-e", "1G", "-f", "2")
# Every setting with every number of channels, asked for at these sizes.
SETTINGS: Final = ("tree/ll", "ring/ll", "ring/simple", "tree/ll128", "ring/ll128", "tree/simple")
CHANNELS: Final = (-1, 1, 4, 8, 16, 32, 64)
STEPS: Final = ("silent", *(f"{s}/{n}" for s, n in itertools.product(SETTINGS, CHANNELS)))
ASKED_SIZES: Final = ("-b", "512", "-e", "512M", "-f", "16")
# Variables and options of each case. On 8 ranks in SPX, 4 in CPX and two hosts.
CASES: Final[Mapping[str, Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]]]] = {
    "env": {
        f"{name}={value}": ({name: value}, ())
        for name, value in (
            ("NCCL_MIN_NCHANNELS", "16"),
            ("NCCL_MAX_NCHANNELS", "8"),
            ("NCCL_MIN_NCHANNELS", "112"),
            ("RCCL_LL128_FORCE_ENABLE", "1"),
            ("RCCL_DIRECT_ALLGATHER_THRESHOLD", "-1"),
            ("NCCL_PROTO", "Simple"),
        )
    },
    "group": {f"-m {n}": ({}, ("-m", str(n))) for n in (2, 5, 20)},
    # Powers of two, half-way between them (no whole number of chunks), and 4 KiB beside them.
    "msccl": {
        case: ({}, ("-b", first, "-e", "48M"))
        for case, first in (("powers", "8"), ("half-way", "1536"), ("beside", "5K"))
    },
}
CASE_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "env": ("spx-8", "cpx-4", "two-hosts"),
    "group": ("spx-8", "cpx-4", "two-hosts"),
    "msccl": ("spx-8", "spx-4", "cpx-8", "cpx-16"),
}
COST_PLACES: Final = ("spx-8", "spx-2", "cpx-64", "two-hosts")
# What else a tuner is told of: groups, buffers that are registered, by a program or for a graph.
MANNERS: Final = (
    "-m 64",
    "-m 200",
    "-R 1",
    "-R 1 NCCL_LOCAL_REGISTER=1",
    "-R 2 NCCL_LOCAL_REGISTER=1",
    "-G 2",
    "-G 2 NCCL_GRAPH_REGISTER=1",
)
QUESTIONS: Final = (*COST_PLACES, *(f"{n} {m}" for n in ("spx-8", "two-hosts") for m in MANNERS))
# Lines that rccltune.logs and rccltune.why read, and what stands in them that is another's every time.
_READ: Final = re.compile(
    r"\bNCCL INFO (.*(?:MIN_NCHANNELS set by|rccltune\.so|Using tuner|Tuning index|coll channels"
    r"|Init COMPLETE|-> Algo).*)"
)
_OTHER_EACH_TIME: Final = (
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"busId [0-9a-f]+"), "busId"),
    (re.compile(r"(p2p channels(?: per peer)?):\d+"), r"\1:"),
    (re.compile(re.escape(str(plugin.library()))), "PLUGIN"),
)
# A setting or a path, and channels: 0 where no tuner is asked.
Choice = tuple[str, int]
Choices = dict[tuple[str, ...], Choice]


def recorded_lines(name: str, head: int) -> list[str]:
    """A recording, without so many lines of its head."""
    return (RECORDED / f"rccl-{RELEASE}-{name}").read_text(encoding="utf-8").splitlines()[head:]


def recorded_choices(place: Place, collective: str) -> Choices:
    """What the library chose by itself, by size; in CPX as README's figure has it."""
    path = RECORDED / f"rccl-{RELEASE}-choices-{place.mode}.csv"
    if not path.exists():
        path = ROOT / f"examples/mi300x-{place.mode}/rccl-{RELEASE}-choices.csv"
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {
        (row["nbytes"],): (
            "/".join(filter(None, (row["algorithm"], row["protocol"]))),
            int(row["channels"] or 0),
        )
        for row in csv.DictReader(lines)
        if row["collective"] == collective
        and (int(row["nodes"]), int(row["ranks"])) == (place.nodes, place.ranks)
    }


def choices(library: Path | None, place: Place, collective: str) -> Choices:
    """What it chooses by itself, by size; without a library the stand-in."""
    variables = {} if library else WITHOUT
    return _first(run(library, place, collective, (*POWERS, *ONCE), variables))


def _first(calls: Iterable[RealCall]) -> Choices:
    found: Choices = {}
    for call in calls:
        if call.rank == 0:
            channels = call.channels if "/" in call.setting else 0
            found.setdefault((str(call.nbytes),), (call.setting, channels))
    return found


def executed(lines: Iterable[str]) -> Choices:
    """What ran, by what stands before it in each line: place, case, collective, size …."""
    found: Choices = {}
    for line in lines:
        *asked, ran, channels = line.split(",")
        found[tuple(asked)] = (ran, int(channels) if "/" in ran else 0)
    return found


def recorded_asked(place: str) -> Choices:
    """What ran for everything that was asked for, by collective, step and size."""
    return executed(line.rsplit(",", 1)[0] for line in recorded_lines(f"{place}.csv", 2))


def asked(library: Path | None, place: str) -> Choices:
    """What runs for everything that is asked for."""
    lines: list[str] = []
    for collective in COLLECTIVES:
        passes = _passes(_walked(library, PLACES[place], collective))
        for step, rows in zip(STEPS, passes, strict=True):
            lines += [
                f"{collective},{step},{row.nbytes},{row.setting},{row.channels}" for row in rows
            ]
    return executed(lines)


def _walked(library: Path | None, place: Place, collective: str) -> list[RealCall]:
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "NCCL_TUNER_PLUGIN": str(made_tuner(Path(folder), "test_plugin.c", "-DWITH_V4")),
            "TESTPLUGIN_CYCLE": " ".join(STEPS),
            **({} if library else WITHOUT),
        }
        options = (*ASKED_SIZES, *ONCE, "-N", str(len(STEPS)))
        return run(library, place, collective, options, variables)


def made_tuner(folder: Path, source: str, *options: str) -> Path:
    """A tuner plugin of the simulation's tests, compiled."""
    native, made = ROOT / "native_plugin", folder / f"{Path(source).stem}.so"
    command = ("cc", "-shared", "-fPIC", f"-I{native / 'include'}", "-D_GNU_SOURCE", *options)
    subprocess.run((*command, "-o", str(made), str(native / "sim/tests" / source)), check=True)
    return made


def _passes(rows: Sequence[RealCall]) -> Iterator[list[RealCall]]:
    """Rank 0's rows of each step: a pass over the sizes begins where the size falls."""
    found: list[RealCall] = []
    for row in rows:
        if row.rank == 0:
            if found and row.nbytes < found[-1].nbytes:
                yield found
                found = []
            found.append(row)
    yield found


def recorded_case(mode: str, case: str, place: str) -> Choices:
    """What ran in one case, by place, case, collective and size."""
    lines = recorded_lines(f"{mode}.csv", 2)
    return executed(line for line in lines if line.startswith(f"{place},{case},"))


def in_case(library: Path | None, mode: str, case: str, place: str) -> Choices:
    """The same; channels are not a group's.

    The stand-in reads no file of MSCCL: a node file says what they are for.
    """
    variables, options = CASES[mode][case]
    variables = {**variables, **({} if library or mode == "msccl" else WITHOUT)}
    at = PLACES[place]
    if mode == "msccl" and place == "cpx-8":
        # The node of one OAM has MSCCL by force, as its release does (2.21.5).
        at = replace(at, node="mi300x-oam-cpx-nps4")
        variables = {"RCCL_MSCCL_FORCE_ENABLE": "1"}
    found: Choices = {}
    for collective in COLLECTIVES:
        calls = run(library, at, collective, (*POWERS, *ONCE, *options), variables)
        for (nbytes,), (ran, channels) in _first(calls).items():
            key = (place, case, collective, nbytes)
            found[key] = (ran, 0 if mode == "group" else channels)
    return found


def recorded_log() -> list[str]:
    """Lines of the library's log that rccltune reads."""
    return recorded_lines("log.txt", 1)


def log_lines(library: Path | None) -> list[str]:
    """Of four ranks in SPX under a rule, each line once, without what is another every time."""
    with tempfile.TemporaryDirectory() as folder:
        rules, log = Path(folder) / "rules.csv", Path(folder) / "log"
        rules.write_text("allreduce,0,65536,tree,ll,-1,1,4,-1,-1\n", encoding="ascii")
        variables = {
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_FILE": str(log),
            "NCCL_DEBUG_SUBSYS": "INIT,ENV,TUNING,GRAPH",
            "NCCL_MIN_NCHANNELS": "8",
            "NCCL_TUNER_CONFIG_FILE": str(rules),
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
        }
        sizes = ("-b", "1K", "-e", "1M", "-f", "32")
        run(library, PLACES["spx-4"], "all_reduce", (*sizes, *ONCE), {**variables, **WITHOUT})
        found = _READ.findall(log.read_text(encoding="utf-8"))
    for pattern, instead in _OTHER_EACH_TIME:
        found = [pattern.sub(instead, line) for line in found]
    return sorted(set(found))


def recorded_questions(of: str) -> list[str]:
    """What a tuner was asked at a place, and for a manner of calling."""
    lines = recorded_lines("costs.csv", 1)
    return [line.split(",", 1)[1] for line in lines if line.startswith(f"{of},")]


def questions(library: Path | None, of: str) -> list[str]:
    """Of the first rank, in the order in which they were asked; each once."""
    place, *manner = of.split()
    sizes = POWERS if not manner else ("-b", "1K", "-e", "64M", "-f", "16")
    options = (*sizes, *ONCE, *(word for word in manner if "=" not in word))
    with tempfile.TemporaryDirectory() as folder:
        tuner, path = made_tuner(Path(folder), "asked.c"), Path(folder) / "asked"
        asking = {"NCCL_TUNER_PLUGIN": str(tuner), "RCCLTUNE_ASKED_FILE": str(path)}
        found: list[str] = []
        for collective in COLLECTIVES:
            variables = {**asking, **({} if library else WITHOUT)}
            variables.update(re.findall(r"(\w+)=(\w+)", of))
            run(library, PLACES[place], collective, options, variables)
            found += path.read_text().splitlines()
    return list(dict.fromkeys(found))


def alike(one: str, other: str) -> bool:
    """The same question: every number, times to a tenth of a nanosecond and a millionth."""
    pairs = zip(one.split(","), other.split(","), strict=True)
    return all(a == b or math.isclose(float(a), float(b), rel_tol=1e-6) for a, b in pairs)
