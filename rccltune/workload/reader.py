"""Any file that says what a job asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rccltune.logs import is_inspector
from rccltune.model import OutputError, reason_of
from rccltune.workload.inspector import read_dump
from rccltune.workload.log import Stated, is_log, read_log
from rccltune.workload.records import Workload
from rccltune.workload.replay import is_replay, read_replay
from rccltune.workload.table import is_table, read_table

_NOTHING_STATED: Final = Stated()


def read(path: Path, stated: Stated = _NOTHING_STATED) -> Workload:
    """Read records, RCCL's replay file of either form, Inspector's dump, or a log.

    The content decides.

    Raises:
        OutputError: it cannot be read, or is none of these, or one that was cut.
        CommandLineError: a log that leaves open what only the user can say.
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
    if is_replay(content):
        return read_replay(content, str(path), stated.n_nodes)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("utf-8", "replace")
        if not is_log(text):
            raise _unknown(path) from None
    if is_inspector(text):
        return read_dump(text, str(path))
    if is_log(text):
        return read_log(text, str(path), stated)
    if not is_table(text):
        raise _unknown(path)
    return read_table(text, str(path))


def _unknown(path: Path) -> OutputError:
    return OutputError(
        "this is no workload that is known",
        where=str(path),
        hint="give what the plugin wrote under RCCLTUNE_RECORD, what RCCL wrote under "
        "RCCL_REPLAY_FILE, what the Inspector plugin wrote as JSON, or a log with NCCL_DEBUG=INFO "
        "and NCCL_DEBUG_SUBSYS=INIT,TUNING.",
    )
