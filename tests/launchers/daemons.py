"""Daemons of the tests, which end with them whatever happens."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def start(
    command: Sequence[str | Path], out: Path, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """One in a process group of its own; what it says is added to a file."""
    with out.open("ab") as stream:
        return subprocess.Popen(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_the_tests,  # noqa: PLW1509 - it takes no lock
        )


def end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """All of them, the last one first."""
    for process in reversed(started):
        process.terminate()
    for process in reversed(started):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)


def _die_with_the_tests() -> None:
    """In the child: SIGTERM if the tests are killed (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
