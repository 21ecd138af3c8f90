"""Jobs to try rules in: they ask the real plugin, and what it answers decides how long they take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import forked

# One rank. Its steps sleep as long as the setting says that the plugin answers at 1 MiB.
ASKING = """
import os, sys, time
from pathlib import Path
from rccltune import torch as mark
from rccltune.model.vocabulary import Collective
from rccltune.rules.host import Host

PLAIN_MS, SETTINGS = {plain_ms}, {settings}
comm = None
if "NCCL_TUNER_PLUGIN" in os.environ:
    names = ("NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_LOG", "RCCLTUNE_RECORD")
    env = {{name: os.environ[name] for name in names}}
    comm = Host(Path(os.environ["NCCL_TUNER_PLUGIN"])).communicator(
        abi=5, n_nodes=1, n_ranks=8, env=env)
print("run", os.environ["RCCLTUNE_JOB_RUN"], sys.argv[1:])
for number in range({steps}):
    taken = PLAIN_MS
    if comm is not None:
        answer = comm.ask(Collective.ALL_REDUCE, 1 << 20, [[50.0] * 3] * 7)
        taken = SETTINGS.get((answer.cell, answer.channels), PLAIN_MS)
    with mark.step():
        time.sleep(taken / 1e3)
    mark.loss(2.5)
{more}
"""
RULES = "allreduce,0,4194304,tree,ll,-1,1,8,-1,-1\n"
# Row and column of the cost table in the ABI's order, and channels: tree/ll, ring/simple/1.
TREE_LL = ((0, 0), 0)
BAD = ((1, 2), 1)
Settings = dict[tuple[tuple[int, int], int], float]


def asking(
    folder: Path,
    settings: Settings,
    *,
    plain_ms: float = 4.0,
    steps: int = 12,
    more: str = "",
) -> list[str]:
    """The words that start such a job."""
    path = folder / "asking.py"
    path.write_text(
        ASKING.format(plain_ms=plain_ms, settings=settings, steps=steps, more=more),
        encoding="utf-8",
    )
    return [sys.executable, str(path)]


def rccltune(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command line there."""
    environment = {
        n: v for n, v in os.environ.items() if not n.startswith(("NCCL_", "RCCL", "RCCLTUNE_"))
    }
    environment |= {"MPLCONFIGDIR": str(folder / ".mpl")} | variables
    return forked.rccltune(words, folder, environment)
