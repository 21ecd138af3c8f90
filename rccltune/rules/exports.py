"""Exports beside a rule file, which a shell sources to use it; corrected where a session moved."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.model import defaults
from rccltune.model.errors import MachineError, ReadOnlyError, VerificationError
from rccltune.model.reporter import Reporter
from rccltune.releases import READING_RULES
from rccltune.rules.line_format import comment_lines
from rccltune.rules.rule_document import RuleDocument, rules_of
from rccltune.session.files import write_atomically

NAMED: Final = re.compile(r"^export NCCL_TUNER_CONFIG_FILE=(.+)$", re.MULTILINE)
_WIDTH: Final = 98
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def variables_for(
    rules: Path | None, document: RuleDocument, placement: str | None
) -> list[tuple[str, str]]:
    """Variables that make a job use the file; none where it has no rule.

    Args:
        rules: where the file is; None for stdout.
        document: what is in it.
        placement: of ranks, the only one that it is for; None for any.
    """
    if rules is None or not rules_of(document.zones):
        return []
    variables = [("NCCL_TUNER_CONFIG_FILE", str(rules.resolve()))]
    try:
        library = plugin.library()
    except MachineError:
        # The host's own CSV tuner reads the file, where it has one.
        return variables
    variables.append(("NCCL_TUNER_PLUGIN", str(library)))
    if placement is not None:
        variables.append(("RCCLTUNE_PLACEMENT", placement))
    return variables


def render_exports(
    provenance: Iterable[str],
    needs: Sequence[tuple[str, str]],
    use: Sequence[tuple[str, str]],
) -> str:
    """The file's text; ``source`` it, or take over what it exports.

    Args:
        provenance: where all figures come from.
        needs: (name, value) of all that the rules need.
        use: (name, value) of what makes a job use the rules; none where there is no rule.

    Raises:
        VerificationError: a name is none of a variable, or a value is more than a line.
    """
    lines = [line for text in provenance for line in _comment(text)]
    lines.append("#")
    if not needs:
        lines += _comment("The environment stays as it is.")
    lines += [_export(name, value) for name, value in needs]
    if use:
        lines += _comment(
            f"The plugin reads the rules; only {READING_RULES} and later read them without it. "
            "For production: rccltune deploy."
        )
        lines += [_export(name, value) for name, value in use]
    else:
        lines += _comment("There is no rule: nothing is to be loaded.")
    return "\n".join(lines) + "\n"


def _export(name: str, value: str) -> str:
    # A shell would run the rest of what is no name; nothing that was read decides that.
    if not _NAME.fullmatch(name) or not value.isprintable():
        raise VerificationError(
            f"{name!r}={value!r} cannot be exported: it is no variable of a shell",
            hint="measure with another value (sweep --env).",
        )
    return f"export {name}={shlex.quote(value)}"


def _comment(text: str) -> list[str]:
    return comment_lines(text, _WIDTH)


def find_moved(exports: Path) -> tuple[Path, Path] | None:
    """Where exports say that their rules lie, and where those lie now; None where that is one.

    They name the file beside them, or one for an environment in a folder beside them.
    """
    match = NAMED.search(_text(exports))
    if match is None:
        return None
    try:
        [path] = map(Path, shlex.split(match[1]))
    except ValueError:
        return None
    home = exports.resolve().parent
    here = (home / path.name, home / path.parent.name / path.name)
    if path.resolve() in here:
        return None
    now = next((one for one in reversed(here) if one.is_file()), None)
    return None if now is None else (path, now)


def say_moved(exports: Iterable[Path], folder: Path, reporter: Reporter) -> None:
    """Tell whoever reads a session, once, that a job would read other rules or none."""
    first = next((one for one in exports if find_moved(one)), None)
    moved = None if first is None else find_moved(first)
    if moved is not None:
        session = "" if folder == Path(defaults.SESSION) else f" {shlex.quote(str(folder))}"
        reporter.say(
            f"Warning: {first} names {moved[0]}, where the session was before it was moved or "
            f"copied: rccltune emit-config{session} corrects it"
        )


def correct_exports(exports: Path, reporter: Reporter) -> None:
    """Let exports name the rules where they lie now, or say that they do not and cannot."""
    moved = find_moved(exports)
    if moved is None:
        return
    line = f"export NCCL_TUNER_CONFIG_FILE={shlex.quote(str(moved[1]))}"
    try:
        write_atomically(exports, NAMED.sub(lambda _: line, _text(exports)))
    except ReadOnlyError:
        reporter.say(
            f"Warning: {exports} names {moved[0]}, where the session was before it was moved or "
            "copied, and cannot be written: rccltune emit-config corrects it in a copy that can be"
        )
    else:
        reporter.say(f"{exports} named {moved[0]}, and names these rules now")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
