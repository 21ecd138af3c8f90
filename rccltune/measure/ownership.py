"""Sessions that this user made.

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

from rccltune.model.errors import SessionError
from rccltune.session.files import read_regular, write_atomically
from rccltune.session.store import SWEEP_FILE, open_session

_FOLDER: Final = "rccltune/sessions"


def remember_session(path: Path) -> None:
    """Note that a session is ours, with what its sweep.yaml says now; without a home, nothing.

    What it said before stays noted: a copy of the session has the same id, and goes on from there.
    """
    name = open_session(path).id
    with suppress(SessionError, RuntimeError):
        known = list(dict.fromkeys((*_noted(name), _digest(path))))
        write_atomically(_notes() / name, json.dumps({"sweeps": known}) + "\n")


def is_own_session(path: Path) -> bool:
    """Whether this user made a session, and its sweep.yaml says what this user made it say.

    Raises:
        SessionError: no session.
    """
    name = open_session(path).id
    try:
        return _digest(path) in _noted(name)
    except (SessionError, RuntimeError):
        return False


def _noted(name: str) -> list[str]:
    """Digests of what a session's sweep.yaml said whenever it was ours.

    Raises:
        RuntimeError: no home.
    """
    try:
        note = json.loads(read_regular(_notes() / name))
    except (SessionError, ValueError):
        return []
    digests = note.get("sweeps") if isinstance(note, dict) else []
    return [one for one in digests if isinstance(one, str)] if isinstance(digests, list) else []


def _notes() -> Path:
    """``$XDG_STATE_HOME/rccltune/sessions``; RuntimeError where the user has no home."""
    folder = os.environ.get("XDG_STATE_HOME", "")
    # The specification has relative paths ignored: they would depend on where one stands.
    state = Path(folder) if folder.startswith("/") else Path.home() / ".local" / "state"
    return state / _FOLDER


def _digest(path: Path) -> str:
    return hashlib.sha256(read_regular(path / SWEEP_FILE)).hexdigest()
