"""Rule files asked of the real RCCL: does each row run as it says, and every other size as without it?

scripts/bench real [--place spx-8 --place two-hosts ...] [--calls] FILE...     needs scripts/fetch-rccl
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from real_runs import (
    COLLECTIVES,
    PLACES,
    Place,
    RealCall,
    calls,
    collective_in_rules,
    library_or_exit,
    run,
)

from rccltune import plugin
from rccltune.model.errors import LaunchError

SIZES: Final = ("-e", "512M", "-f", "2", "-n", "1", "-w", "0", "-c", "0")
# Variables that a file of ours says it needs are set with and without the plugin.
NEEDS: Final = re.compile(r"^#@ needs (\w+)=(\S+)$", re.MULTILINE)
LL128: Final = ("RCCL_LL128_FORCE_ENABLE", "1")
# What a group of calls adds up to grows with it, so its sizes end earlier.
GROUPED: Final = ("-e", "4M", *SIZES[2:])
# Powers of two; where a row has none of them, what lies between as well.
STARTS: Final = (512, 640, 768, 896)


@dataclass(slots=True, kw_only=True)
class Found:
    """What a file did at one place."""

    sizes: int = 0
    ran: int = 0
    closed: int = 0
    refused: bool = False
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    """Print a line for each file and place; 1 where a size ran as nobody said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--place", action="append", choices=PLACES, help="default: SPX and two hosts"
    )
    parser.add_argument(
        "--calls",
        action="store_true",
        help="also groups (numPipeOps above 1) and registered buffers (regBuff 1) that rows name",
    )
    parser.add_argument("files", nargs="+", type=Path)
    said = parser.parse_args()
    library = library_or_exit()
    names = said.place or ("spx-2", "spx-4", "spx-8", "two-hosts")

    @cache
    def untouched(
        place: Place,
        collective: str,
        options: tuple[str, ...],
        variables: tuple[tuple[str, str], ...],
    ) -> list[RealCall]:
        return run(library, place, collective, options, dict(variables))

    bad = 0
    print("| file | where | sizes with a row | ran as it says | closed by the library | else |")
    print("|---|---|--:|--:|--:|--:|")
    for file in said.files:
        named = "/".join(file.resolve().parts[-2:])
        needs = tuple(NEEDS.findall(file.read_text(errors="replace")))
        text = file.read_text(errors="replace")
        for place, manner in (
            (PLACES[name], manner)
            for name in names
            for manner in (SINGLE, *(manners_of(text, PLACES[name]) if said.calls else ()))
        ):
            found, where = Found(), f"{place.name}{manner.name}"
            for collective in COLLECTIVES:
                offered = place.offered(collective, ll128=LL128 in needs)
                rows = rows_of(text, place, collective, manner)
                site = (*needs, *manner.variables)
                ours = {
                    "NCCL_TUNER_PLUGIN": str(plugin.library()),
                    "NCCL_TUNER_CONFIG_FILE": str(file.resolve()),
                }
                for start in starts_of(rows, manner.calls):
                    sizes = SIZES if manner.calls == 1 else GROUPED
                    options = ("-b", str(start), *sizes, *manner.options)
                    try:
                        ended = run(library, place, collective, options, {**dict(site), **ours})
                    except LaunchError:
                        found.refused = True  # the plugin said why
                        break
                    before = untouched(place, collective, options, site)
                    compare(found, rows, offered, before, ended)
            if found.refused:
                print(f"| {named} | {where} | refused by the plugin | | | |", flush=True)
            elif found.sizes:
                counts = (found.sizes, found.ran, found.closed, len(found.wrong))
                print(f"| {named} | {where} | {' | '.join(map(str, counts))} |", flush=True)
            for line in found.wrong:
                print(f"  {where} {line}", file=sys.stderr)
            bad += len(found.wrong)
    return bad > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How calls are made, beside single ones of memory that is not registered.

    Attributes:
        calls: of a group.
        pipe_ops: what a tuner is told of them.
        registered: whether it is told that the buffers are.
    """

    name: str = ""
    options: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    calls: int = 1
    pipe_ops: str = "1"
    registered: str = "0"


SINGLE: Final = Manner()
REGISTERED: Final = (
    Manner(
        name=" -R 1",
        options=("-R", "1"),
        variables=(("NCCL_LOCAL_REGISTER", "1"),),
        registered="1",
    ),
    Manner(
        name=" -G 2",
        options=("-G", "2"),
        variables=(("NCCL_GRAPH_REGISTER", "1"),),
        registered="1",
    ),
)


def manners_of(text: str, place: Place) -> Iterator[Manner]:
    """What the file's rows name beside single calls."""
    named = [fields[8:10] for fields in lines_of(text) if len(fields) > 8]
    for pipe_ops in sorted({int(ops[0]) for ops in named if ops[0].isdigit()} - {0, 1}):
        calls = pipe_ops * place.channels
        options = ("-m", str(calls))
        yield Manner(name=f" -m {calls}", options=options, calls=calls, pipe_ops=str(pipe_ops))
    if any(rest[1:] == ["1"] for rest in named):
        yield from REGISTERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a tuner's row says of a call."""

    low: int
    high: int
    setting: str
    channels: int


