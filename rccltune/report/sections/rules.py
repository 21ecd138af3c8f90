"""The rules of a page: each with what it gained in the sweep, and in the verification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rccltune.model.chosen import Proof, Rule, Zone
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import format_last, format_size, format_span
from rccltune.report.records import Block, Column, Items, Part, Section, Table, Words
from rccltune.report.sections.found import (
    DASH,
    NO_CHOICE,
    Found,
    Rules,
    baseline_of,
    count,
    percent,
    scale_of,
    setting_in,
    where_of,
)
from rccltune.report.verified import Stood, same
from rccltune.rules.choices import zones_in
from rccltune.rules.stored import StoredChoice

_MOST_HOLES = 60
_MOST_RULES = 200
_COLUMNS = (
    Column(name="collective"),
    Column(name="sizes"),
    Column(name="setting"),
    Column(name="verified: times as fast", numeric=True),
    Column(name="in the sweep: times as fast", numeric=True),
    Column(name="behind the best, at most", numeric=True),
)


def zones_of(found: Found, choice: StoredChoice | None) -> tuple[Zone, ...]:
    """What is chosen, in the environment that is chosen."""
    return zones_in(choice.zones, found.environments) if choice else ()


def rules_section(found: Found) -> Section:
    """Rules with their evidence, and what is left to the library with the reason."""
    zones = zones_of(found, found.choice)
    blocks: list[Block] = []
    if found.choice is None:
        blocks.append(Words(text=f"There are no rules: {NO_CHOICE}."))
    blocks += _files(found, zones)
    cuts = [
        (cut, "" if one.is_of_site else f" of {one.name}")
        for one in found.verifications
        if one.is_current
        for cut in one.cuts
    ]
    if cuts:
        blocks.append(
            Items(
                items=tuple(
                    f"Taken away by the verification{of}: {c.collective.value} "
                    f"{format_span(c.min_nbytes, c.max_nbytes)}: {c.reason}"
                    for c, of in cuts
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
            needs = " ".join(f"{name}={value}" for name, value in one.file.needs)
            inside = f", with {needs}" if needs else ""
            blocks.append(Words(text=f"{one.name} has no rule: the library chooses{inside}."))
            continue
        # What the sweep saw is of the site as it is.
        seen = zones if one.is_of_site else ()
        waits = {
            number
            for number, rule in enumerate(one.file.rules)
            if _is_fallback(rule, one.file.rules[:number])
        }
        rows = [
            (
                scale_of(rule),
                _row(rule, stood_of(found, rule, one.name), seen, fallback=number in waits),
            )
            for number, rule in enumerate(one.file.rules[:_MOST_RULES])
        ]
        blocks += _tables(rows, f"of {one.name}", found, len(one.file.rules))
        blocks += _elsewhere(one, found)
    chosen = [zone for zone in zones if zone.setting is not None]
    if not found.rules and chosen:
        why = "No rule file was written yet: rccltune emit-config writes it."
        if found.refused:
            why = "No rule file was written: the verification of these rules failed."
        blocks.append(Words(text=why))
        rows = [
            (scale_of(rule), _row(rule, None, zones))
            for rule in map(_as_rule, chosen[:_MOST_RULES])
        ]
        blocks += _tables(rows, "that would be written", found, len(chosen))
    return blocks


def _elsewhere(one: Rules, found: Found) -> list[Block]:
    """Rules that were written from several sessions have their evidence there."""
    known = {curve.key.scale for curve in found.done.curves}
    others = {
        scale_of(rule)
        for rule in one.file.rules
        if rule.n_nodes and rule.n_ranks
        if Scale(n_nodes=rule.n_nodes, n_ranks=rule.n_ranks) not in known
    }
    said = f"The rules for {', '.join(sorted(others))} come from another session, whose page has "
    return [Words(text=f"{said}their gains.")] if others else []


def _tables(
    rows: Sequence[tuple[str, tuple[str, ...]]], whose: str, found: Found, n: int
) -> list[Table]:
    """One table for each scale, so that its name stands once."""
    by_scale: dict[str, list[tuple[str, ...]]] = {}
    for scale, row in rows:
        by_scale.setdefault(scale, []).append(row)
    return [
        Table(
            caption=f"{count(len(mine), 'rule')} {whose}, for {scale}",
            columns=_COLUMNS,
            rows=tuple(mine),
            source=_source(found) + _rest(n, _MOST_RULES),
        )
        for scale, mine in by_scale.items()
    ]


def _rest(n: int, most: int) -> str:
    return f" {n - most} more are not shown here; the file has them." if n > most else ""


def _source(found: Found) -> str:
    said = (
        f"In the sweep: the time of {baseline_of(found)} over that of the rule's setting in "
        "the mean over its sizes, with its 95 % interval, from choice.json."
    )
    said += (
        " A fallback is reached only where the setting before it cannot be chosen. Bounds are "
        "rounded here, and exact in the file."
    )
    said += " Not proven: no repeats prove this gain."
    if found.refused:
        said += " The verification of these rules failed: none of them is proven."
    if found.verification is not None:
        said += (
            " Verified: with and without rules in turns, with file and plugin; median "
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
    rule: Rule, stood: Stood | None, zones: Iterable[Zone], *, fallback: bool = False
) -> tuple[str, ...]:
    zone = _behind(rule, zones) if fallback else next((z for z in zones if is_of(rule, z)), None)
    variant = zone.variant if zone and not fallback else rule.variant
    return (
        rule.collective.value,
        format_span(rule.min_nbytes, rule.max_nbytes),
        setting_in(rule.setting, variant) + (", fallback" if fallback else ""),
        _verified(stood),
        _swept(zone),
        percent(zone.worst_regret) if zone else DASH,
    )


def _behind(rule: Rule, zones: Iterable[Zone]) -> Zone | None:
    """What is known of a fallback; of several that it stands behind an unproven one."""
    found = [
        zone
        for zone in (one.behind for one in zones)
        if zone is not None
        and is_of(replace(rule, min_nbytes=zone.min_nbytes, max_nbytes=zone.max_nbytes), zone)
        and zone.min_nbytes <= rule.max_nbytes
        and rule.min_nbytes <= zone.max_nbytes
    ]
    return min(found, key=lambda zone: zone.is_proven, default=None)


def _verified(stood: Stood | None) -> str:
    if stood is None:
        return DASH
    gain = stood.verdict.gain
    if gain is None:
        return DASH
    said = f"{gain.ratio:.2f}× ({gain.low:.2f} to {gain.high:.2f}), {_sizes(stood.verdict.n_sizes)}"
    loop = stood.verdict.loop
    if loop is None:
        return said
    one_by_one = "too noisy to say" if stood.verdict.is_loop_noisy else f"{loop.ratio:.2f}×"
    return f"{said}; launched one by one {one_by_one}"


def _sizes(n: int) -> str:
    """In one piece wherever the cell is broken."""
    return count(n, "size").replace(" ", "\N{NO-BREAK SPACE}")


def _swept(zone: Zone | None) -> str:
    if zone is None or zone.gain is None:
        return DASH
    gain = zone.gain
    said = f"{1 + gain.mean:.2f}× ({1 + gain.low:.2f} to {1 + gain.high:.2f})"
    # What weakens a gain; proven by repeats is the usual case.
    weak = f", {zone.why_unproven}" if zone.proof is Proof.UNPROVEN else ""
    return f"{said}, {_sizes(zone.n_sizes)}{weak}"


def stood_of(found: Found, rule: Rule, file: str) -> Stood | None:
    """What the verification of a file says of a rule, None where it was of other rules."""
    known = found.verified_as(file)
    stood = known.stood if known else ()
    return next((one for one in stood if same(one.rule) == same(rule)), None)


def is_of(rule: Rule, zone: Zone) -> bool:
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
        caption=f"{count(len(holes), 'range')} of sizes left to the library, and why",
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
                format_size(zone.min_nbytes),
                format_last(zone.max_nbytes),
                zone.why,
            )
            for zone in holes[:_MOST_HOLES]
        ),
        source="From choice.json, before any verification." + _rest(len(holes), _MOST_HOLES),
        folded=len(holes) > 12,
    )
