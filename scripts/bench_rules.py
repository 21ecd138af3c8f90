"""Rule files asked of the real RCCL: does each row run as it says, and every other size as without it?

scripts/bench rules [--place spx-8 --place two-hosts ...] FILE...     needs scripts/fetch-rccl
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from real_runs import (
    COLLECTIVES,
    PLACES,
    Place,
    calls,
    collective_in_rules,
    library_or_exit,
    run,
)

from rccltune import plugin
from rccltune.machine import RealCall
from rccltune.model import LaunchError

SIZES: Final = ("-e", "512M", "-f", "2", "-n", "1", "-w", "0", "-c", "0")
# Variables that a file of ours says it needs are set with and without the plugin.
NEEDS: Final = re.compile(r"^#@ needs (\w+)=(\S+)$", re.MULTILINE)
LL128: Final = ("RCCL_LL128_FORCE_ENABLE", "1")
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
    parser.add_argument("files", nargs="+", type=Path)
    said = parser.parse_args()
    library = library_or_exit()
    names = said.place or ("spx-2", "spx-4", "spx-8", "two-hosts")

    @cache
    def untouched(
        place: Place, collective: str, start: int, needs: tuple[tuple[str, str], ...]
    ) -> list[RealCall]:
        return run(library, place, collective, ("-b", str(start), *SIZES), dict(needs))

    bad = 0
    print("| file | where | sizes with a row | ran as it says | closed by the library | else |")
    print("|---|---|--:|--:|--:|--:|")
    for file in said.files:
        named = "/".join(file.resolve().parts[-2:])
        needs = tuple(NEEDS.findall(file.read_text(errors="replace")))
        for place in (PLACES[name] for name in names):
            found = Found()
            for collective in COLLECTIVES:
                offered = place.offered(collective, ll128=LL128 in needs)
                rows = rows_of(file.read_text(errors="replace"), place, collective)
                variables = {
                    **dict(needs),
                    "NCCL_TUNER_PLUGIN": str(plugin.library()),
                    "NCCL_TUNER_CONFIG_FILE": str(file.resolve()),
                }
                for start in starts_of(rows):
                    options = ("-b", str(start), *SIZES)
                    try:
                        ended = run(library, place, collective, options, variables)
                    except LaunchError:
                        found.refused = True  # the plugin said why
                        break
                    before = untouched(place, collective, start, needs)
                    compare(found, rows, offered, before, ended)
            if found.refused:
                print(f"| {named} | {place.name} | refused by the plugin | | | |", flush=True)
            elif found.sizes:
                counts = (found.sizes, found.ran, found.closed, len(found.wrong))
                print(f"| {named} | {place.name} | {' | '.join(map(str, counts))} |", flush=True)
            for line in found.wrong:
                print(f"  {place.name} {line}", file=sys.stderr)
            bad += len(found.wrong)
    return bad > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a tuner's row says of a call of one operation in unregistered memory."""

    low: int
    high: int
    setting: str
    channels: int


def rows_of(text: str, place: Place, collective: str) -> list[Row]:
    """Rows for the place, in order; read here, by the format's own documents, and not by rccltune."""
    found = []
    for line in text.splitlines():
        fields = [part.strip().lower() for part in line.split("#")[0].split(",")]
        if len(fields) < 8 or not fields[1].isdigit() or not fields[2].isdigit():
            continue
        name, low, high, algorithm, protocol, channels, nodes, ranks = fields[:8]
        others = fields[8:10]
        if (
            name == collective_in_rules(collective)
            and nodes in ("-1", str(place.nodes))
            and ranks in ("-1", str(place.ranks))
            and others in ([], ["-1"], ["-1", "-1"], ["1", "-1"], ["-1", "0"], ["1", "0"])
        ):
            setting = f"{algorithm}/{protocol}"
            row = Row(low=int(low), high=int(high), setting=setting, channels=int(channels))
            found.append(row)
    return found


def starts_of(rows: Sequence[Row]) -> tuple[int, ...]:
    """None where there is no row; finer grids where the first misses one."""
    powers = [STARTS[0] << n for n in range(22)]
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
