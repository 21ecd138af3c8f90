"""The emit room: zones to rules, rules to a rule file, and rule files back to rules.

The dialect is RCCL's own: what is written here is read alike by RCCL's
built-in CSV tuner, by the vendors' example plugins and by ours.
"""

from rccltune.emit.audit import Audit, Gap, audit
from rccltune.emit.base import check_over, over, rules_of
from rccltune.emit.constants import render_constants
from rccltune.emit.count import counted
from rccltune.emit.document import Base, Hole, RuleDocument, Section, sections
from rccltune.emit.environment import finding_lines, render_environment
from rccltune.emit.ncclx import NcclxFile, render_ncclx
from rccltune.emit.read import Finding, RuleFile, Severity, StatedHole, read_rules
from rccltune.emit.requirements import requirement
from rccltune.emit.rewrite import Change, rewritten
from rccltune.emit.seal import CODE as SEAL_CODE
from rccltune.emit.seal import sealed
from rccltune.emit.vendor import LeftOut, by_reason, read_base
from rccltune.emit.write import render, render_rules

__all__ = [
    "SEAL_CODE",
    "Audit",
    "Base",
    "Change",
    "Finding",
    "Gap",
    "Hole",
    "LeftOut",
    "NcclxFile",
    "RuleDocument",
    "RuleFile",
    "Section",
    "Severity",
    "StatedHole",
    "audit",
    "by_reason",
    "check_over",
    "counted",
    "finding_lines",
    "over",
    "read_base",
    "read_rules",
    "render",
    "render_constants",
    "render_environment",
    "render_ncclx",
    "render_rules",
    "requirement",
    "rewritten",
    "rules_of",
    "sealed",
    "sections",
]
