"""Where labels go so that none covers another and none leaves the figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final


def capacity(height: float, low: float, high: float) -> int:
    """How many labels of a height fit between two borders."""
    return int((high - low) / height + 1e-9)


def spread(wanted: Sequence[float], height: float, low: float, high: float) -> tuple[float, ...]:
    """Centres of labels, as near as can be to the wanted ones (least squares).

    Neighbours are at least ``height`` apart, all lie inside [low, high] with their full height,
    and their order is that of the wanted positions. What fits as wanted is not moved.

    Raises:
        ValueError: more labels than there is room for; ask ``capacity`` first.
    """
    n = len(wanted)
    if n > capacity(height, low, high):
        raise ValueError(f"{n} labels of height {height} do not fit in {high - low}")
    order = sorted(range(n), key=lambda i: wanted[i])
    # With i*height taken off, "at least height apart" becomes "not falling": isotonic regression,
    # whose bounded solution is the unbounded one, clipped.
    level = _not_falling([wanted[i] - k * height for k, i in enumerate(order)])
    floor, roof = low + height / 2, high - height / 2 - (n - 1) * height
    centres = [0.0] * n
    for k, i in enumerate(order):
        centres[i] = min(max(level[k], floor), max(roof, floor)) + k * height
    return tuple(centres)


def _not_falling(values: Sequence[float]) -> list[float]:
    """Pool adjacent violators: the nearest not falling sequence in least squares."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, size = value, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean = (before * count + mean * size) / (count + size)
            size += count
        blocks.append((mean, size))
    return [mean for mean, size in blocks for _ in range(size)]


_SPACES: Final = re.compile(r"[^\S\N{NO-BREAK SPACE}]+")


def wrap(text: str, width: float, measure: Callable[[str], float], at_most: int = 9) -> list[str]:
    """Lines of words no wider than ``width``; the last of so many ends in an ellipsis.

    Whatever is wider than a line by itself is cut. A no-break space is no place to break.
    """
    lines: list[str] = []
    words = [word for word in _SPACES.split(text) if word]
    while words and len(lines) < at_most:
        line = words.pop(0)
        while words and measure(f"{line} {words[0]}") <= width:
            line += f" {words.pop(0)}"
        lines.append(elide(line, width, measure))
    if words:
        lines[-1] = elide(f"{lines[-1]} {' '.join(words)}", width, measure)
    return lines


def elide(text: str, width: float, measure: Callable[[str], float]) -> str:
    """The text, or as much of its start as fits with an ellipsis."""
    if measure(text) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle] + "…") <= width else (low, middle - 1)
    return text[:low].rstrip() + "…"
