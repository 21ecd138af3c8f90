"""How many rules a file has: one way of counting for every verb."""

from __future__ import annotations

from collections.abc import Sequence

from rccltune.emit.audit import audit
from rccltune.model import Rule, RuleCount


def counted(rules: Sequence[Rule]) -> RuleCount:
    """Rules in file order; a vendor's rows behind them are nobody's rules."""
    own = [rule for rule in rules if not rule.vendor]
    n_fallbacks = len(audit(own).fallbacks)
    return RuleCount(rules=len(own) - n_fallbacks, fallbacks=n_fallbacks)
