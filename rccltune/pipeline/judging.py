"""Variants against the untouched site: which environment the rules are for, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rccltune import zones
from rccltune.errors import CommandLineError, TooLittleDataError
from rccltune.model import (
    DEFAULT_VARIANT,
    Environment,
    Variant,
    Zone,
    base_variant,
    in_default,
)
from rccltune.pipeline.fitting import FitDone, choice_of
from rccltune.reporter import Note
from rccltune.units import MAX_NBYTES, format_size
from rccltune.zones import Choice, ChoiceOptions


def environments_of(
    done: FitDone, choice: Choice, options: ChoiceOptions
) -> tuple[Environment, ...]:
    """The variants of a session, judged, with at most one chosen.

    Raises:
        CommandLineError: the variant that was named was not measured, or is lossy.
    """
    found = zones.environments(done.references, choice.zones, options, wrong=done.wrong)
    if options.variant in (None, DEFAULT_VARIANT.name):
        return found
    named = next((one for one in found if one.variant.name == options.variant), None)
    if named is None:
        names = [DEFAULT_VARIANT.name, *(one.variant.name for one in found)]
        raise CommandLineError(
            f"the variant '{options.variant}' was not measured beside the untouched site",
            where=str(done.session.path),
            hint=f"measured are {', '.join(names)}.",
        )
    if named.variant.lossy and not options.allow_lossy:
        raise CommandLineError(
            f"the variant '{options.variant}' is lossy: its results differ by more than the "
            "benchmark allows",
            where=str(done.session.path),
            hint="rules for it are written with --allow-lossy alone.",
        )
    return found


def judged_variants(done: FitDone) -> tuple[Environment, ...]:
    """The variants of a session as they are judged by default; none where nothing can be chosen."""
    options = ChoiceOptions()
    try:
        return environments_of(done, choice_of(done, options), options)
    except TooLittleDataError:
        return ()


def together(judged: Sequence[tuple[Environment, ...]], *, note: Note) -> tuple[Environment, ...]:
    """The variants of several sessions as one, since a job has one environment.

    One is chosen where every session chooses it; a threshold is the smallest of theirs, so that
    it is beyond no session's crossover.

    Args:
        judged: of each session.
        note: told where sessions want different environments.
    """
    names = {next((e.variant.name for e in found if e.chosen), "default") for found in judged}
    if len(names) > 1:
        note(
            f"the sessions are best in different environments ({', '.join(sorted(names))}), and a "
            "job has one: the rules are for the default one; --variant names another, and each "
            "session by itself has its own"
        )
    made: dict[str, Environment] = {}
    for one in (one for found in judged for one in found):
        known = made.get(one.variant.name)
        kept = replace(one, chosen=one.chosen and len(names) == 1)
        made[one.variant.name] = kept if known is None else _both(known, kept)
    return tuple(made.values())


def _both(one: Environment, other: Environment) -> Environment:
    """The same variant in two sessions."""
    first = min(one, other, key=lambda found: found.threshold_nbytes or MAX_NBYTES)
    return replace(
        first,
        gains=(*one.gains, *other.gains),
        score=(one.score + other.score) / 2,
        against=one.against or other.against,
    )


def zones_in(found: Sequence[Zone], environments: Iterable[Environment]) -> tuple[Zone, ...]:
    """The zones of the environment that is chosen; of the default one where none is.

    What a path serves before a tuner is asked is a hole: a rule there would do nothing. Collectives
    that the environment does not concern keep the default's.
    """
    plain = [zone for zone in found if _is_default(zone.target.variant)]
    chosen = next((one for one in environments if one.chosen), None)
    if chosen is None:
        return tuple(plain)
    variant = chosen.variant
    name = chosen.beyond if variant.path else variant.name
    own = [zone for zone in found if zone.target.variant.name == name]
    concerned = {zone.target.collective for zone in own if _concerns(variant, zone)}
    kept = [zone for zone in plain if zone.target.collective not in concerned]
    kept += [zone for zone in own if zone.target.collective in concerned]
    if not variant.path:
        return tuple(kept)
    bare = [_in_default(zone) for zone in kept]
    parts = (part for zone in bare for part in _behind(zone, variant, chosen.reach))
    return tuple(_as_one(parts))


def _as_one(found: Iterable[Zone]) -> list[Zone]:
    """Zones with neighbouring holes of one reason as one."""
    made: list[Zone] = []
    for zone in found:
        last = made[-1] if made else None
        if (
            last is not None
            and last.setting is None
            and (last.target, last.reason) == (zone.target, zone.reason)
            and last.max_nbytes + 1 == zone.min_nbytes
        ):
            made[-1] = replace(last, max_nbytes=zone.max_nbytes)
        else:
            made.append(zone)
    return made


def _is_default(variant: Variant) -> bool:
    return base_variant(variant).name == DEFAULT_VARIANT.name


def _concerns(variant: Variant, zone: Zone) -> bool:
    return not variant.serves or zone.target.collective in variant.serves


def _in_default(zone: Zone) -> Zone:
    """A zone of the variant in which a path is off, as it stands beyond the path's threshold.

    There the library is in the same state, so that the rule needs nothing of that variant.
    """
    target = replace(zone.target, variant=DEFAULT_VARIANT)
    return replace(zone, target=target, variant=in_default(zone.variant))


def _behind(zone: Zone, variant: Variant, reach: int | None) -> list[Zone]:
    """What is left of a zone where a path serves calls up to a size; the rest becomes a hole."""
    if not _concerns(variant, zone) or (reach is not None and zone.min_nbytes > reach):
        return [zone]
    up_to = "" if reach is None else f" up to {format_size(reach)}"
    last = zone.max_nbytes if reach is None else min(zone.max_nbytes, reach)
    hole = replace(
        zone,
        max_nbytes=last,
        setting=None,
        reason=f"{variant.name} serves it{up_to}, before a tuner is asked",
        measured_from=None,
        measured_to=None,
        n_sizes=0,
        worst_regret=None,
        mean_regret=None,
        gain=None,
        fallback=None,
        proof=None,
    )
    return [hole] if last == zone.max_nbytes else [hole, replace(zone, min_nbytes=last + 1)]
