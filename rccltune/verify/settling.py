"""Round after round of launches, until all that is left of a rule file stands."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rccltune.measure import Site
from rccltune.model import (
    Collective,
    HarmError,
    Judgement,
    Rule,
    VerificationError,
    format_span,
    grammar,
)
from rccltune.rules import Change, RuleFile, accepted, rewritten
from rccltune.verify import harm, narrowing
from rccltune.verify.narrowing import Cut, Standing
from rccltune.verify.trials import Ground, Held, Proven, hold, of_scale
from rccltune.verify.verdicts import Weighed

# Rules are narrowed so often; what is uncertain after that goes as a whole, so that a machine
# whose noise moves from size to size does not nibble at them for ever.
_NARROWING: Final = 3
_MOST_ROUNDS: Final = 12
Sizes = Mapping[Collective, frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a file is held to.

    Attributes:
        where: the file, for messages.
        min_gain: what a rule must gain over its range, 0.02 for 2 %.
        keep_losers: one round, and nothing is cut.
    """

    where: Path
    min_gain: float
    keep_losers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A file, and what the last round said of it.

    Attributes:
        losing: what would have to go after the last round; empty where all stands.
        harmed: sizes that no rule answered and that are slower or wrong.
        is_wrong: some of these are wrong, which needs no second look.
        cuts: what went in the rounds before.
        lost_needs: what rules asked of the environment, and does harm.
    """

    text: str
    file: RuleFile
    held: tuple[Held, ...]
    standings: tuple[Standing, ...]
    losing: tuple[Cut, ...]
    harmed: Sizes = field(default_factory=dict)
    is_wrong: bool = False
    cuts: tuple[Cut, ...] = ()
    lost_needs: tuple[str, ...] = ()
    n_launches: int
    n_rounds: int = 1


def settle(wanted: Wanted, ground: Ground, text: str) -> Settled:
    """Round after round, until all that is left stands, nothing is left, or it does not settle.

    Raises:
        InputFileError: the plugin refuses the file.
        RccltuneError: of launches that do not work, as :func:`rccltune.verify.trials.hold` says.
    """
    cuts: tuple[Cut, ...] = ()
    before: Sizes = {}
    lost: tuple[str, ...] = ()
    n_launches, since = 0, 1
    for number in itertools.count(1):
        state = _judged(wanted, ground, text, range(since, number + 1))
        n_made = n_launches + state.n_launches
        state = replace(state, cuts=cuts, lost_needs=lost, n_rounds=number, n_launches=n_made)
        if wanted.keep_losers or number == _MOST_ROUNDS:
            return state
        # A machine has moods of minutes, and harm is believed when a second round, together with
        # the first where the file is the same, sees it alike.
        is_harm = state.is_wrong or _overlap(state.harmed, before)
        if is_harm and state.file.needs:
            # What rules need may harm where no rule is; without it some are not selectable.
            words = in_words(state.harmed)
            ground.reporter.say(
                f"what the rules need is taken away: slower without a rule is {words}"
            )
            lost, text, before = tuple(dict(state.file.needs)), _without_needs(text), {}
            n_launches, since = n_made, number + 1
            continue
        if is_harm or not (state.losing or state.harmed):
            return state
        before = state.harmed
        if not state.losing:
            ground.reporter.say(
                f"measured again: slower without a rule was {in_words(state.harmed)}"
            )
            continue
        losing = state.losing
        if number > _NARROWING:
            losing = tuple(_whole(cut, state.standings) for cut in losing)
        for cut in losing:
            ground.reporter.say(f"{_span(cut)} goes back to the untouched library: {cut.reason}")
        cuts += losing
        n_launches, since = n_made, number + 1
        text = _without(text, state.file, losing, ground.site)
        file = accepted(text.encode(), wanted.where)
        if not ours(file, ground.site):
            return replace(
                state,
                text=text,
                file=file,
                held=(),
                standings=(),
                losing=(),
                harmed={},
                cuts=cuts,
            )
    raise AssertionError("counting ends with a return")


def refuse(state: Settled, ground: Ground) -> None:
    """Nothing is written of what does not settle, or harms where no rule is.

    Raises:
        HarmError: sizes without a rule are slower or wrong.
        VerificationError: rules still lose.
    """
    if state.harmed:
        raise HarmError(
            "sizes that no rule is for are slower than in the untouched site: "
            f"{in_words(state.harmed)}",
            where=str(ground.folder),
            hint=f"{_why_harmed(state.file)} Nothing was written.",
        )
    if state.losing:
        raise VerificationError(
            f"after {state.n_rounds} rounds rules still lose: the machine does not repeat itself",
            where=str(ground.folder),
            hint="look for other jobs and changing clocks (rccltune doctor), then verify again.",
        )


def ours(file: RuleFile, site: Site) -> tuple[Rule, ...]:
    """Rules of this scale that are to win; a vendor's behind them are what the site has anyway."""
    return tuple(rule for rule in of_scale(file, site) if not rule.vendor)


def in_words(sizes: Sizes) -> str:
    """``all_reduce at 7 sizes from 4 KiB to 512 KiB``; at the size where it is one."""
    return "; ".join(f"{one.value} at {_where(found)}" for one, found in sizes.items())


