"""What is derived from a session: kept in it where it takes it, and made in memory where not.

A snapshot, another user's session, or one that is being measured just now is there to be read: all
that is derived can be made again from its logs, so none of it has to be written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rccltune.errors import ReadOnlyError

T = TypeVar("T")


class Derived:
    """The one place that decides whether a session keeps what is derived from it."""

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        """Nothing is tried yet.

        Args:
            folder: the session.
            note: told once why it keeps nothing.
        """
        self._folder = folder
        self._note = note
        self._is_kept = True

    def keep(self, name: str, store: Callable[[], T]) -> T | None:
        """Store something; what storing returns, or None where the session takes nothing.

        Args:
            name: of the file, for the note.
            store: writes it, as nobody but its holder may, or raises ReadOnlyError.
        """
        if not self._is_kept:
            return None
        try:
            return store()
        except ReadOnlyError as error:
            self._is_kept = False
            self._note(
                f"{self._folder} is only read: {name} could not be kept there ({error.message}), "
                "and is made in memory"
            )
            return None
