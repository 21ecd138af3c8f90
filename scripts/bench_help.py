"""Start-up: `rccltune --help` against `python -c "import click"`."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

from machine import machine


def once(command: list[str]) -> float:
    """Seconds for one start."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Alternate the two commands, so that a busy moment hits both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    commands = {
        "import click": [sys.executable, "-c", "import click"],
        "rccltune --help": [sys.executable, "-m", "rccltune", "--help"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(options.repeats):
        for name, command in commands.items():
            times[name].append(once(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = medians["rccltune --help"] / medians["import click"]
    if options.json:
        print(json.dumps({"medians_s": medians, "ratio": ratio}))
        return
    print(f"{machine()}, {options.repeats} repeats")
    for name, value in medians.items():
        print(f"  {name:<16} {1000 * value:6.0f} ms (median)")
    print(f"  ratio            {ratio:6.2f} (at most 3 wanted)")


if __name__ == "__main__":
    main()
