"""What the plugin writes can fail; the job goes on, and is told once (C tests attack the rest)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from wording import lacks

from rccltune.rules.plugin_library import PluginLibrary

OUTPUTS = {
    "record": ("RCCLTUNE_RECORD", ""),
    "log": ("RCCLTUNE_LOG", "decisions:"),
}
# As a job has it: default signals, stderr wherever the launcher put it.
JOB = """
import os, resource, signal, sys
from pathlib import Path
from rccltune.rules.plugin_library import PluginLibrary
from rccltune.model.vocabulary import Collective
for one in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(one, signal.SIG_DFL)
library, variable, value, limit = sys.argv[1:]
host = PluginLibrary(Path(library))
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
with host.communicator(abi=6, n_nodes=1, n_ranks=8, env={variable: value}) as comm:
    for k in range(200):
        comm.ask(Collective.ALL_REDUCE, 64 * k, ((1.0, 2.0, 3.0),))
print("done")
"""


def job(
    host: PluginLibrary, output: str, path: Path, limit: int = 0
) -> subprocess.CompletedProcess[str]:
    """A small job that writes there."""
    variable, prefix = OUTPUTS[output]
    command = [sys.executable, "-c", JOB, str(host.path), variable, f"{prefix}{path}", str(limit)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_limit_of_file_sizes_ends_no_job(
    host: PluginLibrary, tmp_path: Path, output: str
) -> None:
    """``ulimit -f``: SIGXFSZ is not for the job, whose dispositions are the default ones."""
    done = job(host, output, tmp_path / "out", 4000)
    assert done.stdout == "done\n", done.stderr
    assert (tmp_path / "out").stat().st_size <= 4000


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("trap", ["pipe", "link", "theirs"])
def test_a_trap_is_named_and_left_alone(
    host: PluginLibrary, tmp_path: Path, output: str, trap: str
) -> None:
    """A record stops at init; a log goes to stderr."""
    path, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_text("precious\n")
    if trap == "pipe":
        os.mkfifo(path)
    elif trap == "link":
        path.symlink_to(victim)
    else:
        path.write_text("precious\n")

    done = job(host, output, path)

    why = {
        "pipe": "it is no regular file",
        "link": "it is a symbolic link",
        "theirs": "it is there, and holds something else",
    }[trap]
    assert victim.read_text() == "precious\n"
    assert trap != "theirs" or path.read_text() == "precious\n"
    if output == "log":
        assert done.stdout == "done\n"
    else:
        assert lacks(done.stderr, f"{why}", "be written") == []
