"""A rule document as text, its exports for a shell beside it, and both put in place.

The same document gives the same bytes. All files of a rule set are written or none, and nothing
that was proven is lost.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rccltune.model import grammar
from rccltune.model.choice import Rule
from rccltune.model.errors import CommandLineError, VerificationError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective
from rccltune.releases import READING_RULES
from rccltune.rules import line_format
from rccltune.rules.documents import (
    RuleDocument,
    Section,
    evidence_lines,
    fallback_doubt,
    rule_of,
)
from rccltune.rules.line_format import comment, framed
from rccltune.session.files import write_atomically

_COLUMNS = "colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"


def render(document: RuleDocument) -> str:
    """The file's text: LF, no header row, comments in column 0, ten fields a row.

    Raises:
        InputFileError: what the rules need or require fits no line.
    """
    lines = [line for text in document.provenance for line in _comment(text)]
    lines += line_format.requires(document.requires)
    lines += [line_format.library(document.library)] if document.library else []
    lines += [line_format.bits(document.bits)] if document.bits else []
    lines += [line_format.needs(name, value) for name, value in document.needs]
    lines += _comment(f"columns: {_COLUMNS}")
    for section in document.sections:
        lines += _section(section)
    return line_format.text_of(framed(lines))


_comment = line_format.comment


def _section(section: Section) -> Iterator[str]:
    target = section.target
    yield "#"
    yield _head(target.collective, target.scale)
    yield from _comment(
        f"{target.collective.value}, {target.scale}"
        + (f", rank placement {target.rank_placement}" if target.rank_placement else "")
    )
    for zone in section.zones:
        if zone.setting is None:
            # The reader of this line is a program too: one line.
            yield line_format.hole(zone.min_nbytes, zone.max_nbytes, zone.reason or "")
        else:
            for text in evidence_lines(zone):
                yield from _comment(text)
            yield rule_line(rule_of(zone, zone.setting))
    if section.fallbacks:
        yield from _comment(
            "reached only where the setting above is not selectable (LL128 not enabled):"
        )
        for rule in section.fallbacks:
            yield from _comment(fallback_doubt(rule, section.zones))
            yield rule_line(rule)


def _head(collective: Collective, scale: Scale) -> str:
    # Holes are lines of their own, and a reader must know whose they are.
    return f"#@ section {collective.csv_name} nodes={scale.n_nodes} ranks={scale.n_ranks}"


def rule_line(rule: Rule) -> str:
    """A row that hosts follow.

    Raises:
        VerificationError: it names no cell; a bug of ours must not become a rule file.
    """
    setting = rule.setting
    if setting.algorithm is None or setting.protocol is None:
        raise VerificationError(
            f"a rule for {rule.collective.value} of {rule.min_nbytes} bytes names no algorithm or "
            "no protocol, and readers of rule files disagree on such a row",
            hint="please report this with the session: it is a bug.",
        )
    return _row_text(rule)


def _row_text(rule: Rule) -> str:
    setting = rule.setting
    fields = (
        rule.collective.csv_name,
        rule.min_nbytes,
        rule.max_nbytes,
        setting.algorithm.value if setting.algorithm else -1,
        setting.protocol.value if setting.protocol else -1,
        *(
            -1 if value is None else value
            for value in (
                setting.channels,
                rule.n_nodes,
                rule.n_ranks,
                rule.num_pipe_ops,
                rule.reg_buff,
            )
        ),
    )
    return ",".join(map(str, fields))


# Comments of a verified file begin with it.
VERIFIED_MARK: Final = "verified:"
# Not .csv: RCCL's built-in tuner takes any rccl_tuner*.csv that lies in its folders.
_KEPT: Final = ".verified"


def write_all(files: Sequence[tuple[Path, str]], *, overwrite: bool, reporter: Reporter) -> None:
    """Write all files or, where one is in the way, none.

    A verified file that is replaced stays beside the new one, under another name: what
    verification took away from it took an hour of a machine, and the new one has it again.

    Args:
        files: with their texts.
        overwrite: replace files that differ.
        reporter: told what was verified and is not any more.

    Raises:
        CommandLineError: a file is there and would change.
    """
    changing = [path for path, text in files if _differs(path, text)]
    if changing and not overwrite:
        raise _in_the_way(changing[0])
    for path in filter(is_verified, changing):
        kept = backup_path(path)
        write_atomically(kept, path.read_bytes())
        reporter.say(
            f"{path} was verified; what is written now is not, and has again what verification "
            f"took away: rccltune verify. The verified file is kept as {kept}"
        )
    for path, text in files:
        write_atomically(path, text)


def is_verified(path: Path) -> bool:
    """Whether a file says that it was held against the baseline."""
    if not path.is_file():
        return False
    lines = grammar.lines(grammar.read_text(path))
    return any(line.startswith(f"# {VERIFIED_MARK}") for line in lines)


def backup_path(path: Path) -> Path:
    """Path of a verified file when another comes in its place."""
    return path.with_name(path.name + _KEPT)


def _in_the_way(path: Path) -> CommandLineError:
    if is_verified(path):
        return CommandLineError(
            "the rule file is there already, was verified, and would change",
            where=str(path),
            hint=f"write elsewhere with -o FILE (-o - is stdout); --force replaces it, keeps it as "
            f"{backup_path(path).name}, and rccltune verify must then be run again.",
        )
    return CommandLineError(
        "the rule file is there already and would change",
        where=str(path),
        hint="add --force, or write elsewhere with -o FILE (-o - is stdout).",
    )


def _differs(path: Path, text: str) -> bool:
    return path.exists() and path.read_bytes() != text.encode()


_WIDTH = 98
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def render_environment(
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
    lines = [line for text in provenance for line in _said(text)]
    lines.append("#")
    if not needs:
        lines += _said("The environment stays as it is.")
    lines += [_export(name, value) for name, value in needs]
    if use:
        lines += _said(
            f"The plugin reads the rules; only {READING_RULES} and later read them without it. "
            "For production: rccltune deploy."
        )
        lines += [_export(name, value) for name, value in use]
    else:
        lines += _said("There is no rule: nothing is to be loaded.")
    return "\n".join(lines) + "\n"


def _export(name: str, value: str) -> str:
    # A shell would run the rest of what is no name; nothing that was read decides that.
    if not _NAME.fullmatch(name) or not value.isprintable():
        raise VerificationError(
            f"{name!r}={value!r} cannot be exported: it is no variable of a shell",
            hint="measure with another value (sweep --env).",
        )
    return f"export {name}={shlex.quote(value)}"


def _said(text: str) -> list[str]:
    return comment(text, _WIDTH)
