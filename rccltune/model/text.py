"""Text for people: what data holds is shown and never obeyed, and only layout breaks lines.

A file or a host may have any name: one with a newline would forge a line of ours, one
with ESC would paint over the terminal, one with U+202E would read backwards. So whatever is said is
data, letter by letter, unless :func:`join_lines` has put it together.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class JoinedLines(str):
    """Lines put together by :func:`join_lines`: its line breaks are ours, all else in it was shown.

    Joined or formatted into another string it is data again, and its line breaks then are visible.
    """

    __slots__ = ()


def printable(data: object, allowed: str = "") -> str:
    """Text on one line, without anything that a terminal obeys or that nobody sees.

    What is not printable (control characters, line and paragraph separators, marks of writing
    direction, halves of surrogate pairs) becomes what Python writes for it: ``\\n``, ``\\x1b``,
    ``\\u202e``. A backslash stays as it is, so that showing twice is showing once.

    Args:
        data: what has no other way into text goes through ``str``.
        allowed: letters that stay all the same.
    """
    text = str(data)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in allowed else repr(one)[1:-1] for one in text)


def join_lines(parts: Iterable[str], gap: str = "\n") -> JoinedLines:
    """Parts one below the other; each is one line, unless it was laid itself.

    Args:
        parts: text that may hold data.
        gap: between two of them; two newlines leave a line free.
    """
    return JoinedLines(
        gap.join(one if isinstance(one, JoinedLines) else printable(one) for one in parts)
    )


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Say that a word is none of those that are known, which is nearest, and all of them.

    Args:
        what: is looked for, ``collective``.
        word: as it was typed.
        known: words.
    """
    words = list(dict.fromkeys(known))
    near = get_close_matches(word.strip().lower(), words, n=1)
    meant = f", did you mean '{near[0]}'?" if near else ";"
    return f"unknown {what} '{word[:60]}'{meant} known are {', '.join(words)}"
