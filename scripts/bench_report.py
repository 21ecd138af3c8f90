"""Page and figures of a session of 200,000 samples: time, memory and size."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from machine import machine, timed

WANTED_S = 8.0
WANTED_MB = 500.0
WANTED_NBYTES = 1_000_000
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
SIZES = tuple(8 << shift for shift in range(28))
ARMS = ("ring/ll", "ring/ll128", "ring/simple")
CHANNELS = (4, 8, 16, 24, 32, 40, 48)


def write_table(path: Path, n_samples: int, collectives: Sequence[str]) -> int:
    """A long table: every collective, placement, size and setting, as often as it takes."""
    generator = random.Random(1)
    settings = ["baseline", *ARMS, *(f"{arm}/{n}" for arm in ARMS for n in CHANNELS)]
    per_repeat = len(collectives) * 2 * len(SIZES) * len(settings)
    repeats = max(1, round(n_samples / per_repeat))
    latency = {name: 20 + 4 * i for i, name in enumerate(settings)}
    rate = {name: 2e4 + 9e3 * i for i, name in enumerate(settings)}
    with path.open("w") as stream:
        stream.write("# rccltune: ranks=64 nodes=1 arch=gfx942 mode=cpx-nps4\n")
        stream.write("collective,placement,setting,repeat,nbytes,time_us\n")
        for repeat in range(repeats):
            for collective in collectives:
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
    """Import and choose; then figures and page, with and without what fit keeps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--collectives", type=int, default=len(COLLECTIVES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = COLLECTIVES[: options.collectives]
        n_samples = write_table(folder / "table.csv", options.samples, names)
        timed(["import", "table.csv"], folder)
        first = timed(["report"], folder)
        timed(["emit-config"], folder)
        found = {"report, fit included": first}
        found |= {verb: timed([verb, "--force"], folder) for verb in ("report", "plot")}
        n_bytes = (folder / "rccltune-session" / "report.html").stat().st_size
    if options.json:
        print(json.dumps({"samples": n_samples, "bytes": n_bytes, **found}))
        return
    print(machine())
    for what, (seconds, megabytes) in found.items():
        print(f"  {what:<21} {seconds:6.1f} s  {megabytes:5.0f} MB")
    print(
        f"  {n_samples:,} samples of {len(names)} collectives; the page has {n_bytes:,} bytes "
        f"(wanted: {WANTED_S:.0f} s, {WANTED_MB:.0f} MB, {WANTED_NBYTES:,} bytes)"
    )


if __name__ == "__main__":
    main()
