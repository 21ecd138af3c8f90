"""Sizes that rules give back to the untouched library, and a rule file's text without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final

from rccltune.model import grammar
from rccltune.model.chosen import NOT_MEASURED, Rule
from rccltune.model.curves import is_gap
from rccltune.model.errors import InputFileError
from rccltune.model.measured import Sweep
from rccltune.model.schema import Line, Whole
from rccltune.model.settings import LL128_FORCED
from rccltune.model.vocabulary import MAX_NBYTES, Collective, Protocol
from rccltune.rules.line_format import Change, rewritten
from rccltune.rules.reader import read_rules
from rccltune.rules.writer import VERIFIED_MARK
from rccltune.verify.cells import Key, is_of

# Places that are cut out of one rule; with more of them nobody knows where else it loses.
MOST_PLACES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Sizes that are left to the untouched library, and why.

    Attributes:
        line: of the only rule that it is cut out of; None for all rules there, fallbacks too.
    """

    collective: Collective
    min_nbytes: Whole
    max_nbytes: Whole
    reason: Line
    line: Whole | None = None

    def holds(self, collective: Collective, nbytes: int) -> bool:
        """Whether a size is among them, whatever was cut there."""
        return collective is self.collective and self.min_nbytes <= nbytes <= self.max_nbytes

    def is_of(self, rule: Rule) -> bool:
        """Whether it is cut out of this rule."""
        return self.collective is rule.collective and self.line in (None, rule.line)


def whole(rule: Rule, reason: str, *, alone: bool = False) -> Cut:
    """All of a rule, and of every fallback there.

    Args:
        rule: to be cut.
        reason: why.
        alone: fallbacks stay.
    """
    return Cut(
        collective=rule.collective,
        min_nbytes=rule.min_nbytes,
        max_nbytes=rule.max_nbytes,
        reason=reason,
        line=rule.line if alone else None,
    )


def around(rule: Rule, bad: Iterable[int], every: Iterable[int], reason: str) -> tuple[Cut, ...]:
    """From the last good size to the next, at each place: who knows where between it turns.

    Args:
        rule: to be cut.
        bad: sizes in it, at least one.
        every: sizes of it that were measured.
        reason: why.
    """
    lost = set(bad)
    found: list[Cut] = []
    below = rule.min_nbytes
    for is_bad, sizes in groupby(sorted(lost | set(every)), key=lost.__contains__):
        first, *others = sizes
        if not is_bad:
            if found and found[-1].max_nbytes == rule.max_nbytes:
                found[-1] = replace(found[-1], max_nbytes=first - 1)
            below = max((first, *others)) + 1
            continue
        found.append(
            Cut(
                collective=rule.collective,
                min_nbytes=below,
                max_nbytes=rule.max_nbytes,
                reason=reason,
            )
        )
    return tuple(found)


def at_ends(rule: Rule, bad: Iterable[int], every: Iterable[int], reason: str) -> tuple[Cut, ...]:
    """The same of bad sizes below and above all good ones; between these they may stay.

    A path that takes whole chunks alone has sizes for a rule on both sides of each of its own.
    """
    seen, lost = set(every), set(bad)
    good = seen - lost
    outer = [n for n in lost if not good or not min(good) <= n <= max(good)]
    return around(rule, outer, seen, reason) if outer else ()


def together(rule: Rule, found: Iterable[Cut], most: int = MOST_PLACES) -> tuple[Cut, ...]:
    """Cuts of a rule, those that touch made one; all of it where too many places are left.

    Args:
        rule: to be cut.
        found: at least one, all for the same reason.
        most: places that may be cut out of it.
    """
    first, *others = sorted(found, key=lambda cut: cut.min_nbytes)
    merged = [first]
    for cut in others:
        last = merged[-1]
        if cut.min_nbytes > last.max_nbytes + 1:
            merged.append(cut)
        else:
            merged[-1] = replace(last, max_nbytes=max(cut.max_nbytes, last.max_nbytes))
    if len(merged) > most:
        return (whole(rule, f"{first.reason}, at {len(merged)} places"),)
    return tuple(merged)


def beyond(measured: Mapping[Collective, Iterable[int]]) -> tuple[Cut, ...]:
    """What verification does not reach: below and above its sizes, and gaps between them.

    Args:
        measured: sizes in bytes of each collective; without any, all of it is beyond.
    """
    found = []
    for collective, sizes in measured.items():
        low = 0
        for nbytes in sorted(sizes):
            if low == 0 or is_gap(low - 1, nbytes):
                found.append((collective, low, nbytes - 1))
            low = nbytes + 1
        found.append((collective, low, MAX_NBYTES))
    return tuple(
        Cut(collective=collective, min_nbytes=low, max_nbytes=high, reason=NOT_MEASURED)
        for collective, low, high in found
        if low <= high
    )


