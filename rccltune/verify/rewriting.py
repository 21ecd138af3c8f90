"""A rule file's text with what verification found: kept, narrowed, or given back to the library."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rccltune.model import grammar
from rccltune.model.rule import LeftToLibrary, Rule
from rccltune.model.settings import LL128_FORCED, Scale
from rccltune.model.units import format_span
from rccltune.model.vocabulary import Protocol
from rccltune.model.zone import NOT_MEASURED
from rccltune.rules import line_format
from rccltune.rules.line_format import LineChange, rewrite_lines
from rccltune.rules.rule_file import RuleFile, read_rules
from rccltune.rules.rule_order import subtract_rules
from rccltune.rules.writer import VERIFIED_MARK
from rccltune.verify.verdict_file import RuleVerdict

# What is said of a rule's sizes that one before it answers.
_HIDDEN: Final = "fallback, not timed: the rule before it answers"
# What makes a job use a rule file.
USE: Final = ("NCCL_TUNER_CONFIG_FILE", "NCCL_TUNER_PLUGIN", "RCCLTUNE_PLACEMENT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedRules:
    """A file as it is after judging.

    Attributes:
        cuts: what rules lost.
        kept: what the file has of each rule, by its line in the text before.
    """

    text: str
    cuts: tuple[LeftToLibrary, ...]
    kept: Mapping[int, tuple[RuleVerdict, ...]]


def strip_evidence(text: str) -> str:
    """A rule file without what an earlier verification said in it."""
    remaining = (line for line in grammar.lines(text) if not line.startswith(f"# {VERIFIED_MARK}"))
    return "\n".join(remaining) + "\n"


def strip_comments(text: str) -> str:
    """A rule file without what is said to people: it is the same with its proof and without."""
    return "".join(one for one in text.splitlines(keepends=True) if not one.startswith("# "))


def hash_rules(rules: str, conditions: Iterable[str]) -> str:
    """Twelve letters by which the calls of a rule file are told from those of others.

    Args:
        rules: of the file, without comments.
        conditions: what else times depend on: the library and its variables.
    """
    known = rules + "".join(f"# {one}\n" for one in conditions)
    return hashlib.sha256(known.encode()).hexdigest()[:12]


def bind_to_library(text: str, release: str | None) -> str:
    """The file for the library that it is verified with; as it is where that is not known.

    Args:
        text: of the file.
        release: ``NCCL 2.28.9``.
    """
    if release is None:
        return text
    lines = grammar.lines(text)
    old = [at for at, line in enumerate(lines) if grammar.instruction(line)[:1] == ["library"]]
    remaining = [line for at, line in enumerate(lines) if at not in old]
    # Where it stood; else behind what the file requires, or above its columns.
    above = [
        at + 1 for at, line in enumerate(remaining) if grammar.instruction(line)[:1] == ["requires"]
    ]
    columns = [at for at, line in enumerate(remaining) if line.startswith("# columns:")]
    place = next(iter((*old, *above[-1:], *columns)), 0)
    return (
        "\n".join([*remaining[:place], line_format.library_line(release), *remaining[place:]])
        + "\n"
    )


def select_rules(file: RuleFile, scale: Scale) -> tuple[Rule, ...]:
    """Rules that answer at this scale, in the file's order, fallbacks marked."""
    selected: list[Rule] = []
    for one in file.rules:
        if one.n_nodes in (None, scale.n_nodes) and one.n_ranks in (None, scale.n_ranks):
            before = [rule for rule in selected if _takes_calls_of(rule, one)]
            taken = not subtract_rules((one.min_nbytes, one.max_nbytes), before)
            selected.append(replace(one, fallback=taken))
    return tuple(selected)


def _takes_calls_of(first: Rule, other: Rule) -> bool:
    """Whether a rule takes every call of another one behind it whose size it has, too."""
    return (
        first.collective is other.collective
        and first.num_pipe_ops in (None, other.num_pipe_ops)
        and first.reg_buff in (None, other.reg_buff)
        and first.only_mode in (None, other.only_mode)
    )


