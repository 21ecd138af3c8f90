"""Standard streams that may fail, be closed or lose their reader without ending what is measured.

An hour of a machine is worth more than a line about it: talk that cannot be written is dropped. A
result that cannot be written is told when everything else is done, unless its reader has gone,
as ``head`` does.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

# What a write says where nobody reads any more: a pipe, or a terminal that has hung up.
_GONE = (errno.EPIPE, errno.EIO)


class _Raw(io.FileIO):
    """A file descriptor on which no write fails.

    Attributes:
        failure: what the first write that went nowhere said.
    """

    failure: OSError | None = None

    def write(self, data: Buffer) -> int:
        """Write, or keep why not, and from then on nothing: no result has a hole in its middle."""
        view = memoryview(data)
        while self.failure is None:
            try:
                written = super().write(view)
            except OSError as error:
                self.failure = error
                break
            if written is not None:
                return written
            # A terminal that another program has made non-blocking.
            select.select([], [self], [])
        return view.nbytes


@dataclass(frozen=True, slots=True)
class Streams:
    """The raw ends of stdout and stderr."""

    out: _Raw
    err: _Raw

    def lost(self) -> OSError | None:
        """Why what belongs on stdout is not all there, though somebody may wait for it."""
        sys.stdout.flush()
        failure = self.out.failure
        return None if failure is None or failure.errno in _GONE else failure


def take_over() -> Streams:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams that do not fail.

    Descriptors that were closed are opened on nothing first: a log of a session that became
    descriptor 1 or 2 would get what is said, and what children print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free, which is this one.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
    out, err = _Raw(1, "w", closefd=False), _Raw(2, "w", closefd=False)
    sys.stdout = _text_of(out, sys.stdout)
    sys.stderr = _text_of(err, sys.stderr)
    return Streams(out, err)


def _text_of(raw: _Raw, before: TextIO | None) -> io.TextIOWrapper:
    """Text on it, in the encoding of the stream before; what that has no letter for is escaped."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
