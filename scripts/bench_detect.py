"""Seconds that rccltune detect takes for a node with 64 partitions and all links, without amdsmi."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from machine import machine, timed

WANTED_S = 1.0


def main() -> int:
    """The whole process, start-up included; 1 where it takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # The made-up machine is the tests' own.
    tests = Path(__file__).resolve().parents[1] / "tests"
    sys.path[:0] = [str(tests / "machine"), str(tests / "plugin")]
    from trees import add_links, write

    with tempfile.TemporaryDirectory() as name:
        root = write("mi300x-cpx-nps4", Path(name))
        add_links(root)
        runs = [
            timed(["detect", "--root", str(root), "--json"], root)[0]
            for _ in range(options.repeats)
        ]
    seconds = statistics.median(runs)
    if options.json:
        print(json.dumps({"seconds": seconds, "runs": runs}))
    else:
        print(machine())
        print(
            f"  64 partitions, 4,032 links: {seconds:.2f} s whole process, median of "
            f"{options.repeats} ({WANTED_S:.0f} s wanted)"
        )
    return int(seconds > WANTED_S)


if __name__ == "__main__":
    sys.exit(main())
