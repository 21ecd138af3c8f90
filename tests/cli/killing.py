"""Sessions that are killed and resumed, beside ones that nobody kills: do both end alike?

Times of the nodes depend on the launch and on the simulated clock (bursts, drift), so that whatever
a kill changes is seen in them. What a moment is, dying.py says.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import yaml

HERE: Final = Path(__file__).resolve().parent
NODES: Final = HERE.parents[1] / "examples" / "nodes"
SESSION: Final = "s"
# Their bytes are compared: whatever else is there is derived from the same, or says when. Not
# quarantine.json: where faults are drawn by chance, a killed session may meet one more of them.
# A rule by its line, and the calls that it answered.
LINES: Final = re.compile(r'"line": \d+|"\d+"(?=: \d)')
KEPT: Final = (
    "rccl_tuner_*.csv",
    "rccl_tuner_*.env",
    "samples.csv",
    "search.json",
    "verdict.json",
    "refused.json",
)
RESTLESS: Final = {
    "sigma": 0.02,
    "launch_sigma": 0.01,
    "bursts": {"probability": 0.1, "seconds": 0.5, "factor": 1.2},
    "drift": [[0, 1.0], [30, 1.1]],
}
# Every process of a session that is killed inherits it, the launcher's and the guardian too.
_MARK: Final = "RCCLTUNE_KILLING"
_PATIENCE_S: Final = 60.0
_LONGEST_S: Final = 900.0


def write_node(path: Path, source: Path) -> Path:
    """A node file with bursts and drift."""
    raw = yaml.safe_load(source.read_text(encoding="utf-8")) | {"noise": RESTLESS}
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return path


def command(folder: Path, words: Iterable[str], moment: str | None = None) -> int:
    """Run rccltune in a folder until it ends, or until it dies at a moment.

    Returns:
        Its exit code, negative where it was killed; nothing that it started is left then.
    """
    how = ["-m", "rccltune"] if moment is None else [str(HERE / "dying.py"), *moment.split(), "--"]
    with (folder / "said.txt").open("ab") as stream:
        done = subprocess.run(
            [sys.executable, *how, *words],
            cwd=folder,
            env={**os.environ, _MARK: str(folder), "TMPDIR": str(folder)},
            stdout=stream,
            stderr=stream,
            timeout=_LONGEST_S,
            check=False,
        )
    _kill_all(folder)
    return done.returncode


def _kill_all(folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while alive := _marked(folder):
        for process in alive:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"cannot be killed: {alive}")
        time.sleep(0.01)


def _marked(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environ = (entry / "environ").read_bytes().split(b"\0")
            if f"{_MARK}={folder}".encode() in environ:
                found.append(int(entry.name))
    return found


def torment(folder: Path, words: Sequence[str], moments: Iterable[str]) -> tuple[int, int]:
    """Kill at each moment, resume, and let the last one go on.

    Returns:
        Its exit code, and how many moments came before all was done.
    """
    n_killed = 0
    for moment in moments:
        n_killed += command(folder, words, moment) == -signal.SIGKILL
    return command(folder, words), n_killed


def ended_in(folder: Path) -> dict[str, str]:
    """Texts of what a session ends in; without the day, since it may run at midnight.

    And without lines of the rule file: one that was verified and then killed has a comment less.
    """
    found = {}
    for path in sorted(path for kind in KEPT for path in (folder / SESSION).glob(kind)):
        text = path.read_text(encoding="utf-8").replace(str(folder), "HERE")
        text = LINES.sub("LINE", text)
        lines = text.splitlines(keepends=True)
        found[path.name] = "".join(line for line in lines if not line.startswith("# measured: "))
    return found


def rows(folder: Path) -> list[str]:
    """Rules of all files, without comments."""
    texts = [text for name, text in ended_in(folder).items() if name.startswith("rccl_tuner_")]
    return [line for text in texts for line in text.splitlines() if "," in line and line[0] != "#"]


def differences(whole: Path, killed: Path) -> list[str]:
    """Names of files that are not alike, or in one of two sessions alone."""
    one, other = ended_in(whole), ended_in(killed)
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
