"""Processes of a test's launches: which are left, and waiting for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rccltune.launch.launch_processes import TAG

# A variable that tells the processes of one test from those of another; its value is a folder.
MARK = "RCCLTUNE_TEST"


def survivors(folder: Path) -> list[int]:
    """Processes of launches with this folder in MARK that are still there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        with suppress(OSError):
            environ = (entry / "environ").read_bytes()
            mine = f"{MARK}={folder}".encode() in environ.split(b"\0")
            if mine and f"{TAG}=".encode() in environ and pid != os.getpid():
                found.append(pid)
    return found


def wait_for(what: Callable[[], bool]) -> bool:
    """Half a minute at most."""
    deadline = time.monotonic() + 30
    while not what() and time.monotonic() < deadline:
        time.sleep(0.05)
    return what()
