"""Differences as a table that is readable with two hosts and with two hundred."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rccltune.hosts.comparing import Difference, Group
from rccltune.hosts.naming import named
from rccltune.showing import Laid, lay

_DIGEST: Final = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
# Values of one thing that are shown, and how long each may be.
_GROUPS: Final = 6
_LONGEST: Final = 60


def table_of(found: Sequence[Difference]) -> Laid:
    """One block for each thing, one line for each value, with the hosts that have it."""
    rows = [row for one in found for row in _rows(one)]
    widths = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
    return lay(
        f"  {what:<{widths[0]}}  {value:<{widths[1]}}  {hosts}".rstrip()
        for what, value, hosts in rows
    )


def _rows(one: Difference) -> list[tuple[str, str, str]]:
    shown, rest = one.groups[:_GROUPS], one.groups[_GROUPS:]
    rows = [
        ("" if number else one.what, _short(group), named(group.hosts))
        for number, group in enumerate(shown)
    ]
    if rest:
        others = named(name for group in rest for name in group.hosts)
        rows.append(("", f"… {len(rest)} more values", others))
    return rows


def _short(group: Group) -> str:
    if group.value is None:
        return "–"
    text = _DIGEST.sub(r"\1…", group.value)
    if len(text) <= _LONGEST:
        return text
    # Lists of libraries and devices differ at either end.
    half = (_LONGEST - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
