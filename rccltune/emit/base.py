"""A vendor's table behind our rules: RCCL drops its own as soon as it is given another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product

from rccltune.emit.audit import audit, left_over
from rccltune.emit.document import Base, Hole, RuleDocument, Section
from rccltune.emit.vendor import UNNAMED
from rccltune.errors import VerificationError
from rccltune.model import Rule, Scale, Setting
from rccltune.units import MAX_NBYTES
from rccltune.vocab import TUNABLE, Algorithm, Collective, Protocol

_OPEN = "neither measured nor in the vendor's table"
_DEAD = "rules before it take all its sizes"
_Cell = tuple[Algorithm | None, Protocol | None]


def over(document: RuleDocument, base: Base) -> RuleDocument:
    """The document with the vendor's rows behind it.

    Our rules stay first and as they are. Holes that the vendor has rows for are no holes any
    more; what is left of them, and what the vendor leaves open elsewhere, is stated. Rows that
    no call could reach are left out, and those that name no cell: readers disagree on them.
    """
    ours = rules_of(document)
    named = tuple(rule for rule in base.rules if rule.setting.algorithm is not None)
    dead = {id(rule) for rule in audit((*ours, *named)).dead}
    kept = tuple(rule for rule in named if id(rule) not in dead)
    gone = [(r.line or 0, UNNAMED) for r in base.rules if r.setting.algorithm is None]
    gone += [(rule.line or 0, _DEAD) for rule in named if id(rule) in dead]
    return replace(
        document,
        sections=tuple(_filled(section, named) for section in document.sections),
        base=replace(
            base,
            rules=kept,
            left_out=(*base.left_out, *gone),
            open=tuple(_open(document.sections, named)),
        ),
    )


def rules_of(document: RuleDocument) -> tuple[Rule, ...]:
    """Our rules in the order of the file."""
    return tuple(
        rule
        for section in document.sections
        for rule in (*section.entries, *section.fallbacks)
        if not isinstance(rule, Hole)
    )


def _filled(section: Section, base: Sequence[Rule]) -> Section:
    target = section.target
    theirs = _always(base, target.collective, target.scale)
    entries: list[Rule | Hole] = []
    evidence: list[str] = []
    for entry, known in zip(section.entries, section.evidence, strict=True):
        parts = (entry,) if isinstance(entry, Rule) else _parts(entry, theirs)
        entries += parts
        evidence += [known] * len(parts)
    return replace(section, entries=tuple(entries), evidence=tuple(evidence))


def _always(base: Sequence[Rule], collective: Collective, scale: Scale) -> list[Rule]:
    """Rules that meet every call of so many bytes, grouped or registered or not."""
    return [
        rule
        for rule in base
        if rule.matches(collective, rule.min_nbytes, scale)
        and rule.num_pipe_ops is None
        and rule.reg_buff is None
    ]


def _parts(hole: Hole, theirs: Sequence[Rule]) -> tuple[Hole, ...]:
    """A hole as what the vendor fills and what stays open."""
    left = left_over((hole.min_nbytes, hole.max_nbytes), theirs)
    made, after = [], hole.min_nbytes
    for low, high in sorted(left):
        if after < low:
            made.append(replace(hole, min_nbytes=after, max_nbytes=low - 1, filled=True))
        made.append(replace(hole, min_nbytes=low, max_nbytes=high))
        after = high + 1
    if after <= hole.max_nbytes:
        made.append(replace(hole, min_nbytes=after, filled=True))
    return tuple(made)


def _open(
    sections: Sequence[Section], base: Sequence[Rule]
) -> Iterator[tuple[Collective, Scale, Hole]]:
    """Sizes that the vendor has no rule for, where we have none of that scale at all."""
    ours = {(section.target.collective, section.target.scale) for section in sections}
    named = dict.fromkeys(
        (rule.collective, Scale(n_nodes=rule.n_nodes, n_ranks=rule.n_ranks))
        for rule in base
        # A scale of any nodes or ranks has no name that a section could have.
        if rule.n_nodes and rule.n_ranks and rule.n_ranks >= rule.n_nodes
    )
    for collective, scale in named:
        if (collective, scale) not in ours:
            for low, high in left_over((0, MAX_NBYTES), _always(base, collective, scale)):
                yield collective, scale, Hole(min_nbytes=low, max_nbytes=high, reason=_OPEN)


def check_over(ours: Sequence[Rule], base: Sequence[Rule], merged: Sequence[Rule]) -> None:
    """That a file read back answers as ours where ours has a rule, and as the vendor's elsewhere.

    Every bound of every rule and the sizes beside it, at every scale that a rule names and at
    some that none does; not only the first match but all that follow, since a host may not offer
    the first.

    Raises:
        VerificationError: it does not; a bug of ours must not become a rule file.
    """
    for collective in TUNABLE:
        sets = [[r for r in rules if r.collective is collective] for rules in (ours, base, merged)]
        for scale in _scales(chain.from_iterable(sets)):
            own, theirs, both = ([r for r in rules if _is_for(r, scale)] for rules in sets)
            nbytes = _first_difference((*own, *theirs), both, scale)
            if nbytes is not None:
                raise VerificationError(
                    f"the merged rules for {collective.value} of {nbytes} bytes, {scale}, are not "
                    "ours before the vendor's",
                    hint="please report this with session and base file: it is a bug.",
                )


def _first_difference(wanted: Sequence[Rule], found: Sequence[Rule], scale: Scale) -> int | None:
    """The first size at which two lists of rules answer a call differently, None where none is."""
    rules = (*wanted, *found)
    pipe_ops = {1} | {r.num_pipe_ops for r in rules if r.num_pipe_ops is not None}
    reg_buff = {0} | {r.reg_buff for r in rules if r.reg_buff is not None}
    sizes = _sizes(rules)
    both = zip(sizes, _by_size(wanted, sizes), _by_size(found, sizes), strict=True)
    for nbytes, one, other in both:
        for asked in product(pipe_ops, reg_buff):
            left, right = (
                _answers(r for r in listed if r.matches(r.collective, nbytes, scale, *asked))
                for listed in (one, other)
            )
            if left != right:
                return nbytes
    return None


def _by_size(rules: Sequence[Rule], sizes: Sequence[int]) -> list[list[Rule]]:
    """Rules around each size, in their order: tables of thousands of rows touch few of them."""
    around: list[list[Rule]] = [[] for _ in sizes]
    for rule in rules:
        first = bisect_left(sizes, rule.min_nbytes)
        for listed in around[first : bisect_right(sizes, rule.max_nbytes)]:
            listed.append(rule)
    return around


def _answers(matching: Iterable[Rule]) -> tuple[Setting, ...]:
    """What hosts are answered, in the order in which cells may turn out not to be selectable."""
    found: dict[_Cell, Setting] = {}
    for rule in matching:
        setting = rule.setting
        found.setdefault((setting.algorithm, setting.protocol), setting)
        if setting.algorithm is None:
            break
    return tuple(found.values())


def _is_for(rule: Rule, scale: Scale) -> bool:
    return rule.n_nodes in (None, scale.n_nodes) and rule.n_ranks in (None, scale.n_ranks)


def _scales(rules: Iterable[Rule]) -> list[Scale]:
    """Every pair of counts that rules name, and one more of each, which none names."""
    pairs = [(rule.n_nodes, rule.n_ranks) for rule in rules]
    nodes = {n for n, _ in pairs if n} | {max((n or 0 for n, _ in pairs), default=0) + 1}
    ranks = {n for _, n in pairs if n} | {max((n or 0 for _, n in pairs), default=0) + 8}
    return [Scale(n_nodes=n, n_ranks=r) for n, r in product(nodes, ranks) if r >= n]


def _sizes(rules: Sequence[Rule]) -> list[int]:
    """At and beside every bound."""
    bounds = {b for r in rules for b in (r.min_nbytes, r.max_nbytes)} | {0, MAX_NBYTES}
    near = {b + step for b in bounds for step in (-1, 0, 1)}
    return sorted(n for n in near if 0 <= n <= MAX_NBYTES)
