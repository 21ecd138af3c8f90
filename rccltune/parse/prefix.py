"""What launchers, loggers and copy-and-paste put around a benchmark's own text."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final

from rccltune.librarylog import LOG_HEAD, LOG_LEVELS

# Ordered as they are met from the left; each may stand before another.
_PREFIX: Final = re.compile(
    r"""\s*(?:
      \[(?P<mpi>(?:[\w.@+-]+,)?\d+)\](?:<std(?:out|err)>)?:?(?=\s|\#|\d)  # [1,0]<stdout>:  [0]
    | (?P<srun>\d+):(?=\s|$)                                               # srun --label
    | \[[A-Za-z_]+\]:                                                      # [STAT]:
    | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?(?=\s)
    | \[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?(?=\s)
    | On\ gfx\w+\ architecture,\ using\ \w+\ FP8\ types                    # no newline after it
    | >(?=\s)                                                              # quoted in a thread
    )""",
    re.VERBOSE,
)
# host:pid:tid [device] … NCCL LEVEL, possibly after a time in brackets.
_LOG: Final = re.compile(rf"{LOG_HEAD}(?:{LOG_LEVELS}|VERSION)")
# Messages of others begin with a time in brackets; a row's own timestamp has none.
_OTHER_LOG: Final = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]|\[\d{9,}\.\d+\] \[")
_SPLIT_HOST: Final = re.compile(r"(-?\d+|N/A)(?=[A-Za-z])")
# As above, on bytes and from the first column: nothing of the benchmark's stands in such a line.
NOISE: Final = re.compile(
    rb"(?:\[[\w.@+,-]+\](?:<std(?:out|err)>)?:? ?| *\d+: |\[[\d :.T-]+\] )?"
    rb"%b(?:%b|CALL)" % (LOG_HEAD.encode(), LOG_LEVELS.encode())
)


def strip(text: str) -> tuple[str, str]:
    """Label of the writing rank ('' where none is given) and the text behind all prefixes."""
    label = ""
    for _ in range(4):
        match = _PREFIX.match(text)
        if match is None:
            break
        label = match["mpi"] or match["srun"] or label
        text = text[match.end() :]
    return label, text


def cut_log(text: str, hosts: AbstractSet[str]) -> tuple[str, bool]:
    """Text before the library's log message that is glued into it, and whether there was one.

    Nothing separates a row's last digit from the host's name; the hosts met so far tell where
    the name begins (a container's host name often begins with a digit itself).
    """
    if "NCCL" in text:
        match = _LOG.search(text)
        if match is not None:
            return text[: _host_at(match, hosts)], True
    match = _OTHER_LOG.search(text)
    return (text[: match.start()], True) if match is not None else (text, False)


def _host_at(match: re.Match[str], hosts: AbstractSet[str]) -> int:
    token = match[1]
    for host in sorted(hosts, key=len, reverse=True):
        if token.endswith(host):
            return match.end(1) - len(host)
    split = _SPLIT_HOST.match(token)
    return match.start(1) + (split.end() if split is not None else 0)
