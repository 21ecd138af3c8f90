"""A rule document as text, and files put in place: all of them or none.

The same document gives the same bytes. Nothing that was proven is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rccltune.model import grammar
from rccltune.model.errors import CommandLineError, VerificationError
from rccltune.model.reporter import Reporter
from rccltune.model.rule import RESTORES, Rule, RuleState
from rccltune.model.zone import Zone
from rccltune.rules import line_format
from rccltune.rules.line_format import UNPROVEN_MARK, add_frame
from rccltune.rules.rule_document import RuleDocument, by_target, fallbacks_of, rule_of
from rccltune.session.files import write_atomically

_COLUMNS = "colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"


def render(document: RuleDocument) -> str:
    """The file's text: LF, no header row, comments in column 0, ten fields a row.

    Raises:
        InputFileError: what the rules need or require fits no line.
    """
    lines = [line for text in document.provenance for line in _comment(text)]
    lines += line_format.requires_lines(document.requires)
    lines += [line_format.library_line(document.library)] if document.library else []
    lines += [line_format.bits_line(document.bits)] if document.bits else []
    lines += [line_format.needs_line(name, value) for name, value in document.needs]
    lines += _comment(f"columns: {_COLUMNS}")
    for zones in by_target(document.zones):
        lines += _section(zones)
    return line_format.text_of(add_frame(lines))


_comment = line_format.comment_lines


def _section(zones: Sequence[Zone]) -> Iterator[str]:
    """Lines of one target."""
    target = zones[0].target
    yield "#"
    # Holes are lines of their own, and a reader must know whose they are.
    scale = f"nodes={target.scale.n_nodes} ranks={target.scale.n_ranks}"
    yield f"#@ section {target.collective.csv_name} {scale}"
    yield from _comment(
        f"{target.collective.value}, {target.scale}"
        + (f", rank placement {target.rank_placement}" if target.rank_placement else "")
    )
    for zone in zones:
        if zone.setting is None:
            # The reader of this line is a program too: one line.
            yield line_format.hole_line(zone.min_nbytes, zone.max_nbytes, zone.reason or "")
        else:
            for text in _evidence_lines(zone):
                yield from _comment(text)
            yield rule_line(rule_of(zone, zone.setting))
    fallbacks = fallbacks_of(zones)
    if fallbacks:
        yield from _comment(
            "reached only where the setting above is not selectable (LL128 not enabled):"
        )
    for rule in fallbacks:
        yield from _comment(_fallback_doubt(rule, zones))
        yield rule_line(rule)


def _fallback_doubt(rule: Rule, zones: Sequence[Zone]) -> str:
    """Comment on the first unproven one of the zones that a fallback stands behind; or empty."""
    mine = [
        zone.behind
        for zone in zones
        if zone.behind and rule.min_nbytes <= zone.min_nbytes <= rule.max_nbytes
    ]
    doubted = next((zone for zone in mine if _doubt(zone)), None)
    return "" if doubted is None else f"fallback {_doubt(doubted)[0]}"


def _evidence_lines(zone: Zone) -> list[str]:
    """Comments on what a zone's choice rests on."""
    return [_seen(zone), *([RESTORES] if zone.state is RuleState.RESTORES else []), *_doubt(zone)]


def _seen(zone: Zone) -> str:
    """What the sweep saw of a zone's sizes."""
    parts = [f"chosen: {zone.n_sizes or 'no'} size{'s' if zone.n_sizes > 1 else ''} measured"]
    if zone.worst_regret is not None:
        parts.append(f"at most {_percent(zone.worst_regret)} behind the best measured setting")
    if zone.gain is not None:
        parts.append(
            f"{zone.gain.value:.2f}x as fast as baseline in the mean "
            f"({zone.gain.low:.2f} to {zone.gain.high:.2f})"
        )
    if zone.is_proven:
        parts.append(f"proven in {zone.n_communicators} communicators")
    return ", ".join(parts)


def _doubt(zone: Zone) -> list[str]:
    """Directly above the row, where whoever verifies the rule takes it away."""
    return [f"{UNPROVEN_MARK} {zone.why_unproven}"] if zone.why_unproven else []


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


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
    fields = (
        rule.collective.csv_name,
        rule.min_nbytes,
        rule.max_nbytes,
        setting.algorithm.value,
        setting.protocol.value,
        setting.channels,
        rule.n_nodes,
        rule.n_ranks,
        rule.num_pipe_ops,
        rule.reg_buff,
    )
    return ",".join("-1" if field is None else str(field) for field in fields)


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
        raise _refuse_replacing(changing[0])
    for path in filter(is_verified, changing):
        backup = backup_path(path)
        write_atomically(backup, path.read_bytes())
        reporter.say(
            f"{path} was verified; what is written now is not, and has again what verification "
            f"took away: rccltune verify. The verified file is kept as {backup}"
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


def _refuse_replacing(path: Path) -> CommandLineError:
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
