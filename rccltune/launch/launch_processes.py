"""The processes of one launch, found by a variable that all inherit; signals that end them.

Never by name: another user's mpirun has the same one. A process that dies inside a driver loses
its environment before it is gone, so who was found once is remembered by its number and start.

The file is also a program, the guardian: ``python launch_processes.py SECONDS RUN_ID`` waits until
its standard input ends without a word, which means that rccltune was killed, gives mpirun that many
seconds, and ends what it leaves behind. It imports nothing of rccltune, so that it starts in
milliseconds from the file alone; each launch has one, and modules that would take it longer than
all else (signal, contextlib, typing) are not imported here.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

TAG: Final = "RCCLTUNE_RUN_ID"
GRACE_S: Final = 10.0
_POLL_S: Final = 0.05
_SETTLE_S: Final = 1.0
_DEAD: Final = ("Z", "X", "x")
_SIGKILL: Final = 9


class LaunchProcesses:
    """All processes of some launches.

    Args:
        run_ids: values of TAG in the launches' environments.
    """

    __slots__ = ("_known", "_wanted")

    def __init__(self, run_ids: Iterable[str]) -> None:
        """Remember whom to look for; nothing is looked at yet."""
        self._wanted = {f"{TAG}={run_id}".encode() for run_id in run_ids}
        self._known: dict[int, str] = {}

    def alive(self, but: int | None = None) -> dict[int, str]:
        """Processes that are still there: number and state as in ps (``S``, ``D`` …).

        Zombies are gone: nothing of them runs. Other users' processes cannot be recognised.

        Args:
            but: a process to leave out.
        """
        states = {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - names suffice
            if not name.isdigit() or int(name) == but:
                continue
            pid = int(name)
            stat = _state_and_start(pid)
            if stat is None or not (self._known.get(pid) == stat[1] or self._carries_tag(pid)):
                continue
            self._known[pid] = stat[1]
            if stat[0] not in _DEAD:
                states[pid] = stat[0]
        return states

    def end(self, within_s: float) -> dict[int, str]:
        """SIGKILL all of them until they are gone; returns those that would not go."""
        deadline = time.monotonic() + within_s
        while left := self.alive():
            for pid in left:
                _kill(pid)
            if time.monotonic() >= deadline:
                return self.alive()
            time.sleep(_POLL_S)
        return {}

    def gone(self, within_s: float) -> bool:
        """Wait until all are gone by themselves."""
        deadline = time.monotonic() + within_s
        while self.alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _carries_tag(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as stream:  # noqa: PTH123 - pathlib would double the time
                return not self._wanted.isdisjoint(stream.read().split(b"\0"))
        except OSError:
            return False


def _kill(pid: int) -> None:
    try:  # noqa: SIM105 - contextlib takes long to import
        os.kill(pid, _SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _state_and_start(pid: int) -> tuple[str, str] | None:
    """State letter and start in clock ticks since boot; None where there is no such process."""
    leader = _stat(f"/proc/{pid}/stat")
    if leader is None or leader[0] not in _DEAD:
        return leader
    # A leader may be dead while a thread of it hangs in the driver.
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names suffice
    except OSError:
        return leader
    for thread in threads:
        stat = _stat(f"/proc/{pid}/task/{thread}/stat")
        if stat is not None and stat[0] not in _DEAD:
            return stat[0], leader[1]
    return leader


def _stat(path: str) -> tuple[str, str] | None:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib would double the time
            text = stream.read().decode("ascii", "replace")
    except OSError:
        return None
    # The name in brackets may hold anything; the state is field 3, the start field 22
    # (proc_pid_stat(5)).
    fields = text.rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else None


def main() -> None:
    """The guardian: sleep until rccltune is gone, then see that nothing of the launch stays.

    Whoever starts it blocks the signals that end others.
    """
    if os.read(0, 1):
        return
    # Killed while it was starting the launcher, rccltune leaves a child that carries no tag before
    # it has become the launcher, and that may miss the kernel's word.
    time.sleep(_SETTLE_S)
    family = LaunchProcesses(sys.argv[2:])
    # The kernel has told mpirun to end; it knows the ranks of other hosts too.
    if not family.gone(float(sys.argv[1])):
        family.end(GRACE_S)


if __name__ == "__main__":
    main()
