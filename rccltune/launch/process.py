"""One process tree from its start to its certain end.

Open MPI 5 puts every rank into a process group of its own, so killing mpirun's group leaves all
ranks alive; only mpirun itself ends them, on SIGTERM. What even that leaves behind is found by a
variable that all processes of a launch inherit (:mod:`rccltune.launch.launch_processes`). If
rccltune is killed, the kernel sends mpirun the SIGTERM (PR_SET_PDEATHSIG), and a guardian process
that waits for nothing else ends what mpirun leaves. If all three are killed, the launch's folder
still names the run, and who goes on with the session ends it first (:func:`end_leftovers`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rccltune.launch.launch_processes import GRACE_S, TAG, LaunchProcesses
from rccltune.launch.signals import held
from rccltune.model.errors import LaunchError, MachineError, SessionError

RUN_ID: Final = "run-id"
# What ends others does not end the guardian.
_NOT_HEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Found here: between fork and exec another thread's lock may stop whoever looks for a function.
_PRCTL: Final = ctypes.CDLL(None).prctl
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
# Runs under way, whose orphans come to us.
_guarded: Final[list[str]] = []
_POLL_S: Final = 0.05
_LEAST_POLL_S: Final = 0.002
_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCommand:
    """Command of a launch, with its folder, environment and limits.

    Attributes:
        argv: the whole command line; no shell is involved.
        variables: the whole environment.
        folder: where stdout.log, stderr.log and the run's id go.
        is_complete: whether the output so far is all that is wanted; asked when no rank is left.
        log: file of the folder for both its outputs; None for stdout.log and stderr.log.
    """

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    folder: Path
    timeout_s: float
    is_complete: Callable[[Path], bool]
    log: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnd:
    """End of a launch: exit code, signal or limit.

    Attributes:
        exit_code: None where a signal or we ended it.
        timed_out: we ended it because its time was over, or nothing went on any more.
        lingered: ranks were gone and the output complete, but the launcher did not return.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    lingered: bool
    duration_s: float

    @property
    def how(self) -> str:
        """Words for what it ended with by itself: a signal or an exit code."""
        return f"signal {self.signal}" if self.signal else f"exit code {self.exit_code}"


def run(job: LaunchCommand) -> LaunchEnd:
    """Start, watch and certainly end one job.

    Raises:
        MachineError: the program cannot be started.
        SessionError: the folder cannot be written.
        LaunchError: a process cannot be killed (it hangs in the driver).
        KeyboardInterrupt: after everything that was started is gone.
    """
    with running(job) as started:
        timed_out, lingered = _watch(started, job)
        with held():
            return started.end(timed_out=timed_out, lingered=lingered)


@contextlib.contextmanager
def with_guardian() -> Iterator[str]:
    """A run with a guardian; yields its id. Afterwards all is as before, and no zombie stays.

    Whoever takes in orphans inside (:func:`adopt`) need not give that up again.
    """
    run_id = uuid.uuid4().hex
    before = _children()
    with held():
        guardian = _guard(run_id)
    _guarded.append(run_id)
    try:
        yield run_id
    finally:
        with held():
            _dismiss(guardian)
            _guarded.remove(run_id)
            if not _guarded:
                adopt(orphans=False)
            _reap(_children() - before)


class RunningLaunch:
    """A launch under way, and how it ended when it is over."""

    def __init__(self, process: subprocess.Popen[bytes], kin: LaunchProcesses) -> None:
        """Note when it was started."""
        self._process, self._kin = process, kin
        self._start = time.monotonic()
        self._next_roll, self._pause = self._start + _LOOK_S, _LOOK_S
        self.ended: LaunchEnd | None = None

    @property
    def is_over(self) -> bool:
        """Whether the launcher has ended by itself."""
        if self._process.poll() is not None:
            return True
        if time.monotonic() >= self._next_roll:
            # Who is remembered is found again when it hangs while it dies; looking through all
            # processes costs time that ranks may want, so ever more seldom.
            self._kin.alive()
            self._pause *= 2
            self._next_roll = time.monotonic() + self._pause
        return False

    def is_alone(self) -> bool:
        """Whether nothing but the launcher is left."""
        return not self._kin.alive(but=self._process.pid)

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self._start

    def end(self, *, timed_out: bool = False, lingered: bool = False) -> LaunchEnd:
        """End what is left of it, and note how it ended; once.

        Args:
            timed_out: its time is over, or nothing goes on any more.
            lingered: ranks are gone, but the launcher does not return.

        Raises:
            LaunchError: a process cannot be killed (it hangs in the driver).
        """
        if self.ended is not None:
            return self.ended
        ours = self._process.poll() is None
        if ours:
            end(self._process, self._kin)
        else:
            _sweep_up(self._kin)
        code = None if ours else self._process.returncode
        self.ended = LaunchEnd(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            timed_out=timed_out,
            lingered=lingered,
            duration_s=self.seconds,
        )
        return self.ended


@contextlib.contextmanager
def running(job: LaunchCommand) -> Iterator[RunningLaunch]:
    """Start a job, and certainly end it with the block.

    Raises:
        MachineError: the program cannot be started.
        SessionError: the folder cannot be written.
        LaunchError: a process cannot be killed (it hangs in the driver).
    """
    with with_guardian() as run_id:
        adopt(orphans=True)
        started: RunningLaunch | None = None
        try:
            with held():
                started = RunningLaunch(spawn(job, run_id), LaunchProcesses([run_id]))
            yield started
        finally:
            if started is not None:
                with held():
                    started.end()


