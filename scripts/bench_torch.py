"""PyTorch's own loop of products and all-reduces, as it is and with rule files, in turns.

    scripts/bench torch --ranks 2 --rules rules.csv -- --mib 4 16

Each run is `torchrun scripts/tensor_parallel_loop.py` with what stands behind ``--``; its number is
the median of its steps, over ranks the median again. Intervals (95 %, Student's t) are over rounds
of all arms, of the logarithms of the ratios to the run as it is. NVLink multicast stays off.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from math import exp, log
from pathlib import Path

from machine import SAFETY, ended_well, machine
from scipy import stats

from rccltune import plugin

LIMIT_S = 120.0
AS_IT_IS = "as it is"


def run(options: argparse.Namespace, rules: Path | None) -> float:
    """Milliseconds of a step of one run."""
    folder = Path(tempfile.mkdtemp())
    environment = dict(os.environ) | SAFETY | {"RCCLTUNE_JOB_STEPS": str(folder / "%h-%p.json")}
    for name in ("NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE"):
        environment.pop(name, None)
    if rules is not None:
        environment["NCCL_TUNER_PLUGIN"] = str(plugin.library())
        environment["NCCL_TUNER_CONFIG_FILE"] = str(rules.resolve())
    loop = Path(__file__).with_name("tensor_parallel_loop.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc_per_node={options.ranks}", str(loop), *options.further]
    ended_well(command, environment, LIMIT_S)
    found = [json.loads(one.read_text()) for one in folder.glob("*.json")]
    # The first fifth warms up.
    steps = [one["times_ms"][len(one["times_ms"]) // 5 :] for one in found]
    return float(statistics.median(statistics.median(own) for own in steps))


def main() -> None:
    """All arms, round by round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--rules", type=Path, nargs="+", required=True)
    parser.add_argument("further", nargs="*", help="options of the loop, behind --")
    options = parser.parse_args()
    print(f"{machine()}; {' '.join(options.further)}", flush=True)
    arms: list[Path | None] = [None, *options.rules]
    found: dict[Path | None, list[float]] = {arm: [] for arm in arms}
    for number in range(options.rounds):
        # Turned round each time, so that a drift favours nobody.
        for arm in arms if number % 2 == 0 else arms[::-1]:
            found[arm].append(run(options, arm))
        print(", ".join(f"{found[arm][-1]:.3f} ms" for arm in arms), flush=True)
    print(f"{AS_IT_IS}: {statistics.median(found[None]):.3f} ms a step")
    for rules in options.rules:
        logs = [log(a / b) for a, b in zip(found[None], found[rules], strict=True)]
        mean, n = statistics.fmean(logs), len(logs)
        half = stats.t.ppf(0.975, n - 1) * statistics.stdev(logs) / n**0.5
        low, high = exp(mean - half), exp(mean + half)
        said = "faster" if low > 1 else "slower" if high < 1 else "no difference shown"
        print(f"{rules}: {exp(mean):.3f} times as fast ({low:.3f} to {high:.3f}): {said}")


if __name__ == "__main__":
    main()
