"""A job of all-reduces and nothing else, a process a rank: NCCL or RCCL called by ctypes.

    python scripts/plain_job.py LIBRARY RUNTIME RANK RANKS DEVICE ID_FILE CALLS BYTES…

The library loads the plugin that the environment names, as in any job, and the communicator is destroyed
at the end. Rank 0 writes the communicator's id into ID_FILE; the others wait for it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

FLOAT, SUM, NON_BLOCKING = 7, 0, 1
PATIENCE_S = 60.0


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = (("bytes", ctypes.c_char * 128),)


class Library:
    """A library whose calls give 0, or end this process."""

    def __init__(self, path: str, prefix: str = "nccl") -> None:
        """Load it, where all that is loaded later finds it."""
        self.loaded = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self.prefix = prefix

    def call(self, name: str, *arguments: object) -> None:
        """Call its function of this name, without the prefix."""
        result = self.loaded[self.prefix + name](*arguments)
        if result:
            sys.exit(f"{self.prefix}{name} gives {result}")


def main(words: list[str]) -> None:
    """So many calls of each size."""
    rank, ranks, device, calls = (int(words[at]) for at in (2, 3, 4, 6))
    sizes = [int(word) for word in words[7:]]
    runtime = Library(words[1], "hip" if "hip" in Path(words[1]).name else "cuda")
    nccl = Library(words[0])
    stream, comm = ctypes.c_void_p(), ctypes.c_void_p()
    buffers = (ctypes.c_void_p(), ctypes.c_void_p())
    runtime.call("SetDevice", device)
    runtime.call("StreamCreateWithFlags", ctypes.byref(stream), NON_BLOCKING)
    for buffer in buffers:
        runtime.call("Malloc", ctypes.byref(buffer), ctypes.c_size_t(max(sizes)))
    shared = joined(nccl, rank, Path(words[5]))
    nccl.call("CommInitRank", ctypes.byref(comm), ranks, shared, rank)
    for nbytes in sizes:
        for _ in range(calls):
            nccl.call("AllReduce", *buffers, ctypes.c_size_t(nbytes // 4), FLOAT, SUM, comm, stream)
    runtime.call("StreamSynchronize", stream)
    nccl.call("CommDestroy", comm)


def joined(nccl: Library, rank: int, meet: Path) -> UniqueId:
    """The communicator's id: made by rank 0, read by the others."""
    made = UniqueId()
    if rank == 0:
        nccl.call("GetUniqueId", ctypes.byref(made))
        new = meet.with_suffix(".new")
        new.write_bytes(bytes(made))
        new.replace(meet)
        return made
    started_by, until = os.getppid(), time.monotonic() + PATIENCE_S
    while not meet.exists():
        if time.monotonic() > until or os.getppid() != started_by:
            sys.exit("rank 0 did not come")
        time.sleep(0.01)
    return UniqueId.from_buffer_copy(meet.read_bytes())


if __name__ == "__main__":
    main(sys.argv[1:])
