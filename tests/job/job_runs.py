"""Jobs to try rules in: one that asks the real plugin, and runs that nobody has to wait for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import forked

from rccltune.launch.process import LaunchCommand, LaunchEnd

# One rank. Its steps sleep as long as the setting says that the plugin answers at 1 MiB.
ASKING = """
import os, sys, time
from pathlib import Path
from rccltune import torch as mark
from rccltune.model.vocabulary import Collective
from rccltune.rules.plugin_library import PluginLibrary

PLAIN_MS, SETTINGS = {plain_ms}, {settings}
comm = None
if "NCCL_TUNER_PLUGIN" in os.environ:
    names = ("NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_LOG")
    env = {{name: os.environ[name] for name in names}}
    comm = PluginLibrary(Path(os.environ["NCCL_TUNER_PLUGIN"])).communicator(
        abi=5, n_nodes=1, n_ranks=8, env=env)
for number in range(12):
    taken = PLAIN_MS
    if comm is not None:
        answer = comm.ask(Collective.ALL_REDUCE, 1 << 20, [[50.0] * 3] * 7)
        taken = SETTINGS.get((answer.cell, answer.channels), PLAIN_MS)
    with mark.step():
        time.sleep(taken / 1e3)
"""
RULES = "allreduce,0,4194304,tree,ll,-1,1,8,-1,-1\n"
# Row and column of the cost table in the ABI's order, and channels: tree/ll, ring/simple/1.
TREE_LL = ((0, 0), 0)
BAD = ((1, 2), 1)


def asking(
    folder: Path, settings: Mapping[tuple[tuple[int, int], int], float], plain_ms: float
) -> list[str]:
    """Words that start such a job."""
    path = folder / "asking.py"
    path.write_text(ASKING.format(plain_ms=plain_ms, settings=dict(settings)), encoding="utf-8")
    return [sys.executable, str(path)]


def rccltune(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line there."""
    clean = {
        n: v for n, v in os.environ.items() if not n.startswith(("NCCL_", "RCCL", "RCCLTUNE_"))
    }
    return forked.rccltune(words, folder, clean)


def log_of(calls: int, hits: int) -> str:
    """Log of the plugin for one process, in the words of docs/plugin.md."""
    comm, sha256 = "rccltune: comm=1", "0" * 64
    read = f"rules=1 of=1 skipped-rows=0 file=rules.csv sha256={sha256}"
    counted = f"calls={calls} hits={hits} misses={calls - hits} not-selectable=0 fallbacks=0"
    return f"{comm} nodes=1 ranks=8 abi=v5 {read}\n{comm} summary {counted}\n"


@dataclass
class Played:
    """Runs that take no time: each prints a number and leaves the plugin's log.

    Attributes:
        value: number of a run, by its kind and its place among all.
        seconds: that it says it took.
        hits: of 10 calls that rules answer; None where no rank loads the plugin.
        exit_codes: other than 0, by the number of a run; below 0 a signal ended it.
        interrupted: number of the run that the user interrupts.
        more: further output.
        kinds: of the runs so far.
        launched: likewise.
    """

    value: Callable[[str, int], float]
    seconds: float = 10.0
    hits: int | None = 10
    exit_codes: Mapping[int, int] = field(default_factory=dict)
    interrupted: int | None = None
    more: str = ""
    kinds: list[str] = field(default_factory=list)
    launched: list[LaunchCommand] = field(default_factory=list)

    def __call__(self, launch: LaunchCommand) -> LaunchEnd:
        """Play a run."""
        number, kind = len(self.kinds), launch.folder.name[3:]
        if number == self.interrupted:
            raise KeyboardInterrupt
        self.kinds.append(kind)
        self.launched.append(launch)
        said = f"took {self.value(kind, number)}\n{self.more}"
        (launch.folder / "stdout.log").write_text(said, encoding="utf-8")
        (launch.folder / "stderr.log").write_text("what it said last\n", encoding="utf-8")
        if self.hits is not None and kind != "as-is":
            (launch.folder / "plugin-h-1.log").write_text(log_of(10, self.hits), encoding="utf-8")
        code = self.exit_codes.get(number, 0)
        return LaunchEnd(
            exit_code=None if code < 0 else code,
            signal=-code if code < 0 else None,
            timed_out=False,
            lingered=False,
            duration_s=self.seconds,
        )
