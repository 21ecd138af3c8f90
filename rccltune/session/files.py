"""Files of a session: written whole or not at all.

A snapshot, another user's session, or one that is being measured just now is there to be read: all
that is derived can be made again from its logs, so none of it has to be written.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, TypeVar

from rccltune.model.errors import ReadOnlyError, SessionError
from rccltune.model.reporter import Reporter

_CHUNK = 1 << 20
_LARGEST = 1 << 30
# What a system says where it is a matter of rights, not of room.
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
# Folder of a session in which ``rccltune job`` keeps its runs, with whatever the jobs write there.
JOB = "job"


@contextmanager
def disk_errors(path: Path, hint: str | None = None) -> Iterator[None]:
    """Turn what a disk can do to us into a message with a remedy.

    Args:
        path: that is written.
        hint: where that is not what a session's verbs can do.

    Raises:
        ReadOnlyError: the folder may not be written.
        SessionError: it is full, or fails otherwise.
    """
    try:
        yield
    except OSError as error:
        kind = ReadOnlyError if error.errno in _CLOSED else SessionError
        raise kind(
            f"cannot write {path.name}: {error.strerror or error}",
            where=str(path),
            hint=hint
            or "free space or make the folder writable, or name another (-o, where the command "
            "has it), then run the same command again; what was measured so far is kept.",
        ) from error


def check_kinds(folder: Path) -> None:
    """Refuse a session folder that holds anything but files and folders of its own.

    A session may come from anybody: a link in it would bring other files of this machine into its
    report, and whoever opens a pipe waits for ever. Links inside the session do neither, nor does
    what jobs left in the folder of their runs, which no other verb reads.

    Raises:
        SessionError: naming the first one.
    """
    home = folder.resolve()
    for entry in _entries(home):
        path = Path(entry.path)
        if entry.is_symlink():
            target = Path(os.path.realpath(path))
            if target.is_relative_to(home) and (target.is_file() or target.is_dir()):
                continue
            kind = f"a link to {target}, outside of the session"
        elif entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
            continue
        else:
            kind = "no file: a pipe, a socket or a device"
        raise SessionError(
            f"this is {kind}",
            where=str(path),
            hint="take it out; a session holds plain files alone.",
        )


def _entries(folder: Path, unread: str | None = JOB) -> Iterator[os.DirEntry[str]]:
    """Everything in a folder; what another process removes meanwhile is passed over.

    Args:
        folder: to look into.
        unread: name of a folder directly in it that is not looked into.
    """
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False) and entry.name != unread:
                yield from _entries(Path(entry.path), None)


def read_regular(path: Path) -> bytes:
    """A file's bytes; what is no regular file is refused instead of waited for.

    Raises:
        SessionError: it cannot be read, is no regular file, or is larger than any of ours.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise SessionError("this is no regular file", where=str(path))
            if status.st_size > _LARGEST:
                raise SessionError(
                    f"this file has {status.st_size} bytes, more than any that rccltune writes",
                    where=str(path),
                )
            return stream.read()
    except OSError as error:
        raise SessionError(
            f"{path.name} cannot be read: {error.strerror or error}", where=str(path)
        ) from error


@contextmanager
def replacing(path: Path, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` when the block ends without an error.

    Args:
        path: of the file.
        mode: its permissions; None for those of any new file.

    Raises:
        SessionError: the disk is full, the folder is read-only, and the like.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            # mkstemp makes files private; sessions are shared with colleagues.
            os.chmod(name, 0o666 & ~_umask() if mode is None else mode)  # noqa: PTH101 - the name is a plain string here
            os.replace(name, path)  # noqa: PTH105 - ditto
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_atomically(path: Path, data: bytes | str, mode: int | None = None) -> None:
    """Replace ``path`` as a whole; see :func:`replacing`."""
    with replacing(path, mode) as stream:
        stream.write(data.encode() if isinstance(data, str) else data)


def clear_halves(folder: Path) -> None:
    """Remove what :func:`replacing` had not finished when its process was killed.

    Only for the holder of the session: another writer's unfinished files look alike.
    """
    for where in ("", "launches/*/", "runs/*/"):
        for half in folder.glob(f"{where}.*.????????"):
            if half.is_file() and not half.name.startswith(".writer.lock."):
                half.unlink(missing_ok=True)


@cache
def _noise() -> bytes:
    """Zeros would cost nothing where files are compressed; made once, as every launch asks."""
    return os.urandom(_CHUNK)


def check_room(folder: Path) -> None:
    """Find out whether files can still be written here, by writing one.

    A full disk cuts logs and traces off without a word: their writers do not look. Free space
    alone does not tell, since quotas are not in it.

    Raises:
        SessionError: the disk or the quota is full.
    """
    with disk_errors(folder / "launches"), tempfile.TemporaryFile(dir=folder) as stream:
        stream.write(_noise())
        stream.flush()
        os.fsync(stream.fileno())


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes; raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that what was renamed in it stays so when the machine goes down."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        # Some shared file systems refuse fsync on a folder; the rename itself is done.
        pass
    finally:
        os.close(handle)


T = TypeVar("T")


class DerivedFiles:
    """The one place that decides whether a session keeps what is derived from it."""

    def __init__(self, folder: Path, reporter: Reporter) -> None:
        """Begin with nothing tried.

        Args:
            folder: the session.
            reporter: told once why it keeps nothing.
        """
        self._folder = folder
        self._reporter = reporter
        self._is_kept = True

    def keep(self, name: str, store: Callable[[], T]) -> T | None:
        """Store something; what storing returns, or None where the session takes nothing.

        Args:
            name: of the file, for the note.
            store: writes it, as nobody but its holder may, or raises ReadOnlyError.
        """
        if not self._is_kept:
            return None
        try:
            return store()
        except ReadOnlyError as error:
            self._is_kept = False
            self._reporter.say(
                f"{self._folder} is only read: {name} could not be kept there ({error.message}), "
                "and is made in memory"
            )
            return None
