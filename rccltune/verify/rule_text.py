"""The text of a rule file and of its exports, as a verification reads and rewrites it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rccltune.model import LL128_FORCED, InputFileError, Protocol, Rule, Sweep, grammar
from rccltune.rules import VERIFIED_MARK, Change, read_rules, rewritten
from rccltune.verify.cuts import Cut, without


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
