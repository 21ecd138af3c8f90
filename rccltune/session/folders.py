"""Folders of sessions: which ones this user made, and several that a command takes together.

A session says which programs to start and with which variables. Whoever unpacks a mailed one owns
its files, and an id can be copied, so nothing in the session and nothing about its files tells
whose it is. What tells is a note of ours for the session's id, with the digest of its sweep.yaml:
the same home on another node has it, another user's home does not.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from rccltune.model.errors import SessionError
from rccltune.model.measurement import Fingerprint
from rccltune.session.files import read_regular, write_atomically
from rccltune.session.store import Session, open_session


def another(folder: Path) -> Path:
    """A folder for a session of its own, beside one that is of something else."""
    names = (folder.with_name(f"{folder.name}-{n}") for n in count(2))
    return next(path for path in names if not path.exists())


def check_alike(sessions: Sequence[Session]) -> None:
    """Stop where sessions are not of one machine, library and environment.

    Raises:
        SessionError: they are not.
    """
    first = sessions[0]
    mine = first.fingerprint
    for session in sessions[1:]:
        other = session.fingerprint
        libraries = {first.setup.library, session.setup.library} - {None}
        same = (other.arch, other.cu_count, other.mode, other.product)
        if session.setup.environment != first.setup.environment:
            said = "two environments"
        elif len(libraries) > 1:
            said = f"two libraries: {first.setup.library} and {session.setup.library}"
        elif same != (mine.arch, mine.cu_count, mine.mode, mine.product):
            said = f"two machines: {machine_words(mine)} and {machine_words(other)}"
        else:
            continue
        raise SessionError(
            f"{first.path} and {session.path} are of {said}",
            where=str(session.path),
            hint="deploy each into a folder of its own.",
        )


def machine_words(fingerprint: Fingerprint) -> str:
    """Product, architecture, compute units and mode, as far as they are known."""
    parts = [
        fingerprint.product or "unknown product",
        fingerprint.arch or "",
        f"{fingerprint.cu_count} CUs" if fingerprint.cu_count else "",
        _mode(fingerprint),
        _runner(fingerprint),
    ]
    return ", ".join(part for part in parts if part)


def _runner(fingerprint: Fingerprint) -> str:
    through = "over" if fingerprint.simulated else "measured through"
    return f"{through} {fingerprint.runner}" if fingerprint.runner else ""


def _mode(fingerprint: Fingerprint) -> str:
    if fingerprint.mode is None:
        return "mode unknown"
    return f"mode {fingerprint.mode}" if fingerprint.mode.compute else ""


SWEEP_FILE: Final = "sweep.yaml"
_FOLDER: Final = "rccltune/sessions"


def is_swept(path: Path) -> bool:
    """Whether a sweep made a session; one of imported files has no ranks to measure with."""
    return (path / SWEEP_FILE).exists()


def sweep_then_verify(rules: Path) -> str:
    """Commands that verify the rules of a session that no sweep made."""
    file = shlex.quote(str(rules))
    return f"rccltune sweep -o swept && rccltune verify swept --rules {file}"


def remember(path: Path) -> None:
    """Note that a session is ours, with what its sweep.yaml says now; without a home, nothing.

    What it said before stays noted: a copy of the session has the same id, and goes on from there.
    """
    name = open_session(path).id
    with suppress(SessionError, RuntimeError):
        known = list(dict.fromkeys((*_noted(name), _digest(path))))
        write_atomically(_notes() / name, json.dumps({"sweeps": known}) + "\n")


def is_ours(path: Path) -> bool:
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
    named = os.environ.get("XDG_STATE_HOME", "")
    # The specification has relative paths ignored: they would depend on where one stands.
    state = Path(named) if named.startswith("/") else Path.home() / ".local" / "state"
    return state / _FOLDER


def _digest(path: Path) -> str:
    return hashlib.sha256(read_regular(path / SWEEP_FILE)).hexdigest()
