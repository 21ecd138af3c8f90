"""A job that is measured while another runs on the same devices."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from rccltune import interrupts
from rccltune.launch import process
from rccltune.launch.family import Family
from rccltune.launch.process import Ending, Job

_POLL_S: Final = 0.05
# Of the other's endless output; the beginning says what it was.
_KEPT_NBYTES: Final = 1 << 16


def run_beside(job: Job, other: Job) -> Ending:
    """Run a job while another one runs: that one is started before and ended afterwards.

    Args:
        job: what is measured.
        other: what never ends by itself; ``is_complete`` says that it is under way, within
            ``timeout_s``.

    Returns:
        How the job ended; where the other never got under way the job was not started.

    Raises:
        MachineError: a program cannot be started.
        SessionError: a folder cannot be written.
        LaunchError: a process cannot be killed (it hangs in the driver).
        KeyboardInterrupt: after everything that was started is gone.
    """
    with _running(other) as why_not:
        reason = _under_way(other, why_not)
        if reason is not None:
            return Ending(
                exit_code=None,
                signal=None,
                timed_out=False,
                lingered=False,
                duration_s=0.0,
                alone=reason,
            )
        ending = process.run(job)
        return replace(ending, alone=why_not())


@contextmanager
def _running(other: Job) -> Iterator[Callable[[], str | None]]:
    """Start it and certainly end it; yields a question: why it has ended, None where it runs."""
    started: subprocess.Popen[bytes] | None = None
    with process.guarded() as run_id:
        try:
            with interrupts.held():
                started = process.spawn(other, run_id)
            yield partial(_why_ended, started)
        finally:
            if started is not None:
                with interrupts.held():
                    process.adopt(orphans=True)
                    process.end(started, Family([run_id]))
                    _shorten(other.folder / "stdout.log")


def _why_ended(started: subprocess.Popen[bytes]) -> str | None:
    code = started.poll()
    if code is None:
        return None
    return f"what was to run beside it ended with {process.how_ended(code)}"


def _under_way(other: Job, why_not: Callable[[], str | None]) -> str | None:
    """Wait until it is; otherwise why it is not."""
    deadline = time.monotonic() + other.timeout_s
    while not other.is_complete(other.folder):
        reason = why_not()
        if reason is not None:
            return reason
        if time.monotonic() >= deadline:
            return f"what was to run beside it was not under way after {other.timeout_s:.0f} s"
        time.sleep(_POLL_S)
    return None


def _shorten(log: Path) -> None:
    with suppress(OSError), log.open("r+b") as stream:
        if log.stat().st_size > _KEPT_NBYTES:
            stream.truncate(_KEPT_NBYTES)
