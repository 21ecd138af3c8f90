"""Which files of a session are sent: those that are listed, when they are regular files."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

# A log of gigabytes says in its last lines what its first ones do.
MAX_BYTES = 1 << 28
PASSED = "of no use elsewhere"
_FOLDERS = re.compile(
    r"launches|runs|[1-9][0-9]{0,5}|verification|links|ceiling|npkit|candidates|beside|hosts|[0-9a-f]{10}|earlier-[0-9]+"
)
_FILES = re.compile(
    r"(?:session|fit|search|quarantine|placement|hosts|launch|outcome|environment|links|ceiling|"
    r"npkit|run|ending)\.json|plan\.txt|rank-[0-9]+\.csv|log(?:-[0-9]+)?\.txt|(?:verdict|refused)\w*(?:[.-]\w+)*\.json|sweep\.yaml|samples\.csv|schedule|"
    r"std(?:out|err)\.log|forced\.csv|(?:trace|record)-.{1,200}\.csv|(?:nccl|plugin)-.{1,200}\.log|"
    r"rccl_tuner[\w.-]*\.(?:csv|env|ncclx|constants)|rules-[0-9a-f]{12}\.csv"
)
# Made again from what is taken.
_DERIVED = re.compile(r"plots|report\.html|report-files")
# Of a run's own moment.
_PASSED = re.compile(r"run-id|meet|clock|writer\.lock|node\.node|rendezvous")


@dataclass(frozen=True)
class Entry:
    """A file of a session.

    Attributes:
        name: below the session, with slashes.
        why_not: why it is left out; empty where it is taken.
    """

    name: str
    why_not: str = ""


def entries(folder: Path) -> Iterator[Entry]:
    """All of a session's files in a fixed order; of a folder that is left out, itself alone.

    Links are not followed, whatever they lead to.

    Raises:
        OSError: the folder cannot be read.
    """
    yield from _below(folder, "")


def _below(folder: Path, before: str) -> Iterator[Entry]:
    for found in sorted(os.scandir(folder), key=lambda one: one.name):
        name = before + found.name
        if found.is_symlink():
            yield Entry(name, "a link")
        elif found.is_dir(follow_symlinks=False):
            if _FOLDERS.fullmatch(found.name):
                yield from _below(folder / found.name, f"{name}/")
            else:
                yield Entry(f"{name}/", _why_unlisted(found.name))
        elif not found.is_file(follow_symlinks=False):
            yield Entry(name, "no regular file")
        elif not _FILES.fullmatch(found.name):
            yield Entry(name, _why_unlisted(found.name))
        else:
            yield Entry(name)


def _why_unlisted(name: str) -> str:
    if _PASSED.fullmatch(name):
        return PASSED
    return "made again from the rest" if _DERIVED.fullmatch(name) else "not listed"


def read(path: Path) -> tuple[bytes, float]:
    """A regular file's bytes and the time of its last change.

    Raises:
        OSError: it cannot be read, has become a link or no regular file, or is too large.
    """
    # Without O_NONBLOCK a FIFO that took the file's place would be waited for.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as stream:  # noqa: PTH123 - a handle
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "no regular file")
        if status.st_size > MAX_BYTES:
            raise OSError(0, f"larger than {MAX_BYTES >> 20} MiB")
        return stream.read(MAX_BYTES), status.st_mtime
