"""The simulated library held against the real one: what each runs by itself, at places and sizes.

scripts/bench conform [--place NAME…]                what is recorded in examples/mi300x-*/, in seconds
scripts/bench conform --live [--ranks N] [--octaves N] [--save]      asks the real one (scripts/fetch-rccl)
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from real_runs import COLLECTIVES, PLACES, RELEASE, Place, library_or_exit, run

from rccltune.machine import real_words
from rccltune.model import format_size

ONCE: Final = ("-n", "1", "-w", "0", "-c", "0")
POWERS: Final = ("-b", "8", "-e", "1G", "-f", "2")
# MSCCL's files are not in the package that was asked; with them the real library takes all_reduce of 8 ranks.
WITHOUT: Final = {"RCCL_MSCCL_ENABLE": "0"}
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
    parser.add_argument("--save", action="store_true", help="record the real one's choices")
    said = parser.parse_args()
    library = library_or_exit() if said.live else None
    places = [PLACES[name] for name in said.place]
    if said.ranks:
        places = [Place(name=f"cpx-{n}", node="mi300x-cpx-nps4", ranks=n) for n in said.ranks]
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
