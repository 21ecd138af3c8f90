"""What a job asked its tuner: the file that the plugin writes under RCCLTUNE_RECORD."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from rccltune.errors import OutputError
from rccltune.vocab import Collective

_WANTED: Final = ("collective", "nbytes", "calls")


def read_workload(path: Path) -> tuple[tuple[Collective, int, float], ...]:
    """Calls by collective and size, summed over communicators.

    The file is CSV with ``#@ format 1`` above a header that names at least ``collective``,
    ``nBytes`` and ``calls`` in any order.

    Raises:
        OutputError: not readable, no such columns, or a row that is no call.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"the workload cannot be read: {error}", where=str(path)) from error
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines:
        raise OutputError(
            "the workload is empty", where=str(path), hint="record a job that communicates."
        )
    names = [name.strip().lower() for name in next(csv.reader([lines[0][1]]))]
    missing = [name for name in _WANTED if name not in names]
    if missing:
        raise OutputError(
            f"the workload's header has no column {', '.join(missing)}",
            where=f"{path}:{lines[0][0]}",
            hint="give a file that the plugin wrote under RCCLTUNE_RECORD.",
        )
    return _summed(path, names, lines[1:])


def _summed(
    path: Path, names: list[str], lines: list[tuple[int, str]]
) -> tuple[tuple[Collective, int, float], ...]:
    at = [names.index(name) for name in _WANTED]
    calls: dict[tuple[Collective, int], float] = {}
    for number, line in lines:
        cells = next(csv.reader([line]))
        try:
            key = (Collective.parse(cells[at[0]]), int(cells[at[1]]))
            calls[key] = calls.get(key, 0.0) + int(cells[at[2]])
        except (ValueError, IndexError) as error:
            raise OutputError(
                f"this is no row of a workload: {error}", where=f"{path}:{number}"
            ) from error
    return tuple(
        (collective, nbytes, n)
        for (collective, nbytes), n in sorted(
            calls.items(), key=lambda item: (item[0][0].value, item[0][1])
        )
    )
