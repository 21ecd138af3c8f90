"""The answer in one look where no verification is of the rules: what the sweep saw."""

from __future__ import annotations

from collections.abc import Sequence

from rccltune.model import Zone
from rccltune.pipeline.paging.gathering import Found
from rccltune.pipeline.paging.marking import unproven
from rccltune.pipeline.paging.rules import is_of, zones_of
from rccltune.pipeline.paging.words import baseline_of, count, where_of
from rccltune.report import Headline
from rccltune.units import format_size

_FAST = "times as fast as"


def chosen(found: Found) -> Headline:
    """Without a verification that is of these rules."""
    zones = [zone for zone in zones_of(found, found.choice) if zone.setting is not None]
    if found.choice is None:
        return Headline(
            claim="There is nothing to choose between: this session shows how fast what was "
            "measured is, and no rule.",
            points=(f"Why there are no rules: {found.why_none}.",),
        )
    if not zones:
        return Headline(
            claim=f"Nothing is to be won here: no setting beats {baseline_of(found)} by what a "
            "rule must gain.",
            points=("No rule is written. Use the site as it is.", _unverified(found)),
        )
    gaining = [zone for zone in zones if zone.gain is not None]
    if not gaining:
        names = ", ".join(dict.fromkeys(zone.target.collective.value for zone in zones))
        return Headline(
            claim=f"The fastest measured settings of {names} are known, and not what they gain: "
            "no untouched run was measured.",
            points=("Another baseline can be named: --baseline ring/simple.", _unverified(found)),
            tiles=((str(len(zones)), "rules", "choice among fit.json"),),
        )
    where = "in the imported runs" if found.is_imported else "in the sweep"
    than = f"{_FAST} {baseline_of(found)} {where}"
    lines = _in_sweep(gaining, than)
    best = max(gaining, key=_high)
    return Headline(
        claim=lines[0] if len(lines) == 1 else _sweep_overall(gaining, than),
        points=(
            *(lines if len(lines) > 1 else ()),
            *_named(found),
            *_foreign(found, zones),
            _unverified(found),
        ),
        tiles=(
            (f"{1 + _high(best):.2f}×", f"at most, {best.target.collective.value}", "fit.json"),
            (
                str(len(zones)),
                f"{'rule' if len(zones) == 1 else 'rules'}, not verified",
                "choice among fit.json",
            ),
        ),
    )


def _foreign(found: Found, zones: Sequence[Zone]) -> tuple[str, ...]:
    """That a rule file holds what would not be chosen now."""
    own = {(zone.target.collective, zone.target.scale.n_ranks) for zone in zones}
    said = []
    for one in found.rules:
        foreign = [
            rule
            for rule in one.file.rules
            if (rule.collective, rule.n_ranks) in own
            and not (rule.fallback or rule.vendor or any(is_of(rule, zone) for zone in zones))
        ]
        if foreign:
            said.append(
                f"{one.path.name} has {count(len(foreign), 'rule')} that would not be chosen now: "
                "it was written with other options, or by another version (rccltune emit-config "
                "--force writes it anew)."
            )
    return tuple(said)


def _named(found: Found) -> tuple[str, ...]:
    """That somebody chose what is compared with."""
    if found.wish.baseline is None:
        return ()
    said = f"Compared with {baseline_of(found)}, which --baseline named"
    return (f"{said}: what the untouched site does by itself may be faster.",)


def _high(zone: Zone) -> float:
    return zone.gain.high if zone.gain else 0.0


def _in_sweep(zones: Sequence[Zone], than: str) -> list[str]:
    by_target: dict[tuple[str, str], list[Zone]] = {}
    for zone in zones:
        target = zone.target
        place = where_of(target.scale, target.rank_placement)
        by_target.setdefault((target.collective.value, place), []).append(zone)
    return [
        f"{name} on {place}: {_range(mine)} {than}, between "
        f"{format_size(min(z.measured_from or z.min_nbytes for z in mine))} and "
        f"{format_size(max(z.measured_to or z.min_nbytes for z in mine))}, with "
        f"{count(len(mine), 'rule')}; not verified."
        for (name, place), mine in by_target.items()
    ]


def _range(zones: Sequence[Zone]) -> str:
    gains = [zone.gain for zone in zones if zone.gain]
    return f"{1 + min(g.low for g in gains):.2f} to {1 + max(g.high for g in gains):.2f}"


def _sweep_overall(zones: Sequence[Zone], than: str) -> str:
    names = ", ".join(dict.fromkeys(zone.target.collective.value for zone in zones))
    return f"{names}: {_range(zones)} {than}, where rules hold; not verified."


def _unverified(found: Found) -> str:
    known = found.verification
    if unproven(found):
        return (
            "Gains in the sweep were seen where each setting ran by itself, and not in turns with "
            "the untouched site."
        )
    if known is not None and not known.is_current:
        return (
            "The verification in this session was of other rules than its file has now, and "
            "counts for nothing here: rccltune verify."
        )
    return (
        "Not verified: gains were seen where each setting ran by itself. rccltune verify runs the "
        "rules against the untouched site in turns, on the machine."
    )
