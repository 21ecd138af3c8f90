"""What the plugin's summary settles of sizes that it does not name."""

from __future__ import annotations

from collections.abc import Sequence

from rccltune.model import Setting
from rccltune.why import remedies
from rccltune.why.answers import Kind, Reason, RuleHere
from rccltune.why.records import Job, Where


def by_summary(where: Where, ran: Sequence[Setting], job: Job) -> Reason | None:
    """The answer where all calls of a scale went one way; None where they did not."""
    sums = job.totals.get(where)
    if sums is None or not sums.calls:
        return None
    more = f"; {', '.join(map(str, ran))} ran" if ran else ""
    if sums.hits == sums.calls:
        return Reason(Kind.HIT, f"a rule answered every call of this scale{more}")
    if sums.misses == sums.calls:
        return Reason(
            Kind.HOLE,
            f"none of the {sums.calls} calls of this scale met a rule{more}",
            remedies.tell_rules(job.rule_file),
        )
    if sums.not_selectable == sums.calls:
        return Reason(
            Kind.NOT_SELECTABLE,
            f"rules matched every call of this scale, and the library offers none of them{more}",
            remedies.tell_rules(job.rule_file),
        )
    return None


def was_shut(where: Where, rule: RuleHere, job: Job) -> bool:
    """Whether a rule that matches was never hit, and calls met rules that cannot be chosen."""
    sums = job.totals.get(where)
    return sums is not None and sums.not_selectable > 0 and not _is_hit(where, rule, job)


def was_hit(where: Where, rule: RuleHere, job: Job) -> bool:
    """Whether a rule was hit, and no call met one that cannot be chosen."""
    sums = job.totals.get(where)
    return sums is not None and not sums.not_selectable and _is_hit(where, rule, job)


def _is_hit(where: Where, rule: RuleHere, job: Job) -> bool:
    return any(said.line == rule.line for said in job.hit_rules.get(where, ()))
