"""Several sessions that a command takes together: folders of scales, and whose machine they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rccltune.model import Fingerprint, SessionError
from rccltune.session.store import HEADER, Session

_NAME: Final = re.compile(r"\d+x\d+")


def sessions_in(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Each session, and in the place of a folder of several scales its sessions by size."""
    found: list[Path] = []
    for folder in folders:
        inside = [] if (folder / HEADER).exists() or not folder.is_dir() else _inside(folder)
        found += inside or [folder]
    return tuple(found)


def _inside(folder: Path) -> list[Path]:
    named = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    there = [path for path in named if (path / HEADER).exists()]
    return sorted(there, key=lambda path: tuple(map(int, path.name.split("x")))[::-1])


def one_machine(sessions: Sequence[Session]) -> Fingerprint:
    """The machine of several sessions.

    Raises:
        SessionError: they are of two.
    """
    first = sessions[0]
    mine = first.fingerprint
    for one in sessions[1:]:
        other = one.fingerprint
        same = (other.arch, other.cu_count, other.mode, other.product)
        if same != (mine.arch, mine.cu_count, mine.mode, mine.product):
            raise SessionError(
                f"{first.path} and {one.path} are of two machines: "
                f"{machine_words(mine)} and {machine_words(other)}",
                where=str(one.path),
                hint="emit one file for each machine and mode.",
            )
    return mine


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
