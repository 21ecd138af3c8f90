"""Compare libraries in pairs, the older with the newer a line each.

    scripts/bench upgrades /path/libnccl-2.28.9.so.2 /path/libnccl-2.30.7.so.2 --np 2

Each pair is a comparison of eight starts a side in turns (``rccltune compare``), about a minute on two
GPUs: at which sizes the newer library is slower or faster, by how much, and why (another choice, another
kernel, another path). Whether our plugin loads, answers and is obeyed says ``scripts/bench releases``.
What --simulate plays is no table of a release.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import machine

from rccltune.model.units import format_span


def main() -> int:
    """Run it; 1 where a comparison could not be made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("libraries", nargs="+", help="sides of rccltune compare, oldest first")
    parser.add_argument("--collective", action="append", default=[])
    parser.add_argument(
        "--folder", type=Path, default=Path("upgrades"), help="keeps each comparison"
    )
    parser.add_argument("options", nargs="*", help="of rccltune compare, behind --")
    argv = sys.argv[1:]
    at = argv.index("--") if "--" in argv else len(argv)
    options = parser.parse_args(argv[:at])
    if len(options.libraries) < 2:
        parser.error("name two libraries")
    print(machine())
    print("| collective | from | to | sizes | newer / older | why |")
    print("|---|---|---|---|---|---|")
    is_whole = True
    for number, (older, newer) in enumerate(itertools.pairwise(options.libraries), start=1):
        for collective in options.collective or ["all_reduce"]:
            folder = options.folder / f"{number}-{collective}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            found = compared(older, newer, collective, folder, argv[at + 1 :])
            is_whole &= "error" not in found
            for line in lines(found, collective):
                print(line)
    return int(not is_whole)


def compared(
    older: str, newer: str, collective: str, folder: Path, more: list[str]
) -> dict[str, Any]:
    """What a comparison says, as its JSON; what was measured before in the folder is used again."""
    command = [sys.executable, "-m", "rccltune", "compare", older, newer, "-o", str(folder)]
    done = subprocess.run(
        [*command, "--collective", collective, "--json", *more],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def lines(found: dict[str, Any], collective: str) -> list[str]:
    """Rows of the table: a range at which the two differ each, or that none does."""
    if "error" in found:
        return [f"| {collective} | | | | {found['error']} | |"]
    versions = [found["question"][side]["version"] for side in ("a", "b")]
    head = f"| {collective} | {versions[0]} | {versions[1]} "
    rows = [
        f"{head}| {format_span(one['min_nbytes'], one['max_nbytes'])} "
        f"| {one['ratio_min']:.3g} to {one['ratio_max']:.3g} | {one['why'] or one['reason']} |"
        for one in found["ranges"]
        if one["verdict"] in ("slower", "faster", "wrong", "failed")
    ]
    return rows or [f"{head}| all | equal or undecided | |"]


if __name__ == "__main__":
    sys.exit(main())
