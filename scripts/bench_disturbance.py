"""Slow a measured session down by 5 to 8 % for half of its time, and hold its rules against before.

    rccltune sweep --simulate mi300x --mode cpx-nps4 --collective all_reduce -o SESSION
    scripts/bench disturbance --session SESSION

What a lower clock or another job does to a session: from a random time on, all timings are longer,
for half of the session, whatever is timed. Raw rows of a copy are changed so, the rules are chosen
again, and every octave of every collective must have the setting that it had. The session may be of
this machine or of a simulated one; nothing is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from rccltune.cli import run
from rccltune.ranks import runs
from rccltune.rules.rule_file import read_rules

_TIME: Final = runs.COLUMNS.split(",").index("time_us")
_LEAST: Final = 1.05
_MOST: Final = 1.08
# What is derived from runs, and is derived again.
_DERIVED: Final = ("samples.csv", "fit.json", "choice.json", "verdict.json")


def main() -> int:
    """Run it; 1 where a disturbed session chose something else."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--session", type=Path, required=True)
    parser.add_argument("--times", type=int, default=20, help="disturbances, one a copy")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    n_alike = n_octaves = n_kept = 0
    with tempfile.TemporaryDirectory() as folder:
        before = chosen(options.session, Path(folder) / "as-it-is", None)
        for number in range(options.times):
            slowed = (rng.uniform(_LEAST, _MOST), rng.uniform(0, 0.5))
            after = chosen(options.session, Path(folder) / str(number), slowed)
            differing = sorted(at for at in before if before[at] != after.get(at, ""))
            n_octaves += len(before)
            n_kept += len(before) - len(differing)
            n_alike += not differing
            told = "; ".join(
                f"{name} 2^{octave}: {before[name, octave]} became {after.get((name, octave), '')}"
                for name, octave in differing
            )
            print(
                f"  {100 * (slowed[0] - 1):.1f} % longer from {100 * slowed[1]:.0f} % of it on: "
                f"{told or 'the same rules'}"
            )
    share = n_kept / n_octaves if n_octaves else 1.0
    print(f"{n_alike} of {options.times} sessions have the same rules; {share:.1%} of octaves do")
    return int(share < 1)


def chosen(
    session: Path, copy: Path, slowed: tuple[float, float] | None
) -> dict[tuple[str, int], str]:
    """Setting of each octave that a copy of a session's rules answer, by collective and log2.

    Args:
        session: as it was measured.
        copy: folder that is made.
        slowed: by which factor, and from which share of the session on, half of it; None leaves it.
    """
    shutil.copytree(session, copy)
    for name in _DERIVED:
        (copy / name).unlink(missing_ok=True)
    if slowed is not None:
        slow_down(copy, *slowed)
    rules = copy / "rules.csv"
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(["emit-config", str(copy), "-o", str(rules), "--force", "-q"])
    if code != 0:
        sys.exit(f"emit-config failed in {copy}")
    found = {}
    for rule in reversed(read_rules(rules.read_bytes()).rules):
        first, last = max(rule.min_nbytes, 1), rule.max_nbytes
        for octave in range(first.bit_length() - 1, last.bit_length()):
            middle = int(2 ** (octave + 0.5))
            if first <= middle <= last:
                found[rule.collective.value, octave] = str(rule.setting)
    return found


def slow_down(session: Path, factor: float, since: float) -> None:
    """Make timings of half a session longer: rows in the order in which they were measured."""
    files = sorted(
        (session / runs.FOLDER).glob("*/rank-0.csv"), key=lambda path: int(path.parent.name)
    )
    lines = [len(timed(path)) for path in files]
    total, passed = sum(lines), 0
    for path, n_rows in zip(files, lines, strict=True):
        first = round(since * total) - passed
        last = round((since + 0.5) * total) - passed
        passed += n_rows
        for rank in path.parent.glob("rank-*.csv"):
            change(rank, range(max(first, 0), min(last, n_rows)), factor)


def timed(path: Path) -> list[int]:
    """Lines of a rank's file that have a time of a call."""
    rows = path.read_text(encoding="utf-8").split("\n")
    return [at for at, row in enumerate(rows) if ",measure," in row]


def change(path: Path, rows: range, factor: float) -> None:
    """Make some of the timings of a rank's file longer."""
    lines = path.read_text(encoding="utf-8").split("\n")
    for at in (timed(path)[one] for one in rows):
        fields = lines[at].split(",")
        if fields[_TIME]:
            fields[_TIME] = f"{float(fields[_TIME]) * factor:.4f}"
        lines[at] = ",".join(fields)
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
