"""A rule file with some of its rules narrowed or gone; the rest stays as somebody wrote it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model import Rule

_WIDTH: Final = 110
_MIN, _MAX = 1, 2
# The same words over and over, so that verifying a file twice changes nothing.
UNPROVEN: Final = "extrapolated, as --extrapolate asks: no size of it was measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one line.

    Attributes:
        parts: rules in its place; none where it goes.
        evidence: a comment above them.
        holes: (min, max, reason) of what is left to the library from now on.
        unproven: rules behind it that nothing was measured for.
    """

    parts: tuple[Rule, ...]
    evidence: str
    holes: tuple[tuple[int, int, str], ...] = ()
    unproven: tuple[Rule, ...] = ()


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
    if not change.parts and not change.unproven:
        made.append(f"# dropped: {line.strip()}")
    made += [_narrowed(line, part) for part in change.parts]
    if change.unproven:
        made += _comment(UNPROVEN)
        made += [_narrowed(line, part) for part in change.unproven]
    made += [
        f"#@ hole {low} {high} {textwrap.shorten(why, 120)}" for low, high, why in change.holes
    ]
    return made


def _narrowed(line: str, part: Rule) -> str:
    """A row with other bounds; whatever else it has, columns of other dialects too, it keeps."""
    fields = line.strip().split(",")
    fields[_MIN], fields[_MAX] = str(part.min_nbytes), str(part.max_nbytes)
    return ",".join(fields)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]
