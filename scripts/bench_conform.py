"""The simulated library held against the real one: what each runs by itself, at places and sizes.

scripts/bench conform [--place NAME…]                what is recorded in examples/mi300x-*/, in seconds
scripts/bench conform --live [--ranks N] [--octaves N] [--save]      asks the real one (scripts/fetch-rccl)
scripts/bench conform --log [--live --save]     lines of the log that rccltune reads
scripts/bench conform --asked|--env|--group|--costs [--live --save]      every setting asked for with
                every number of channels; under variables that choose; in groups of calls (-m); what
                a tuner is asked, its cost table to 0.1 ns (compiles a tuner), also of groups,
                registered buffers and graphs
scripts/bench conform --msccl [DIR --live --save]      with MSCCL's files, of a folder that holds them
                (RCCL's share/rccl/msccl-algorithms; not in the package that is fetched)
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import bench_real
from real_runs import COLLECTIVES, PLACES, RELEASE, WITHOUT, Place, library_or_exit, run

from rccltune import plugin
from rccltune.machine import real_words
from rccltune.model import format_size

ONCE: Final = ("-n", "1", "-w", "0", "-c", "0")
POWERS: Final = ("-b", "8", "-e", "1G", "-f", "2")
RECORDED: Final = Path(__file__).parents[1] / "tests/simulate/recorded"
_LOG: Final = RECORDED / f"rccl-{RELEASE}-log.txt"
# Places where each is asked, and its variables or options. On 8 ranks in SPX, 4 in CPX and two hosts.
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
# Lines that rccltune.logs and rccltune.why read, and what stands in them that is another's every time.
_READ: Final = re.compile(
    r"\bNCCL INFO (.*(?:MIN_NCHANNELS set by|rccltune\.so|Using tuner|Tuning index|coll channels"
    r"|Init COMPLETE|-> Algo).*)"
)
_OTHER_EACH_TIME: Final = (
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"busId [0-9a-f]+"), "busId"),
    (re.compile(r"(p2p channels(?: per peer)?):\d+"), r"\1:"),
    (re.compile(r"/\S+\.so"), "PLUGIN"),
)
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
ASKED: Final = (*COST_PLACES, *(f"{n} {m}" for n in ("spx-8", "two-hosts") for m in MANNERS))
NATIVE: Final = Path(__file__).parents[1] / "native_plugin"
CASE_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "env": ("spx-8", "cpx-4", "two-hosts"),
    "group": ("spx-8", "cpx-4", "two-hosts"),
    "msccl": ("spx-8", "spx-4", "cpx-8", "cpx-16"),
}
Choice = tuple[str, int]
Choices = dict[tuple[str, int], Choice]


def main() -> int:
    """Print the table; 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", nargs="+", default=list(PLACES), choices=PLACES)
    parser.add_argument("--live", action="store_true", help="ask the real library now")
    parser.add_argument("--ranks", type=int, nargs="+", help="of CPX, in place of places; live")
    parser.add_argument("--octaves", type=int, metavar="N", help="N random sizes an octave; live")
    parser.add_argument("--collective", nargs="+", default=COLLECTIVES, choices=COLLECTIVES)
    for mode in ("asked", "costs", "log", "env", "group"):
        parser.add_argument(f"--{mode}", action="store_true")
    parser.add_argument("--msccl", nargs="?", const=Path(), type=Path, metavar="DIR")
    parser.add_argument("--save", action="store_true", help="record the real one's choices")
    said = parser.parse_args()
    library = library_or_exit() if said.live else None
    places = [PLACES[name] for name in said.place]
    if said.ranks:
        places = [Place(name=f"cpx-{n}", node="mi300x-cpx-nps4", ranks=n) for n in said.ranks]
    for mode in ("asked", "costs", "log", *CASES):
        if getattr(said, mode) not in (False, None):
            return _of_mode(mode, said, library)
    print("| place | collective | sizes | same choice | same channels too | differs |")
    print("|---|---|--:|--:|--:|---|")
    bad, kept = 0, {}
    for place in places:
        for collective in said.collective:
            sizes = list(_ranges(said.octaves)) if said.octaves else [POWERS]
            if library is None:
                real = recorded(place, collective)
            else:
                real = asked(library, place, collective, sizes)
            kept[place, collective] = real
            ours = asked(None, place, collective, sizes)
            bad += _row(place, collective, real, ours)
    if said.save and library is not None:
        _save(kept, real_words(library)[0])
    return bad > 0


