"""``#@ requires``: keys and values as the plugin takes them (native_plugin/src/rule_file.c)."""

from __future__ import annotations

import re
from typing import Final

from rccltune import grammar

_HEX: Final = re.compile(r"0x([0-9a-fA-F]+)")
_COMPUTES: Final = ("none", "spx", "dpx", "tpx", "qpx", "cpx")
_MEMORY: Final = re.compile(r"(?:NPS|nps)(.+)")
_MOST_NPS: Final = 16
# The plugin keeps them in so many bytes.
_MOST_TEXT: Final = {"arch": 15, "placement": 23}


def requirement(key: str, value: str) -> str | int | None:
    """What a pair asks for; two spellings of one thing are equal.

    Args:
        key: ``arch``, ``device``, ``cus``, ``compute``, ``memory`` or ``placement``.
        value: its text, one character a byte.

    Returns:
        None for an unknown key or a value that the plugin refuses.
    """
    if key in _MOST_TEXT:
        return value if 0 < len(value) <= _MOST_TEXT[key] else None
    if key in ("device", "cus"):
        return _number(value)
    if key == "compute":
        return compute(value)
    return memory(value) if key == "memory" else None


def _number(text: str) -> int | None:
    match = _HEX.fullmatch(text)
    try:
        found = int(match[1], 16) if match else grammar.whole(text)
    except ValueError:
        return None
    return found if 0 < found < 2**32 else None


def compute(text: str) -> str | None:
    """A compute partition in lower case, of ASCII letters in any case."""
    folded = text.lower()
    return folded if text.isascii() and folded in _COMPUTES else None


def memory(text: str) -> int | None:
    """The n of ``nps4`` or ``NPS4``."""
    match = _MEMORY.fullmatch(text)
    try:
        found = grammar.whole(match[1]) if match else 0
    except ValueError:
        return None
    return found if 1 <= found <= _MOST_NPS else None
