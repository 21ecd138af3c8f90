"""Rule files that the plugin would take, and the error where it refuses one."""

from __future__ import annotations

from pathlib import Path

from rccltune import emit
from rccltune.emit import RuleFile
from rccltune.errors import InputFileError
from rccltune.showing import lay


def accepted(content: bytes, where: Path, hint: str | None = None) -> RuleFile:
    """A rule file as the plugin reads it.

    Args:
        content: of the file.
        where: its path, for messages.
        hint: what to do where it is refused.

    Raises:
        InputFileError: every mistake for which the plugin refuses it, with its line.
    """
    file = emit.read_rules(content)
    if file.errors:
        listed = (f"  {where}:{f.line}: {f.message} [{f.code}]" for f in file.errors)
        raise InputFileError(
            lay(["the plugin refuses this file:", *listed]), where=str(where), hint=hint
        )
    return file
