"""Rule files as they are met: read, or refused with every mistake."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rccltune.model.errors import InputFileError, reason_of
from rccltune.model.text import join_lines
from rccltune.rules.other_readers import find_misread
from rccltune.rules.rule_file import RuleFile, read_rules


def content_of(path: Path, what: str = "the rule file", hint: str | None = None) -> bytes:
    """A rule file's bytes.

    Raises:
        InputFileError: it cannot be read, with the system's reason.
    """
    try:
        return path.read_bytes()
    except IsADirectoryError as error:
        inside = sorted(path.glob("rccl_tuner*.csv"))
        raise InputFileError(
            f"{what} cannot be read: this is a folder",
            where=str(path),
            hint=f"name a file in it: {inside[0]}." if inside else "it has no rule file.",
        ) from error
    except OSError as error:
        raise InputFileError(
            f"{what} cannot be read: {reason_of(error)}", where=str(path), hint=hint
        ) from error


def refusal(
    headline: str, mistakes: Iterable[str], where: Path | str, hint: str | None
) -> InputFileError:
    """A file with mistakes, of which each has a line of its own below the headline."""
    listed = (f"  {mistake}" for mistake in mistakes)
    return InputFileError(join_lines([headline, *listed]), where=str(where), hint=hint)


def read_accepted(content: bytes, where: Path, hint: str | None = None) -> RuleFile:
    """A rule file as the plugin reads it.

    Args:
        content: of the file.
        where: its path, for messages.
        hint: what to do where it is refused.

    Raises:
        InputFileError: every mistake for which the plugin refuses it, with its line.
    """
    if not content:
        raise InputFileError(
            "this rule file is empty, and the plugin refuses it",
            where=str(where),
            hint="copy it again, or make one: rccltune emit-config.",
        )
    file = read_rules(content)
    if file.errors:
        mistakes = [finding.at(where) for finding in file.errors]
        first, *others = (*map(str, find_misread(content, file)), "")
        n_more = sum(map(bool, others))
        more = f"; {n_more} more line{'s' * (n_more > 1)}" * bool(n_more)
        mistakes += [f"read otherwise without our plugin: {first}{more}"] * bool(first)
        raise refusal("the plugin refuses this file:", mistakes, where, hint)
    return file
