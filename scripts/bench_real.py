"""Every setting asked of the real RCCL, and what it ran: collectives x settings x channels x sizes.

scripts/bench real [--mode spx-nps1|cpx-nps4]     needs scripts/fetch-rccl; 64 ranks take minutes and 6 GB
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.machine import real_library, real_words
from rccltune.model import RccltuneError
from rccltune.simulate import load_node, node_path, written

COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
SETTINGS: Final = ("tree/ll", "ring/ll", "ring/simple", "tree/ll128", "ring/ll128", "tree/simple")
CHANNELS: Final = (-1, 1, 4, 8, 16, 32, 64)
SIZES: Final = ("-b", "512", "-e", "512M", "-f", "16")
Row = tuple[int, str, int, str, int, int]


def main() -> int:
    """Print the table; 1 where ranks differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", default="spx-nps1", choices=("spx-nps1", "cpx-nps4"))
    parser.add_argument("--ll128", action="store_true", help="with RCCL_LL128_FORCE_ENABLE=1")
    parser.add_argument("--save", type=Path, help="a file for every call: what tests compare with")
    said = parser.parse_args()
    try:
        library = real_library(Path("real"), os.environ)
    except RccltuneError as error:
        sys.exit(f"{error}: {error.hint}")
    print(f"{said.mode}{', RCCL_LL128_FORCE_ENABLE=1' * said.ll128}; {library.name}\n")
    print("| collective | asked | ran | at sizes | channels asked: most that ran |")
    print("|---|---|---|--:|---|")
    bad = 0
    asked = ["silent", *(f"{s}/{n}" for s, n in itertools.product(SETTINGS, CHANNELS))]
    lines = [f"# {real_words(library)[1]}; {said.mode}, scripts/bench real --save"]
    lines.append("collective,asked,nbytes,ran,channels,blocks")
    for collective in COLLECTIVES:
        rows = _run(library, said.mode, collective, asked, ll128=said.ll128)
        bad += _differing(rows)
        lines += _told(collective, asked, _passes(rows))
        for line in _table(collective, asked, _passes(rows)):
            print(line)
    if said.save is not None:
        said.save.write_text("\n".join(lines) + "\n")
    print(f"\nCalls whose ranks ran different things: {bad}")
    return bad > 0


def _run(
    library: Path, mode: str, collective: str, asked: Sequence[str], *, ll128: bool
) -> list[Row]:
    """One launch that walks through all of it."""
    node = load_node(node_path("mi300x", mode))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "node.node").write_bytes(written(node))
        head = f"#@ format 1\n#@ nodes=1 ranks={node.ranks} calls=0\n"
        (folder / "schedule").write_text(head + "".join(f"{one}\n" for one in asked))
        environment = {
            **os.environ,
            "RCCLTUNE_SIM_LIBRCCL": str(library),
            "RCCLTUNE_SIM_NODE": str(folder / "node.node"),
            "RCCLTUNE_SIM_RANKS": str(node.ranks),
            "RCCLTUNE_SIM_RAN": str(folder / "ran"),
            "RCCLTUNE_SCHEDULE": str(folder / "schedule"),
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
        }
        if ll128:
            environment["RCCL_LL128_FORCE_ENABLE"] = "1"
        program = str(plugin.native_folder() / f"sim/{collective}_perf")
        options = (*SIZES, "-n", "1", "-w", "0", "-c", "0", "-s", str(len(asked)))
        subprocess.run([program, *options], env=environment, check=True, stdout=subprocess.DEVNULL)
        return [_row(line) for line in (folder / "ran").read_text().splitlines()]


def _row(line: str) -> Row:
    rank, collective, nbytes, setting, channels, grid = line.split()
    return int(rank), collective, int(nbytes), setting, int(channels), int(grid)


def _differing(rows: Sequence[Row]) -> int:
    """Calls of which not all ranks say the same; the rows of a call are together, rank 0's first."""
    starts = [i for i, row in enumerate(rows) if row[0] == 0]
    ends = [*starts[1:], len(rows)]
    return sum(len({row[2:] for row in rows[a:b]}) > 1 for a, b in zip(starts, ends, strict=True))


def _passes(rows: Sequence[Row]) -> list[list[Row]]:
    """Rank 0's rows of each step: a pass over the sizes begins where the size falls."""
    found: list[list[Row]] = []
    last = 1 << 62
    for row in rows:
        if row[0] != 0:
            continue
        if row[2] < last:
            found.append([])
        found[-1].append(row)
        last = row[2]
    return found


def _told(collective: str, asked: Sequence[str], passes: Sequence[Sequence[Row]]) -> Iterator[str]:
    """A call that decided the same out of place and in place is told once."""
    for one, rows in zip(asked, passes, strict=True):
        for _, _, nbytes, ran, channels, blocks in dict.fromkeys(rows):
            yield f"{collective},{one},{nbytes},{ran},{channels},{blocks}"


def _table(collective: str, asked: Sequence[str], passes: Sequence[Sequence[Row]]) -> Iterator[str]:
    for setting in SETTINGS:
        own = [
            (one.rsplit("/", 1)[1], rows)
            for one, rows in zip(asked, passes, strict=True)
            if one.rsplit("/", 1)[0] == setting
        ]
        tuned = [row for _, rows in own for row in rows]
        ran = sorted({row[3] for row in tuned})
        for what in ran:
            sizes = {row[2] for row in tuned if row[3] == what}
            most = [
                f"{n}: {max(row[4] for row in rows if row[3] == what)}"
                for n, rows in own
                if any(row[3] == what for row in rows)
            ]
            counts = ", ".join(most) if what == setting else ""
            yield f"| {collective} | {setting} | {what} | {len(sizes)} | {counts} |"


if __name__ == "__main__":
    sys.exit(main())