def end_leftovers(folders: Iterable[Path]) -> int:
    """End what is left of launches whose rccltune was killed; how many processes there were.

    Args:
        folders: of launches without an ending.

    Raises:
        LaunchError: a process cannot be killed (it hangs in the driver).
    """
    run_ids = []
    for folder in folders:
        with contextlib.suppress(OSError):
            run_ids.append((folder / RUN_ID).read_text(encoding="ascii", errors="replace").strip())
    kin = LaunchProcesses(filter(None, run_ids))
    n_alive = len(kin.alive()) if run_ids else 0
    # Their launcher was told to end when rccltune was killed; it may just be doing so.
    if n_alive and not kin.gone(GRACE_S):
        _sweep_up(kin)
    return n_alive


def _guard(run_id: str) -> subprocess.Popen[bytes]:
    """Start the guardian, which ends the launch if we are killed; it sleeps on a pipe."""
    # Masks are inherited: it hears none of them from its first instruction on.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_HEARD)
    try:
        return subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                str(Path(__file__).with_name("launch_processes.py")),
                str(GRACE_S),
                run_id,
            ],
            env={name: value for name, value in os.environ.items() if name != TAG},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _dismiss(guardian: subprocess.Popen[bytes]) -> None:
    """Tell the guardian that we have ended the launch ourselves."""
    if guardian.stdin is not None:
        # Somebody may have killed it; nothing was lost by that.
        with contextlib.suppress(BrokenPipeError), guardian.stdin as pipe:
            pipe.write(b".")
    guardian.wait()


def adopt(*, orphans: bool) -> None:
    """Whether processes whose parent died become our children, so that we see their end."""
    _PRCTL(_PR_SET_CHILD_SUBREAPER, int(orphans))


def spawn(job: LaunchCommand, run_id: str) -> subprocess.Popen[bytes]:
    """Start it under this tag, its output into its folder."""
    _write_run_id(job.folder, run_id)
    with (
        (job.folder / (job.log or "stdout.log")).open("wb") as out,
        out if job.log else (job.folder / "stderr.log").open("wb") as err,
    ):
        try:
            return subprocess.Popen(
                job.argv,
                env=dict(job.variables) | {TAG: run_id},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=partial(_prepare, os.getpid()),  # noqa: PLW1509 - it takes no lock, so no other thread's lock can stop it
            )
        except OSError as error:
            raise MachineError(
                f"{job.argv[0]} cannot be started: {error.strerror}", where=job.argv[0]
            ) from error


def _write_run_id(folder: Path, run_id: str) -> None:
    """Write the run's id before the start, for whoever goes on with the session."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RUN_ID).write_text(run_id, encoding="ascii")
    except OSError as error:
        raise SessionError(
            f"cannot write the launch's files: {error.strerror}",
            where=str(folder),
            hint="free space or make the folder writable, then run the same command again; "
            "what was measured so far is kept.",
        ) from error


def _prepare(parent: int) -> None:
    """Prepare the child before the program: die with rccltune, and write no core files."""
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        # Killed between the fork and the line above: nobody would tell us any more.
        os._exit(1)
    # 64 aborting ranks would otherwise write 64 cores.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _watch(started: RunningLaunch, job: LaunchCommand) -> tuple[bool, bool]:
    """Wait; returns (timed out, lingered)."""
    alone_since: float | None = None
    next_look = _LOOK_S
    while not started.is_over:
        now = started.seconds
        if now >= job.timeout_s:
            return True, False
        if now >= next_look:
            next_look = now + _LOOK_S
            alone = job.is_complete(job.folder) and started.is_alone()
            alone_since = (alone_since or now) if alone else None
            if alone_since is not None and now - alone_since >= GRACE_S:
                return False, True
        # Some launches take a second or less; none waits long for us.
        time.sleep(min(_POLL_S, max(_LEAST_POLL_S, now / 20)))
    return False, False


def end(process: subprocess.Popen[bytes], kin: LaunchProcesses) -> None:
    """SIGTERM to the launcher, then SIGKILL to whatever carries the tag."""
    if process.poll() is None:
        kin.alive()
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_S)
    try:
        _sweep_up(kin)
    finally:
        process.poll()
    process.wait(timeout=GRACE_S)


def _sweep_up(kin: LaunchProcesses) -> None:
    """Kill every process of the launch that is still there, and wait until it is gone."""
    alive = kin.end(GRACE_S)
    if not alive:
        return
    words = ", ".join(f"{pid} (state {state})" for pid, state in sorted(alive.items()))
    in_driver = "D" in alive.values()
    raise LaunchError(
        f"{len(alive)} processes of this launch cannot be killed: {words}",
        where=", ".join(f"/proc/{pid}/stack" for pid in sorted(alive)[:3]),
        hint=(
            "state D hangs in the driver, and the GPU with it: dmesg says more, and a reset of the "
            "GPU or of the machine is the administrator's; then run the same command again."
            if in_driver
            else "end them by hand, or let their owner do it; then run the same command again."
        )
        + " Nothing more is started.",
    )


def _reap(pids: set[int]) -> None:
    """Collect what was handed to us and is dead, so that it does not stay as zombies."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _children() -> set[int]:
    """Our child processes, zombies included."""
    parent = str(os.getpid()).encode()
    pids = set()
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names suffice
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:  # noqa: PTH123 - pathlib takes three times as long
            # The name in brackets may hold anything; state and parent come behind it.
            if stream.read().rpartition(b")")[2].split()[1] == parent:
                pids.add(int(name))
    return pids
