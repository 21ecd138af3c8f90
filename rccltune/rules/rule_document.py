"""A rule file before it is text: its zones, the rules that they make, and what it asks of a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rccltune.model.errors import VerificationError
from rccltune.model.rule import Rule
from rccltune.model.settings import Setting, Target
from rccltune.model.units import MAX_NBYTES
from rccltune.model.zone import Zone


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDocument:
    """A whole rule file.

    Attributes:
        provenance: comment lines: source, date, library, machine, samples' hash.
        requires: what a machine must be for the file to apply, (key, value) pairs.
        needs: variables that a job must set for the rules, (name, value) pairs.
        zones: of every target; those of one cover 0 to 2^63-1.
        library: ``NCCL 2.28.9`` that the rules were measured with; None where that is not known.
        bits: name of the bits that results keep at every size; None where none are kept.
    """

    provenance: tuple[str, ...]
    requires: tuple[tuple[str, str], ...]
    needs: tuple[tuple[str, str], ...]
    zones: tuple[Zone, ...]
    library: str | None = None
    bits: str | None = None


def rules_of(zones: Iterable[Zone]) -> tuple[Rule, ...]:
    """Rules of zones, in the order of the file: of each target first its own, then its fallbacks.

    Raises:
        VerificationError: as :func:`by_target`.
    """
    rules: list[Rule] = []
    for part in by_target(zones):
        rules += [rule_of(zone, zone.setting) for zone in part if zone.setting is not None]
        rules += fallbacks_of(part)
    return tuple(rules)


def by_target(zones: Iterable[Zone]) -> list[tuple[Zone, ...]]:
    """Zones of each target by size, targets in the order of the file.

    Raises:
        VerificationError: the zones of a target leave sizes out or overlap; a bug upstream must
            not become a rule file.
    """
    by_size = sorted(zones, key=lambda one: (_order(one.target), one.min_nbytes))
    parts = [tuple(part) for _, part in groupby(by_size, key=lambda one: _order(one.target))]
    for part in parts:
        _check_cover(part)
    return parts


def _order(target: Target) -> tuple[int, int, int, str]:
    collective = target.collective
    return (
        collective.func_index if collective.is_tunable else 99,
        target.scale.n_nodes,
        target.scale.n_ranks,
        target.rank_placement or "",
    )


def _check_cover(zones: Sequence[Zone]) -> None:
    expected = 0
    for zone in zones:
        if zone.min_nbytes != expected:
            raise VerificationError(
                f"zones of {zone.target.collective.value} jump from {expected} to "
                f"{zone.min_nbytes} bytes",
                hint="please report this with the session: it is a bug.",
            )
        expected = zone.max_nbytes + 1
    if expected != MAX_NBYTES + 1:
        raise VerificationError(
            f"zones of {zones[0].target.collective.value} end at {expected - 1} bytes",
            hint="please report this with the session: it is a bug.",
        )


def rule_of(zone: Zone, setting: Setting, *, fallback: bool = False) -> Rule:
    """The rule that chooses a setting for the sizes of a zone."""
    return Rule(
        collective=zone.target.collective,
        min_nbytes=zone.min_nbytes,
        max_nbytes=zone.max_nbytes,
        setting=setting,
        n_nodes=zone.target.scale.n_nodes,
        n_ranks=zone.target.scale.n_ranks,
        fallback=fallback,
    )


def fallbacks_of(zones: Sequence[Zone]) -> tuple[Rule, ...]:
    """Rules behind the others; neighbours with the same setting are joined."""
    merged: list[Rule] = []
    for zone in zones:
        if zone.fallback is None:
            continue
        rule = rule_of(zone, zone.fallback, fallback=True)
        last = merged[-1] if merged else None
        if last and last.setting == rule.setting and last.max_nbytes + 1 == rule.min_nbytes:
            merged[-1] = replace(last, max_nbytes=rule.max_nbytes)
        else:
            merged.append(rule)
    return tuple(merged)
