"""The lock of a session: one writer at a time, on shared file systems too.

``fcntl`` locks are unreliable there; linking a finished file to a name that must not exist is not
(O_EXCL where there are no links). The marker says who holds it: host, boot, PID namespace, pid and
the process's start time, and is whole or not there. A holder that is provably gone is replaced
with a note. A live one, or one that cannot be seen from here, is an error.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rccltune.model.errors import ReadOnlyError, SessionError
from rccltune.model.reporter import Reporter
from rccltune.session.files import clear_halves, disk_errors

MARKER = "writer.lock"
# What link(2) says where the file system has none.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def lock_session(folder: Path, reporter: Reporter) -> Iterator[None]:
    """Hold the session for writing.

    Args:
        folder: the session, created when missing.
        reporter: told when a dead writer's marker was taken over.

    Raises:
        ReadOnlyError: another writer holds it, or it may not be written.
        SessionError: it is a file, or the disk refuses.
    """
    marker = folder / MARKER
    is_new = not folder.exists()
    refuse_file(folder)
    with disk_errors(marker):
        folder.mkdir(parents=True, exist_ok=True)
        while not _create(marker):
            if _take_over(marker, reporter):
                clear_halves(folder)
    try:
        yield
    finally:
        marker.unlink(missing_ok=True)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def refuse_file(folder: Path) -> None:
    """Stop where a file lies in the place of a session.

    Raises:
        SessionError: it does.
    """
    if folder.exists() and not folder.is_dir():
        raise SessionError(
            "this is a file, and a session is a folder",
            where=str(folder),
            hint="name a folder with -o.",
        )


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
    text = json.dumps(_identity(os.getpid())).encode()
    handle, name = tempfile.mkstemp(prefix=f".{MARKER}.", dir=marker.parent)
    try:
        _fill(handle, text)
        os.link(name, marker)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create_in_place(marker, text)
    finally:
        Path(name).unlink(missing_ok=True)
    return True


def _create_in_place(marker: Path, text: bytes) -> bool:
    """Create a marker without links; a kill between the two steps leaves an empty one."""
    try:
        handle = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return False
    try:
        _fill(handle, text)
    except OSError:
        # A disk that is full now must not lock the session for ever.
        marker.unlink(missing_ok=True)
        raise
    return True


def _fill(handle: int, text: bytes) -> None:
    with os.fdopen(handle, "wb") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
        # mkstemp makes files private; who is locked out must be able to read by whom.
        os.fchmod(stream.fileno(), 0o644)


def _take_over(marker: Path, reporter: Reporter) -> bool:
    """Remove a dead holder's marker, or say who holds it; whether one was removed by us."""
    try:
        text = marker.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    holder = _parse(text)
    reason = _why_alive(holder)
    if reason is not None:
        raise ReadOnlyError(
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
        return False
    ours = aside.read_text(encoding="utf-8", errors="replace") == text
    if ours:
        reporter.say(f"took over the session from process {holder.get('pid', '?')}, which is gone")
    else:
        os.link(aside, marker)
    aside.unlink()
    return ours


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
