"""One process tree from its start to its certain end.

Open MPI 5 puts every rank into a process group of its own, so killing mpirun's group leaves all
ranks alive; only mpirun itself ends them, on SIGTERM. What even that leaves behind is found by a
variable that all processes of a launch inherit, never by name. If rccltune is killed, the kernel
sends mpirun the SIGTERM (PR_SET_PDEATHSIG); what mpirun leaves is then adopted by init.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune import interrupts
from rccltune.errors import LaunchError, MachineError

TAG: Final = "RCCLTUNE_RUN_ID"
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_GRACE_S: Final = 10.0
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to start.

    Attributes:
        argv: the whole command line; no shell is involved.
        variables: the whole environment.
        folder: where stdout.log and stderr.log go.
        is_complete: whether the output so far is all that is wanted; asked when no rank is left.
    """

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    folder: Path
    timeout_s: float
    is_complete: Callable[[Path], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How it ended.

    Attributes:
        exit_code: None where a signal or we ended it.
        timed_out: we ended it because its time was over.
        lingered: ranks were gone and the output complete, but the launcher did not return.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    lingered: bool
    duration_s: float


def run(job: Job) -> Ending:
    """Start, watch and certainly end one job.

    Raises:
        MachineError: the program cannot be started.
        LaunchError: a process cannot be killed (it hangs in the driver).
        KeyboardInterrupt: after everything that was started is gone.
    """
    own = _children()
    _adopt(orphans=True)
    try:
        return _run(job)
    finally:
        _adopt(orphans=False)
        _reap(_children() - own)


def _run(job: Job) -> Ending:
    tag = uuid.uuid4().hex
    start = time.monotonic()
    process: subprocess.Popen[bytes] | None = None
    try:
        with interrupts.held():
            process = _spawn(job, tag)
        timed_out, lingered = _watch(process, job, tag, start + job.timeout_s)
    except BaseException:
        if process is not None:
            with interrupts.held():
                _end(process, tag)
        raise
    with interrupts.held():
        if timed_out or lingered:
            _end(process, tag)
        else:
            _sweep_up(tag)
    code = process.returncode
    ours = timed_out or lingered
    return Ending(
        exit_code=code if code is not None and code >= 0 and not ours else None,
        signal=-code if code is not None and code < 0 and not ours else None,
        timed_out=timed_out,
        lingered=lingered,
        duration_s=time.monotonic() - start,
    )


def _adopt(*, orphans: bool) -> None:
    """Whether processes whose parent died become our children, so that we see their end."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(orphans))


def _spawn(job: Job, tag: str) -> subprocess.Popen[bytes]:
    job.folder.mkdir(parents=True, exist_ok=True)
    with (
        (job.folder / "stdout.log").open("wb") as out,
        (job.folder / "stderr.log").open("wb") as err,
    ):
        try:
            return subprocess.Popen(
                job.argv,
                env=dict(job.variables) | {TAG: tag},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=_prepare,  # noqa: PLW1509 - it takes no lock, so no other thread's lock can stop it
            )
        except OSError as error:
            raise MachineError(
                f"{job.argv[0]} cannot be started: {error.strerror}", where=job.argv[0]
            ) from error


def _prepare() -> None:
    """In the child, before the program: die with rccltune, and write no core files."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # 64 aborting ranks would otherwise write 64 cores.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _watch(
    process: subprocess.Popen[bytes], job: Job, tag: str, deadline: float
) -> tuple[bool, bool]:
    """Wait; returns (timed out, lingered)."""
    alone_since: float | None = None
    next_look = time.monotonic() + 1.0
    while process.poll() is None:
        now = time.monotonic()
        if now >= deadline:
            return True, False
        if now >= next_look:
            next_look = now + 1.0
            alone = not _tagged(tag, but=process.pid) and job.is_complete(job.folder)
            alone_since = (alone_since or now) if alone else None
            if alone_since is not None and now - alone_since >= _GRACE_S:
                return False, True
        time.sleep(_POLL_S)
    return False, False


def _end(process: subprocess.Popen[bytes], tag: str) -> None:
    """SIGTERM to the launcher, then SIGKILL to whatever carries the tag."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)
    _sweep_up(tag)
    process.wait(timeout=_GRACE_S)


def _sweep_up(tag: str) -> None:
    """Kill every process of the launch that is still there, and wait until it is gone."""
    deadline = time.monotonic() + _GRACE_S
    while left := _tagged(tag):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            raise LaunchError(
                f"{len(left)} processes cannot be killed: {', '.join(map(str, sorted(left)))}",
                hint="they hang in the driver (state D in ps): the GPU needs its administrator; "
                "dmesg says more. Nothing more is started.",
            )
        time.sleep(_POLL_S)


def _reap(pids: set[int]) -> None:
    """Collect what was handed to us and is dead, so that it does not stay as zombies."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _children() -> set[int]:
    """Our child processes, zombies included."""
    own = os.getpid()
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in brackets may hold anything; state and parent come behind it.
            if int(entry.read_text(errors="replace").rpartition(")")[2].split()[1]) == own:
                found.add(int(entry.parent.name))
    return found


def _tagged(tag: str, but: int | None = None) -> set[int]:
    """Processes on this host that carry the launch's tag, zombies left out."""
    wanted = f"{TAG}={tag}".encode()
    found = set()
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names suffice
        if not entry.isdigit() or int(entry) == but:
            continue
        # A zombie's environment is empty, so it is not found; other users' cannot be read.
        with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as stream:  # noqa: PTH123 - ditto
            if wanted in stream.read().split(b"\0"):
                found.add(int(entry))
    return found
