"""Ranks that scripts/start_ranks.py starts: what they are told, and that none is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path


def start(repository: Path, program: str, n_ranks: int = 2) -> subprocess.Popen[str]:
    """Ranks that run a program."""
    script = str(repository / "scripts" / "start_ranks.py")
    words = [sys.executable, script, str(n_ranks), sys.executable, "-c", program]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ranks_know_themselves_and_where_to_meet(repository: Path) -> None:
    """The variables that torch.distributed reads from the environment."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    process = start(
        repository,
        f"import os\nwords = ' '.join(os.environ[n] for n in {names!r})\n"
        "os.write(1, (words + chr(10)).encode())",
        n_ranks=3,
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    told = sorted(line.split() for line in out.splitlines())
    assert [words[:5] for words in told] == [[r, r, "3", "3", "127.0.0.1"] for r in "012"]
    [port] = {int(words[5]) for words in told}
    assert 15000 <= port < 30000


def test_a_rank_that_fails_ends_the_others(repository: Path) -> None:
    """Its exit code is the whole one's, and nobody waits for those that would go on."""
    began = time.monotonic()
    process = start(
        repository,
        "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(100)",
    )
    process.communicate(timeout=60)
    assert process.returncode == 7
    assert time.monotonic() - began < 50


def test_no_rank_outlives_a_signal(repository: Path) -> None:
    """Not even one that ignores SIGTERM."""
    process = start(
        repository,
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "os.write(1, (str(os.getpid()) + chr(10)).encode())\ntime.sleep(100)",
    )
    assert process.stdout is not None
    pids = [int(process.stdout.readline()) for _ in range(2)]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not any(Path("/proc", str(pid)).exists() for pid in pids)
