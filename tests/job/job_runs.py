"""Jobs to try rules in: one that asks the real plugin, and runs that nobody has to wait for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import forked

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
    names = ("NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_LOG", "RCCLTUNE_RECORD")
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
    lines = [
        f"{comm} nodes=1 ranks=8 abi=v5 {read}",
        f"{comm} summary {counted}",
        f"{comm} rule line=1 setting=tree/ll channels=-1 hits={hits}",
    ]
    return "\n".join(lines[: 3 if hits else 2]) + "\n"


@dataclass
class Played:
    """Runs that take no time: each prints a number and leaves the plugin's log.

    Attributes:
        value: number of a run, by its kind and its place among all.
        seconds: that it says it took.
        hits: of 10 calls that rules answer; None where no rank loads the plugin.
        failure: by the number of a run.
        interrupted: number of the run that the user interrupts.
    """

    value: Callable[[str, int], float]
    seconds: float = 10.0
    hits: int | None = 10
    failure: Mapping[int, str] = field(default_factory=dict)
    interrupted: int | None = None
    more: str = ""
    arms: list[str] = field(default_factory=list)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    variables: list[dict[str, str]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    def __call__(
        self, folder: Path, command: Sequence[str], variables: Mapping[str, str], limit_s: float
    ) -> tuple[float, str | None]:
        """Play a run."""
        number, arm = len(self.arms), folder.name[3:]
        if number == self.interrupted:
            raise KeyboardInterrupt
        self.arms.append(arm)
        self.commands.append(tuple(command))
        self.variables.append(dict(variables))
        self.limits.append(limit_s)
        said = f"took {self.value(arm, number)}\n{self.more}"
        (folder / "stdout.log").write_text(said, encoding="utf-8")
        (folder / "stderr.log").write_text("what it said last\n", encoding="utf-8")
        if self.hits is not None and arm != "as-is":
            (folder / "plugin-h-1.log").write_text(log_of(10, self.hits), encoding="utf-8")
        return self.seconds, self.failure.get(number)
