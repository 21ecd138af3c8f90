"""A rule file with some of its rules narrowed or gone; the rest stays as somebody wrote it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model import Rule

_WIDTH: Final = 110
_MIN, _MAX = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one line.

    Attributes:
        parts: rules in its place; none where it goes.
        evidence: a comment above them.
        holes: (min, max, reason) of what is left to the library from now on.
    """

    parts: tuple[Rule, ...]
    evidence: str
    holes: tuple[tuple[int, int, str], ...] = ()


def rewritten(content: str, changes: Mapping[int, Change], header: Sequence[str]) -> str:
    """The file's text with changed lines, LF at every end.

    Args:
        content: as it was read.
        changes: by line, from 1.
        header: comments below the first line.
    """
    lines = content.splitlines()
    head = [part for text in header for part in _comment(text)]
    at_top = bool(lines) and lines[0].startswith("#@ format")
    made: list[str] = [] if at_top else head
    for number, line in enumerate(lines, start=1):
        made += _changed(line, changes[number]) if number in changes else [line]
        if number == 1 and at_top:
            made += head
    return "\n".join(made) + "\n"


def _changed(line: str, change: Change) -> list[str]:
    made = _comment(change.evidence)
    if not change.parts:
        made.append(f"# dropped: {line.strip()}")
    for part in change.parts:
        fields = line.strip().split(",")
        # Whatever else the row has, columns of other dialects too, it keeps.
        fields[_MIN], fields[_MAX] = str(part.min_nbytes), str(part.max_nbytes)
        made.append(",".join(fields))
    made += [
        f"#@ hole {low} {high} {textwrap.shorten(why, 120)}" for low, high, why in change.holes
    ]
    return made


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]
