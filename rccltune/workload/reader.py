"""Files that say what a job asked for."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from rccltune.logs.file_kinds import FileKind, kind_of
from rccltune.model.errors import OutputError, reason_of
from rccltune.workload.inspector import read_dump
from rccltune.workload.records import Workload, sum_of_workloads
from rccltune.workload.table import is_table, read_table


def read_workload(path: Path) -> Workload:
    """Read the plugin's record or Inspector's dump; the content decides.

    Raises:
        OutputError: it cannot be read, or is none of these, or one that was cut.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OutputError(
            f"the workload cannot be read: {reason_of(error)}", where=str(path)
        ) from error
    if not content.strip():
        raise OutputError(
            "the workload is empty", where=str(path), hint="record a job that communicates."
        )
    text = content.decode("utf-8", "replace")
    if kind_of(text) is FileKind.INSPECTOR:
        return read_dump(text, str(path))
    if "\N{REPLACEMENT CHARACTER}" in text or not is_table(text):
        raise OutputError(
            "this is no workload that is known",
            where=str(path),
            hint="give what the plugin wrote under RCCLTUNE_RECORD, or what the Inspector plugin "
            "wrote as JSON.",
        )
    return read_table(text, str(path))


def read_workloads(paths: Sequence[Path]) -> Workload:
    """All files as one workload.

    Raises:
        OutputError: one is no workload.
        CommandLineError: the same recording is in two of them.
    """
    return sum_of_workloads([read_workload(path) for path in paths])


def snapshots_beside(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Snapshots that killed ranks left beside these files, and that are not among them."""
    given = {path.resolve() for path in paths}
    beside = (
        found
        for path in sorted(given)
        if path.is_file()
        for found in path.parent.glob(f"{glob.escape(path.name)}.*.part")
    )
    return tuple(dict.fromkeys(path for path in beside if path not in given))
