"""The rules of a page: each with what it gained in the sweep, and in the verification."""

from __future__ import annotations

from collections.abc import Iterable

from rccltune.model import Proof, Rule, Zone
from rccltune.pipeline.judging import zones_in
from rccltune.pipeline.paging.gathering import Found, Stood, same
from rccltune.pipeline.paging.words import (
    DASH,
    count,
    percent,
    ratios,
    scale_of,
    setting_in,
    size,
    span,
    up_to,
    where_of,
)
from rccltune.report import Block, Column, Items, Part, Section, Table, Words
from rccltune.zones import Choice

_MOST_HOLES = 60
_MOST_RULES = 200
_PROOF = {
    Proof.REPEATED: "repeats",
    Proof.ONE_RUN: "one run",
    Proof.EXTRAPOLATED: "extrapolated",
    Proof.NO_BASELINE: "no baseline",
}
_COLUMNS = (
    Column(name="collective"),
    Column(name="ranks"),
    Column(name="from", numeric=True),
    Column(name="to", numeric=True),
    Column(name="setting"),
    Column(name="in the sweep: times as fast", numeric=True),
    Column(name="sizes", numeric=True),
    Column(name="behind best, at most", numeric=True),
    Column(name="rests on"),
    Column(name="verified: times as fast", numeric=True),
    Column(name="sizes", numeric=True),
    Column(name="gain certain to", numeric=True),
)


def zones_of(found: Found, choice: Choice | None) -> tuple[Zone, ...]:
    """What is chosen, in the environment that is chosen."""
    return zones_in(choice.zones, found.environments) if choice else ()


def rules_section(found: Found) -> Section:
    """Rules with their evidence, and what is left to the library with the reason."""
    zones = zones_of(found, found.choice)
    blocks: list[Block] = []
    if found.choice is None:
        blocks.append(Words(text=f"There are no rules: {found.why_none}."))
    blocks += _files(found, zones)
    cuts = found.verification.cuts if found.verification else ()
    if cuts:
        blocks.append(
            Items(
                items=tuple(
                    f"Taken away by the verification: {c.collective.value} "
                    f"{span(c.min_nbytes, c.max_nbytes)}: {c.reason}"
                    for c in cuts
                )
            )
        )
    holes = [zone for zone in zones if zone.setting is None]
    blocks += [_holes(holes)] if holes else []
    return Section(name="rules", title="Rules", parts=(Part(title="", blocks=tuple(blocks)),))


def _files(found: Found, zones: tuple[Zone, ...]) -> list[Block]:
    """A table for each file; of what is chosen where no file was written yet."""
    blocks: list[Block] = []
    for one in found.rules:
        if not one.file.rules:
            blocks.append(Words(text=f"{one.path.name} has no rule: the site stays as it is."))
            continue
        blocks.append(
            Table(
                caption=f"{count(len(one.file.rules), 'rule')} of {one.path.name}",
                columns=_COLUMNS,
                rows=tuple(
                    _row(rule, found, zones, fallback=_is_fallback(rule, one.file.rules[:number]))
                    for number, rule in enumerate(one.file.rules[:_MOST_RULES])
                ),
                source=_source(found) + _rest(len(one.file.rules), _MOST_RULES),
            )
        )
    chosen = [zone for zone in zones if zone.setting is not None]
    if not found.rules and chosen:
        blocks.append(Words(text="No rule file was written yet: rccltune emit-config writes it."))
        blocks.append(
            Table(
                caption=f"{count(len(chosen), 'rule')} that would be written",
                columns=_COLUMNS,
                rows=tuple(_row(_as_rule(zone), found, zones) for zone in chosen[:_MOST_RULES]),
                source=_source(found) + _rest(len(chosen), _MOST_RULES),
            )
        )
    return blocks


def _rest(n: int, most: int) -> str:
    return f" {n - most} more are not shown here; the file has them." if n > most else ""


