"""A rule document as text; the same document gives the same bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby

from rccltune.emit.document import Base, Hole, RuleDocument, Section
from rccltune.model import Rule, Scale
from rccltune.vocab import Collective

# RCCL's oldest built-in reader and the example plugin cut lines at 255 characters and read the
# rest as another line (RCCL 2.28.3+ src/plugin/tuner/csv_tuner.cc at 96a02418).
_WIDTH = 110
_COLUMNS = "colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"


def render(document: RuleDocument) -> str:
    """The file's text: LF, no header row, comments in column 0, ten fields a row."""
    lines = ["#@ format 1"]
    lines += [line for text in document.provenance for line in _comment(text)]
    if document.requires:
        pairs = " ".join(f"{key}={value}" for key, value in document.requires)
        lines.append(f"#@ requires {pairs}")
    lines += [f"#@ needs {name}={value}" for name, value in document.needs]
    lines += _comment(f"columns: {_COLUMNS}")
    for section in document.sections:
        lines += _section(section)
    if document.base is not None:
        lines += _base(document.base)
    return "\n".join(lines) + "\n"


def render_rules(purpose: str, rules: Iterable[Rule]) -> str:
    """A file of bare rules, for measuring; nothing in it was chosen."""
    lines = ["#@ format 1", *_comment(purpose), *(_row(rule) for rule in rules)]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    # A comment must never begin with '#@': that would be an instruction.
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]


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
            yield _row(entry)
    if section.fallbacks:
        yield from _comment(
            "reached only where the setting above is not selectable (LL128 not enabled):"
        )
        yield from (_row(rule) for rule in section.fallbacks)


def _hole(hole: Hole) -> list[str]:
    if hole.filled:
        return _comment(f"{hole.min_nbytes} to {hole.max_nbytes}: vendor's rows ({hole.reason})")
    # The reader of this line is a program too: one line, whatever its length below 200.
    return [f"#@ hole {hole.min_nbytes} {hole.max_nbytes} {textwrap.shorten(hole.reason, 120)}"]


def _base(base: Base) -> Iterator[str]:
    yield "#"
    yield f"#@ base sha256={base.sha256}"
    yield from _comment(
        f"the vendor's rows, from {base.name}: not measured and not verified by us. The first "
        "match wins, so they answer what nothing above does, in their own order."
    )
    for line, why in base.left_out:
        yield from _comment(f"line {line} of it is not written: {why}")
    yield from (_row(rule) for rule in base.rules)
    for (collective, scale), holes in groupby(base.open, key=lambda one: one[:2]):
        yield _head(collective, scale)
        yield from (line for *_, hole in holes for line in _hole(hole))


def _head(collective: Collective, scale: Scale) -> str:
    # Holes are lines of their own, and a reader must know whose they are.
    return f"#@ section {collective.csv_name} nodes={scale.n_nodes} ranks={scale.n_ranks}"


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
