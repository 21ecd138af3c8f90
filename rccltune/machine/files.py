"""Files of the machine, below a root that tests put elsewhere; and short programs, with a limit.

The rules are those of the plugin's reader (``native_plugin/src/sysroot.c`` and ``text.c``), so
that both see the same machine: bytes, not text; lines end in ``\\n`` alone; blanks are space,
tab and CR; a file that does not fit its limit counts as unreadable.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Final

MAX_ATTRIBUTE: Final = 256
MAX_PROPERTIES: Final = 8192
BLANKS: Final = b" \t\r"
_WORDS: Final = re.compile(rb"[ \t\r]+")
_UNSIGNED: Final = re.compile(rb"[0-9]{1,20}")
_HEX: Final = re.compile(rb"(?:0[xX])?([0-9a-fA-F]+)")
_DENIED: Final = (errno.EPERM, errno.EACCES)
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)


class Reading(Enum):
    """How a read ended."""

    OK = "ok"
    MISSING = "missing"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Content:
    """What a file gave; empty unless the reading is OK."""

    reading: Reading
    data: bytes = b""

    @property
    def first_line(self) -> bytes | None:
        """The first line, trimmed; None where there is none."""
        if self.reading is not Reading.OK or not self.data:
            return None
        return self.data.split(b"\n", 1)[0].strip(BLANKS)

    @property
    def text(self) -> str | None:
        """The first line for people, None where there is nothing."""
        line = self.first_line
        return line.decode("utf-8", "replace") if line else None


@dataclass(frozen=True, slots=True)
class Root:
    """The directory under which ``/sys``, ``/proc``, ``/dev`` and ``/etc`` are looked for."""

    path: Path = Path("/")

    @property
    def is_live(self) -> bool:
        """Whether this is the running machine, so that programs of it may be asked too."""
        return self.path == Path("/")

    def at(self, name: str) -> Path:
        """Where a file of the machine is."""
        return self.path / name.lstrip("/")

    def read(self, name: str, limit: int = MAX_ATTRIBUTE) -> Content:
        """Read a small file; never waits for a pipe, never raises."""
        try:
            handle = os.open(self.at(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            return Content(_reading_of(error))
        data = b""
        try:
            while len(data) < limit:
                piece = os.read(handle, limit - len(data))
                if not piece:
                    return Content(Reading.OK, data)
                data += piece
        except OSError as error:
            return Content(_reading_of(error))
        finally:
            os.close(handle)
        return Content(Reading.FAILED)

    def text(self, name: str, limit: int = MAX_ATTRIBUTE) -> str | None:
        """First line of a small file, None where it cannot be read or is empty."""
        return self.read(name, limit).text

    def number(self, name: str) -> int | None:
        """A whole number in a small file, possibly negative."""
        line = self.read(name).first_line
        if line is None:
            return None
        value = unsigned(line.removeprefix(b"-"))
        return -value if value is not None and line.startswith(b"-") else value

    def entries(self, name: str) -> tuple[str, ...] | None:
        """Names in a directory, numbers first and in order; None where it cannot be listed."""
        try:
            names = [path.name for path in self.at(name).iterdir()]
        except (OSError, ValueError):
            return None
        return tuple(sorted((n for n in names if not n.startswith(".")), key=_natural))


def _reading_of(error: OSError | ValueError) -> Reading:
    number = error.errno if isinstance(error, OSError) else None
    if number in _ABSENT:
        return Reading.MISSING
    return Reading.DENIED if number in _DENIED else Reading.FAILED


def _natural(name: str) -> tuple[int, str]:
    return (
        (int(name), "")
        if name.isascii() and name.isdecimal() and len(name) < 10
        else (1 << 40, name)
    )


def words(line: bytes) -> list[bytes]:
    """Words of a line, at blanks."""
    return [word for word in _WORDS.split(line.strip(BLANKS)) if word]


def unsigned(text: bytes) -> int | None:
    """A decimal number below 2**64, None for anything else."""
    digits = text.lstrip(b"0") or text[-1:]
    value = int(digits) if _UNSIGNED.fullmatch(digits) else None
    return value if value is not None and value < 1 << 64 else None


def hexadecimal(text: bytes) -> int | None:
    """A hexadecimal number below 2**64, with or without 0x; None for anything else."""
    match = _HEX.fullmatch(text)
    digits = (match[1].lstrip(b"0") or b"0") if match else b""
    return int(digits, 16) if match and len(digits) <= 16 else None


MAX_OUTPUT = 4 << 20


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended.

    Attributes:
        code: exit status, negative for a signal, None where time ran out or it did not start.
    """

    code: int | None
    out: str
    err: str
    timed_out: bool = False


def ask(
    argv: Sequence[str],
    *,
    timeout_s: float,
    variables: Mapping[str, str] | None = None,
    answer: IO[bytes] | None = None,
) -> Ended:
    """Run a program to its end, or kill it and everything that it started.

    It gets a process group of its own, so that an interrupt at the terminal does not reach it:
    a mode change that stops half-way is worse than one that is put back.

    Args:
        argv: program and arguments.
        timeout_s: after which it is killed.
        variables: its whole environment, None for ours.
        answer: a file that the child inherits under the same descriptor.
    """
    import tempfile

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
            return Ended(None, "", str(error))
        code = _wait(process, timeout_s)
        return Ended(code, _text(out), _text(err), timed_out=code is None)


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


@contextmanager
def mapped(path: Path) -> Iterator[bytes | mmap.mmap]:
    """Its bytes, mapped and not read.

    Raises:
        OSError: it cannot be read.
        ValueError: it cannot be mapped.
    """
    with path.open("rb") as stream:
        # Of an empty file nothing can be mapped.
        if os.fstat(stream.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def has_any(path: Path, *marks: bytes) -> bool:
    """Whether one of these stands in it; raises as :func:`mapped` does."""
    with mapped(path) as content:
        return any(content.find(mark) >= 0 for mark in marks)
