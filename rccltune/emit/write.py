"""A rule document as text; the same document gives the same bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rccltune.emit.document import Hole, RuleDocument, Section
from rccltune.model import Rule

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
    # Holes are lines of their own, and a reader must know whose they are.
    scale = target.scale
    yield f"#@ section {target.collective.csv_name} nodes={scale.n_nodes} ranks={scale.n_ranks}"
    yield from _comment(
        f"{target.collective.value}, {target.scale}"
        + (f", rank placement {target.rank_placement}" if target.rank_placement else "")
        + (f", variant {target.variant.name}" if target.variant.name != "default" else "")
    )
    yield from _comment(section.remark)
    for entry, evidence in zip(section.entries, section.evidence, strict=True):
        if isinstance(entry, Hole):
            # The reader of this line is a program too: one line, whatever its length below 200.
            reason = textwrap.shorten(entry.reason, 120)
            yield f"#@ hole {entry.min_nbytes} {entry.max_nbytes} {reason}"
        else:
            yield from _comment(evidence)
            yield _row(entry)
    if section.fallbacks:
        yield from _comment(
            "reached only where the setting above is not selectable (LL128 not enabled):"
        )
        yield from (_row(rule) for rule in section.fallbacks)


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
