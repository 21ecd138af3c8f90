"""Many host names in few words: ``node[001-199] (199 hosts)``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NUMBERED: Final = re.compile(r"(.*?)(\d+)(\D*)")
_SHOWN: Final = 4


def named(names: Iterable[str], most: int = _SHOWN) -> str:
    """Names for people; those that differ in their last number only are one item.

    Args:
        names: of hosts.
        most: items to be shown, each with twice as many ranges of numbers.
    """
    wanted = sorted(set(names))
    items = _ranges(wanted, 2 * most)
    shown = ", ".join(items[:most])
    if len(items) > most:
        shown += ", …"
    return f"{shown} ({len(wanted)} hosts)" if len(wanted) > most else shown


def _ranges(names: list[str], most: int) -> list[str]:
    """Slurm's way of writing: a number keeps its width, neighbours become a range."""
    found: dict[tuple[str, int, str], list[int]] = {}
    plain = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            plain.append(name)
        else:
            key = (match[1], len(match[2]), match[3])
            found.setdefault(key, []).append(int(match[2]))
    items = [
        (f"{head}{'0' * width}{tail}", _item(head, width, tail, sorted(numbers), most))
        for (head, width, tail), numbers in found.items()
    ]
    return [text for _, text in sorted([*items, *((name, name) for name in plain)])]


def _item(head: str, width: int, tail: str, numbers: list[int], most: int) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [
        f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}"
        for low, high in spans[:most]
    ]
    texts += ["…"] if len(spans) > most else []
    if len(numbers) == 1:
        return f"{head}{texts[0]}{tail}"
    return f"{head}[{','.join(texts)}]{tail}"
