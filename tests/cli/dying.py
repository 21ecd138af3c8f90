"""rccltune that dies by SIGKILL at a chosen moment: ``python dying.py MOMENT -- WORDS…``.

Launches are counted from 1 in each process, those of a sweep and of its verification together.

``start N``: the N-th launch's benchmark runs and has said nothing yet.
``bytes N M``: it has printed M bytes, at the latest when it has ended.
``cut N SHARE``: it has ended, and what it left reaches as far as it had after that share of its
table: what a kill in the middle of a fast benchmark leaves, whenever it comes.
``outcome N``: its outcome is written, and nothing that is derived from it.
``samples``: everything is measured, before samples.csv is written.
``round N``: before round N of a search is planned.
``rules``: the verified rules are written, and no verdict.

Whatever has not come when all is done does not come.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn

from rccltune.cli import run
from rccltune.launch import process
from rccltune.launch.process import Ending, Job
from rccltune.measure import launches as launching
from rccltune.measure import searching
from rccltune.session import store


def die() -> NoReturn:
    """Nothing of rccltune's own runs after this."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def die_when_printed(job: Job, n_bytes: int) -> None:
    """Look until the benchmark's own words are there; its launcher writes none of them."""
    log = job.folder / "stdout.log"
    while not log.exists() or log.stat().st_size < n_bytes:
        time.sleep(0.001)
    die()


def cut(job: Job, share: float) -> None:
    """Shorten log and traces to that share of the steps, the last one in the middle of a row."""
    log = job.folder / "stdout.log"
    text = log.read_bytes()
    rows = [match.end() for match in re.finditer(rb"^ +\d+ +\d+ .*\d\n", text, re.MULTILINE)]
    log.write_bytes(text[: rows[int(share * (len(rows) - 1))] - 20])
    for trace in job.folder.glob("trace-*.csv"):
        lines = trace.read_text(encoding="ascii").splitlines(keepends=True)
        begun = [at for at, line in enumerate(lines) if line.startswith("#@ begin ")]
        n_left = int(share * len(begun))
        if len(begun) > 1 and n_left < len(begun):
            trace.write_text("".join(lines[: begun[n_left] + 1]), encoding="ascii")


def in_launch(kind: str, number: int, amount: float) -> None:
    """Die around the benchmark of a launch."""
    original: Callable[[Job], Ending] = process.run
    n_made = 0

    def dying(job: Job) -> Ending:
        nonlocal n_made
        n_made += job.folder.parent.name == "launches"
        if n_made != number:
            return original(job)
        if kind != "cut":
            words = (job, int(amount))
            threading.Thread(target=die_when_printed, args=words, daemon=True).start()
        original(job)
        if kind == "cut":
            cut(job, amount)
        die()

    setattr(process, "run", dying)  # noqa: B010 - not what mypy lets one assign


def in_call(module: ModuleType, name: str, is_meant: Callable[..., bool], *, after: bool) -> None:
    """Die in front of a call that is meant, or behind it."""
    original = getattr(module, name)

    def dying(*args: object, **words: object) -> object:
        meant = is_meant(*args)
        if meant and not after:
            die()
        found: object = original(*args, **words)
        if meant:
            die()
        return found

    setattr(module, name, dying)


def arrange(kind: str, *numbers: str) -> None:
    """Let it come."""
    if kind in ("start", "bytes", "cut"):
        in_launch(kind, int(numbers[0]), float(numbers[1]) if len(numbers) > 1 else 0)
    elif kind == "outcome":
        left = iter(range(int(numbers[0]) - 1, -1, -1))
        in_call(launching, "_write_outcome", lambda *_: next(left) == 0, after=True)
    elif kind == "samples":
        in_call(store, "commit", lambda *_: True, after=False)
    elif kind == "round":
        number = int(numbers[0])
        in_call(searching, "step", lambda s, *_: len(s.rounds) + 1 == number, after=False)
    elif kind == "rules":
        in_call(store, "write_derived", lambda _, name, *__: name == "verdict.json", after=False)
    else:
        raise ValueError(kind)


if __name__ == "__main__":
    at = sys.argv.index("--")
    arrange(*sys.argv[1:at])
    sys.exit(run(sys.argv[at + 1 :]))
