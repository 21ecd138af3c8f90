"""Versions of the collective library, as benchmarks and libraries print them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def different_libraries(versions: Iterable[str]) -> tuple[str, str] | None:
    """The first two versions that cannot be one library's; None where there are none.

    One library is 2.29.2 in a benchmark's line and 2.29.2+cuda13.1 in its own.
    """
    named = list(versions)
    for i, one in enumerate(named):
        for other in named[i + 1 :]:
            (number, build), (number_2, build_2) = map(_parts, (one, other))
            if number != number_2 or (build and build_2 and build != build_2):
                return one, other
    return None


def _parts(text: str) -> tuple[str, str]:
    """Number and build."""
    match = re.match(r"[\d.]*", text)
    number = match[0] if match is not None else ""
    return number, text[len(number) :]