def clip_to_measured(
    text: str, rules: Sequence[Rule], measured: Mapping[str, tuple[int, int]]
) -> tuple[str, tuple[LeftToLibrary, ...]]:
    """The file with rules that reach no further than the sweep measured.

    Args:
        text: of the file.
        rules: of this scale, in its order, fallbacks too.
        measured: first and last size in bytes, by collective.

    Returns:
        The text, and what rules lost.
    """
    changes: dict[int, LineChange] = {}
    cuts: dict[LeftToLibrary, None] = {}
    for rule in rules:
        first, last = measured.get(rule.collective.value, (1, 0))
        low, high = max(rule.min_nbytes, first), min(rule.max_nbytes, last)
        if (low, high) == (rule.min_nbytes, rule.max_nbytes) or rule.line is None:
            continue
        part = replace(rule, min_nbytes=low, max_nbytes=high) if low <= high else None
        beyond = list(_around(rule, [] if part is None else [(low, high)]))
        mine = [
            LeftToLibrary(
                collective=rule.collective,
                min_nbytes=first_,
                max_nbytes=last_,
                reason=NOT_MEASURED,
            )
            for first_, last_ in beyond
        ]
        holes = tuple(one for one in mine if one not in cuts)
        cuts |= dict.fromkeys(mine)
        parts = () if part is None else (part,)
        changes[rule.line] = LineChange(parts=parts, evidence="", holes=holes)
    return rewrite_lines(text, changes, ()), tuple(cuts)


def split_hidden(text: str, rules: Sequence[Rule]) -> str:
    """The file with every rule cut where one before it begins and ends.

    What one hides of another was not verified: it goes and stays with the rule before it, as a
    fallback, and must not answer where that one was found to be slower.

    Args:
        text: of the file.
        rules: of this scale, in its order, fallbacks too.
    """
    changes: dict[int, LineChange] = {}
    before: list[Rule] = []
    for rule in rules:
        firsts = [one for one in before if _takes_calls_of(one, rule)]
        before.append(rule)
        if rule.fallback or rule.line is None:
            continue
        reachable = subtract_rules((rule.min_nbytes, rule.max_nbytes), firsts)
        if reachable != [(rule.min_nbytes, rule.max_nbytes)]:
            spans = sorted([*reachable, *_around(rule, reachable)])
            parts = tuple(replace(rule, min_nbytes=low, max_nbytes=high) for low, high in spans)
            comments = tuple(() if span in reachable else (_HIDDEN,) for span in spans)
            changes[rule.line] = LineChange(parts=parts, evidence="", own=comments)
    return rewrite_lines(text, changes, ())


def read_earlier_cuts(text: str, scale: Scale) -> tuple[LeftToLibrary, ...]:
    """Read what earlier verifications left to the library.

    Ranges of a file without sections may be of any collective, and are left out.

    Args:
        text: of the file.
        scale: of the communicator.
    """
    mark = f"{VERIFIED_MARK} "
    return tuple(
        replace(one, reason=one.reason.removeprefix(mark), scale=None)
        for one in read_rules(text.encode()).holes
        if one.scale == scale and one.reason.startswith(mark)
    )


def trim_rules(text: str, rules: Sequence[Rule], parts: Iterable[RuleVerdict]) -> TrimmedRules:
    """The file without what is not kept; fallbacks that nobody needed go and stay with their rules.

    Args:
        text: of the file.
        rules: of this scale, in its order, fallbacks too.
        parts: what was found of each rule.
    """
    by_line: dict[int | None, list[RuleVerdict]] = {}
    for part in parts:
        by_line.setdefault(part.line, []).append(part)
    kept_parts = [one for mine in by_line.values() for one in mine if one.is_kept]
    changes: dict[int, LineChange] = {}
    cuts: list[LeftToLibrary] = []
    parts_by_line: dict[int, tuple[RuleVerdict, ...]] = {}
    left: dict[int | None, list[tuple[int, int]]] = {}
    for rule in rules:
        mine = by_line.get(rule.line, [])
        if rule.line is None or not mine:
            continue
        stays = tuple(one for one in mine if one.is_kept)
        parts_by_line[rule.line] = stays
        spans = [(one.min_nbytes, one.max_nbytes) for one in stays]
        lost = [
            LeftToLibrary(
                collective=rule.collective,
                min_nbytes=low,
                max_nbytes=high,
                reason=_reason(low, high, mine),
            )
            for span in _around(rule, spans)
            for low, high in subtract_rules(span, _others(rule, kept_parts))
        ]
        cuts += lost
        changes[rule.line] = _change(rule, stays, lost, mine)
        left[rule.line] = spans
    for other in rules:
        if other.fallback and other.line is not None and other.line not in by_line:
            firsts = [one for one in rules if one.collective is other.collective]
            spans = [
                (max(low, other.min_nbytes), min(high, other.max_nbytes))
                for one in firsts
                if not one.fallback
                for low, high in left.get(one.line, [(one.min_nbytes, one.max_nbytes)])
            ]
            spans = sorted((low, high) for low, high in spans if low <= high)
            changes[other.line] = LineChange(
                parts=tuple(replace(other, min_nbytes=a, max_nbytes=b) for a, b in spans),
                evidence="" if spans else "verify: goes with the rule before it, and was not timed",
            )
    return TrimmedRules(text=rewrite_lines(text, changes, ()), cuts=tuple(cuts), kept=parts_by_line)


