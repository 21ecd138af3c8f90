"""Short programs of the machine, each with a limit of time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

MAX_OUTPUT: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """End of a child process.

    Attributes:
        code: exit status, negative for a signal, None where time ran out or it did not start.
    """

    code: int | None
    out: str
    err: str
    timed_out: bool = False


def run_program(
    argv: Sequence[str],
    *,
    timeout_s: float,
    variables: Mapping[str, str] | None = None,
    answer: IO[bytes] | None = None,
) -> ChildEnd:
    """Run a program to its end, or kill it and everything that it started.

    It gets a process group of its own, so that an interrupt at the terminal does not reach it:
    a mode change that stops half-way is worse than one that is put back.

    Args:
        argv: program and arguments.
        timeout_s: after which it is killed.
        variables: its whole environment, None for ours.
        answer: a file that the child inherits under the same descriptor.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=None if variables is None else dict(variables),
                pass_fds=() if answer is None else (answer.fileno(),),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return ChildEnd(None, "", str(error))
        code = _wait(process, timeout_s)
        return ChildEnd(code, _text(out), _text(err), timed_out=code is None)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            # One that hangs in the driver cannot be killed; nobody waits for it for ever.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(MAX_OUTPUT).decode("utf-8", "replace")