def lines_of(text: str) -> Iterator[list[str]]:
    """Fields of each row; read here, by the format's own documents, and not by rccltune."""
    for line in text.splitlines():
        fields = [part.strip().lower() for part in line.split("#")[0].split(",")]
        if len(fields) >= 8 and fields[1].isdigit() and fields[2].isdigit():
            yield fields


def rows_of(text: str, place: Place, collective: str, manner: Manner) -> list[Row]:
    """Rows for the place and such calls, in order."""
    found = []
    for fields in lines_of(text):
        name, low, high, algorithm, protocol, channels, nodes, ranks = fields[:8]
        pipe_ops, registered = (*fields[8:10], "-1", "-1")[:2]
        if (
            name == collective_in_rules(collective)
            and nodes in ("-1", str(place.nodes))
            and ranks in ("-1", str(place.ranks))
            and pipe_ops in ("-1", manner.pipe_ops)
            and registered in ("-1", manner.registered)
        ):
            setting = f"{algorithm}/{protocol}"
            row = Row(low=int(low), high=int(high), setting=setting, channels=int(channels))
            found.append(row)
    return found


def starts_of(rows: Sequence[Row], calls: int) -> tuple[int, ...]:
    """None where there is no row; finer grids where the first misses one."""
    powers = [(STARTS[0] << n) * calls for n in range(22)]
    missed = any(all(not row.low <= power <= row.high for power in powers) for row in rows)
    return STARTS if missed else STARTS[: len(rows[:1])]


def compare(
    found: Found,
    rows: Sequence[Row],
    offered: Collection[str],
    before: Sequence[RealCall],
    after: Sequence[RealCall],
) -> None:
    """Both walked through the same calls; the first row that can be chosen is what runs."""
    for own, call in zip(calls(before), calls(after), strict=True):
        asked, first = call[0], own[0]
        fitting = [row for row in rows if row.low <= asked.nbytes <= row.high]
        chosen = next((row for row in fitting if row.setting in offered), None)
        direct = first.setting == "direct"
        wanted = first.setting if chosen is None or direct else chosen.setting
        found.sizes += bool(fitting)
        alike = {(r.setting, r.channels, r.blocks) for r in call}
        if len(alike) > 1 or asked.setting != wanted:
            ran = ", ".join(sorted({r.setting for r in call}))
            found.wrong.append(f"{asked.collective} {asked.nbytes}: {ran}, not {wanted}")
        elif chosen is not None and not direct:
            found.ran += 1
            if 0 < chosen.channels < asked.channels:
                found.wrong.append(f"{asked.collective} {asked.nbytes}: {asked.channels} channels")
        else:
            found.closed += bool(fitting)
            if asked.channels != first.channels:
                found.wrong.append(f"{asked.collective} {asked.nbytes}: other channels")


if __name__ == "__main__":
    sys.exit(main())