def asked(
    library: Path | None, place: Place, collective: str, sizes: Sequence[Sequence[str]]
) -> Choices:
    """What rank 0 ran: setting and channels by size; a path that asks no tuner has no channels."""
    variables = {} if library else WITHOUT
    found: Choices = {}
    for options in sizes:
        for call in run(library, place, collective, (*options, *ONCE), variables):
            if call.rank == 0:
                is_setting = "/" in call.setting
                chosen = (call.setting, call.channels if is_setting else 0)
                found.setdefault((collective, call.nbytes), chosen)
    return found


def _of_mode(mode: str, said: argparse.Namespace, library: Path | None) -> int:
    if mode == "asked":
        return _asked_and_executed(said.place)
    if mode == "costs":
        return _costs(said.place, library, save=said.save)
    if mode == "log":
        return _log(library, save=said.save)
    return _cases(mode, said, library)


def _asked_and_executed(names: Sequence[str]) -> int:
    """Rows of tests/simulate/recorded that the imitation runs otherwise."""
    print("| place | asked | run alike |\n|---|--:|--:|")
    lost = 0
    for name in names:
        path = RECORDED / f"rccl-{RELEASE}-{name}.csv"
        if path.exists():
            real, ours = executed(path.read_text("utf-8").splitlines()[2:]), imitated(name)
            alike = sum(real.get(key) == ours.get(key) for key in real.keys() | ours.keys())
            lost += len(real.keys() | ours.keys()) - alike
            print(f"| {name} | {len(real)} | {alike} |", flush=True)
    return lost > 0


def imitated(place: str) -> dict[tuple[str, ...], Choice]:
    """What the imitation runs for everything that is asked of it, as the recordings have it."""
    asked = bench_real.everything()
    lines: list[str] = []
    for collective in COLLECTIVES:
        rows = bench_real.walked(None, PLACES[place], collective, asked, ll128=False)
        lines += bench_real.told(collective, asked, bench_real.passes(rows))
    return executed(lines)


def executed(lines: Iterable[str]) -> dict[tuple[str, ...], Choice]:
    """By collective, what was asked, and size: what ran; a path without a tuner has no channels."""
    found: dict[tuple[str, ...], Choice] = {}
    for line in lines:
        *asked, ran, channels, _ = line.split(",")
        found[tuple(asked)] = (ran, int(channels) if "/" in ran else 0)
    return found


def _cases(mode: str, said: argparse.Namespace, library: Path | None) -> int:
    print("| place | case | asked | run alike | differs |\n|---|---|--:|--:|---|")
    kept, bad = [], 0
    for name in (name for name in CASE_PLACES[mode] if name in said.place):
        for case in CASES[mode]:
            asked = in_case(library, mode, case, name, said.msccl) if library else None
            real = recorded_case(mode, case, name) if asked is None else asked
            ours = in_case(None, mode, case, name)
            other = [key for key in real.keys() | ours.keys() if real.get(key) != ours.get(key)]
            told = [f"{' '.join(k[2:])}: {real.get(k)}, ours {ours.get(k)}" for k in sorted(other)]
            print(f"| {name} | {case} | {len(real)} | {len(real) - len(other)} | {told[:3]} |")
            bad += len(other)
            kept += [",".join((*key, ran, str(n))) for key, (ran, n) in real.items()]
    if said.save and library is not None:
        head = f"# {real_words(library)[1]}; scripts/bench conform --{mode} --live --save"
        text = "\n".join((head, "place,case,collective,nbytes,ran,channels", *kept))
        _file_of(mode).write_text(text + "\n", encoding="utf-8")
    return bad > 0


