"""JSON as it is written and shown: printable letters, rounded numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

from rccltune.model.rounding import round_plain
from rccltune.model.text import JoinedLines


def json_text(plain: object, indent: int | None = None) -> JoinedLines:
    """JSON in letters that are printable, so that it can be shown and written anywhere.

    Readers get back what was given, also halves of surrogate pairs, which file names may have, but
    for numbers, which are rounded here (:mod:`rccltune.model.rounding`).
    One line, or with an ``indent`` of 1 a value a line.
    """
    if indent:
        return JoinedLines("".join(json_pieces(plain)))
    return JoinedLines(_printable(_encoder(", ").encode(round_plain(plain))))


def json_pieces(plain: object) -> Iterator[str]:
    """Yield JSON with a value a line, bit by bit: a fit of millions of times is written so.

    Python's encoder in C lays no lines out. It does when it is given the line break as what
    stands between two values, which is enough for what holds no further list or pairs.
    """
    return map(_printable, _laid_out(plain, "\n"))


def _laid_out(value: object, newline: str) -> Iterator[str]:
    inner = newline + " "
    if not value or not isinstance(value, dict | list | tuple):
        yield _encoder(", ").encode(round_plain(value))
        return
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    yield opened + inner
    items = value.values() if isinstance(value, dict) else value
    if any(issubclass(kind, dict | list | tuple) for kind in set(map(type, items))):
        # A key as JSON writes it, without the braces and the 0.
        heads = (_encoder(", ").encode({key: 0})[1:-2] if opened == "{" else "" for key in value)
        for at, (head, item) in enumerate(zip(heads, items, strict=True)):
            yield ("," + inner if at else "") + head
            yield from _laid_out(item, inner)
    else:
        yield _encoder("," + inner).encode(round_plain(value))[1:-1]
    yield newline + closed


@cache
def _encoder(between: str) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, separators=(between, ": "))


def _printable(text: str) -> str:
    """Write out all letters that cannot be printed."""
    if text.replace("\n", "").isprintable():
        return text
    # Only inside of strings; what stands between them is printable, or a line break of ours.
    return "".join(
        one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text
    )
