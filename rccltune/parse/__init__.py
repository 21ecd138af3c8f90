"""Reading what exists: every form of benchmark output that is found in the wild, as samples.

One way in: :func:`read` opens a file, finds out from its content what it is, and gives
:class:`Reading`; :func:`read_stream` does the same for a launch's own standard output. Neither
prints, and neither raises anything but :class:`~rccltune.errors.RccltuneError`.

The way of a number: ``source`` (bytes to lines) → ``form`` (what kind of file) → one of ``text``
(tables in logs), ``nccl_json`` (``-J``), ``records`` (CSV and JSON records) → ``draft`` (half-rows
as the file tells them) → ``resolve`` (what the file, the options and the assumptions say
together) → ``assemble`` (samples, doubts, notices).

:func:`open_log`, :func:`head_of`, :func:`lines_of` and :func:`strip` read any other log line by
line in bounded memory.
"""

from rccltune.parse.jobs import jobs_in
from rccltune.parse.preamble import buses_in
from rccltune.parse.prefix import strip
from rccltune.parse.read import read, read_stream
from rccltune.parse.reading import Reading
from rccltune.parse.source import head_of, lines_of, open_log

__all__ = [
    "Reading",
    "buses_in",
    "head_of",
    "jobs_in",
    "lines_of",
    "open_log",
    "read",
    "read_stream",
    "strip",
]