def _others(rule: Rule, rules: Iterable[RuleVerdict]) -> list[RuleVerdict]:
    """Kept parts of other rules of its collective, which answer where it cannot be chosen."""
    return [one for one in rules if one.line != rule.line and _takes_calls_of(one, rule)]


def _around(rule: Rule, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sizes of a rule that lie outside of some spans."""
    low = rule.min_nbytes
    for first, last in spans:
        if low < first:
            yield low, first - 1
        low = last + 1
    if low <= rule.max_nbytes:
        yield low, rule.max_nbytes


def _reason(low: int, high: int, parts: Sequence[RuleVerdict]) -> str:
    gone = [one for one in parts if not one.is_kept]
    here = [one for one in gone if one.min_nbytes <= high and one.max_nbytes >= low] or gone
    if len(here) < 2:
        return "".join(map(_why, here)) or "not called"
    # Called sizes: what lies between two of them is nobody's.
    return "; ".join(f"{format_span(one.min_nbytes, one.max_nbytes)} {_why(one)}" for one in here)


def _why(part: RuleVerdict) -> str:
    reason = part.reason or part.state.value
    return f"{reason}, {part.gain}" if part.gain is not None and "x (" not in reason else reason


def _change(
    rule: Rule,
    parts: tuple[RuleVerdict, ...],
    lost: Sequence[LeftToLibrary],
    verdicts: Sequence[RuleVerdict],
) -> LineChange:
    if not lost:
        # Where all of it went without a loss, a rule behind it answered.
        why = "" if parts else f"verify: {_reason(rule.min_nbytes, rule.max_nbytes, verdicts)}"
        return LineChange(parts=parts, evidence=why)
    why = "; ".join(dict.fromkeys(one.reason for one in lost))
    holes = (replace(one, reason=f"{VERIFIED_MARK} {one.reason}") for one in lost)
    return LineChange(
        parts=parts,
        evidence=f"verify: was {rule.min_nbytes} to {rule.max_nbytes}; {why}",
        holes=tuple(holes),
    )


def write_evidence(text: str, evidence: Mapping[int, str], header: Sequence[str]) -> str:
    """The file with what its rules rest on above each, by line.

    Args:
        text: of the file.
        evidence: a sentence for the rule on each line.
        header: comments for its head.
    """
    rules = {one.line: one for one in read_rules(text.encode()).rules}
    changes = {
        line: LineChange(parts=(rules[line],), evidence=f"{VERIFIED_MARK} {said}")
        for line, said in evidence.items()
    }
    return rewrite_lines(text, changes, [f"{VERIFIED_MARK} {one}" for one in header])


def drop_exports(text: str, lost: Mapping[str, str]) -> str:
    """Exports that emit-config wrote, without those that do harm or that nothing needs.

    Args:
        text: of the file.
        lost: why each goes, by its name.
    """
    lines = []
    for line in grammar.lines(text):
        name = line.removeprefix("export ").partition("=")[0]
        is_lost = line.startswith("export ") and name in lost
        lines.append(f"# {VERIFIED_MARK} {name} {lost[name]}" if is_lost else line)
    return "\n".join(lines) + "\n"


def drop_unneeded_needs(
    text: str, environment: Collection[tuple[str, str]]
) -> tuple[str, tuple[str, ...]]:
    """The file without needs that no rule of it has any more, and their names.

    What was measured with all rules need; LL128 forced beyond that is what single rules do.

    Args:
        text: of the file.
        environment: what was measured with.
    """
    file = read_rules(text.encode())
    uses_ll128 = any(rule.setting.protocol is Protocol.LL128 for rule in file.rules)
    names = tuple(
        pair[0]
        for pair in file.needs
        if not file.rules or (pair == LL128_FORCED and not uses_ll128 and pair not in environment)
    )
    remaining = (line for line in grammar.lines(text) if not _needs_one_of(line, names))
    return "\n".join(remaining) + "\n", names


def _needs_one_of(line: str, names: Sequence[str]) -> bool:
    """Whether a line of a rule file asks for one of these variables."""
    words = grammar.instruction(line)
    return words[:1] == ["needs"] and any(word.partition("=")[0] in names for word in words[1:])
