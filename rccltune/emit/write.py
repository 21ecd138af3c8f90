"""A rule document as text; the same document gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from rccltune.emit import lines as said
from rccltune.emit.document import Base, Hole, RuleDocument, Section
from rccltune.emit.seal import sealed
from rccltune.emit.vendor import by_reason
from rccltune.errors import VerificationError
from rccltune.model import Rule, Scale
from rccltune.vocab import Collective

_COLUMNS = "colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"


def render(document: RuleDocument) -> str:
    """The file's text: LF, no header row, comments in column 0, ten fields a row.

    Raises:
        InputFileError: what the rules need or require fits no line.
    """
    lines = ["#@ format 1"]
    lines += [line for text in document.provenance for line in _comment(text)]
    lines += said.requires(document.requires)
    lines += [said.needs(name, value) for name, value in document.needs]
    lines += _comment(f"columns: {_COLUMNS}")
    for section in document.sections:
        lines += _section(section)
    if document.base is not None:
        lines += _base(document.base)
    return said.text(sealed(lines))


def render_rules(purpose: str, rules: Iterable[Rule]) -> str:
    """A file of bare rules, for measuring; nothing in it was chosen."""
    rows = (_row(rule) for rule in rules)
    return said.text(sealed(["#@ format 1", *_comment(purpose), *rows]))


_comment = said.comment


def _section(section: Section) -> Iterator[str]:
    target = section.target
    yield "#"
    yield _head(target.collective, target.scale)
    yield from _comment(
        f"{target.collective.value}, {target.scale}"
        + (f", rank placement {target.rank_placement}" if target.rank_placement else "")
        + (f", variant {target.variant.name}" if target.variant.name != "default" else "")
    )
    yield from _comment(section.remark)
    for entry, evidence in zip(section.entries, section.evidence, strict=True):
        if isinstance(entry, Hole):
            yield from _hole(entry)
        else:
            yield from _comment(evidence)
            yield _named(entry)
    if section.fallbacks:
        yield from _comment(
            "reached only where the setting above is not selectable (LL128 not enabled):"
        )
        yield from (_named(rule) for rule in section.fallbacks)


def _hole(hole: Hole) -> list[str]:
    if hole.filled:
        return _comment(f"{hole.min_nbytes} to {hole.max_nbytes}: vendor's rows ({hole.reason})")
    # The reader of this line is a program too: one line.
    return [said.hole(hole.min_nbytes, hole.max_nbytes, hole.reason)]


def _base(base: Base) -> Iterator[str]:
    yield "#"
    yield f"#@ base sha256={base.sha256}"
    yield from _comment(
        f"the vendor's rows, from {base.name}: not measured and not verified by us. The first "
        "match wins, so they answer what nothing above does, in their own order."
    )
    for numbers, why in by_reason(base.left_out):
        which = f"line {numbers} of it is" if numbers.isdecimal() else f"lines {numbers} of it are"
        yield from _comment(f"{which} not written: {why}")
    yield from (_named(rule) for rule in base.rules)
    for (collective, scale), holes in groupby(base.open, key=lambda one: one[:2]):
        yield _head(collective, scale)
        yield from (line for *_, hole in holes for line in _hole(hole))


def _head(collective: Collective, scale: Scale) -> str:
    # Holes are lines of their own, and a reader must know whose they are.
    return f"#@ section {collective.csv_name} nodes={scale.n_nodes} ranks={scale.n_ranks}"


def _named(rule: Rule) -> str:
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
    return _row(rule)


def _row(rule: Rule) -> str:
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