def _costs(names: Sequence[str], library: Path | None, *, save: bool) -> int:
    """Questions to a tuner, and init's arguments, that are not the real library's."""
    print("| place | questions | alike |\n|---|--:|--:|")
    kept, lost = [], 0
    for name in (name for name in ASKED if name.split()[0] in names):
        real = questions(library, name) if library else recorded_questions(name)
        ours = questions(None, name)
        lost += len(real) - sum(map(alike, real, ours)) + abs(len(real) - len(ours))
        print(f"| {name} | {len(real)} | {sum(map(alike, real, ours))} |", flush=True)
        kept += [f"{name},{line}" for line in real]
    if save and library is not None:
        head = f"# {real_words(library)[1]}; scripts/bench conform --costs --live --save"
        _file_of("costs").write_text("\n".join((head, *kept)) + "\n", encoding="utf-8")
    return lost > 0


def _log(library: Path | None, *, save: bool) -> int:
    real = log_lines(library) if library else recorded_log()
    ours = log_lines(None)
    for line in sorted(set(real) ^ set(ours)):
        print("real" if line in real else "ours", line)
    print(f"{len(real)} lines, {len(set(real) & set(ours))} alike")
    if save and library is not None:
        head = f"# {real_words(library)[1]}; scripts/bench conform --log --live --save"
        _LOG.write_text("\n".join((head, *real)) + "\n", encoding="utf-8")
    return real != ours


def recorded_log() -> list[str]:
    """What the real library's log says, from the file."""
    return _LOG.read_text(encoding="utf-8").splitlines()[1:]


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


def alike(one: str, other: str) -> bool:
    """The same question: every number, times to a tenth of a nanosecond and a millionth."""
    pairs = zip(one.split(","), other.split(","), strict=True)
    return all(a == b or math.isclose(float(a), float(b), rel_tol=1e-6) for a, b in pairs)


def recorded_questions(asked: str) -> list[str]:
    """What the real library asks at a place, and for a manner of calling, from the file."""
    lines = _file_of("costs").read_text(encoding="utf-8").splitlines()
    return [line.split(",", 1)[1] for line in lines if line.startswith(f"{asked},")]


def questions(library: Path | None, asked: str) -> list[str]:
    """Of the first rank, in the order in which they were asked; each once."""
    place, *manner = asked.split()
    sizes = POWERS if not manner else ("-b", "1K", "-e", "64M", "-f", "16")
    options = (*sizes, *ONCE, *(word for word in manner if "=" not in word))
    with tempfile.TemporaryDirectory() as folder:
        tuner, path = Path(folder) / "asked.so", Path(folder) / "asked"
        command = ("cc", "-shared", "-fPIC", f"-I{NATIVE / 'include'}", "-D_GNU_SOURCE")
        source = NATIVE / "sim/tests/asked.c"
        subprocess.run((*command, "-o", str(tuner), str(source)), check=True)
        asking = {"NCCL_TUNER_PLUGIN": str(tuner), "RCCLTUNE_ASKED_FILE": str(path)}
        found: list[str] = []
        for collective in COLLECTIVES:
            variables = {**asking, **({} if library else WITHOUT)}
            variables.update(re.findall(r"(\w+)=(\w+)", asked))
            run(library, PLACES[place], collective, options, variables)
            found += path.read_text().splitlines()
    return list(dict.fromkeys(found))


def _file_of(mode: str) -> Path:
    return RECORDED / f"rccl-{RELEASE}-{mode}.csv"


def recorded_case(mode: str, case: str, place: str) -> dict[tuple[str, ...], Choice]:
    """What the real library ran in one case, from the file."""
    lines = _file_of(mode).read_text(encoding="utf-8").splitlines()[2:]
    return executed(f"{line},0" for line in lines if line.startswith(f"{place},{case},"))


