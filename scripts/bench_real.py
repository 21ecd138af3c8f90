"""Every setting asked of the real RCCL, and what it ran: collectives x settings x channels x sizes.

scripts/bench real [--place spx-8|cpx-64|two-hosts|...]     needs scripts/fetch-rccl; 64 ranks take minutes and 6 GB
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from real_runs import COLLECTIVES, PLACES, WITHOUT, Place, differing, library_or_exit, run

from rccltune import plugin
from rccltune.machine import RealCall, real_words

SETTINGS: Final = ("tree/ll", "ring/ll", "ring/simple", "tree/ll128", "ring/ll128", "tree/simple")
CHANNELS: Final = (-1, 1, 4, 8, 16, 32, 64)
SIZES: Final = ("-b", "512", "-e", "512M", "-f", "16")


def main() -> int:
    """Print the table; 1 where ranks differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", default="spx-8", choices=PLACES)
    parser.add_argument("--ll128", action="store_true", help="with RCCL_LL128_FORCE_ENABLE=1")
    parser.add_argument("--save", type=Path, help="a file for every call: what tests compare with")
    said = parser.parse_args()
    library, place = library_or_exit(), PLACES[said.place]
    print(f"{place.name}{', RCCL_LL128_FORCE_ENABLE=1' * said.ll128}; {library.name}\n")
    print("| collective | asked | ran | at sizes | channels asked: most that ran |")
    print("|---|---|---|--:|---|")
    bad = 0
    asked = everything()
    lines = [f"# {real_words(library)[1]}; {place.name}, scripts/bench real --save"]
    lines.append("collective,asked,nbytes,ran,channels,blocks")
    for collective in COLLECTIVES:
        rows = walked(library, place, collective, asked, ll128=said.ll128)
        bad += differing(rows)
        lines += told(collective, asked, passes(rows))
        for line in _table(collective, asked, passes(rows)):
            print(line)
    if said.save is not None:
        said.save.write_text("\n".join(lines) + "\n")
    print(f"\nCalls whose ranks ran different things: {bad}")
    return bad > 0


def everything() -> list[str]:
    """The steps of a schedule that asks for nothing, then for each setting with each count."""
    return ["silent", *(f"{s}/{n}" for s, n in itertools.product(SETTINGS, CHANNELS))]


def walked(
    library: Path | None, place: Place, collective: str, asked: Sequence[str], *, ll128: bool
) -> list[RealCall]:
    """One launch that walks through all of it."""
    with tempfile.TemporaryDirectory() as folder:
        schedule = Path(folder) / "schedule"
        head = f"#@ format 1\n#@ nodes={place.nodes} ranks={place.ranks} calls=0\n"
        schedule.write_text(head + "".join(f"{one}\n" for one in asked))
        variables = {
            "RCCLTUNE_SCHEDULE": str(schedule),
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
            **({} if library else WITHOUT),
        }
        if ll128:
            variables["RCCL_LL128_FORCE_ENABLE"] = "1"
        options = (*SIZES, "-n", "1", "-w", "0", "-c", "0", "-N", str(len(asked)))
        return run(library, place, collective, options, variables)


def passes(rows: Sequence[RealCall]) -> list[list[RealCall]]:
    """Rank 0's rows of each step: a pass over the sizes begins where the size falls."""
    found: list[list[RealCall]] = []
    last = 1 << 62
    for row in rows:
        if row.rank != 0:
            continue
        if row.nbytes < last:
            found.append([])
        found[-1].append(row)
        last = row.nbytes
    return found


def told(
    collective: str, asked: Sequence[str], passes: Sequence[Sequence[RealCall]]
) -> Iterator[str]:
    """A call that decided the same out of place and in place is told once."""
    for one, rows in zip(asked, passes, strict=True):
        for row in dict.fromkeys(rows):
            ran = f"{row.setting},{row.channels},{row.blocks}"
            yield f"{collective},{one},{row.nbytes},{ran}"


def _table(
    collective: str, asked: Sequence[str], passes: Sequence[Sequence[RealCall]]
) -> Iterator[str]:
    for setting in SETTINGS:
        own = [
            (one.rsplit("/", 1)[1], rows)
            for one, rows in zip(asked, passes, strict=True)
            if one.rsplit("/", 1)[0] == setting
        ]
        tuned = [row for _, rows in own for row in rows]
        ran = sorted({row.setting for row in tuned})
        for what in ran:
            sizes = {row.nbytes for row in tuned if row.setting == what}
            most = [
                f"{n}: {max(row.channels for row in rows if row.setting == what)}"
                for n, rows in own
                if any(row.setting == what for row in rows)
            ]
            counts = ", ".join(most) if what == setting else ""
            yield f"| {collective} | {setting} | {what} | {len(sizes)} | {counts} |"


if __name__ == "__main__":
    sys.exit(main())
