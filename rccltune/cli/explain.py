"""``rccltune explain``: what a rule file will do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, common, table
from rccltune.cli.help import verb
from rccltune.cli.shared_options import COLLECTIVE, FILE, MODE, named
from rccltune.cli.verify import no_hardware
from rccltune.model.errors import InputFileError
from rccltune.model.settings import Mode
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_last, format_size
from rccltune.model.vocabulary import Collective
from rccltune.releases import hosts_of
from rccltune.rules.header import simulated_over
from rccltune.rules.rule_order import count_rules

# Of a list, for people.
_SHOWN = 3

if TYPE_CHECKING:
    from rccltune.model.settings import Setting
    from rccltune.rules.decision import Decision
    from rccltune.rules.explanation import AnswerDifference, Explanation
    from rccltune.rules.plugin_answers import AnswerRange, ScaleExplanation
    from rccltune.rules.rule_file import RuleFile


@verb("explain")
@click.argument("rules", type=FILE)
@click.option("--collective", type=COLLECTIVE, help="Only this one.")
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Ask for this many nodes.")
@click.option("--ranks", type=click.IntRange(min=1), metavar="N", help="Ask for this many ranks.")
@click.option("--mode", type=MODE, help="Machine's mode, for rows that are for one mode only.")
@click.option("--diff", type=FILE, metavar="OTHER", help="Show where another file differs.")
@common
def explain(
    *,
    console: Console,
    rules: Path,
    collective: Collective | None,
    nodes: int | None,
    ranks: int | None,
    mode: Mode | None,
    diff: Path | None,
) -> None:
    """Show what a rule file will do, asked of the real plugin.

    The plugin is loaded at every version of the tuner interface and asked until every change of
    its answer is known to the byte. Works for anybody's rule file, on any machine.

    \b
    Example:
      rccltune explain rccl_tuner_gfx942_cpx-nps4.csv --ranks 64

    Exit codes: 0 done, 3 the plugin refuses the file, 4 no plugin, 9 plugin and file disagree.
    """
    from rccltune.rules.explanation import RuleQuestion, compare, differences
    from rccltune.rules.explanation import explain as rules_explain
    from rccltune.rules.writer import is_verified

    question = RuleQuestion(collective=collective, n_nodes=nodes, n_ranks=ranks, mode=mode)
    for path in (rules, *([diff] if diff else [])):
        _must_be_rules(path)
    console.say(f"Rule file: {rules}")
    if diff is None:
        explanations = rules_explain(rules, question)
        if mode is not None and (wanted := _other_mode(explanations.file, mode)):
            console.say(
                f"Warning: this file is for {wanted}: in {mode} the plugin refuses it, and the job "
                "stops. Below is what it does where it is for"
            )
        # Of thousands of rules either takes seconds.
        if console.as_json:
            console.result(_print_explanation(explanations), "")
        else:
            console.result(None, _text(explanations))
        if not explanations.file.rules:
            return
        if not is_verified(rules):
            console.say(
                f"Next: {_verifying(rules, _home_of(rules))} shows on the machine whether they "
                f"{'win' if explanations.file.bits is None else 'keep their bits'}."
            )
        elif _is_deployed_of(rules.parent, rules):
            console.say(f"Next: {named('deploy DIR', rules.parent)} hands the rules to jobs.")
        return
    one, other = compare(rules, diff, question)
    changes = differences(one, other)
    console.result({"changes": changes}, _changes(changes, one, other))
    console.say(f"Next: {_verifying(diff, _home_of(diff, rules))} measures the other file.")


def _home_of(*rules: Path) -> Path:
    """The session that one of the files lies in, or in a folder of which it does."""
    near = (folder for one in rules for folder in (one.parent, one.parent.parent))
    return next((one for one in near if (one / "session.json").exists()), DEFAULT_SESSION)


def _is_deployed_of(folder: Path, rules: Path) -> bool:
    """Whether ``folder`` is a session of which deploy takes just this file."""
    from rccltune.verify.verdict_store import rule_paths, used_session

    return (folder / "session.json").exists() and rules in rule_paths(used_session(folder))


def _verifying(rules: Path, home: Path) -> str:
    """Commands that verify a rule file, beside the session that it lies in or is near."""
    from rccltune.session.store import is_swept, sweep_then_verify

    if not is_swept(home):
        return sweep_then_verify(rules)
    return named(f"verify --rules {shlex.quote(str(rules))}", home)


def _other_mode(file: RuleFile, mode: Mode) -> str | None:
    """The mode that a file requires, where that is another one."""
    required = dict(file.requires)
    mode_parts = {"compute": mode.compute, "memory": mode.memory}
    differs = any(
        mode_parts[key] and key in required and required[key].upper() != mode_parts[key]
        for key in mode_parts
    )
    words = [required[key].lower() for key in mode_parts if key in required]
    return "-".join(words) if differs else None


def _must_be_rules(path: Path) -> None:
    """Stop where a file holds no rules at all, and say which verb reads it.

    Raises:
        InputFileError: as a table of measurements.
    """
    from rccltune.logs.file_kinds import FileKind, detect_kind_without_rules, hint_for_kind
    from rccltune.logs.log_files import detect_kind_of_head

    if path.suffix == ".json" and (path.parent / "session.json").is_file() and path.is_file():
        raise InputFileError(
            "this is no rule file, it is one of a session's own",
            where=str(path),
            hint=f"name one of {path.parent}/rccl_tuner*.csv; rccltune report shows the rest.",
        )
    with suppress(OSError):
        content = path.read_bytes()
        form = detect_kind_without_rules(content.decode("utf-8", "replace"))
        if form is FileKind.TEXT and (inside := detect_kind_of_head(content)) is not FileKind.RULES:
            # A launcher's names of ranks stand before each line.
            form = inside
        if form is not None:
            lines = "give a file of lines colltype,minbytes,maxbytes,algorithm,…"
            hints = {
                FileKind.TEXT: f"{lines}; of a log of measurements {hint_for_kind(form, path)}",
                FileKind.NCCLX: f"{lines}, with total bytes and numbers of nodes and ranks.",
                FileKind.GCP: f"{lines}.",
            }
            raise InputFileError(
                "this is no rule file: not one of its lines is a rule"
                if form is FileKind.TEXT
                else f"this is no rule file of RCCL's or NCCL's, it is a {form.value}",
                where=str(path),
                hint=hints.get(form, f"{hint_for_kind(form, path)}."),
            )


def _print_explanation(explanation: Explanation) -> dict[str, Any]:
    return {
        "rules": (count := count_rules(explanation.file.rules)).rules,
        "fallbacks": count.fallbacks,
        "simulated": (origin := simulated_over(explanation.path))[0],
        "runner": origin[1],
        "findings": explanation.file.findings,
        "requires": dict(explanation.file.requires),
        "library": explanation.file.library,
        "bits": explanation.file.bits,
        "needs": dict(explanation.file.needs),
        "dead": [rule.line for rule in explanation.audit.dead],
        "fallback": [rule.line for rule in explanation.audit.fallbacks],
        "never_matches": [{"line": line, "reason": why} for line, why in explanation.unmatched],
        "never_selectable": [{"line": line, "reason": why} for line, why in explanation.never],
        "never_selectable_on_amd": [
            {"line": line, "reason": why} for line, why in explanation.never_by_amd
        ],
        "placement": explanation.placement,
        "read_otherwise": explanation.misread,
        "other_readers": explanation.beside_lines,
        "parts": explanation.parts,
    }


def _text(explanation: Explanation) -> JoinedLines:
    nothing = "No rule for this question."
    if not explanation.file.rules:
        nothing = "This file has no rules: the library chooses by itself at every size."
    parts = [_part(part) for part in explanation.parts] or [join_lines([nothing])]
    return join_lines([*parts, join_lines(_remarks(explanation))], gap="\n\n")


def _part(part: ScaleExplanation) -> JoinedLines:
    others = [join_lines([f"  with {call}:", _ranges(answers)]) for call, answers in part.calls]
    lines = [f"{part.collective.value}, {part.scale}"]
    for abi, answers in part.old_hosts:
        lines.append(f"  hosts of tuner ABI {abi} ({hosts_of(abi)}): {_old(answers)}")
    lines += [f"  {said}" for said in part.overwritten]
    return join_lines([*lines, _ranges(part.ranges), *others])


def _old(decisions: Sequence[Decision]) -> str:
    """What an old host is answered, where that is not the usual."""
    there = {str(one.setting) for one in decisions if one.setting}
    return f"only {', '.join(sorted(there))}" if there else "no answer"


def _ranges(ranges: Sequence[AnswerRange]) -> JoinedLines:
    """Their table; what hosts answer that offer no LL128 where it is something else."""
    if all(one.without_ll128 == one.setting for one in ranges):
        rows = [(*_row(one)[:3], *_row(one)[4:]) for one in ranges]
        columns: tuple[str, ...] = ("from", "to", "setting", "line", "note")
        return join_lines([table(columns, rows, numeric=(0, 1, 3))])
    columns = ("from", "to", "setting", "without LL128", "line", "note")
    return join_lines(
        [
            table(columns, map(_row, ranges), numeric=(0, 1, 4)),
            "  without LL128: on hosts whose library does not offer it, AMD's without its variable",
        ]
    )


def _row(part: AnswerRange) -> tuple[str, ...]:
    hole = part.reason or ("no rule: the library decides" if part.setting is None else "")
    return (
        format_size(part.min_nbytes),
        format_last(part.max_nbytes),
        _name(part.setting),
        "same" if part.without_ll128 == part.setting else _name(part.without_ll128),
        "" if part.line is None else str(part.line),
        hole,
    )


def _name(setting: Setting | None) -> str:
    return "–" if setting is None else str(setting)


def _remarks(explanation: Explanation) -> list[str]:
    file, audit = explanation.file, explanation.audit
    simulated, runner = simulated_over(explanation.path)
    lines = [no_hardware(runner)] if simulated else []
    lines.append(str(count_rules(file.rules)))
    lines += [f"{f.severity.value}: line {f.line}: {f.message} [{f.code}]" for f in file.findings]
    lines += [f"never matches: line {line}: {why}" for line, why in explanation.unmatched]
    lines += [
        f"dead: line {rule.line} can never be reached: rules above it take all of its sizes"
        for rule in audit.dead
    ]
    lines += [
        f"fallback: line {rule.line} is reached only where an earlier rule is not selectable"
        for rule in audit.fallbacks
    ]
    lines += [f"not selectable: line {line}: {why}" for line, why in explanation.never]
    if set(explanation.never_by_amd) - set(explanation.never):
        numbers = ", ".join(str(line) for line, _ in explanation.never_by_amd)
        lines.append(
            f"nothing says whose GPUs this is for: RCCL on AMD's would never take line {numbers}; "
            "--mode spx-nps1 (or another) asks about those"
        )
    if file.requires:
        lines.append("requires " + " ".join(f"{key}={value}" for key, value in file.requires))
    if file.library is not None:
        lines.append(f"measured with {file.library}; RCCLTUNE_STRICT=1 refuses another library")
    if file.bits is not None:
        lines.append(
            f"results keep their bits ({file.bits}): at every size that a rule reaches, within one "
            "communicator, by calls outside groups, with this library and environment"
        )
    elif any(rule.collective.reduces for rule in file.rules):
        lines.append(
            "sums may change their bits where a rule begins or ends "
            "(emit-config --same-bits: rules that keep them)"
        )
    if explanation.placement is not None:
        place = explanation.placement
        with_it, without = (
            "used" if is_used else "not used" for is_used in (place.with_it, place.without)
        )
        lines.append(
            f"asked of the plugin: {with_it} under RCCLTUNE_PLACEMENT={place.name} (on every "
            f"rank), {without} without it on this machine"
        )
    lines += [f"needs {name}={value} on every rank" for name, value in file.needs]
    first = explanation.misread[:_SHOWN]
    lines += [f"read otherwise without our plugin: {one}" for one in first]
    n_more = len(explanation.misread) - len(first)
    lines += [f"read otherwise without our plugin: {n_more} more lines (--json)"] * bool(n_more)
    lines += [f"without our plugin: {one}" for one in explanation.beside_lines]
    return lines


def _changes(
    changes: tuple[AnswerDifference, ...], one: Explanation, other: Explanation
) -> JoinedLines:
    from rccltune.rules.plugin_answers import CallArguments

    conditions = _conditions(one, other)
    if not changes:
        return join_lines(("Both files answer alike at every size.", *conditions))
    parts: dict[str, list[AnswerDifference]] = {}
    for change in changes:
        call = "" if change.call == CallArguments() else f", {change.call}"
        parts.setdefault(f"{change.collective.value}, {change.scale}{call}", []).append(change)
    tables = [join_lines([name, _differing(changes_of)]) for name, changes_of in parts.items()]
    heads = join_lines([f"A: {one.path}", f"B: {other.path}"])
    return join_lines(
        [heads, *tables, *([join_lines(conditions)] if conditions else [])], gap="\n\n"
    )


def _differing(changes: Sequence[AnswerDifference]) -> JoinedLines:
    rows = (
        (
            format_size(change.min_nbytes),
            format_last(change.max_nbytes),
            _with_without(change.one, change.one_without),
            _with_without(change.other, change.other_without),
        )
        for change in changes
    )
    return table(("from", "to", "A", "B"), rows, numeric=(0, 1))


def _with_without(setting: Setting | None, without: Setting | None) -> str:
    plain = _name(setting)
    return plain if setting == without else f"{plain} (without LL128: {_name(without)})"


def _conditions(one: Explanation, other: Explanation) -> list[str]:
    """Conditions on machine or environment that only one of the files has."""
    lines = []
    for mine, others in ((one, other), (other, one)):
        needs = sorted(set(mine.file.needs) - set(others.file.needs))
        requires = sorted(set(mine.file.requires) - set(others.file.requires))
        lines += [f"only {mine.path} needs {name}={value}" for name, value in needs]
        lines += [f"only {mine.path} requires {key}={value}" for key, value in requires]
        if mine.file.library not in (None, others.file.library):
            lines.append(f"only {mine.path} was measured with {mine.file.library}")
    return lines
