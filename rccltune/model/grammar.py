"""Grammar of the plugin's texts, in Python: its lines, blanks, words and numbers, and no others.

What the plugin reads or writes (rule files, records) is split here as
``native_plugin/src/text.c`` splits it. Python's own functions take more: ``splitlines`` ends a
line at U+2028, NEL, VT, FF, FS and a lone CR, text mode makes a line feed of that CR, ``strip`` and
``split`` take NBSP for a blank, ``int`` reads ``1_0`` and the digits of every script. With them a
comment could become a rule, or another rule be changed than the one that was meant.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

BLANKS: Final = " \t\r"
# Sums of a job's bytes may pass 2^64; longer numbers Python refuses to convert from 4300 digits on.
_MOST_DIGITS: Final = 40
TOO_BIG: Final = 10**_MOST_DIGITS
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_DIGITS: Final = re.compile(r"0*([0-9]+)")
_WORD: Final = re.compile(rf"[^{BLANKS}]+")


def unmarked(content: bytes) -> bytes:
    """A file's bytes without the byte-order mark that some editors leave at its beginning."""
    return content.removeprefix(_BYTE_ORDER_MARK)


def text_of(content: bytes) -> str:
    """A file's bytes as text, without a byte-order mark; what is no UTF-8 becomes U+FFFD."""
    return unmarked(content).decode("utf-8", "replace")


def read_text(path: Path) -> str:
    """A file's text with every CR that it has; raises OSError."""
    return text_of(path.read_bytes())


def lines(text: str) -> list[str]:
    """The lines, each ended by a line feed alone; a last one without it counts.

    A carriage return stays at its line's end, where :func:`trim` takes it off.
    """
    parts = text.split("\n")
    return parts if parts[-1] else parts[:-1]


def trim(text: str) -> str:
    """The text without space, tab and carriage return at its ends."""
    return text.strip(BLANKS)


def words(text: str) -> list[str]:
    """The runs of characters between spaces, tabs and carriage returns."""
    return _WORD.findall(text)


def instruction(line: str) -> list[str]:
    """The words of a ``#@`` line behind that mark; none of any other line."""
    bare = trim(line)
    return words(bare[2:]) if bare.startswith("#@") else []


def whole(text: str) -> int:
    """A number of ASCII digits; one of more than 40 is read as 10^40, which fits nowhere.

    Raises:
        ValueError: anything else: a sign, a blank, an underscore, digits of other scripts.
    """
    match = _DIGITS.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no number of plain digits")
    return int(match[1]) if len(match[1]) <= _MOST_DIGITS else TOO_BIG
