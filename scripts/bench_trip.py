"""How many files and functions of rccltune each verb runs through, subprocesses included."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from machine import machine

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "examples" / "mi300x-cpx-nps4" / "all_reduce.csv"
NODE = ROOT / "examples" / "nodes" / "smallest.yaml"
MEASURED = ("--simulate", str(NODE), "--mode", "spx-nps1", "--collective", "all_reduce")
TRIPS = {
    "import": ("import", str(TABLE), "-o", "imported"),
    "fit": ("fit", "imported"),
    "emit-config": ("emit-config", "imported"),
    "sweep": ("sweep", *MEASURED, "-o", "swept"),
    "tune": ("tune", *MEASURED, "-o", "tuned"),
}
Function = tuple[str, str]
# Python imports a module of this name at start, so that every process is seen. What ran is
# written when it is first seen, since processes may end without a word.
WATCH = """\
import inspect, os, sys, threading

def _watch(frame, event, argument, seen=set()):
    code = frame.f_code
    if event == "call" and code not in seen:
        seen.add(code)
        if code.co_filename.startswith(os.environ["TRIP_PACKAGE"]):
            # Of a module and of a class the body runs too, and has no fast local variables.
            kind = "function" if code.co_flags & inspect.CO_OPTIMIZED else code.co_name
            line = f"{code.co_filename}\\t{code.co_qualname}\\t{kind}\\n"
            os.write(_file, line.encode())

_file = os.open(os.environ["TRIP_FILE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
threading.setprofile(_watch)
sys.setprofile(_watch)
"""


def ran(verb: Sequence[str], folder: Path, watch: Path) -> tuple[set[str], set[Function], set[str]]:
    """Files in which a function ran, these functions, and the modules that were loaded."""
    file = watch / "ran"
    file.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(watch),
        "TRIP_FILE": str(file),
        "TRIP_PACKAGE": str(ROOT / "rccltune") + os.sep,
    }
    _run(verb, folder, environment)
    rows = [line.split("\t") for line in file.read_text().splitlines()]
    loaded = {path for path, _, kind in rows if kind == "<module>"}
    # Comprehensions and lambdas belong to the function around them.
    called = {(path, name) for path, name, kind in rows if kind == "function" and name[-1] != ">"}
    return {path for path, _ in called}, called, loaded


def _run(verb: Sequence[str], folder: Path, environment: dict[str, str]) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "rccltune", *verb, "-q"]
    subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Each verb on its own, in the order in which they need each other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(TRIPS), help="these verbs alone")
    parser.add_argument("--files", action="store_true", help="name the files, with their functions")
    parser.add_argument("--repeats", type=int, default=9, help="of the seconds of import, fit, …")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, watch = Path(name), Path(name) / "watch"
        watch.mkdir()
        (watch / "sitecustomize.py").write_text(WATCH)
        for verb, command in TRIPS.items():
            if options.only and verb not in options.only:
                if verb in ("import", "fit"):
                    _run(command, folder, dict(os.environ))
                continue
            files, functions, loaded = ran(command, folder, watch)
            found[verb] = {
                "files": len(files),
                "functions": len(functions),
                "loaded": len(loaded),
            }
            if verb in ("fit", "emit-config"):
                seconds = [_run(command, folder, dict(os.environ)) for _ in range(options.repeats)]
                found[verb]["median_s"] = round(statistics.median(seconds), 2)
            if options.files:
                _list(files, functions)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{machine()}; import of {TABLE.relative_to(ROOT)}")
    print(f"  {'verb':<12} {'files':>6} {'functions':>10} {'loaded':>7}  seconds (median)")
    for verb, one in found.items():
        print(
            f"  {verb:<12} {one['files']:>6} {one['functions']:>10} {one['loaded']:>7}  "
            f"{one.get('median_s', '')}"
        )


def _list(files: set[str], functions: set[Function]) -> None:
    for path in sorted(files):
        names = sorted(name for one, name in functions if one == path)
        print(f"    {Path(path).relative_to(ROOT)}: {', '.join(names)}")


if __name__ == "__main__":
    main()
