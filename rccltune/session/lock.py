"""One writer at a time, held by a marker file that works on shared file systems.

``fcntl`` locks are unreliable there; creating a file with O_EXCL is not. The marker says who holds
it: host, boot, PID namespace, pid and the process's start time. A holder that is provably gone is
replaced with a note. A live one, or one that cannot be seen from here, is an error.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rccltune.errors import SessionError
from rccltune.session.files import disk_errors

MARKER = "writer.lock"


@contextmanager
def writing(folder: Path, note: Callable[[str], None]) -> Iterator[None]:
    """Hold the session for writing.

    Args:
        folder: the session, created when missing.
        note: told when a dead writer's marker was taken over.

    Raises:
        SessionError: another writer holds it, or the disk refuses.
    """
    marker = folder / MARKER
    made = not folder.exists()
    with disk_errors(marker):
        folder.mkdir(parents=True, exist_ok=True)
        while not _create(marker):
            _take_over(marker, note)
    try:
        yield
    finally:
        marker.unlink(missing_ok=True)
        if made and not any(folder.iterdir()):
            folder.rmdir()


def _identity(pid: int) -> dict[str, str]:
    return {
        "host": socket.gethostname(),
        "boot": _first_line(Path("/proc/sys/kernel/random/boot_id")),
        "namespace": _link(Path("/proc/self/ns/pid")),
        "pid": str(pid),
        "started": _start_time(pid),
    }


def _create(marker: Path) -> bool:
    """Create the marker; False when somebody else's is there."""
    try:
        handle = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(_identity(os.getpid()), stream)
        stream.flush()
        os.fsync(stream.fileno())
    return True


def _take_over(marker: Path, note: Callable[[str], None]) -> None:
    """Remove a dead holder's marker, or say who holds it."""
    try:
        text = marker.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    holder = _parse(text)
    reason = _why_alive(holder)
    if reason is not None:
        raise SessionError(
            f"another rccltune writes this session: {reason}",
            where=str(marker),
            hint=f"wait for it, or write elsewhere with -o; if you are sure that it is gone, "
            f"delete {marker}.",
        )
    # Two processes may find the same dead holder. Renaming is atomic, so one of them gets its
    # marker; who instead got a live newcomer's puts it back.
    aside = marker.with_name(f"{MARKER}.{os.getpid()}")
    try:
        marker.rename(aside)
    except FileNotFoundError:
        return
    if aside.read_text(encoding="utf-8", errors="replace") != text:
        os.link(aside, marker)
    else:
        note(f"took over the session from process {holder.get('pid', '?')}, which is gone")
    aside.unlink()


def _parse(text: str) -> dict[str, str]:
    try:
        loaded = json.loads(text)
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in loaded.items()} if isinstance(loaded, dict) else {}


def _why_alive(holder: dict[str, str]) -> str | None:
    """Why the holder must be taken for alive, None when it is certainly gone."""
    here = _identity(os.getpid())
    pid = holder.get("pid", "")
    who = f"process {pid or '?'} on {holder.get('host', 'an unknown host')}"
    if not pid.isdigit():
        return "its marker cannot be read (it may be being written just now)"
    if holder.get("host") != here["host"]:
        return f"{who}, which cannot be seen from {here['host']}"
    if holder.get("boot") != here["boot"]:
        return None
    if holder.get("namespace") != here["namespace"]:
        return f"{who}, in another container"
    started = _start_time(int(pid))
    return f"{who} is running" if started and started == holder.get("started") else None


def _start_time(pid: int) -> str:
    """Clock ticks between boot and the process's start; empty when there is no such process."""
    stat = _first_line(Path(f"/proc/{pid}/stat"))
    # The name in parentheses may hold blanks and parentheses; the 20th field after it is ours
    # (proc_pid_stat(5), field 22).
    after = stat.rpartition(")")[2].split()
    return after[19] if len(after) > 19 and after[0] != "Z" else ""


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""
