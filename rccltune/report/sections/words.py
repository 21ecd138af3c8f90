"""Small phrases that several parts of the page use, so that they read alike everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rccltune.model import DERIVED, Outcome, Rule, Scale, Setting, Variant, Verdict
from rccltune.report.sections.found import Ended, Found

DASH = "–"
_SURE = 0.999


def percent(share: float | None, digits: int = 1) -> str:
    """``1.5 %``; a dash for what is not known."""
    return DASH if share is None else f"{100 * share:.{digits}f} %"


def surely(chance: float) -> str:
    """A chance, never rounded up to certainty."""
    return f"> {percent(_SURE)}" if chance > _SURE else percent(chance)


def ratios(found: Sequence[Verdict]) -> str:
    """``1.42× (1.20 to 1.63)``: median, least and most; a dash without any."""
    if not found:
        return DASH
    values = [one.ratio for one in found]
    return f"{median(values):.2f}× ({min(values):.2f} to {max(values):.2f})"


def count(n: int, thing: str) -> str:
    """``1 rule``, ``2 rules``, ``3 launches``."""
    plural = "es" if thing.endswith(("ch", "s", "x")) else "s"
    return f"{n:,} {thing}{'' if n == 1 else plural}"


def where_of(scale: Scale, rank_placement: str | None) -> str:
    """``64 ranks on 1 node, one-oam``."""
    placed = "" if rank_placement in (None, "node") else f", {rank_placement}"
    return f"{scale}{placed}"


def setting_in(setting: Setting | None, variant: Variant | None) -> str:
    """A setting, with its variant where that is not the site's own environment."""
    if setting is None:
        return DASH
    plain = variant is None or not variant.environment
    return str(setting) if plain else f"{setting} [{variant.name if variant else ''}]"


def scale_of(rule: Rule) -> str:
    """The ranks that a rule is for."""
    if rule.n_ranks is None or rule.n_nodes is None:
        return "any"
    return str(Scale(n_nodes=rule.n_nodes, n_ranks=rule.n_ranks))


def days(outcomes: Sequence[Outcome]) -> str:
    """From the first day to the last; empty where no day is known.

    When a copy of somebody's publication was written says nothing of when it was measured.
    """
    found = sorted({one.started[:10] for one in outcomes if one.started and not one.origin})
    if not found:
        return ""
    return found[0] if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


def libraries(launches: Sequence[Ended]) -> str:
    """Versions of the library as the logs name them."""
    found = sorted({o.library_version for _, o in launches if o.library_version})
    return ", ".join(found) or "not recorded"


def baseline_of(found: Found) -> str:
    """What gains outside a verification are over."""
    named = found.choosing.baseline
    if named is None:
        return "the library's own choice"
    if named == DERIVED.name:
        return "the library's own choice (derived, not measured)"
    return f"the baseline of {named}" if isinstance(named, str) else str(named)
