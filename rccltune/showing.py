"""Text for people: what data holds is shown and never obeyed, and only layout breaks lines.

A file, a host or a variant may have any name: one with a newline would forge a line of ours, one
with ESC would paint over the terminal, one with U+202E would read backwards. So whatever is said is
data, letter by letter, unless :func:`lay` has put it together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable


class Laid(str):
    """Lines put together by :func:`lay`: its line breaks are ours, all else in it was shown.

    Joined or formatted into another string it is data again, and its line breaks then are visible.
    """

    __slots__ = ()


def shown(data: object, allowed: str = "") -> str:
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


def lay(parts: Iterable[str], gap: str = "\n") -> Laid:
    """Parts one below the other; each is one line, unless it was laid itself.

    Args:
        parts: text that may hold data.
        gap: between two of them; two newlines leave a line free.
    """
    return Laid(gap.join(one if isinstance(one, Laid) else shown(one) for one in parts))


def json_text(plain: object, indent: int | None = None) -> Laid:
    """JSON in letters that are printable, so that it can be shown and written anywhere.

    Readers get back what was given, also halves of surrogate pairs, which file names may have.
    """
    text = json.dumps(plain, indent=indent, ensure_ascii=False)
    if not text.replace("\n", "").isprintable():
        # Only inside of strings; what stands between them is printable, or a line break of ours.
        text = "".join(
            one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text
        )
    return Laid(text)