def inside(rule: Rule, cut: Cut) -> Rule | None:
    """The part of a rule that a cut takes; None where they do not meet."""
    low, high = max(rule.min_nbytes, cut.min_nbytes), min(rule.max_nbytes, cut.max_nbytes)
    if not cut.is_of(rule) or low > high:
        return None
    return replace(rule, min_nbytes=low, max_nbytes=high)


def without(rule: Rule, cuts: Iterable[Cut]) -> tuple[Rule, ...]:
    """What is left of a rule, whatever rule the cuts came from; by size."""
    left = [rule]
    for cut in cuts:
        if cut.is_of(rule):
            left = [part for one in left for part in _parts(one, cut)]
    return tuple(left)


def _parts(rule: Rule, cut: Cut) -> list[Rule]:
    parts = []
    if rule.min_nbytes < cut.min_nbytes:
        parts.append(replace(rule, max_nbytes=min(rule.max_nbytes, cut.min_nbytes - 1)))
    if rule.max_nbytes > cut.max_nbytes:
        parts.append(replace(rule, min_nbytes=max(rule.min_nbytes, cut.max_nbytes + 1)))
    return parts


def is_given_back(gone: Iterable[Cut], collective: Collective, nbytes: int) -> bool:
    """Whether a size is among what was cut, from whatever rule."""
    return any(cut.holds(collective, nbytes) for cut in gone)


def is_taken(rule: Rule, gone: Iterable[Cut], key: Key) -> bool:
    """Whether cuts give back to the library what a rule answered."""
    return is_of(rule, key) and is_given_back(gone, rule.collective, key[2])


def text_of(path: Path) -> str:
    """The file without what an earlier verification said."""
    try:
        text = grammar.read_text(path)
    except OSError as error:
        raise InputFileError(
            f"the rule file cannot be read: {error.strerror}",
            where=str(path),
            hint="write one with rccltune emit-config, or name another with --rules.",
        ) from error
    kept = (line for line in grammar.lines(text) if not line.startswith(f"# {VERIFIED_MARK}"))
    return "\n".join(kept) + "\n"


def exports_without(text: str, lost: Mapping[str, str]) -> str:
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


def without_unneeded(text: str, sweep: Sweep, *, is_worth_it: bool) -> tuple[str, tuple[str, ...]]:
    """The file without needs that no rule of it has any more, and their names.

    What a whole environment gave, all its rules need; LL128 alone is what single rules do.

    Args:
        text: of the file.
        sweep: whose variant forces LL128.
        is_worth_it: whether what it needs wins without any rule, too.
    """
    file = read_rules(text.encode())
    uses_ll128 = any(rule.setting.protocol is Protocol.LL128 for rule in file.rules)
    own = {variant.name: variant for variant in sweep.variants}
    ll128 = {name for name, _ in own.get(LL128_FORCED.name, LL128_FORCED).environment}
    names = tuple(
        name
        for name, _ in file.needs
        if (not file.rules and not is_worth_it) or (name in ll128 and not uses_ll128)
    )
    kept = (line for line in grammar.lines(text) if not _needs_one_of(line, names))
    return "\n".join(kept) + "\n", names


def _needs_one_of(line: str, names: Sequence[str]) -> bool:
    """Whether a line of a rule file asks for one of these variables."""
    words = grammar.instruction(line)
    return words[:1] == ["needs"] and any(word.partition("=")[0] in names for word in words[1:])


def without_needs(text: str) -> str:
    """The file without what it asks of the environment."""
    kept = (line for line in grammar.lines(text) if grammar.instruction(line)[:1] != ["needs"])
    return "\n".join(kept) + "\n"


def without_regions(text: str, losing: Sequence[Cut], rules: Iterable[Rule]) -> str:
    """The file with regions cut out of every rule of this scale, fallbacks too."""
    changes: dict[int, Change] = {}
    holes: set[tuple[int, int, str]] = set()
    for rule in rules:
        mine = [cut for cut in losing if cut.is_of(rule)]
        parts = without(rule, mine)
        if parts == (rule,) or rule.line is None:
            continue
        inside = []
        for cut in mine:
            low = max(cut.min_nbytes, rule.min_nbytes)
            high = min(cut.max_nbytes, rule.max_nbytes)
            if low <= high and (low, high, cut.reason) not in holes:
                holes.add((low, high, cut.reason))
                inside.append((low, high, f"verified: {cut.reason}"))
        why = "; ".join(dict.fromkeys(cut.reason for cut in mine))
        changes[rule.line] = Change(
            parts=parts,
            evidence=f"verify: was {rule.min_nbytes} to {rule.max_nbytes}; {why}",
            holes=tuple(inside),
        )
    return rewritten(text, changes, ())