def _source(found: Found) -> str:
    said = (
        "In the sweep: the untouched site's time over the rule's setting's at the same measured "
        "sizes, median (least to most), from fit.json."
    )
    said += (
        " A fallback is reached only where the setting before it cannot be chosen. Bounds are "
        "rounded here, and exact in the file."
    )
    if found.verification is not None:
        said += (
            " Verified: both arms in turns on the machine, with the file and the plugin; median "
            "(least to most) over sizes and placements, from verdict.json."
        )
        if not found.verification.is_current:
            said += " The verification was of other rules than these; none of it is shown here."
    return said


def _as_rule(zone: Zone) -> Rule:
    if zone.setting is None:
        raise ValueError("a hole is no rule")
    return Rule(
        collective=zone.target.collective,
        min_nbytes=zone.min_nbytes,
        max_nbytes=zone.max_nbytes,
        setting=zone.setting,
        n_nodes=zone.target.scale.n_nodes,
        n_ranks=zone.target.scale.n_ranks,
        variant=zone.variant,
    )


def _is_fallback(rule: Rule, before: Iterable[Rule]) -> bool:
    """Whether another rule for all its sizes comes first, so that this one waits behind it."""
    place = (rule.collective, rule.n_nodes, rule.n_ranks)
    return any(
        (one.collective, one.n_nodes, one.n_ranks) == place
        and one.min_nbytes <= rule.min_nbytes
        and rule.max_nbytes <= one.max_nbytes
        for one in before
    )


def _row(
    rule: Rule, found: Found, zones: Iterable[Zone], *, fallback: bool = False
) -> tuple[str, ...]:
    zone = next((one for one in zones if _is_of(rule, one)), None)
    gain = zone.gain if zone else None
    stood = stood_of(found, rule)
    variant = zone.variant if zone else rule.variant
    return (
        rule.collective.value,
        scale_of(rule),
        size(rule.min_nbytes),
        up_to(rule.max_nbytes),
        setting_in(rule.setting, variant) + (", fallback" if fallback else ""),
        DASH
        if gain is None
        else f"{1 + gain.median:.2f}× ({1 + gain.low:.2f} to {1 + gain.high:.2f})",
        str(zone.n_sizes) if zone else DASH,
        percent(zone.worst_regret) if zone else DASH,
        _PROOF.get(zone.proof, DASH) if zone and zone.proof else DASH,
        ratios(stood.verdicts) if stood else DASH,
        str(len({v.nbytes for v in stood.verdicts})) if stood else DASH,
        percent(stood.certainty) if stood else DASH,
    )


def stood_of(found: Found, rule: Rule) -> Stood | None:
    """What the verification says of a rule, None where it was of other rules."""
    known = found.verification
    if known is None or not known.is_current:
        return None
    return next((one for one in known.stood if same(one.rule) == same(rule)), None)


def _is_of(rule: Rule, zone: Zone) -> bool:
    """Whether a rule, perhaps narrowed since, came from a zone."""
    target = zone.target
    return (
        (rule.collective, rule.n_nodes, rule.n_ranks, rule.setting)
        == (target.collective, target.scale.n_nodes, target.scale.n_ranks, zone.setting)
        and zone.min_nbytes <= rule.min_nbytes
        and rule.max_nbytes <= zone.max_nbytes
    )


def _holes(holes: list[Zone]) -> Table:
    return Table(
        caption=f"{count(len(holes), 'stretch')} of sizes left to the library, and why",
        columns=(
            Column(name="collective"),
            Column(name="ranks"),
            Column(name="from", numeric=True),
            Column(name="to", numeric=True),
            Column(name="why"),
        ),
        rows=tuple(
            (
                zone.target.collective.value,
                where_of(zone.target.scale, zone.target.rank_placement),
                size(zone.min_nbytes),
                up_to(zone.max_nbytes),
                zone.reason or "",
            )
            for zone in holes[:_MOST_HOLES]
        ),
        source="From the choice among the curves of fit.json, before any verification."
        + _rest(len(holes), _MOST_HOLES),
        folded=len(holes) > 12,
    )
