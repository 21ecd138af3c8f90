"""`rccltune tune` on the GPUs of this machine, size by size, and the vendors' method beside it.

    scripts/bench tune --rccl-tests DIR --ranks 4 -o FOLDER
    scripts/bench tune --rccl-tests DIR --ranks 2 -o FOLDER --vendors -- --variant channels-32

Whatever stands behind ``--`` goes to `rccltune tune` as it is. ``--vendors`` makes the file of the
fastest row at each size from the same samples and sends it through `rccltune verify --rules`.
NVLink multicast stays off in every process. ``--simulate NODE`` in place of ``--rccl-tests`` tries
the bench itself.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_nccl import variables
from bench_verify import vendors_file
from machine import machine

from rccltune.model import format_size

NOT_TO_LOSE = 0.98
VENDORS = "vendors"


def main() -> int:
    """Tune, tell every size; then the vendors' file of the same samples."""
    options = read_options()
    session = options.output.resolve()
    environment = variables({})
    print(f"{machine()}; {devices()}", flush=True)
    where = (
        ["--simulate", options.simulate]
        if options.simulate
        else ["--mode", "none", "--rccl-tests", str(options.rccl_tests.resolve())]
    )
    ranks = [] if options.ranks is None else ["--np", str(options.ranks)]
    code = rccltune(environment, "tune", *where, *ranks, "-o", str(session), *options.further)
    unharmed = told(session / "verdict.json")
    if options.vendors and (session / "fit.json").exists():
        given = session.with_name(f"{session.name}-{VENDORS}.csv")
        given.write_text(vendors_file(session), encoding="utf-8")
        left = str(given.with_suffix(".verified"))
        rccltune(environment, "verify", str(session), "--rules", str(given), "-o", left)
        told(session / f"verdict_{given.stem}.json")
    return code or int(not unharmed)


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--rccl-tests", type=Path, help="folder of all_reduce_perf")
    where.add_argument("--simulate", metavar="NODE", help="not hardware: tries this bench")
    parser.add_argument("--ranks", type=int, help="default: all GPUs")
    parser.add_argument("-o", "--output", type=Path, required=True, help="session folder")
    parser.add_argument("--vendors", action="store_true", help="verify the vendors' file too")
    parser.add_argument("further", nargs="*", help="options of rccltune tune")
    return parser.parse_args()


def devices() -> str:
    """What nvidia-smi calls them."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no NVIDIA GPU"
    lines = done.stdout.splitlines()
    return f"{len(lines)} x {lines[0]}" if lines else "no NVIDIA GPU"


def rccltune(environment: Mapping[str, str], *arguments: str) -> int:
    """One command as its users call it, its words left as they are; the exit code."""
    command = [sys.executable, "-m", "rccltune", *arguments]
    print(f"$ rccltune {' '.join(arguments)}", flush=True)
    code = subprocess.run(command, env=dict(environment), check=False).returncode
    print(f"exit code {code}", flush=True)
    return code


def told(path: Path) -> bool:
    """Prints a verification size by size; whether none is slower than it may be, beyond noise."""
    if not path.exists():
        print(f"{path.name}: none")
        return True
    found = json.loads(path.read_text(encoding="utf-8"))
    print(
        f"{path.name}: {found['rules_before']} rules went in and {found['rules']} stand, cut ones "
        f"in pieces; rounds {found['rounds']}, launches {found['launches']}"
    )
    for one in found["standings"]:
        span = f"{format_size(one['min_nbytes'])} to {format_size(one['max_nbytes'])}"
        stands = "stands" if one["stands"] else "does not stand"
        print(f"  {one['collective']} {span} {setting_text(one['setting'])}: {stands}")
    rows: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for one in found["verdicts"]:
        rows.setdefault((one["target"]["collective"], one["nbytes"]), []).append(one)
    print("  untouched / tuned (95 %)")
    for (collective, nbytes), halves in rows.items():
        cells = "   ".join(cell(one) for one in halves)
        print(f"  {collective:>14} {format_size(nbytes):>10}   {cells}")
    # What a rule did that is gone by now says nothing of the file.
    own = [one for one in found["verdicts"] if not is_cut(one, found["cuts"])]
    worst = min(own, key=lambda one: float(one["ratio"]), default=None)
    if worst is None:
        return True
    slower = [one for one in own if one["high"] < NOT_TO_LOSE]
    print(
        f"  worst of {len(own)}: {worst['ratio']:.3f} "
        f"({worst['low']:.3f} to {worst['high']:.3f}); "
        f"below {NOT_TO_LOSE} beyond noise: {len(slower)}"
    )
    return not slower


def is_cut(verdict: Mapping[str, Any], cuts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a size was given back to the library."""
    return any(
        cut["collective"] == verdict["target"]["collective"]
        and cut["min_nbytes"] <= verdict["nbytes"] <= cut["max_nbytes"]
        for cut in cuts
    )


def setting_text(setting: Mapping[str, Any]) -> str:
    """As rules are spoken of: ring/ll128/16."""
    parts = [setting["algorithm"], setting["protocol"], setting.get("channels")]
    return "/".join(str(part) for part in parts if part)


def cell(one: Mapping[str, Any]) -> str:
    """One placement of a size."""
    return (
        f"{one['view']['placement']} {one['ratio']:.3f} "
        f"({one['low']:.3f} to {one['high']:.3f}) {one['judgement']}"
    )


if __name__ == "__main__":
    sys.exit(main())
