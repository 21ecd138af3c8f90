"""A rank's answer through a launcher's output, where lines of many ranks meet.

Launchers forward what ranks write in pieces, and MPICH's tears lines that were written in two. So
an answer is cut into short lines, each written at once, that say whose they are and how many; an
answer of which a line is missing or torn is not there at all.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from typing import Final

_TAG: Final = "RCCLTUNE-ANSWER"
# A pipe takes lines up to PIPE_BUF (4096 bytes) in one piece.
_PIECE: Final = 2000
_LINE: Final = re.compile(rf"{_TAG} (\S+) (\d+)/(\d+) ([0-9a-f]{{8}}) (.*)")


def lines_of(answer: object, who: str) -> tuple[str, ...]:
    """An answer as lines, each with its end.

    Args:
        answer: plain data.
        who: of nobody else; without blanks.
    """
    text = json.dumps(answer, separators=(",", ":"))
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    total = len(pieces)
    return tuple(
        f"{_TAG} {who} {number}/{total} {_sum(piece)} {piece}\n"
        for number, piece in enumerate(pieces, start=1)
    )


def read_lines(text: str) -> tuple[bytes, ...]:
    """JSON of whole answers, in the order in which they began; all else is passed over."""
    pieces: dict[tuple[str, int], dict[int, str]] = {}
    for line in text.split("\n"):
        # A rank of another kind may have written half a line before.
        match = _LINE.search(line)
        if match is not None and _sum(match[5]) == match[4]:
            pieces.setdefault((match[1], int(match[3])), {})[int(match[2])] = match[5]
    return tuple(
        "".join(found[number] for number in range(1, total + 1)).encode()
        for (_, total), found in pieces.items()
        if _is_whole(found, total)
    )


def _is_whole(found: Iterable[int], total: int) -> bool:
    return set(found) == set(range(1, total + 1))


def _sum(piece: str) -> str:
    return f"{zlib.crc32(piece.encode()):08x}"
