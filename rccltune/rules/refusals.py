"""Rule files as they are met: read, refused with every mistake, or made to count rows again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rccltune import session
from rccltune.model import InputFileError, grammar, lay, reason_of
from rccltune.rules import line_format, reader
from rccltune.rules.other_readers import misread
from rccltune.rules.reader import RuleFile, read_rules


def content_of(path: Path, what: str = "the rule file", hint: str | None = None) -> bytes:
    """A rule file's bytes.

    Raises:
        InputFileError: it cannot be read, with the system's reason.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputFileError(
            f"{what} cannot be read: {reason_of(error)}", where=str(path), hint=hint
        ) from error


def refusal(
    headline: str, mistakes: Iterable[str], where: Path | str, hint: str | None
) -> InputFileError:
    """A file with mistakes, of which each has a line of its own below the headline."""
    listed = (f"  {mistake}" for mistake in mistakes)
    return InputFileError(lay([headline, *listed]), where=str(where), hint=hint)


def accepted(content: bytes, where: Path, hint: str | None = None) -> RuleFile:
    """A rule file as the plugin reads it.

    Args:
        content: of the file.
        where: its path, for messages.
        hint: what to do where it is refused.

    Raises:
        InputFileError: every mistake for which the plugin refuses it, with its line.
    """
    file = read_rules(content)
    if file.errors:
        mistakes = [finding.at(where) for finding in file.errors]
        mistakes += [f"read otherwise without our plugin: {one}" for one in misread(content, file)]
        raise refusal("the plugin refuses this file:", mistakes, where, hint)
    return file


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
    content = content_of(path)
    target = path.resolve(strict=True)
    mode = target.stat().st_mode & 0o7777
    errors = reader.read_rules(content).errors
    others = [finding.at(path) for finding in errors if finding.code != line_format.CODE]
    if others:
        raise refusal(
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
