"""The page of a session of 200,000 samples: time, memory and size, without and with fit.json."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

from machine import machine, timed

WANTED_S = 15.0
WANTED_MB = 500.0
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
SIZES = tuple(8 << shift for shift in range(28))
ARMS = ("ring/ll", "ring/ll128", "ring/simple")
CHANNELS = (4, 8, 16, 24, 32, 40, 48)


def write_table(path: Path, n_samples: int) -> int:
    """A long table: every collective, placement, size and setting, as often as it takes."""
    generator = random.Random(1)
    settings = ["baseline", *ARMS, *(f"{arm}/{n}" for arm in ARMS for n in CHANNELS)]
    per_repeat = len(COLLECTIVES) * 2 * len(SIZES) * len(settings)
    repeats = max(1, round(n_samples / per_repeat))
    latency = {name: 20 + 4 * i for i, name in enumerate(settings)}
    rate = {name: 2e4 + 9e3 * i for i, name in enumerate(settings)}
    with path.open("w") as stream:
        stream.write("# rccltune: ranks=64 nodes=1 arch=gfx942 mode=cpx-nps4\n")
        stream.write("collective,placement,setting,repeat,nbytes,time_us\n")
        for repeat in range(repeats):
            for collective in COLLECTIVES:
                for placement in ("out", "in"):
                    for setting in settings:
                        for nbytes in SIZES:
                            exact = latency[setting] + nbytes / rate[setting]
                            noisy = exact * generator.gauss(1, 0.01)
                            stream.write(
                                f"{collective},{placement},{setting},{repeat},{nbytes},{noisy:.2f}\n"
                            )
    return repeats * per_repeat


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
