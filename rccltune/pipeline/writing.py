"""Files of rules put in place: all of them or none, and nothing that was proven is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rccltune import grammar, session
from rccltune.errors import CommandLineError
from rccltune.reporter import Note

# Comments of a verified file begin with it.
VERIFIED_MARK: Final = "verified:"
# Not .csv: RCCL's built-in tuner takes any rccl_tuner*.csv that lies in its folders.
_KEPT: Final = ".verified"


def write_all(files: Sequence[tuple[Path, str]], *, overwrite: bool, note: Note) -> None:
    """All of them or, where one is in the way, none.

    A verified file that is replaced stays beside the new one, under another name: what
    verification took away from it took an hour of a machine, and the new one has it again.

    Args:
        files: with their texts.
        overwrite: replace files that differ.
        note: told what was verified and is not any more.

    Raises:
        CommandLineError: a file is there and would change.
    """
    changing = [path for path, text in files if _differs(path, text)]
    if changing and not overwrite:
        raise _in_the_way(changing[0])
    for path in filter(is_verified, changing):
        kept = kept_of(path)
        session.write_atomically(kept, path.read_bytes())
        note(
            f"{path} was verified; what is written now is not, and has again what verification "
            f"took away: rccltune verify. The verified file is kept as {kept}"
        )
    for path, text in files:
        session.write_atomically(path, text)


def is_verified(path: Path) -> bool:
    """Whether a file says that it was held against the untouched site."""
    if not path.is_file():
        return False
    lines = grammar.lines(grammar.read_text(path))
    return any(line.startswith(f"# {VERIFIED_MARK}") for line in lines)


def kept_of(path: Path) -> Path:
    """Where a verified file stays when another comes in its place."""
    return path.with_name(path.name + _KEPT)


def _in_the_way(path: Path) -> CommandLineError:
    if is_verified(path):
        return CommandLineError(
            "the rule file is there already, was verified, and would change",
            where=str(path),
            hint=f"write elsewhere with -o FILE (-o - is stdout); --force replaces it, keeps it as "
            f"{kept_of(path).name}, and rccltune verify must then be run again.",
        )
    return CommandLineError(
        "the rule file is there already and would change",
        where=str(path),
        hint="add --force, or write elsewhere with -o FILE (-o - is stdout).",
    )


def _differs(path: Path, text: str) -> bool:
    return path.exists() and path.read_bytes() != text.encode()