def in_case(
    library: Path | None, mode: str, case: str, place: str, schedules: Path | None = None
) -> dict[tuple[str, ...], Choice]:
    """What ran in one case, by place, case, collective and size; channels are not a group's.

    The imitation reads no file of MSCCL: a node file says what they are for.
    """
    variables, options = CASES[mode][case]
    at = PLACES[place]
    if mode == "msccl":
        variables = {"MSCCL_ALGO_DIR": str(schedules)} if library else {}
        if place == "cpx-8" and library is None:
            # The node of one OAM has MSCCL by force, as its release does (2.21.5).
            at = replace(at, node="mi300x-oam-cpx-nps4")
            variables = {"RCCL_MSCCL_FORCE_ENABLE": "1"}
    found: dict[tuple[str, ...], Choice] = {}
    for collective in COLLECTIVES:
        calls = run(
            library,
            at,
            collective,
            (*POWERS, *ONCE, *options),
            {**variables, **({} if library or mode == "msccl" else WITHOUT)},
        )
        for call in (call for call in calls if call.rank == 0):
            has_channels = "/" in call.setting and mode != "group"
            key = (place, case, collective, str(call.nbytes))
            found.setdefault(key, (call.setting, call.channels if has_channels else 0))
    return found


def recorded(place: Place, collective: str) -> Choices:
    """The same, of the real library, from the file in examples/."""
    with file_of(place).open(encoding="utf-8") as stream:
        lines = [line for line in stream if not line.startswith("#")]
    return {
        (collective, int(row["nbytes"])): (
            "/".join(filter(None, (row["algorithm"], row["protocol"]))),
            int(row["channels"] or 0),
        )
        for row in csv.DictReader(lines)
        if row["collective"] == collective
        and (int(row["nodes"]), int(row["ranks"])) == (place.nodes, place.ranks)
    }


def file_of(place: Place) -> Path:
    """Where the choices of a mode are kept."""
    return Path(__file__).parents[1] / f"examples/mi300x-{place.mode}/rccl-{RELEASE}-choices.csv"


def _ranges(n: int) -> Iterator[tuple[str, ...]]:
    """Evenly spaced sizes from a random start in each octave from 1 KiB to 128 MiB."""
    drawn = random.Random(30)
    for power in range(10, 27):
        low = 1 << power
        step = max(low // n & ~3, 4)
        first = low + 4 * drawn.randrange(step // 4)
        yield ("-b", str(first), "-e", str(2 * low - 4), "-i", str(step))


def _row(place: Place, collective: str, real: Choices, ours: Choices) -> int:
    # A benchmark leaves out sizes that no rank has a share of, and so does the other.
    both = sorted(real.keys() & ours.keys())
    other = [at for at in both if real[at][0] != ours[at][0]]
    channels = [at for at in both if real[at] != ours[at]]
    told = [f"{format_size(at[1])}: {_words(real[at])}, ours {_words(ours[at])}" for at in channels]
    lost = len(real.keys() ^ ours.keys())
    told = [*([f"{lost} sizes asked of one alone"] if lost else []), *told]
    print(
        f"| {place.name} | {collective} | {len(both)} | {len(both) - len(other)} | "
        f"{len(both) - len(channels)} | {'; '.join(told[:4])}{' …' * (len(told) > 4)} |",
        flush=True,
    )
    return len(told)


def _words(choice: Choice) -> str:
    return f"{choice[0]} ×{choice[1]}" if choice[1] else choice[0]


def _save(kept: dict[tuple[Place, str], Choices], words: str) -> None:
    """A table of each mode, as ``import --baseline-choices`` reads it."""
    for path in dict.fromkeys(file_of(place) for place, _ in kept):
        lines = [
            f"# What {words} runs by itself on simulated nodes: scripts/bench conform --live --save.",
            "# The real library, no times, a topology that we made up (docs/real-library.md).",
            f'# rccltune: source="choices of {words}, real, on a simulated node"',
            "collective,nodes,ranks,setting,algorithm,protocol,channels,nbytes,time_us",
        ]
        for (place, _), choices in kept.items():
            if file_of(place) == path:
                for (collective, nbytes), (setting, channels) in choices.items():
                    algorithm, _, protocol = setting.partition("/")
                    lines.append(
                        f"{collective},{place.nodes},{place.ranks},baseline,{algorithm},{protocol},"
                        f"{channels or ''},{nbytes},"
                    )
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
