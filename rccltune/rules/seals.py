"""A rule file that was edited, made to count its rows again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rccltune import session
from rccltune.model import grammar
from rccltune.rules import line_format, reader, refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """What became of a file.

    Attributes:
        path: of what was written: where a link is given, the file that it leads to.
        n_rows: as the file says now.
        was: why the plugin refused it, or None.
        changed: whether anything was written.
    """

    path: Path
    n_rows: int
    was: str | None
    changed: bool


def seal(path: Path) -> Sealed:
    """Count the rows of a file and write their number at its head and its end.

    Every other byte stays, but for a byte-order mark. The permissions stay.

    Raises:
        InputFileError: it cannot be read, or the plugin refuses it for another reason.
        SessionError: it cannot be written.
    """
    content = refusals.content_of(path)
    target = path.resolve(strict=True)
    mode = target.stat().st_mode & 0o7777
    errors = reader.read_rules(content).errors
    others = [finding.at(path) for finding in errors if finding.code != line_format.CODE]
    if others:
        raise refusals.refusal(
            "this file is not sealed, the plugin would refuse it all the same:",
            others,
            path,
            "correct these lines, then run the same command again.",
        )
    # One character a byte: what is no UTF-8 stays as it is.
    text = grammar.unmarked(content).decode("latin-1")
    lines = line_format.sealed(grammar.lines(text))
    made = ("\n".join(lines) + "\n").encode("latin-1")
    changed = made != content
    if changed:
        session.write_atomically(target, made, mode)
    was = errors[0].message if errors else None
    return Sealed(path=target, n_rows=int(grammar.words(lines[-1])[-1]), was=was, changed=changed)
