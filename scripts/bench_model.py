"""Where RCCL's model goes wrong in CPX: what it predicts beside AMD's published times, term by term.

scripts/bench model     no library and no GPU: the model as the real RCCL 2.27.7 printed it
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rccltune.model import format_size

TABLE: Final = Path(__file__).parents[1] / "examples/mi300x-cpx-nps4/all_reduce.csv"
# all_reduce of 64 ranks in CPX as RCCL's log has it (latency in us, bandwidth in GB/s), on the topology
# of docs/real-library.md; LL128 and Tree with Simple are closed there.
PRINTED: Final = {"tree/ll": (112.8, 30.7), "ring/ll": (112.8, 31.2), "ring/simple": (470.6, 780.2)}
# Of tree/ll's bandwidth, by log2(bytes / 64): RCCL's table for small and for large messages.
TREE_LL: Final = (*[0.1] * 6, *[1.0] * 5, 0.6, 1.0, 0.9, 1.0, 1.0, *[0.1] * 11)
Times = Mapping[str, Mapping[int, float]]
Predict = Callable[[str, int], float]


def main() -> int:
    """Print the tables."""
    times = _measured()
    sizes = sorted(times["ring/ll"])
    print(
        "| size | tree/ll: model, AMD | ring/ll | ring/simple | it takes | fastest of these | loses |"
    )
    print("|--:|--:|--:|--:|---|---|--:|")
    for nbytes in sizes:
        cells = [f"{_printed(one, nbytes):.1f}, {times[one][nbytes]:.0f}" for one in PRINTED]
        chosen, best = _choices(times, _printed, nbytes)
        loss = times[chosen][nbytes] / times[best][nbytes] - 1
        print(f"| {format_size(nbytes)} | {' | '.join(cells)} | {chosen} | {best} | {loss:.0%} |")
    lines = {one: _line(times[one]) for one in PRINTED}
    print("\n| | RCCL's model: us, GB/s | AMD's times as a line: us, GB/s |")
    print("|---|--:|--:|")
    for one, (latency, bandwidth) in PRINTED.items():
        own = lines[one]
        print(f"| {one} | {latency}, {bandwidth} | {own[0]:.0f}, {own[1]:.1f} |")
    print("\n| what is mended | choices by size | loses: mean, most |")
    print("|---|---|--:|")
    for words, mended in (
        ("nothing", ()),
        ("latency of tree/ll", (("tree/ll", 0),)),
        ("latency of ring/simple", (("ring/simple", 0),)),
        ("both latencies", (("tree/ll", 0), ("ring/simple", 0))),
        ("all latencies", tuple((one, 0) for one in PRINTED)),
        ("all latencies and bandwidths", tuple((one, i) for one in PRINTED for i in (0, 1))),
    ):
        constants = {
            one: tuple(lines[one][i] if (one, i) in mended else PRINTED[one][i] for i in (0, 1))
            for one in PRINTED
        }

        def predict(
            one: str, nbytes: int, own: Mapping[str, tuple[float, ...]] = constants
        ) -> float:
            latency, bandwidth = own[one]
            return _time(one, nbytes, latency, bandwidth)

        found = [_choices(times, predict, nbytes) for nbytes in sizes]
        losses = [
            times[chosen][nbytes] / times[best][nbytes] - 1
            for nbytes, (chosen, best) in zip(sizes, found, strict=True)
        ]
        chosen_words = ", ".join(chosen for chosen, _ in found)
        print(f"| {words} | {chosen_words} | {sum(losses) / len(losses):.0%}, {max(losses):.0%} |")
    return 0


def _measured() -> Times:
    """AMD's times in us, by setting and size."""
    found: dict[str, dict[int, float]] = {}
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    for row in csv.DictReader(lines):
        found.setdefault(row["setting"], {})[int(row["nbytes"])] = float(row["time_us"])
    return found


def _time(setting: str, nbytes: int, latency: float, bandwidth: float) -> float:
    """RCCL 2.27.7 with a tree's correction; below 64 B it corrects nothing."""
    if setting == "tree/ll" and nbytes >= 64:
        bandwidth *= TREE_LL[min(int(math.log2(nbytes / 64)), 26)]
    return latency + nbytes / (1000 * bandwidth)


def _printed(setting: str, nbytes: int) -> float:
    return _time(setting, nbytes, *PRINTED[setting])


def _choices(times: Times, predict: Predict, nbytes: int) -> tuple[str, str]:
    """What the model takes, and what is fastest of the settings that it may take."""
    return (
        min(PRINTED, key=lambda one: predict(one, nbytes)),
        min(PRINTED, key=lambda one: times[one][nbytes]),
    )


def _line(times: Mapping[int, float]) -> tuple[float, float]:
    """Latency in us and bandwidth in GB/s that fit best in relative error."""
    # Weighted least squares of t = a + b n with weights 1/t, in closed form.
    points = [(float(n), t, 1 / (t * t)) for n, t in times.items()]
    total = sum(w for _, _, w in points)
    mean_n = sum(w * n for n, _, w in points) / total
    mean_t = sum(w * t for _, t, w in points) / total
    slope = sum(w * (n - mean_n) * (t - mean_t) for n, t, w in points) / sum(
        w * (n - mean_n) ** 2 for n, _, w in points
    )
    return mean_t - slope * mean_n, 1 / (1000 * slope)


if __name__ == "__main__":
    sys.exit(main())
