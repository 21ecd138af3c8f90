"""Attack: injections into every field of a session's and a rule file's files, and what came of them."""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import attacks
import injections
from machine import machine

ROOT = Path(__file__).resolve().parents[1]


def made(folder: Path) -> Path:
    """A tuned session of the smallest node, with all files that one has."""
    words = ["tune", "--simulate", str(ROOT / "examples/nodes/smallest.yaml"), "--mode", "spx-nps1"]
    words += ["--launcher", "none", "--collective", "all_reduce", "--min-bytes", "8K"]
    words += ["--max-bytes", "1M", "-o", str(folder), "-q"]
    subprocess.run([sys.executable, "-m", "rccltune", *words], check=True, capture_output=True)
    return folder


def main() -> None:
    """Try values in every field; exit 1 where something got through."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=1, help="values tried in each field; 0 is all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--match", default="", help="only fields with this in their name")
    parser.add_argument("--most", type=int, default=None, help="fields tried, by chance")
    wish = parser.parse_args()
    generator = random.Random(wish.seed)
    tried: Counter[str] = Counter()
    found: list[attacks.Finding] = []
    n_verbs = 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = made(folder / "sound")
        rules = next(path.name for path in session.glob("rccl_tuner*.csv"))
        verbs = attacks.verbs(rules)
        named = injections.inputs(folder / "inputs", session, ROOT / "examples")
        every = [(session, one, verbs) for one in injections.targets(session)]
        every += [(named, one, attacks.verbs_of(one)) for one in injections.targets(named)]
        every = [one for one in every if wish.match in f"{one[0].name}/{one[1]}"]
        if wish.most is not None:
            every = generator.sample(every, min(wish.most, len(every)))
        for whole, target, chosen in every:
            for value in injections.values(target, generator, wish.each or None):
                tried[Path(target.file).suffix or Path(target.file).name] += 1
                n_verbs += len(chosen)
                found += attacks.attack(whole, folder / "attacked", target, value, chosen)
        shutil.rmtree(folder / "attacked", ignore_errors=True)
    print(machine())
    kinds = ", ".join(f"{count} in {kind}" for kind, count in sorted(tried.items()))
    print(
        f"{sum(tried.values())} values in {len(every)} fields ({kinds}), {n_verbs} commands, "
        f"{time.monotonic() - start:.0f} s"
    )
    for one in found:
        print(f"  {one}")
    print(f"{len(found)} got through")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
