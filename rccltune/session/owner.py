"""Which sessions this user made, kept where no session can write: in the user's state folder.

A session says which programs to start and with which variables. Whoever unpacks a mailed one owns
its files, and an id can be copied, so nothing in the session and nothing about its files tells
whose it is. What tells is a note of ours for the session's id, with the digest of its sweep.yaml:
the same home on another node has it, another user's home does not.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from rccltune.model import SessionError
from rccltune.session.files import read_regular, write_atomically
from rccltune.session.store import open_session

SWEEP_FILE: Final = "sweep.yaml"
_FOLDER: Final = "rccltune/sessions"


def remember(path: Path) -> None:
    """Note that a session is ours, with what its sweep.yaml says now; without a home, nothing."""
    name = open_session(path).id
    if name is None:
        return
    with suppress(SessionError, RuntimeError):
        write_atomically(_notes() / name, json.dumps({"sweep": _digest(path)}) + "\n")


def is_ours(path: Path) -> bool:
    """Whether this user made a session, and nobody changed its sweep.yaml since.

    Raises:
        SessionError: no session.
    """
    name = open_session(path).id
    if name is None:
        return False
    try:
        note = json.loads(read_regular(_notes() / name))
    except (SessionError, RuntimeError, ValueError):
        return False
    return isinstance(note, dict) and note.get("sweep") == _digest(path)


def _notes() -> Path:
    """``$XDG_STATE_HOME/rccltune/sessions``; RuntimeError where the user has no home."""
    named = os.environ.get("XDG_STATE_HOME", "")
    # The specification has relative paths ignored: they would depend on where one stands.
    state = Path(named) if named.startswith("/") else Path.home() / ".local" / "state"
    return state / _FOLDER


def _digest(path: Path) -> str:
    return hashlib.sha256(read_regular(path / SWEEP_FILE)).hexdigest()
