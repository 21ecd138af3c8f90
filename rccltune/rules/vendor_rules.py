"""A vendor's table behind our rules: RCCL drops its own as soon as it is given another.

Readers are RCCL's built-in tuner in both forms (src/plugin/tuner/csv_tuner.cc: the first, rocm-
systems 96a02418, and the newer, 22af4d53), NVIDIA's example (ext-tuner/example/plugin.c, as the
first) and our plugin. RCCL never refuses a file, so that one row is no reason to refuse a vendor's:

===========================================  ============================  =======================
row                                          RCCL, newer / first           here
===========================================  ============================  =======================
``-1,-1[,N]``                                skipped / ring,simple         left out
unknown name; ``-1`` for one of the two      skipped / allreduce, ring,    left out
                                             simple in its place
header row; alltoall and the like            skipped / of allreduce        left out
fewer than 8 fields; min above max           skipped; matches nothing      left out
tree for another collective than allreduce   its cell is never offered     left out
an empty field that others follow            the rest moves left           left out
a field of blanks alone                      skipped / a filter of 0       left out
a comma in a comment behind fewer than 10    a field of the row            left out
fields
CR before the end, byte-order mark           part of the name              left out
more than 255 bytes                          the tail is another line      left out
field 11                                     ignored; a fork's filter      a filter (basing.py)
field 12 other than -1, 13 fields and more   ignored; a fork's filter      left out
channels 0                                   the library's own number      written as -1, the same
channels below -1                            the library's own / stored    left out
other counts below -1                        matches nothing               left out
numPipeOps, regBuff of 0 or more             a filter                      the same
no number; a size that does not fit          the digits in front; 2^64-1   the file is refused
===========================================  ============================  =======================

The last ones stay errors: every RCCL plays such a row, though not as it is written, and leaving it
out would lose a choice of the vendor's. NVIDIA's example plays -1 channels as one channel, in any
row of anybody's; a file for it is none of ours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Final

from rccltune.model import grammar
from rccltune.model.choice import Rule
from rccltune.model.errors import VerificationError
from rccltune.model.settings import Scale, Setting
from rccltune.model.vocabulary import MAX_NBYTES, TUNABLE, Algorithm, Collective, Protocol
from rccltune.rules.documents import (
    NoRule,
    RuleDocument,
    Section,
    VendorRules,
    audit_order,
    intervals_left,
)
from rccltune.rules.line_format import is_frame
from rccltune.rules.reader import LineFinding, LineSeverity, RuleFile, read_rules

UNNAMED: Final = (
    "it names no algorithm and no protocol: newer RCCL skips such a row, older RCCL plays "
    "ring/simple for it"
)
_SKIPPED: Final = "newer RCCL skips the row"
# One of these is enough for every RCCL to skip the row or to take it for another.
_ENOUGH: Final = {
    "unknown-collective": f"{_SKIPPED}, older RCCL takes allreduce",
    "unknown-algorithm": f"{_SKIPPED}, older RCCL takes ring",
    "unknown-protocol": f"{_SKIPPED}, older RCCL takes simple",
    "half-setting": f"{_SKIPPED}, older RCCL names the other half itself",
    "too-few-fields": "RCCL skips the row",
}
_NEVER: Final = ("min-above-max", "number-range")
_SIZES: Final = ("minbytes", "maxbytes")
_ALL_FIELDS: Final = 10
_BUFFER: Final = 255
LeftOut = tuple[tuple[int, str], ...]


def read_base(content: bytes) -> tuple[RuleFile, LeftOut]:
    """A vendor's file, and (line, why) of rows that must not stand behind ours.

    What is left is read as any rule file: its errors are mistakes that RCCL does not skip, and
    that it is not as long as it says.
    """
    broken = tuple(one for one in read_rules(content).errors if one.code == "cut")
    content = _unframed(content)
    left_out = _odd_rows(content)
    left_out |= _skipped(read_rules(_without(content, left_out)).errors)
    file = read_rules(_without(content, left_out))
    file = replace(file, findings=(*file.findings, *broken))
    left_out |= {f.line: f.message for f in file.findings if f.severity is LineSeverity.WARNING}
    left_out |= {rule.line or 0: UNNAMED for rule in file.rules if rule.setting.algorithm is None}
    rules = tuple(rule for rule in file.rules if rule.setting.algorithm is not None)
    return replace(file, rules=rules), tuple(sorted(left_out.items()))


def by_reason(left_out: Iterable[tuple[int, str]]) -> list[tuple[str, str]]:
    """(``3``, why) or (``3-5, 9``, why), the reasons in the order of their first lines."""
    lines_by_reason: dict[str, list[int]] = {}
    for line, why in sorted(left_out):
        lines_by_reason.setdefault(why, []).append(line)
    return [(_numbers(lines), why) for why, lines in lines_by_reason.items()]


def _numbers(lines: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for line in lines:
        if spans and line == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], line]
        else:
            spans.append([line])
    return ", ".join("-".join(map(str, span)) for span in spans)


def _odd_rows(content: bytes) -> dict[int, str]:
    """Rows that RCCL splits into other fields than our readers, by line."""
    text = grammar.unmarked(content).decode("latin-1")
    marked = len(text) < len(content)
    odd = {}
    for number, line in enumerate(grammar.lines(text), start=1):
        if grammar.trim(line.partition("#")[0]):
            why = _BEHIND_MARK if marked and number == 1 else _why_odd(line)
            if why is not None:
                odd[number] = why
    return odd


_BEHIND_MARK: Final = "it stands behind a byte-order mark, which RCCL takes for part of its name"


def _why_odd(line: str) -> str | None:
    if len(line) > _BUFFER:
        return f"it is longer than {_BUFFER} bytes, and RCCL takes its end for another line"
    if "\r" in line.removesuffix("\r"):
        return "it has a carriage return inside, which RCCL takes for part of a field"
    row, hashed, comment = line.partition("#")
    fields = row.split(",")
    while fields[1:] and not fields[-1] and not hashed:
        fields.pop()
    # RCCL looks at no more of them.
    return _why_odd_fields(fields[:_ALL_FIELDS]) or _why_odd_comment(fields, comment)


def _why_odd_fields(fields: Sequence[str]) -> str | None:
    if "" in fields:
        return "it has an empty field, and RCCL moves what is behind it to the left"
    if any(not grammar.trim(field) for field in fields):
        return f"it has a field of blanks alone: {_SKIPPED}, older RCCL reads 0"
    return None


def _why_odd_comment(fields: Sequence[str], comment: str) -> str | None:
    if "," in comment and len(fields) < _ALL_FIELDS:
        return "the comment behind it has commas, and RCCL takes what is between them for fields"
    return None


def _skipped(errors: Iterable[LineFinding]) -> dict[int, str]:
    """Rows with mistakes for which RCCL does not play them as they stand."""
    by_line: dict[int, list[LineFinding]] = {}
    for one in errors:
        by_line.setdefault(one.line, []).append(one)
    skipped = {}
    for line, ones in by_line.items():
        enough = next((one for one in ones if one.code in _ENOUGH), None)
        if enough is not None:
            skipped[line] = f"{enough.message}; {_ENOUGH[enough.code]}"
        elif all(_matches_nothing(one) for one in ones):
            skipped[line] = f"{ones[0].message}; no call of newer RCCL's follows it as it stands"
    return skipped


def _matches_nothing(finding: LineFinding) -> bool:
    is_size = finding.code == "number-range" and finding.message.startswith(_SIZES)
    return finding.code in _NEVER and not is_size


def _unframed(content: bytes) -> bytes:
    """The file without what it says of its length, which rows that are left out would belie."""
    lines = grammar.lines(grammar.unmarked(content).decode("latin-1"))
    return _without(content, [n for n, line in enumerate(lines, start=1) if is_frame(line)])


def _without(content: bytes, lines: Iterable[int]) -> bytes:
    """The file with some lines empty; the others keep their numbers."""
    kept = content.split(b"\n")
    for number in lines:
        kept[number - 1] = b""
    return b"\n".join(kept) or b"\n"  # nothing left is no empty file


_OPEN = "neither measured nor in the vendor's table"
_DEAD = "rules before it take all its sizes"
_Cell = tuple[Algorithm | None, Protocol | None]


def with_base(document: RuleDocument, base: VendorRules) -> RuleDocument:
    """The document with the vendor's rows behind it.

    Our rules stay first and as they are. Gaps that the vendor has rows for are no gaps any
    more; what is left of them, and what the vendor leaves open elsewhere, is stated. Rows that
    no call could reach are left out, and those that name no cell: readers disagree on them.
    """
    ours = rules_of(document)
    named = tuple(rule for rule in base.rules if rule.setting.algorithm is not None)
    dead = {id(rule) for rule in audit_order((*ours, *named)).dead}
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
        if not isinstance(rule, NoRule)
    )


def _filled(section: Section, base: Sequence[Rule]) -> Section:
    target = section.target
    theirs = _always(base, target.collective, target.scale)
    entries: list[Rule | NoRule] = []
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


def _parts(hole: NoRule, theirs: Sequence[Rule]) -> tuple[NoRule, ...]:
    """A gap as what the vendor fills and what stays open."""
    left = intervals_left((hole.min_nbytes, hole.max_nbytes), theirs)
    pieces, after = [], hole.min_nbytes
    for low, high in sorted(left):
        if after < low:
            pieces.append(replace(hole, min_nbytes=after, max_nbytes=low - 1, filled=True))
        pieces.append(replace(hole, min_nbytes=low, max_nbytes=high))
        after = high + 1
    if after <= hole.max_nbytes:
        pieces.append(replace(hole, min_nbytes=after, filled=True))
    return tuple(pieces)


def _open(
    sections: Sequence[Section], base: Sequence[Rule]
) -> Iterator[tuple[Collective, Scale, NoRule]]:
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
            for low, high in intervals_left((0, MAX_NBYTES), _always(base, collective, scale)):
                yield collective, scale, NoRule(min_nbytes=low, max_nbytes=high, reason=_OPEN)


def check_with_base(ours: Sequence[Rule], base: Sequence[Rule], merged: Sequence[Rule]) -> None:
    """Check that a file read back answers as ours where ours has a rule, else as the vendor's.

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
    """Answers that hosts get, in the order in which cells may turn out not to be selectable."""
    by_cell: dict[_Cell, Setting] = {}
    for rule in matching:
        setting = rule.setting
        by_cell.setdefault((setting.algorithm, setting.protocol), setting)
        if setting.algorithm is None:
            break
    return tuple(by_cell.values())


def _is_for(rule: Rule, scale: Scale) -> bool:
    return rule.n_nodes in (None, scale.n_nodes) and rule.n_ranks in (None, scale.n_ranks)


def _scales(rules: Iterable[Rule]) -> list[Scale]:
    """Every pair of counts that rules name, and one more of each, which none names."""
    pairs = [(rule.n_nodes, rule.n_ranks) for rule in rules]
    nodes = {n for n, _ in pairs if n} | {max((n or 0 for n, _ in pairs), default=0) + 1}
    ranks = {n for _, n in pairs if n} | {max((n or 0 for _, n in pairs), default=0) + 8}
    return [Scale(n_nodes=n, n_ranks=r) for n, r in product(nodes, ranks) if r >= n]


def _sizes(rules: Sequence[Rule]) -> list[int]:
    """Sizes at and beside every bound."""
    bounds = {b for r in rules for b in (r.min_nbytes, r.max_nbytes)} | {0, MAX_NBYTES}
    near = {b + step for b in bounds for step in (-1, 0, 1)}
    return sorted(n for n in near if 0 <= n <= MAX_NBYTES)
