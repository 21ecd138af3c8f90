"""tune, ended by force in each of its phases: what stays, and what the same command then ends with.

    scripts/bench kills --ranks 2 -o FOLDER -- --mode none --collective all_reduce

In the first pass, the second and the verification once a rank is killed (SIGKILL) and once rccltune
itself. What runs of the rank program ten seconds later is counted; the same command then goes on, and
its rules are held against those of a session that nobody disturbed. NVLink multicast stays off in every
process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench_gpus import OPEN_MPI, agreement, devices, rules_of
from machine import SAFETY, machine

# What the plan says of the communicators of each phase, as they are made.
PHASES = {"first pass": "first:", "second pass": "second:", "verification": "verify/"}
PROGRAM = "rccltune-perf"
WITHIN_S = 10.0
LIMIT_S = 300.0


def main() -> int:
    """1 where something stays, or the end is another one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("further", nargs="*", help="options of rccltune tune, behind --")
    options = parser.parse_args()
    print(f"{machine()}; {devices()}", flush=True)
    whole = options.output / "undisturbed"
    command_of(options, whole).wait(LIMIT_S)
    reference, bad = rules_of(whole)[1], 0
    for phase, word in PHASES.items():
        for victim in ("rank", "rccltune"):
            session = options.output / f"{phase}-{victim}".replace(" ", "-")
            shutil.rmtree(session, ignore_errors=True)
            code, n_left = disturbed(options, session, word, victim)
            again = command_of(options, session).wait(LIMIT_S)
            both, other = agreement([reference, rules_of(session)[1]])
            bad += bool(n_left or again or other)
            print(
                f"  {phase}, {victim} killed: exit code {code}, {n_left} processes left; the same "
                f"command again: exit code {again}, of {both} sizes with rules of both {other} differ",
                flush=True,
            )
    print(f"kills: {bad} of {2 * len(PHASES)} did not end as they must")
    return int(bad > 0)


def command_of(options: argparse.Namespace, session: Path) -> subprocess.Popen[bytes]:
    """Start tune, in a session of processes of its own."""
    words = ["tune", "--np", str(options.ranks), "-o", str(session), "-q", *options.further]
    return subprocess.Popen(
        [sys.executable, "-m", "rccltune", *words],
        env=dict(os.environ) | SAFETY | OPEN_MPI,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def disturbed(
    options: argparse.Namespace, session: Path, word: str, victim: str
) -> tuple[int, int]:
    """The exit code of a tune in which one process was killed, and how many ranks it left."""
    running = command_of(options, session)
    deadline = time.monotonic() + LIMIT_S
    while not has_begun(session, word) or not ranks_of(session):
        if running.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"{session}: the phase was not seen")
        time.sleep(0.05)
    # In the midst of its calls, not while the library is loaded.
    time.sleep(1.5)
    if victim == "rccltune":
        running.kill()
    else:
        ranks = ranks_of(session)
        if ranks:
            os.kill(ranks[-1], signal.SIGKILL)
    code = running.wait(LIMIT_S)
    until = time.monotonic() + WITHIN_S
    while ranks_of(session) and time.monotonic() < until:
        time.sleep(0.2)
    return code, len(ranks_of(session))


def has_begun(session: Path, word: str) -> bool:
    """Whether a communicator for it was asked for."""
    plans = session.glob("runs/*/plan.txt")
    return any(f"communicator {word}" in plan.read_text() for plan in plans)


def ranks_of(session: Path) -> list[int]:
    """Processes of the rank program that work for a session, in the order of their ids."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if words[0].endswith(PROGRAM) and any(str(session) in word for word in words):
            found.append(int(folder.name))
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
