"""why: seconds and memory for a large INFO log of 64 mixed ranks."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import TextIO

from machine import machine, timed

N_RANKS = 64


def head(rank: int) -> str:
    """What the library puts before a message of a rank; eight ranks a node."""
    return f"node{rank // 8}:{100 + rank}:{100 + rank} [{rank % 8}] NCCL INFO "


def write_start(stream: TextIO) -> None:
    """What each rank says at its start."""
    stream.writelines(
        f"{head(rank)}RCCL version : 2.28.3-HEAD:64f48b6\n"
        f"{head(rank)}TUNER/Plugin: Using rccltune (v5)\n"
        f"{head(rank)}comm 0x55{rank:02x} rank {rank} nRanks {N_RANKS} nNodes 8 localRanks 8 \n"
        for rank in range(N_RANKS)
    )


def block(draw: random.Random) -> str:
    """Lines as a job prints them: channels, calls of every rank, rank 0's choices, its own."""
    lines = []
    for i in range(20_000):
        rank, kind = draw.randrange(N_RANKS), draw.random()
        if kind < 0.4:
            peer = (i + 1) % 8
            lines.append(f"{head(rank)}Channel {i % 32:02d}/0 : {i % 8} -> {peer} via P2P/IPC")
        elif kind < 0.7:
            lines.append(
                f"{head(rank)}AllReduce: opCount {i:x} sendbuff 0x7f00 recvbuff 0x7f00 count "
                f"{256 << i % 16} datatype 7 op 0 root 0 comm 0x55{rank:02x} [nranks={N_RANKS}] "
                "stream 0x55"
            )
        elif kind < 0.9:
            lines.append(
                f"{head(0)}AllReduce: {1024 << i % 16} Bytes -> Algo RING proto LL "
                "channel{Lo..Hi}={0..31}"
            )
        else:
            lines.append(f"step {i} loss {kind:.5f} lr 0.001 tokens/s 12345, and what a job says")
    return "\n".join(lines) + "\n"


def write_log(path: Path, n_bytes: int) -> None:
    """A log of at least so many bytes."""
    draw = random.Random(1)
    blocks = [block(draw) for _ in range(4)]
    written = 0
    with path.open("w", encoding="utf-8") as stream:
        write_start(stream)
        while written < n_bytes:
            written += stream.write(draw.choice(blocks))


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "job.log"
        write_log(log, options.mb << 20)
        seconds, megabytes = timed(["why", str(log)], Path(name))
    if options.json:
        print(json.dumps({"mb": options.mb, "seconds": seconds, "peak_mb": megabytes}))
        return
    print(machine())
    print(f"  {options.mb} MB of INFO log: {seconds:.1f} s, {megabytes:.0f} MB at most")


if __name__ == "__main__":
    main()
