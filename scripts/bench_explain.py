"""Explain a file of 20,000 rules, with rows that name buffers and groups and without.

Usage: python scripts/bench_explain.py [--rules N]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from machine import machine

from rccltune.rules import Question, explain

COLLECTIVES = ("allreduce", "allgather", "reducescatter", "broadcast")
A_SCALE = 100


def rows(n_rules: int, *, named: bool) -> list[str]:
    """A hundred rules of each collective at a scale, of sizes that touch; the same each time."""
    draw = random.Random(1)
    made: list[str] = []
    for nodes, name in product(range(1, n_rules), COLLECTIVES):
        low = 0
        for _ in range(min(A_SCALE, n_rules - len(made))):
            high = low + draw.randint(1000, 100_000)
            cell = f"ring,{draw.choice(('ll', 'simple'))},{draw.choice((4, 8, 16, -1))}"
            asks = f"{draw.choice((1, 2, -1))},{draw.choice((0, 1, -1))}" if named else "-1,-1"
            made.append(f"{name},{low},{high},{cell},{nodes},{8 * nodes},{asks}")
            low = high + 1
        if len(made) == n_rules:
            break
    return made


def main() -> int:
    """Both files; 1 where one takes more than five seconds."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--rules", type=int, default=20_000, metavar="N")
    n_rules = options.parse_args().rules
    print(machine())
    slow = False
    for named in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rules.csv"
            path.write_text("\n".join(rows(n_rules, named=named)) + "\n", encoding="utf-8")
            start, used = time.perf_counter(), time.process_time()
            found = explain(path, Question())
            took, used = time.perf_counter() - start, time.process_time() - used
        calls = max(len(part.calls) for part in found.parts) + 1
        print(f"{n_rules} rules, up to {calls} calls a size: {took:.1f} s ({used:.1f} s of CPU)")
        slow |= used > 5
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
