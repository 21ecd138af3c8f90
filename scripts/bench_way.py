"""A session of 200,000 samples through fit, emit-config and plot, as typed."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

from machine import machine, timed

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
    """Import, then the three verbs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n_samples = write_table(folder / "table.csv", options.samples)
        verbs = (["import", "table.csv"], ["fit"], ["emit-config"], ["plot"])
        measured = {verb[0]: timed(verb, folder) for verb in verbs}
    total = sum(measured[verb][0] for verb in ("fit", "emit-config", "plot"))
    if options.json:
        print(json.dumps({"samples": n_samples, "verbs": measured, "total_s": total}))
        return
    print(machine())
    for verb, (seconds, megabytes) in measured.items():
        print(f"  {verb:<12} {seconds:6.1f} s  {megabytes:5.0f} MB")
    print(f"  fit + emit-config + plot of {n_samples} samples: {total:.1f} s (20 s wanted)")


if __name__ == "__main__":
    main()
