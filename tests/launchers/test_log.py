"""The log of a batch job: what Slurm keeps of both streams, where nobody watches."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed import FOLDER, REPOSITORY
from slurms import Node, Slurm, running

from rccltune import plugin

HOST = socket.gethostname().partition(".")[0]

# A whole tune; tests/cli/test_lines.py has the same without Slurm at any size.
pytestmark = [pytest.mark.mpi, pytest.mark.long, pytest.mark.timeout(660)]

TUNE = "--mode spx-nps1 --launcher srun --collective all_reduce --min-bytes 4K --max-bytes 1M"


@pytest.fixture
def queue() -> Iterator[Slurm]:
    """A Slurm that waits for jobs."""
    nodes = [Node(name=HOST, address="127.0.0.1")]
    with running(FOLDER / "slurm" / "usr", nodes, allocates=False) as found:
        yield found


def test_the_log_of_a_tune_is_read_like_a_page(queue: Slurm, tmp_path: Path) -> None:
    """No bar, no colour, nothing that moves the cursor; lines of a hundred columns, in order."""
    if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")
    node = REPOSITORY / "examples/nodes/smallest.yaml"
    tune = f"{shlex.quote(sys.executable)} -m rccltune tune --simulate {node} {TUNE} -o s"
    log = tmp_path / "log"
    batch = [str(queue.programs / "bin/sbatch"), "--wait", f"--output={log}", f"--wrap={tune}"]
    path = f"{queue.programs / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, **queue.variables, "PATH": path}
    for name in ("COLUMNS", "NO_COLOR"):
        environment.pop(name, None)
    done = subprocess.run(
        batch,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    text = log.read_text(encoding="utf-8")
    assert done.returncode == 0, (done.stderr, text)
    assert [one for one in text if not one.isprintable() and one != "\n"] == []
    assert not set("━⠋⠙⠹") & set(text)
    lines = text.splitlines()
    assert len(lines) <= 40
    assert [line for line in lines if len(line) > 100 and str(tmp_path) not in line] == []
    assert not any(line.startswith(("Warning", "Error", "srun:")) for line in lines)
    assert lines[0] == "Session: s"
    assert any("source " in line for line in lines[-6:])