def _where(found: Collection[int]) -> str:
    span = format_span(min(found), max(found))
    return span if len(found) == 1 else f"{len(found)} sizes from {span}"


def _judged(wanted: Wanted, ground: Ground, text: str, rounds: range) -> Settled:
    """The rounds of one state of a file, by their numbers."""
    site = ground.site
    file = accepted(text.encode(), wanted.where)
    rules = of_scale(file, site)
    held = hold(ground, file, text, rounds)
    usable = [w for one in held for w in one.weighed if _answered(w, one.proven, rules)]
    own = ours(file, site)
    found = narrowing.standings(own, site.scale, usable, wanted.min_gain)
    losing = [cut for one in found for cut in one.cuts]
    harmed = list(_harmed(held, rules))
    return Settled(
        text=text,
        file=file,
        held=held,
        standings=found,
        losing=(*losing, *_unasked(own, found, held[0].proven)),
        harmed=_sizes(harmed),
        is_wrong=any(one.verdict.judgement is Judgement.WRONG for one in harmed),
        n_launches=sum(one.n_launches for one in held),
    )


def _answered(one: Weighed, proven: Proven, rules: Sequence[Rule]) -> bool:
    """Whether it was the rule for this size that answered, and no path, fallback or nobody."""
    target, nbytes = one.verdict.target, one.verdict.nbytes
    collective = target.collective
    first = next((r for r in rules if r.matches(collective, nbytes, target.scale)), None)
    if first is None or first.vendor or nbytes in proven.bypassed.get(collective, ()):
        return False
    return nbytes not in proven.skipped.get(first.line or 0, ())


def _harmed(every: Iterable[Held], rules: Sequence[Rule]) -> Iterable[Weighed]:
    """Sizes that no rule answered and that are slower or wrong, of every condition."""
    for held in every:
        free = (one for one in held.weighed if not _answered(one, held.proven, rules))
        yield from harm.harmed(free)


def _sizes(found: Iterable[Weighed]) -> Sizes:
    sizes: dict[Collective, frozenset[int]] = {}
    for one in found:
        collective = one.verdict.target.collective
        sizes[collective] = sizes.get(collective, frozenset()) | {one.verdict.nbytes}
    return sizes


def _overlap(one: Sizes, other: Sizes) -> bool:
    return any(sizes & other.get(collective, frozenset()) for collective, sizes in one.items())


def _why_harmed(file: RuleFile) -> str:
    if any(rule.vendor for rule in file.rules):
        return (
            "the base is not what this library has: emit the rules over its own (--base auto), or "
            "over none."
        )
    if not file.needs:
        return (
            "either loading a plugin costs the library something there (a table of its own: see "
            "what fit says of silence), or the machine does not repeat itself: rccltune doctor."
        )
    return (
        "what the rules need in the environment harms them: emit rules for another one (rccltune "
        "emit-config --variant default)."
    )


def _unasked(rules: Sequence[Rule], standings: Iterable[Standing], proven: Proven) -> list[Cut]:
    """Rules that nobody asked: under a path, or never selectable."""
    seen = {id(one.rule) for one in standings}
    lines = {one.rule.line for one in standings}
    found = []
    for rule in rules:
        if id(rule) in seen or rule.line in lines:
            continue
        sizes = proven.bypassed.get(rule.collective, set())
        inside = [n for n in sizes if rule.min_nbytes <= n <= rule.max_nbytes]
        skipped = proven.skipped.get(rule.line or 0)
        if not inside and not skipped:
            continue
        reason = "a path takes the calls before a tuner is asked" if inside else "not selectable"
        found.append(
            Cut(
                collective=rule.collective,
                min_nbytes=rule.min_nbytes,
                max_nbytes=rule.max_nbytes,
                reason=reason,
                # Behind one that is not selectable a fallback may stand well.
                line=None if inside else rule.line,
            )
        )
    return found


def _whole(cut: Cut, standings: Iterable[Standing]) -> Cut:
    """The same, or the whole of a rule whose gain is still not certain."""
    rule = next((one.rule for one in standings if cut in one.cuts), None)
    if rule is None or cut.certainty is None:
        return cut
    return replace(cut, min_nbytes=rule.min_nbytes, max_nbytes=rule.max_nbytes)


def _without_needs(text: str) -> str:
    """The file without what it asks of the environment."""
    kept = (line for line in grammar.lines(text) if grammar.instruction(line)[:1] != ["needs"])
    return "\n".join(kept) + "\n"


def _without(text: str, file: RuleFile, cuts: Sequence[Cut], site: Site) -> str:
    """The file with regions cut out of every rule of this scale, fallbacks too."""
    changes: dict[int, Change] = {}
    holes: set[tuple[int, int, str]] = set()
    for rule in ours(file, site):
        mine = [cut for cut in cuts if cut.is_of(rule)]
        parts = narrowing.without(rule, mine)
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


def _span(cut: Cut) -> str:
    return f"{cut.collective.value} {format_span(cut.min_nbytes, cut.max_nbytes)}"
