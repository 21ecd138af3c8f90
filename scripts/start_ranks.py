"""Ranks of a PyTorch job on this host, as torchrun starts them, by the standard library alone.

    python scripts/start_ranks.py 2 PYTHON scripts/tensor_parallel_loop.py --steps 100

One rank that fails ends the others, and its exit code is this one's; so does a signal to this one.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

_GRACE_S = 5.0


def main(words: Sequence[str]) -> int:
    """Start so many ranks of a command, and wait for all of them."""
    n_ranks, command = int(words[0]), words[1:]
    signal.signal(signal.SIGTERM, _stop)
    port = _free_port()
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        ranks.extend(
            subprocess.Popen(command, env=_variables(rank, n_ranks, port))
            for rank in range(n_ranks)
        )
        return _watched(ranks)
    finally:
        _end(ranks)


def _watched(ranks: Sequence[subprocess.Popen[bytes]]) -> int:
    """0 when all ended well, else what the first that did not ended with."""
    while True:
        codes = [rank.poll() for rank in ranks]
        failed = next((code for code in codes if code), None)
        if failed is not None:
            return failed if failed > 0 else 128 - failed
        if None not in codes:
            return 0
        time.sleep(0.05)


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + _GRACE_S
    for rank in ranks:
        rank.terminate()
    for rank in ranks:
        try:
            rank.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()


def _variables(rank: int, n_ranks: int, port: int) -> dict[str, str]:
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n_ranks, "LOCAL_WORLD_SIZE": n_ranks}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {**os.environ, **place, **{name: str(value) for name, value in own.items()}}


def _free_port() -> int:
    """One below those that the kernel gives to everybody who asks for any."""
    while True:
        port = random.randrange(15000, 30000)
        with socket.socket() as listening, contextlib.suppress(OSError):
            listening.bind(("127.0.0.1", port))
            return port


def _stop(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
