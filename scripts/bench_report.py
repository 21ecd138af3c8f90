"""The page of a session of 200,000 samples: time, memory and size, without and with fit.json."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from bench_way import write_table
from machine import machine, timed

WANTED_S = 15.0
WANTED_MB = 500.0


def main() -> None:
    """Import, then the page from nothing but samples, then again with what fit kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n_samples = write_table(folder / "table.csv", options.samples)
        timed(["import", "table.csv"], folder)
        first = timed(["report"], folder)
        again = timed(["report", "--force"], folder)
        n_bytes = (folder / "rccltune-session" / "report.html").stat().st_size
    if options.json:
        plain = {"samples": n_samples, "first": first, "again": again, "bytes": n_bytes}
        print(json.dumps(plain))
        return
    print(machine())
    for what, (seconds, megabytes) in (("fit included", first), ("fit.json there", again)):
        print(f"  {what:<15} {seconds:6.1f} s  {megabytes:5.0f} MB")
    print(
        f"  the page of {n_samples} samples has {n_bytes:,} bytes "
        f"({WANTED_S:.0f} s, {WANTED_MB:.0f} MB and 2,000,000 bytes wanted)"
    )


if __name__ == "__main__":
    main()
