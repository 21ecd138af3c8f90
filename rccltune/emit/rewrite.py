"""A rule file with some of its rules narrowed or gone; the rest stays as somebody wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune import grammar
from rccltune.emit import lines
from rccltune.emit.seal import sealed
from rccltune.model import Rule

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
    """The file's text with changed lines, LF at every end, and sealed.

    Args:
        content: as it was read.
        changes: by line, from 1.
        header: comments below the line with the format, or at the top where there is none.

    Raises:
        InputFileError: a line is too long for RCCL's reader and cannot be made shorter.
    """
    head = [part for text in header for part in lines.comment(text)]
    made: list[str] = []
    at = 0
    for number, line in enumerate(grammar.lines(content), start=1):
        change = changes.get(number)
        made += lines.kept(line, number) if change is None else _changed(line, number, change)
        if at == 0 and grammar.instruction(line)[:1] == ["format"]:
            at = len(made)
    return lines.text(sealed([*made[:at], *head, *made[at:]]))


def _changed(line: str, number: int, change: Change) -> list[str]:
    made = lines.comment(change.evidence)
    if not change.parts and not change.unproven:
        made += lines.comment(f"dropped: {grammar.trim(line)}")
    for part in change.parts:
        made += _narrowed(line, number, part)
    if change.unproven:
        made += lines.comment(UNPROVEN)
        for part in change.unproven:
            made += _narrowed(line, number, part)
    return made + [lines.hole(low, high, why) for low, high, why in change.holes]


def _narrowed(line: str, number: int, part: Rule) -> list[str]:
    """A row with other bounds; whatever else it has, columns of other dialects too, it keeps."""
    fields = grammar.trim(line).split(",")
    fields[_MIN], fields[_MAX] = str(part.min_nbytes), str(part.max_nbytes)
    return lines.kept(",".join(fields), number)
